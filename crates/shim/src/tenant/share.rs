//! The share gate of each context of this process, and what it asks of the driver and the tenant.
//!
//! Promises: a launch that may go is one look-up of the current context and one of its cost; our own
//! events are recorded only on the stream the program launches on, or behind a whole context where
//! several are in use and nothing is being captured; nothing is recorded on a stream that is being
//! captured; events are made when they are first needed and go with their context. Beyond
//! [`CONTEXTS`] contexts work is charged by estimate alone.
//!
//! Does not decide: that is `divvy_policy::gate`.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};

use divvy_abi::config::{GateLine, gate};
use divvy_driver_api::types::{CUcontext, CUevent, CUstream};
use divvy_page::Share;
use divvy_policy::cost::Costs;
use divvy_policy::gate::{Lane, MARKS, Terms, World};

use super::device::{self, Device, Look};
use crate::hooks::capture::{captures, is_capturing, relaxed};
use crate::hooks::submit::Waited;
use crate::sys::{clock, driver};

/// Contexts with marks of their own.
const CONTEXTS: usize = 32;

/// A waiter spins this long before its gate is expected to open.
const SPIN_NS: u64 = 150_000;

/// What launches cost, all contexts of the process.
pub(crate) static COSTS: Costs = Costs::new();

static LANES: [Context; CONTEXTS] = [const { Context::new() }; CONTEXTS];
static BEYOND: Context = Context::new();

/// Places that were ever taken: the others need not be looked at.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

fn lanes() -> impl Iterator<Item = &'static Context> {
    LANES.iter().take(TAKEN.load(Relaxed))
}

/// A place that is being filled.
const FILLING: u64 = 1;

/// One context's gate.
#[derive(Debug)]
pub(crate) struct Context {
    /// The context's handle; 0 for a place nobody has.
    handle: AtomicU64,
    ordinal: AtomicI32,
    /// Stream of the launch that asked the lane last, as [`stream_word`] says it.
    stream: AtomicU64,
    pub(crate) lane: Lane,
    /// Handles of events, 0 where none was made.
    events: [AtomicU64; 2 * MARKS as usize],
}

impl Context {
    const fn new() -> Self {
        Self {
            handle: AtomicU64::new(0),
            ordinal: AtomicI32::new(0),
            stream: AtomicU64::new(0),
            lane: Lane::new(),
            events: [const { AtomicU64::new(0) }; 2 * MARKS as usize],
        }
    }

    /// The current context's gate and device; none where nothing is counted.
    #[inline]
    pub(crate) fn current() -> Option<(&'static Self, &'static Device)> {
        let handle = driver::ctx_current().ok()?.0.addr() as u64;
        let known = lanes().find(|place| place.handle.load(Relaxed) == handle);
        let context = match known {
            Some(context) if handle > FILLING => context,
            _ => Self::enter(handle)?,
        };
        Some((context, device::met(context.ordinal.load(Relaxed))?))
    }

    /// Takes a place for a context that is met first.
    #[cold]
    #[inline(never)]
    fn enter(handle: u64) -> Option<&'static Self> {
        if handle <= FILLING {
            return None;
        }
        let ordinal = driver::ctx_device().ok()?;
        let Look::Counted(_) = device::look(ordinal) else { return None };
        let take =
            |place: &&Context| place.handle.compare_exchange(0, FILLING, SeqCst, Relaxed).is_ok();
        let Some((at, place)) = LANES.iter().enumerate().find(|(_, place)| take(place)) else {
            BEYOND.ordinal.store(ordinal, Relaxed);
            return Some(&BEYOND);
        };
        place.ordinal.store(ordinal, Relaxed);
        TAKEN.fetch_max(at.saturating_add(1), SeqCst);
        place.handle.store(handle, SeqCst);
        Some(place)
    }

    /// Notes the stream of a launch that asks the lane.
    pub(crate) fn note_stream(&self, stream: CUstream, per_thread: bool) {
        self.stream.store(stream_word(stream, per_thread), Relaxed);
    }

    /// Whether who waited for that waited for all work of the context, as far as is known.
    pub(crate) fn is_all(&self, waited: &Waited) -> bool {
        match *waited {
            Waited::Current => true,
            Waited::Event => false,
            Waited::Context(context) => self.handle.load(Relaxed) == context.0.addr() as u64,
            Waited::Stream(stream, per_thread) => {
                let word = stream_word(stream, per_thread);
                // Other threads have default streams of their own.
                word != OWN_STREAM
                    && word == self.stream.load(Relaxed)
                    && self.lane.has_one_stream()
            }
        }
    }

    /// Event `index`, made if there is none.
    fn event(&self, index: u32) -> Option<CUevent> {
        let place = self.events.get(index as usize)?;
        let handle = match place.load(Relaxed) {
            0 if self.handle.load(Relaxed) <= FILLING => return None,
            0 => {
                let event = driver::event_create().ok()?;
                place.store(event.0.expose_provenance() as u64, Relaxed);
                return Some(event);
            }
            handle => handle,
        };
        Some(CUevent(core::ptr::with_exposed_provenance_mut(usize::try_from(handle).ok()?)))
    }
}

/// The word of the calling thread's own default stream, whichever thread that is.
const OWN_STREAM: u64 = 2;

/// A stream in one word: its handle, by whichever name a default stream was called.
fn stream_word(stream: CUstream, per_thread: bool) -> u64 {
    match stream.0.addr() as u64 {
        0 if per_thread => OWN_STREAM,
        0 => 1,
        handle => handle,
    }
}

/// A context is gone, and with it its events. Two threads that met it at once gave it two places.
pub(crate) fn forget_context(handle: u64) {
    for place in lanes().filter(|place| place.handle.load(Relaxed) == handle) {
        place.lane.forget_marks();
        place.events.iter().for_each(|event| event.store(0, Relaxed));
        place.handle.store(0, SeqCst);
    }
}

/// A launch on a stream of a context.
pub(crate) struct Here {
    pub(crate) context: &'static Context,
    pub(crate) device: &'static Device,
    pub(crate) share: Share,
    pub(crate) stream: CUstream,
    pub(crate) per_thread: bool,
}

impl Here {
    /// Waits for the gate in short steps without sleeping, up to just after it should have opened.
    fn spin(&self, state: u32, t_open_ns: u64) {
        let end_ns = t_open_ns.saturating_add(SPIN_NS);
        while self.device.gate_state() == state && clock::now_ns() < end_ns {
            core::hint::spin_loop();
        }
    }
}

impl World for Here {
    type Clock = Share;

    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
    fn terms(&self) -> Terms {
        self.device.terms()
    }
    fn line(&self) -> GateLine {
        self.share.gate_line()
    }
    fn clock(&self) -> &Share {
        &self.share
    }
    fn wait(&self, state: u32, deadline_ns: u64) {
        let t_open_ns = if state == gate::CLOSED { self.line().t_open_ns } else { 0 };
        let now_ns = clock::now_ns();
        if t_open_ns > now_ns.saturating_add(SPIN_NS) {
            self.share.wait(state, deadline_ns.min(t_open_ns.saturating_sub(SPIN_NS)));
        } else if t_open_ns.saturating_add(SPIN_NS) > now_ns {
            self.spin(state, t_open_ns);
        } else {
            self.share.wait(state, deadline_ns);
        }
    }
    fn sleep_until(&self, deadline_ns: u64) {
        clock::sleep_until(deadline_ns);
    }
    fn spin_until(&self, deadline_ns: u64) {
        while clock::now_ns() < deadline_ns {
            core::hint::spin_loop();
        }
    }

    fn set_busy_until_ns(&self, until_ns: u64) {
        let same = |place: &&Context| {
            place.handle.load(Relaxed) > FILLING
                && place.ordinal.load(Relaxed) == self.device.ordinal
                && !core::ptr::eq(*place, self.context)
        };
        let others_ns = lanes().filter(same).map(|place| place.lane.busy_until_ns()).max();
        self.share.busy_until_ns().store(until_ns.max(others_ns.unwrap_or(0)), Relaxed);
    }
    fn note_want(&self, now_ns: u64) {
        self.share.note_want(now_ns);
    }
    fn note_launch(&self, now_ns: u64) {
        self.share.note_launch(now_ns);
    }
    fn add_used(&self, ns: i64) {
        self.share.add_used(ns);
    }
    fn count_launch(&self) {
        self.share.count_launch();
    }
    fn note_length(&self, ns: u64) {
        self.share.note_length(ns);
    }
    fn add_throttled(&self, ns: u64) {
        self.share.add_throttled(ns);
    }
    fn add_waited(&self, ns: u64) {
        self.share.add_waited(ns);
    }
    fn count_drain_given_up(&self) {
        self.share.count_drain_given_up();
    }

    fn stream(&self) -> u64 {
        stream_word(self.stream, self.per_thread)
    }
    fn record(&self, event: u32, whole: bool) -> bool {
        let Some(event) = self.context.event(event) else { return false };
        if is_capturing(self.stream, self.per_thread) {
            return false;
        }
        if whole && captures() == 0 {
            let handle = usize::try_from(self.context.handle.load(Relaxed)).unwrap_or(0);
            let context = CUcontext(core::ptr::with_exposed_provenance_mut(handle));
            if driver::ctx_record_event(context, event).is_ok() {
                return true;
            }
        }
        relaxed(|| driver::event_record(event, self.stream, self.per_thread)).is_ok()
    }
    fn is_done(&self, event: u32) -> bool {
        self.context.event(event).is_none_or(|event| relaxed(|| driver::event_is_done(event)))
    }
    fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64> {
        let (from, to) = (self.context.event(from)?, self.context.event(to)?);
        let ms = relaxed(|| driver::event_elapsed_ms(from, to)).ok()?;
        // Saturates; not a number becomes 0.
        Some((f64::from(ms) * 1e6) as i64)
    }
}
