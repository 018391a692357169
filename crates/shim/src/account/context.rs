//! The current context: which it is, and what it is charged.
//!
//! A context that was made where nobody looked (a private table of the driver's) is charged at the first
//! hooked call that finds it current. Two first contexts at a full limit are one context and one
//! out-of-memory, since the ledger is asked before the driver makes one ([`grant`]).

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUdevice, CUresult};

use super::charge::ask;
use super::heap;
use super::place::{CallPlace, Next, at, closed};
use crate::gate::relaxed;
use crate::sys::driver;
use crate::tenant::context::{CONTEXTS, Record, record_new};
use crate::tenant::device::Device;
use crate::tenant::{Membership, membership};

/// The current context's place, charging a context that nobody has seen being made.
///
/// Cost: one driver call (nanoseconds) and one look into a map.
pub(crate) fn here() -> Next<CallPlace> {
    match membership() {
        Membership::Open => return Next::Forward,
        Membership::Closed(reason) => return closed(reason),
        Membership::Member(_) => {}
    }
    let Ok(current) = driver::ctx_current() else { return Next::Forward };
    if current.0.is_null() {
        return Next::Forward;
    }
    place_of(current.0.addr() as u64)
}

/// The place of the context with handle `context`, which is current.
fn place_of(context: u64) -> Next<CallPlace> {
    let Some(record) = CONTEXTS.get(context).map(Record::unpack) else { return adopt(context) };
    match at(record.ordinal) {
        Next::Count(device) if record.green => {
            Next::Count(CallPlace { device, context: device.primary.load(SeqCst) })
        }
        Next::Count(device) => Next::Count(CallPlace { device, context }),
        Next::Forward => Next::Forward,
        Next::Refuse(code) => Next::Refuse(code),
    }
}

/// Charges a current context that nobody has seen being made.
#[cold]
fn adopt(context: u64) -> Next<CallPlace> {
    let Ok(ordinal) = driver::ctx_device() else { return Next::Forward };
    let device = match at(ordinal) {
        Next::Count(device) => device,
        Next::Forward => return Next::Forward,
        Next::Refuse(code) => return Next::Refuse(code),
    };
    let granted = match grant(device) {
        Ok(granted) => granted,
        Err(code) => return Next::Refuse(code),
    };
    if granted.keep(context) {
        let is_primary = relaxed(|| handle_of(ordinal)).is_some_and(|primary| primary == context);
        if is_primary {
            device.primary.store(context, SeqCst);
        }
    }
    Next::Count(CallPlace { device, context })
}

/// Handle of the device's primary context, if it is active.
pub(super) fn handle_of(ordinal: CUdevice) -> Option<u64> {
    let (_, active) = driver::primary_ctx_state(ordinal).ok()?;
    if !active {
        return None;
    }
    let primary = driver::primary_retain(ordinal).ok()?;
    let _ = driver::primary_release(ordinal);
    Some(primary.0.addr() as u64)
}

/// Memory of a new context, granted before it is made: its constant, and local memory for the
/// libraries' kernels. Goes back when dropped.
#[derive(Debug)]
pub(super) struct Granted {
    device: &'static Device,
    local_bytes: u32,
}

/// Asks for a new context.
#[inline(never)]
pub(super) fn grant(device: &'static Device) -> Result<Granted, CUresult> {
    let local_bytes = heap::kernels_local_bytes();
    let base = ask(device, device.context_bytes, MemoryKind::Context)?;
    ask(device, heap::bytes_of_local(device, local_bytes), MemoryKind::Heap)?.keep();
    base.keep();
    Ok(Granted { device, local_bytes })
}

impl Granted {
    /// The context was made: it is recorded and stays charged. False, and nothing is charged, if it
    /// was known.
    #[inline(never)]
    pub(super) fn keep(self, context: u64) -> bool {
        let device = self.device;
        let bytes = device.context_bytes;
        let record = Record::new(device.ordinal, bytes);
        let is_new = record_new(context, record);
        if is_new {
            heap::begin_context(context, device, self.local_bytes);
            core::mem::forget(self);
        }
        is_new
    }
}

impl Drop for Granted {
    #[inline(never)]
    fn drop(&mut self) {
        self.device.give_back(self.device.context_bytes, MemoryKind::Context);
        self.device
            .give_back(heap::bytes_of_local(self.device, self.local_bytes), MemoryKind::Heap);
    }
}
