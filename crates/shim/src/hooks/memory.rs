//! Plain device memory: `cuMemAlloc`, `cuMemAllocPitch` and `cuMemAllocManaged`. How it is charged is
//! [`crate::account::block`]'s; `cuMemFree` and the questions for sizes are rows of `around.txt`.

use core::ffi::c_uint;

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUdeviceptr, CUdeviceptr_v1, CUresult};
use divvy_policy::charge;

use crate::account::block::{allocate, allocate_seldom};
use crate::account::context::here;
use crate::account::place::Next;
use crate::handover;
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, real};
use crate::tenant;

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
    let bytes = bytesize as u64;
    allocate(place, bytes, MemoryKind::Block, || {
        let address = match handover::allocate(place.device, place.context, bytes, dptr) {
            Some(made) => made?,
            None => made(real.call(dptr, bytesize), dptr)?,
        };
        Ok((address, bytes))
    })
}

/// The 32-bit form.
pub(crate) fn cuMemAlloc(
    real: real::cuMemAlloc,
    dptr: Out<'_, CUdeviceptr_v1>,
    bytesize: c_uint,
) -> CUresult {
    let bytes = u64::from(bytesize);
    let call = || Ok((made(real.call(dptr, bytesize), dptr)?, bytes));
    allocate_seldom(bytes, MemoryKind::Block, &call)
}

/// Managed memory: all of it may come to the device, so all of it is charged.
pub(crate) fn cuMemAllocManaged(
    real: real::cuMemAllocManaged,
    dptr: Out<'_, CUdeviceptr>,
    bytesize: usize,
    flags: c_uint,
) -> CUresult {
    let bytes = bytesize as u64;
    let call = || Ok((made(real.call(dptr, bytesize, flags), dptr)?, bytes));
    allocate_seldom(bytes, MemoryKind::Managed, &call)
}

/// The address that the driver has written, where it has made a block.
#[inline(always)]
fn made<T: Copy + Into<u64>>(result: CUresult, dptr: Out<'_, T>) -> Result<u64, CUresult> {
    match result {
        SUCCESS => Ok(dptr.get().map_or(0, Into::into)),
        code => Err(code),
    }
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
    allocate_rows(width_bytes as u64, height as u64, || {
        if let Some(made) = rows_that_may_leave(dptr, pitch, width_bytes, height, element_bytes) {
            return made;
        }
        let result = real.call(dptr, pitch, width_bytes, height, element_bytes);
        Ok((made(result, dptr)?, pitch.get().map(|pitch| pitch as u64)))
    })
}

/// Rows in memory that may leave the card, in a tenant that oversubscribes: where they lie, and how far apart. Arguments
/// that the driver refuses are the driver's.
fn rows_that_may_leave(
    dptr: Out<'_, CUdeviceptr>,
    pitch: Out<'_, usize>,
    width_bytes: usize,
    height: usize,
    element_bytes: c_uint,
) -> Option<Result<(u64, Option<u64>), CUresult>> {
    tenant::oversubscribed()?;
    pitch.get().filter(|_| matches!(element_bytes, 4 | 8 | 16))?;
    let Next::Count(place) = here() else { return None };
    let row_bytes = width_bytes.checked_next_multiple_of(charge::PITCH_BYTES as usize)?;
    let bytes = (row_bytes as u64).checked_mul(height as u64)?;
    let made = handover::allocate(place.device, place.context, bytes, dptr)?;
    pitch.set(row_bytes);
    Some(made.map(|address| (address, Some(row_bytes as u64))))
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
    allocate_rows(u64::from(width_bytes), u64::from(height), || {
        let result = real.call(dptr, pitch, width_bytes, height, element_bytes);
        Ok((made(result, dptr)?, pitch.get().map(u64::from)))
    })
}

/// Allocates rows: `call` asks the driver and says where they lie, and how far apart.
#[inline(always)]
fn allocate_rows(
    width_bytes: u64,
    rows: u64,
    call: impl Fn() -> Result<(u64, Option<u64>), CUresult>,
) -> CUresult {
    let bytes = charge::pitched_bytes(width_bytes, rows);
    allocate_seldom(bytes, MemoryKind::Block, &|| {
        let (address, pitch) = call()?;
        Ok((address, pitch.map_or(bytes, |pitch| rows.saturating_mul(pitch))))
    })
}
