//! Answers of `cuMemGetInfo` and `cuDeviceTotalMem`: the tenant's limit is the card's size.
//!
//! Does not charge; how much is used is the ledger's to say.

use divvy_driver_api::types::{CUdevice, CUresult};
use divvy_policy::answer;

use super::context::here;
use super::place::{Next, at};
use super::{left_out, unused};
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, Settable, driver};

/// Free and total memory as the tenant has them, in 64 bits or 32; what does not fit is the largest number that does.
/// Either place may be null.
pub(crate) fn info<T: Settable + TryFrom<u64>>(
    free: Out<'_, T>,
    total: Out<'_, T>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = call();
    if result == SUCCESS
        && let Some(memory) = story()
    {
        let fit = |bytes| T::try_from(bytes).or_else(|_| T::try_from(u64::from(u32::MAX)));
        if let (Ok(free_bytes), Ok(total_bytes)) = (fit(memory.free_bytes), fit(memory.total_bytes))
        {
            free.set(free_bytes);
            total.set(total_bytes);
        }
    }
    result
}

/// A card's size, lowered to the limit of the device, in 64 bits or 32.
pub(crate) fn total<T: Settable + TryInto<u64> + TryFrom<u64>>(
    bytes: Out<'_, T>,
    ordinal: CUdevice,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = call();
    if result == SUCCESS
        && let Some(card) = bytes.get()
        && let Ok(card_bytes) = card.try_into()
    {
        bytes.set(T::try_from(clamp(ordinal, card_bytes)).unwrap_or(card));
    }
    result
}

fn clamp(ordinal: CUdevice, bytes: u64) -> u64 {
    match at(ordinal) {
        Next::Count(device) => {
            let limit_bytes = device.limit_bytes();
            let (seen_bytes, _) = device.card_as_seen((bytes, bytes));
            limit_bytes.map_or(bytes, |limit| limit.min(seen_bytes))
        }
        Next::Forward | Next::Refuse(_) => bytes,
    }
}

/// The current device's memory as the tenant sees it; `None` if it has no limit.
fn story() -> Option<answer::Memory> {
    let Next::Count(place) = here() else { return None };
    let device = place.device;
    device.limit_bytes()?;
    unused::settle_all(device);
    left_out::sweep();
    let (free_bytes, total_bytes) = driver::mem_info().ok()?;
    let (card_total_bytes, card_free_bytes) = device.card_as_seen((total_bytes, free_bytes));
    let used_bytes = device.used_bytes();
    Some(answer::memory(device.limit_bytes(), used_bytes, card_total_bytes, card_free_bytes))
}
