//! Asking for memory, and making room for it where there is none.
//!
//! Promises: before a request is refused, memory this process's pools and graphs hold without using is
//! handed back, as the driver does when the card is full. No lock is held here.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::CUresult;
use divvy_policy::ledger::MemoryRefusal;

use super::place::OUT_OF_MEMORY;
use super::{left_out, unused};
use crate::tenant::device::{Device, Reservation};

/// Asks for `bytes`, making room in this process's own pools if there is none. The error is the program's answer,
/// which has been said.
pub(crate) fn ask(
    device: &'static Device,
    bytes: u64,
    kind: MemoryKind,
) -> Result<Reservation, CUresult> {
    ask_quietly(device, bytes, kind).map_err(|refusal| refuse(device, bytes, kind, refusal))
}

/// The one place where a refusal becomes the program's answer: why is said and written down, the code is always
/// the same.
#[cold]
#[inline(never)]
pub(crate) fn refuse(
    device: &Device,
    bytes: u64,
    kind: MemoryKind,
    refusal: MemoryRefusal,
) -> CUresult {
    device.tell(bytes, kind, refusal);
    OUT_OF_MEMORY
}

/// Hands back what this process holds without using it; whether that made room.
#[cold]
fn reclaim(device: &'static Device) -> bool {
    let swept = left_out::sweep();
    unused::reclaim(device) || swept
}

/// As [`ask`], for callers that have another way when they are refused, or [`refuse`] themselves.
pub(crate) fn ask_quietly(
    device: &'static Device,
    bytes: u64,
    kind: MemoryKind,
) -> Result<Reservation, MemoryRefusal> {
    match device.ask(bytes, kind) {
        Err(MemoryRefusal::OverLimit { .. }) if reclaim(device) => device.ask(bytes, kind),
        other => other,
    }
}
