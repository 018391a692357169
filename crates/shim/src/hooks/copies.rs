//! Copies that lie within the device or not by what their ends are.
//!
//! Promises: the ends are asked about only for tenants that have gates; a copy within the device is
//! work, any other may wait for work and ends the span that is being measured. The gate is [`crate::gate::submit`]'s.

use divvy_driver_api::types::*;

use crate::gate::submit::{NULL_STREAM, copy};
use crate::sys::{In, driver, real};

/// A copy between two addresses.
fn linear(
    stream: CUstream,
    per_thread: bool,
    ends: [CUdeviceptr; 2],
    bytes: usize,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device_bytes = || ends.into_iter().all(driver::pointer_is_device).then_some(bytes);
    copy(stream, per_thread, 0x1000, device_bytes, call)
}

/// Copies between any two addresses.
pub(crate) fn cuMemcpy(
    real: real::cuMemcpy,
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    let call = || real.call(to, from, bytes);
    linear(NULL_STREAM, real.per_thread(), [to, from], bytes, call)
}

/// The same on a stream.
pub(crate) fn cuMemcpyAsync(
    real: real::cuMemcpyAsync,
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    let call = || real.call(to, from, bytes, stream);
    linear(stream, real.per_thread(), [to, from], bytes, call)
}

/// Whether both ends lie in the device's memory by name.
fn are_device_types(ends: [CUmemorytype; 2]) -> bool {
    ends.into_iter().all(|kind| {
        matches!(kind, CUmemorytype::CU_MEMORYTYPE_DEVICE | CUmemorytype::CU_MEMORYTYPE_ARRAY)
    })
}

/// A rectangle's copy: work if both ends lie in the device's memory by name.
fn rectangle(
    stream: CUstream,
    per_thread: bool,
    what: In<'_, CUDA_MEMCPY2D>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device_bytes = || {
        let ends = what.get()?;
        are_device_types([ends.srcMemoryType, ends.dstMemoryType])
            .then(|| ends.WidthInBytes.saturating_mul(ends.Height))
    };
    copy(stream, per_thread, 0x1001, device_bytes, call)
}

/// Copies a rectangle.
pub(crate) fn cuMemcpy2D_v2(real: real::cuMemcpy2D_v2, what: In<'_, CUDA_MEMCPY2D>) -> CUresult {
    rectangle(NULL_STREAM, real.per_thread(), what, || real.call(what))
}

/// Copies a rectangle of any pitch.
pub(crate) fn cuMemcpy2DUnaligned_v2(
    real: real::cuMemcpy2DUnaligned_v2,
    what: In<'_, CUDA_MEMCPY2D>,
) -> CUresult {
    rectangle(NULL_STREAM, real.per_thread(), what, || real.call(what))
}

/// Copies a rectangle on a stream.
pub(crate) fn cuMemcpy2DAsync_v2(
    real: real::cuMemcpy2DAsync_v2,
    what: In<'_, CUDA_MEMCPY2D>,
    stream: CUstream,
) -> CUresult {
    rectangle(stream, real.per_thread(), what, || real.call(what, stream))
}

/// A box's copy: work if both ends lie in the device's memory by name.
fn cuboid(
    stream: CUstream,
    per_thread: bool,
    what: In<'_, CUDA_MEMCPY3D>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device_bytes = || {
        let ends = what.get()?;
        are_device_types([ends.srcMemoryType, ends.dstMemoryType])
            .then(|| ends.WidthInBytes.saturating_mul(ends.Height).saturating_mul(ends.Depth))
    };
    copy(stream, per_thread, 0x1002, device_bytes, call)
}

/// Copies a box.
pub(crate) fn cuMemcpy3D_v2(real: real::cuMemcpy3D_v2, what: In<'_, CUDA_MEMCPY3D>) -> CUresult {
    cuboid(NULL_STREAM, real.per_thread(), what, || real.call(what))
}

/// Copies a box on a stream.
pub(crate) fn cuMemcpy3DAsync_v2(
    real: real::cuMemcpy3DAsync_v2,
    what: In<'_, CUDA_MEMCPY3D>,
    stream: CUstream,
) -> CUresult {
    cuboid(stream, real.per_thread(), what, || real.call(what, stream))
}
