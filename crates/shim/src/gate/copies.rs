//! Copies that lie within the device or not by what their ends are.
//!
//! Promises: the ends are asked about only for tenants that have gates; a copy within the device is
//! work, any other may wait for work and ends the span that is being measured. The gate is [`super::submit`]'s.

use divvy_driver_api::types::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUdeviceptr, CUmemorytype, CUresult, CUstream,
};

use super::submit::copy;
use crate::residence::backed;
use crate::sys::{In, driver};

/// A copy between two addresses.
pub(crate) fn linear(
    stream: CUstream,
    per_thread: bool,
    ends: [CUdeviceptr; 2],
    bytes: usize,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    // The driver knows nothing of memory that is away.
    let is_device = |end| driver::pointer_is_device(end) || backed::block(end).is_some();
    let device_bytes = || ends.into_iter().all(is_device).then_some(bytes);
    copy(stream, per_thread, 0x1000, device_bytes, call)
}

/// A copy whose ends say where they lie: work if both do in the device's memory.
fn named<T: Copy>(
    stream: CUstream,
    per_thread: bool,
    symbol: u64,
    what: In<'_, T>,
    ends_and_bytes: impl FnOnce(T) -> ([CUmemorytype; 2], usize),
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device_bytes = || {
        let (ends, bytes) = ends_and_bytes(what.get()?);
        let is_device = |kind| {
            matches!(kind, CUmemorytype::CU_MEMORYTYPE_DEVICE | CUmemorytype::CU_MEMORYTYPE_ARRAY)
        };
        ends.into_iter().all(is_device).then_some(bytes)
    };
    copy(stream, per_thread, symbol, device_bytes, call)
}

/// A rectangle's copy.
pub(crate) fn rectangle(
    stream: CUstream,
    per_thread: bool,
    what: In<'_, CUDA_MEMCPY2D>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let read = |of: CUDA_MEMCPY2D| {
        let bytes = of.WidthInBytes.saturating_mul(of.Height);
        ([of.srcMemoryType, of.dstMemoryType], bytes)
    };
    named(stream, per_thread, 0x1001, what, read, call)
}

/// A box's copy.
pub(crate) fn cuboid(
    stream: CUstream,
    per_thread: bool,
    what: In<'_, CUDA_MEMCPY3D>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let read = |of: CUDA_MEMCPY3D| {
        let bytes = of.WidthInBytes.saturating_mul(of.Height).saturating_mul(of.Depth);
        ([of.srcMemoryType, of.dstMemoryType], bytes)
    };
    named(stream, per_thread, 0x1002, what, read, call)
}
