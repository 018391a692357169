//! Calls that give the device work: launches, graphs, fills and copies.
//!
//! Each asks the share gate before the driver gets it. A call that moves data between host and device, or
//! makes a stream wait, is no work: it only ends the span that is being measured. Entry points whose
//! effect says `gate` or `span` and that have no hook of their own come here by the build ([`work`],
//! [`transfer`], [`end_span`]).
//!
//! Promises: two loads where no gate of the tenant is in use; what is being captured passes uncharged
//! and is charged when its graph is launched; the driver's answer is the program's.
//!
//! The driver's call stands once in each entry point, between the gate's `ask` and `launched`: passed on
//! as a closure, it would send all arguments through memory, in some two hundred of them.

use core::ffi::c_uint;
use core::mem::ManuallyDrop;

use divvy_driver_api::types::{CUfunction, CUgraphExec, CUresult, CUstream};
use divvy_policy::cost::{self, WorkKind};
use divvy_policy::gate::{Sleeper, Waited};

use super::host::{self, Admitted, GATES};
use crate::residence::door::Inside;
use crate::residence::state;
use crate::sys::driver::SUCCESS;
use crate::tenant::is_gated;

/// The null stream.
pub(crate) const NULL_STREAM: CUstream = CUstream(core::ptr::null_mut());

/// A size up to an eighth: work of about the same size costs about the same.
fn class(size: u64) -> u64 {
    let octave = u64::from(size.max(1).ilog2());
    let eighth = (size << 3).checked_shr(u32::try_from(octave).unwrap_or(0)).unwrap_or(0) & 7;
    octave << 3 | eighth
}

/// The key of a fill or copy by entry point `symbol` of so many bytes. Not inlined: some fifty hooks ask for one, where there
/// is a gate.
#[inline(never)]
pub(crate) fn copy_key(symbol: usize, bytes: u64) -> u64 {
    cost::key(WorkKind::Copy, [symbol as u64, class(bytes), 0])
}

/// How many a grid or block of these sides has. Sides that the driver takes do not overflow it.
#[inline(always)]
pub(crate) fn volume(x: c_uint, y: c_uint, z: c_uint) -> u64 {
    u64::from(x).wrapping_mul(u64::from(y)).wrapping_mul(u64::from(z))
}

/// The key of a kernel of so many blocks, of so many threads each.
pub(crate) fn kernel_key(function: CUfunction, blocks: u64, threads: u64) -> u64 {
    cost::key(WorkKind::Kernel, [function.0.addr() as u64, class(blocks), threads])
}

/// Submits `call`, which is work for the device on `stream`, when the gate lets it.
#[inline(always)]
pub(crate) fn work(
    stream: CUstream,
    per_thread: bool,
    key: impl FnOnce() -> u64,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    submit(|| GATES.ask(host::stream(stream, per_thread), key()), call)
}

/// [`work`] that is looked at for its stream and key only where the tenant has gates.
#[inline(always)]
pub(crate) fn submit(
    asked: impl FnOnce() -> Option<Admitted>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    // Nothing is dropped here but by `launched`: each hook would have a copy of that.
    let mut held = ManuallyDrop::new(if is_gated() { Held::of(asked()) } else { None });
    let result = call();
    if held.is_some() {
        launched(&mut held, result);
    }
    result
}

/// Holds of a launch while the driver has it: its device time, and the memory it may touch on the card.
struct Held {
    admitted: Option<Admitted>,
    inside: Option<Inside>,
}

impl Held {
    /// Waits for memory last: nobody who is at the door waits for a turn.
    #[inline(never)]
    fn of(admitted: Option<Admitted>) -> Option<Self> {
        let inside = state::enter_if_any();
        (admitted.is_some() || inside.is_some()).then_some(Self { admitted, inside })
    }
}

/// The driver has answered to a launch.
#[cold]
#[inline(never)]
fn launched(held: &mut Option<Held>, result: CUresult) {
    let Some(Held { admitted, inside }) = held.take() else { return };
    if let Some(admitted) = admitted {
        admitted.launched(result == SUCCESS);
    }
    drop(inside);
}

/// Something that is no work of the device's, on whatever stream: where the tenant has gates, the span
/// that is measured ends.
#[inline(always)]
pub(crate) fn end_span() {
    if is_gated() {
        GATES.break_span();
    }
}

/// The same, where a stream is to wait for an event: one of the context's own is its work.
#[inline(always)]
pub(crate) fn wait_for_event() {
    if is_gated() {
        GATES.wait_for_event();
    }
}

/// The process is about to share an event with another.
#[cold]
pub(crate) fn shared_event() {
    GATES.shared_event();
}

/// [`end_span`] for a `call` that may return only when work in flight has ended.
#[inline(always)]
pub(crate) fn transfer(call: impl FnOnce() -> CUresult) -> CUresult {
    let sleeper = asleep();
    let result = call();
    awake(sleeper);
    result
}

/// Of its own: the hooks of eighty copies have it, and none is called as often as a launch's.
#[inline(never)]
fn asleep() -> (Option<Sleeper>, Option<Inside>) {
    if is_gated() { (GATES.sleep(), state::enter_if_any()) } else { (None, None) }
}

/// The end of it, of its own for the same reason.
#[inline(never)]
fn awake(_: (Option<Sleeper>, Option<Inside>)) {}

/// A synchronisation: when it has returned, what was submitted before it is known to have ended, if
/// it waited for all of it.
#[inline(always)]
pub(crate) fn synchronise(waited: Waited, call: impl FnOnce() -> CUresult) -> CUresult {
    let waiting = if is_gated() { GATES.begin_wait(&waited) } else { None };
    let result = call();
    if let Some(waiting) = waiting
        && result == SUCCESS
    {
        GATES.end_wait(&waiting, &waited);
    }
    result
}

/// Launches a graph: what was captured into it is charged now, as one.
pub(crate) fn graph(
    exec: CUgraphExec,
    stream: CUstream,
    per_thread: bool,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let key = || cost::key(WorkKind::Graph, [exec.0.addr() as u64, 0, 0]);
    work(stream, per_thread, key, || state::unless_lost(call))
}

/// A copy whose ends say what it is: `device_bytes` of work if both lie in the device's memory, else
/// none. Asked only for tenants that have gates.
pub(crate) fn copy(
    stream: CUstream,
    per_thread: bool,
    symbol: u64,
    device_bytes: impl FnOnce() -> Option<usize>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let mut sleeper = None;
    let asked = || match device_bytes() {
        Some(bytes) => {
            let key = cost::key(WorkKind::Copy, [symbol, class(bytes as u64), 1]);
            GATES.ask(host::stream(stream, per_thread), key)
        }
        None => {
            sleeper = GATES.sleep();
            None
        }
    };
    let result = submit(asked, call);
    drop(sleeper);
    result
}
