//! Plain device memory: `cuMemAlloc`, `cuMemAllocPitch`, `cuMemAllocManaged` and the answer of
//! `cuMemGetInfo`. How it is charged is [`crate::account::block`]'s; `cuMemFree` is a row of `around.txt`.

use core::ffi::c_uint;

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUdeviceptr, CUdeviceptr_v1, CUresult};
use divvy_policy::charge;

use crate::account::block::{allocate, allocate_seldom, story};
use crate::account::context::here;
use crate::account::place::Next;
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, real};

/// Allocates device memory of the current context.
pub(crate) fn cuMemAlloc_v2(
    real: real::cuMemAlloc_v2,
    dptr: Out<'_, CUdeviceptr>,
    bytesize: usize,
) -> CUresult {
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return real.call(dptr, bytesize),
        Next::Refuse(code) => return code,
    };
    allocate(place, bytesize as u64, MemoryKind::Block, || match real.call(dptr, bytesize) {
        SUCCESS => Ok((dptr.get().unwrap_or(0), bytesize as u64)),
        code => Err(code),
    })
}

/// The 32-bit form.
pub(crate) fn cuMemAlloc(
    real: real::cuMemAlloc,
    dptr: Out<'_, CUdeviceptr_v1>,
    bytesize: c_uint,
) -> CUresult {
    let bytes = u64::from(bytesize);
    allocate_seldom(bytes, MemoryKind::Block, &|| match real.call(dptr, bytesize) {
        SUCCESS => Ok((u64::from(dptr.get().unwrap_or(0)), bytes)),
        code => Err(code),
    })
}

/// Rows at a pitch of the driver's choice.
pub(crate) fn cuMemAllocPitch_v2(
    real: real::cuMemAllocPitch_v2,
    dptr: Out<'_, CUdeviceptr>,
    pitch: Out<'_, usize>,
    width_bytes: usize,
    height: usize,
    element_bytes: c_uint,
) -> CUresult {
    let call = || real.call(dptr, pitch, width_bytes, height, element_bytes);
    let rows = height as u64;
    let bytes = charge::pitched_bytes(width_bytes as u64, rows);
    allocate_seldom(bytes, MemoryKind::Block, &|| match call() {
        SUCCESS => {
            let actual = pitch.get().map_or(bytes, |pitch| rows.saturating_mul(pitch as u64));
            Ok((dptr.get().unwrap_or(0), actual))
        }
        code => Err(code),
    })
}

/// The 32-bit form.
pub(crate) fn cuMemAllocPitch(
    real: real::cuMemAllocPitch,
    dptr: Out<'_, CUdeviceptr_v1>,
    pitch: Out<'_, c_uint>,
    width_bytes: c_uint,
    height: c_uint,
    element_bytes: c_uint,
) -> CUresult {
    let call = || real.call(dptr, pitch, width_bytes, height, element_bytes);
    let rows = u64::from(height);
    let bytes = charge::pitched_bytes(u64::from(width_bytes), rows);
    allocate_seldom(bytes, MemoryKind::Block, &|| match call() {
        SUCCESS => {
            let actual = pitch.get().map_or(bytes, |pitch| rows.saturating_mul(u64::from(pitch)));
            Ok((u64::from(dptr.get().unwrap_or(0)), actual))
        }
        code => Err(code),
    })
}

/// Managed memory: all of it may come to the device, so all of it is charged.
pub(crate) fn cuMemAllocManaged(
    real: real::cuMemAllocManaged,
    dptr: Out<'_, CUdeviceptr>,
    bytesize: usize,
    flags: c_uint,
) -> CUresult {
    let bytes = bytesize as u64;
    allocate_seldom(bytes, MemoryKind::Managed, &|| match real.call(dptr, bytesize, flags) {
        SUCCESS => Ok((dptr.get().unwrap_or(0), bytes)),
        code => Err(code),
    })
}

/// Free and total memory as the tenant has them. Either place may be null.
pub(crate) fn cuMemGetInfo_v2(
    real: real::cuMemGetInfo_v2,
    free: Out<'_, usize>,
    total: Out<'_, usize>,
) -> CUresult {
    let result = real.call(free, total);
    if result == SUCCESS
        && let Some(memory) = story()
    {
        free.set(usize::try_from(memory.free_bytes).unwrap_or(usize::MAX));
        total.set(usize::try_from(memory.total_bytes).unwrap_or(usize::MAX));
    }
    result
}

/// The 32-bit form; what does not fit is the largest number that does.
pub(crate) fn cuMemGetInfo(
    real: real::cuMemGetInfo,
    free: Out<'_, c_uint>,
    total: Out<'_, c_uint>,
) -> CUresult {
    let result = real.call(free, total);
    if result == SUCCESS
        && let Some(memory) = story()
    {
        free.set(c_uint::try_from(memory.free_bytes).unwrap_or(c_uint::MAX));
        total.set(c_uint::try_from(memory.total_bytes).unwrap_or(c_uint::MAX));
    }
    result
}
