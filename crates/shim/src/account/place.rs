//! Where a call happens, and whether it is counted there.
//!
//! Promises: the only code that refuses is [`OUT_OF_MEMORY`]. Does not ask for memory ([`super::charge`])
//! nor look at what is current ([`super::context`]).

use divvy_driver_api::types::{CUdevice, CUresult};

use crate::tenant::device::{self, Device, KnownDevice};
use crate::tenant::reason::{self, Reason};

/// The one refusal.
pub(crate) const OUT_OF_MEMORY: CUresult = CUresult::CUDA_ERROR_OUT_OF_MEMORY;

/// Where a call happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPlace {
    /// The device of the current context.
    pub(crate) device: &'static Device,
    /// The current context's handle.
    pub(crate) context: u64,
}

/// Next step of a hook.
#[derive(Clone, Copy)]
pub(crate) enum Next<T> {
    /// Count, with this.
    Count(T),
    /// Forward the call untouched.
    Forward,
    /// Return this code.
    Refuse(CUresult),
}

/// A device's entry, for calls that name one.
pub(crate) fn at(ordinal: CUdevice) -> Next<&'static Device> {
    match device::look(ordinal) {
        KnownDevice::Counted(device) => Next::Count(device),
        KnownDevice::Open => Next::Forward,
        KnownDevice::Closed(reason) => closed(reason),
    }
}

pub(super) fn closed<T>(reason: Reason) -> Next<T> {
    reason::tell(reason, format_args!("memory is refused, since the limit is not known"));
    Next::Refuse(OUT_OF_MEMORY)
}
