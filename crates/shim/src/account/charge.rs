//! Asking for memory, and making room for it where there is none.
//!
//! Promises: before a request is refused, memory this process's pools and graphs hold without using is
//! handed back, as the driver does when the card is full. No lock is held here.

use divvy_abi::usage::Kind;
use divvy_driver_api::types::CUresult;

use super::place::OUT_OF_MEMORY;
use super::{left_out, unused};
use crate::tenant::device::{Device, Refusal, Reservation};

/// Asks for `bytes`, making room in this process's own pools if there is none.
pub(crate) fn ask(
    device: &'static Device,
    bytes: u64,
    kind: Kind,
) -> Result<Reservation, CUresult> {
    ask_quietly(device, bytes, kind).map_err(|refusal| {
        device.tell(bytes, kind, refusal);
        OUT_OF_MEMORY
    })
}

/// Hands back what this process holds without using it; whether that made room.
#[cold]
fn reclaim(device: &'static Device) -> bool {
    let swept = left_out::sweep();
    unused::reclaim(device) || swept
}

/// As [`ask`], for callers that have another way when they are refused.
pub(crate) fn ask_quietly(
    device: &'static Device,
    bytes: u64,
    kind: Kind,
) -> Result<Reservation, Refusal> {
    match device.ask(bytes, kind) {
        Err(Refusal::OverLimit { .. }) if reclaim(device) => device.ask(bytes, kind),
        other => other,
    }
}
