//! The state of this process, none before its first block that may leave, and the way in for calls.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicU64};

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::CUresult;
use zerocopy::FromZeros;

use super::chunks::Chunks;
use super::door::{Door, Inside};
use super::slabs::Slabs;
use crate::sys::map::Map;
use crate::sys::wiped::Wiped;
use crate::sys::{clock, sleep_ns};
use crate::tenant;
use crate::tenant::context::CONTEXTS;

/// The state of this process.
#[derive(FromZeros)]
pub(crate) struct State {
    pub(crate) door: Door,
    pub(crate) chunks: Chunks,
    pub(super) slabs: Slabs,
    /// Not 0 while a thread asks the owner for managed memory.
    pub(crate) asker: AtomicU32,
    /// The backing that was chosen for each device.
    pub(super) backings: [AtomicU32; MAX_DEVICES],
    /// Calls under way that may end a context.
    ending: AtomicU32,
    /// The context in which the library's own thread is; 0 for none.
    at_context: AtomicU64,
    /// Not 0 once the service thread was started.
    pub(crate) service: AtomicU32,
    /// Whether a thread hands out descriptors of memory that was exported: of [`crate::handover::server`].
    pub(crate) server: AtomicU32,
}

static STATE: Wiped<State> = Wiped::new();

/// The state, where any memory of this process may leave the card.
#[inline(always)]
pub(crate) fn get() -> Option<&'static State> {
    STATE.get()
}

/// The state, made if there is none; `None` without memory for it.
pub(super) fn make() -> Option<&'static State> {
    STATE.make()
}

/// Goes in, for a call that may touch memory or change what there is; waits while memory is away.
#[inline(always)]
pub(crate) fn enter() -> Inside {
    match get() {
        None => Inside::OUTSIDE,
        Some(state) => state.door.pass(),
    }
}

/// Makes `call`, which launches kernels from inside, but where memory that they may use cannot come back: the answer is the
/// driver's own after a kernel that found none at an address. Copies and fills of such addresses the driver refuses itself,
/// since nothing is mapped there.
#[inline(always)]
pub(crate) fn unless_lost(call: impl FnOnce() -> CUresult) -> CUresult {
    match get() {
        Some(state) if state.door.refuses() => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        _ => call(),
    }
}

/// Goes in for a call by which a capture begins.
pub(crate) fn enter_to_capture() -> Inside {
    if let Some(state) = get() {
        state.door.await_capture();
    }
    enter()
}

/// Makes `call` from inside.
pub(crate) fn inside(call: impl FnOnce() -> CUresult) -> CUresult {
    let _inside = enter();
    call()
}

/// Goes in; none where no memory may leave.
#[inline]
pub(crate) fn enter_if_any() -> Option<Inside> {
    get().map(|state| state.door.pass())
}

/// Between two looks whether the library's own thread has left a context.
const LOOK_NS: u32 = 20_000;

/// Handles of contexts that calls under way may end: the driver may give one to a new context before what was made in the
/// old one is forgotten.
static ENDING: Map = Map::new(47);
/// So long a new context waits for that.
const FORGETS_NS: u64 = 1_000_000_000;

/// A handle that may be about to end, until what was made in it is forgotten.
pub(crate) struct Named(u64);

/// Says that a call may end what has this handle.
pub(crate) fn name_ending(handle: u64) -> Named {
    let _ = ENDING.insert(handle, [1, 0]);
    Named(handle)
}

impl Drop for Named {
    fn drop(&mut self) {
        ENDING.take(self.0);
    }
}

/// Waits until what was made in an earlier context of this handle is forgotten.
pub(crate) fn await_end(handle: u64) {
    let until_ns = clock::now_ns().saturating_add(FORGETS_NS);
    while ENDING.get(handle).is_some() && clock::now_ns() < until_ns {
        sleep_ns(LOOK_NS);
    }
}

/// A call that may end a context, until dropped.
#[must_use = "the context may be used again when this is dropped"]
pub(crate) struct Ending {
    inside: Option<(&'static State, Inside)>,
    _named: Named,
}

/// Goes in, for a call that may end the context with this handle: neither does memory move in it meanwhile, nor is the
/// library's own thread there. That is there for moments, or for work that the driver would wait for too.
pub(crate) fn enter_to_end(context: u64) -> Ending {
    let state = tenant::oversubscribed().and_then(|_| make());
    let inside = state.map(|state| {
        let inside = state.door.pass();
        state.ending.fetch_add(1, SeqCst);
        while context != 0 && state.at_context.load(SeqCst) == context {
            sleep_ns(LOOK_NS);
        }
        (state, inside)
    });
    Ending { inside, _named: name_ending(context) }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some((state, _)) = &self.inside {
            state.ending.fetch_sub(1, SeqCst);
        }
    }
}

/// The library's own thread in a context, which does not end before this is dropped.
pub(crate) struct AtContext(&'static State);

impl State {
    /// Comes to a context; none where it has ended, or any is about to.
    pub(crate) fn come_to(&'static self, context: u64) -> Option<AtContext> {
        // Said before the look: a call that may end it meanwhile sees it, or is seen here.
        self.at_context.store(context, SeqCst);
        let here = AtContext(self);
        (self.ending.load(SeqCst) == 0 && CONTEXTS.get(context).is_some()).then_some(here)
    }
}

impl Drop for AtContext {
    fn drop(&mut self) {
        self.0.at_context.store(0, SeqCst);
    }
}
