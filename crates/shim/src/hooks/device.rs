//! The start, and what a device is said to have.

use core::ffi::c_uint;

use divvy_driver_api::types::{CUdevice, CUresult};

use crate::account::place::{Next, at};
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, Settable, real};
use crate::tenant;

/// Starts the driver, and then joins the tenant: a failure to join is known before memory is asked
/// for.
pub(crate) fn cuInit(real: real::cuInit, flags: c_uint) -> CUresult {
    let result = real.call(flags);
    if result == SUCCESS {
        let _ = tenant::membership();
    }
    result
}

/// The smaller of limit and card.
pub(crate) fn cuDeviceTotalMem_v2(
    real: real::cuDeviceTotalMem_v2,
    bytes: Out<'_, usize>,
    dev: CUdevice,
) -> CUresult {
    lower(real.call(bytes, dev), bytes, dev)
}

/// The 32-bit form.
pub(crate) fn cuDeviceTotalMem(
    real: real::cuDeviceTotalMem,
    bytes: Out<'_, c_uint>,
    dev: CUdevice,
) -> CUresult {
    lower(real.call(bytes, dev), bytes, dev)
}

/// Lowers a card's size to the device's limit.
fn lower<T: Settable + TryInto<u64> + TryFrom<u64>>(
    result: CUresult,
    bytes: Out<'_, T>,
    dev: CUdevice,
) -> CUresult {
    if result == SUCCESS
        && let Some(card) = bytes.get()
        && let Ok(card_bytes) = card.try_into()
    {
        bytes.set(T::try_from(clamp(dev, card_bytes)).unwrap_or(card));
    }
    result
}

fn clamp(ordinal: CUdevice, bytes: u64) -> u64 {
    match at(ordinal) {
        Next::Count(device) => device.limit_bytes().map_or(bytes, |limit| limit.min(bytes)),
        Next::Forward | Next::Refuse(_) => bytes,
    }
}
