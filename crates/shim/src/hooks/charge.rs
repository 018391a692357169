//! What every hook that takes memory does first: find where it is, and ask.
//!
//! Promises: the only code that refuses is [`OUT_OF_MEMORY`]; before a request is refused, memory
//! this process's pools and graphs hold without using is handed back, as the driver does when the
//! card is full. No lock is held here.

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{CUdevice, CUresult};

use super::{context, passed, pool};
use crate::sys::driver;
use crate::tenant::device::{self, Device, Held, Look, Refusal};
use crate::tenant::reason::{self, Reason};
use crate::tenant::{Standing, standing};

/// The call succeeded.
pub(crate) const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;

/// The one refusal.
pub(crate) const OUT_OF_MEMORY: CUresult = CUresult::CUDA_ERROR_OUT_OF_MEMORY;

/// Where a call happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The device of the current context.
    pub(crate) device: &'static Device,
    /// The current context's handle.
    pub(crate) context: u64,
}

/// What a hook does next.
pub(crate) enum Next<T> {
    /// Count, with this.
    Count(T),
    /// Forward the call untouched.
    Forward,
    /// Return this code.
    Refuse(CUresult),
}

/// The current context's place, charging a context that nobody has seen being made.
///
/// Cost: one driver call (nanoseconds) and one look into a map.
pub(crate) fn here() -> Next<Place> {
    match standing() {
        Standing::Open => return Next::Forward,
        Standing::Closed(reason) => return closed(reason),
        Standing::Member(_) => {}
    }
    let Ok(current) = driver::ctx_current() else { return Next::Forward };
    if current.0.is_null() {
        return Next::Forward;
    }
    context::place_of(current.0.addr() as u64)
}

/// A device's entry, for calls that name one.
pub(crate) fn at(ordinal: CUdevice) -> Next<&'static Device> {
    match device::look(ordinal) {
        Look::Counted(device) => Next::Count(device),
        Look::Open => Next::Forward,
        Look::Closed(reason) => closed(reason),
    }
}

fn closed<T>(reason: Reason) -> Next<T> {
    reason::tell(reason, format_args!("memory is refused, since the limit is not known"));
    Next::Refuse(OUT_OF_MEMORY)
}

/// Asks for `bytes`, making room in this process's own pools if there is none.
pub(crate) fn ask(device: &'static Device, bytes: u64, kind: Kind) -> Result<Held, CUresult> {
    ask_quietly(device, bytes, kind).map_err(|refusal| {
        device.tell(bytes, kind, refusal);
        OUT_OF_MEMORY
    })
}

/// Hands back what this process holds without using it; whether that made room.
#[cold]
fn reclaim(device: &'static Device) -> bool {
    let swept = passed::sweep();
    pool::reclaim(device) || swept
}

/// As [`ask`], for callers that have another way when they are refused.
pub(crate) fn ask_quietly(
    device: &'static Device,
    bytes: u64,
    kind: Kind,
) -> Result<Held, Refusal> {
    match device.ask(bytes, kind) {
        Err(Refusal::OverLimit { .. }) if reclaim(device) => device.ask(bytes, kind),
        other => other,
    }
}
