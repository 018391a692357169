//! The share gate of each context of this process, and what it asks of the driver and the tenant.
//!
//! Promises: a launch that may go is one look-up of the current context and one of its cost; our own
//! events are recorded only on the stream the program launches on, or behind a whole context where
//! several are in use and nothing is being captured; nothing is recorded on a stream that is being
//! captured; events are made when they are first needed and go with their context. Beyond
//! [`CONTEXTS`] contexts work is charged by estimate alone. Who else works on the device is counted on the
//! slow path: the process's contexts, the tenant's processes, and, where no daemon makes turns, those met
//! at the device's board.
//!
//! Does not decide: that is `divvy_policy::gate`.

use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use divvy_abi::config::{GateLine, gate};
use divvy_driver_api::types::{CUcontext, CUevent, CUstream};
use divvy_page::Share;
use divvy_policy::cost::Costs;
use divvy_policy::gate::{CHUNK_NS, Lane, MARKS, SHARED_CHUNK_NS, Terms, World};

use super::device::{self, Device, Look};
use crate::hooks::capture::{captures, is_capturing, relaxed};
use crate::hooks::submit::Waited;
use crate::sys::reference::Reference;
use crate::sys::{clock, driver, thread};

/// Contexts with marks of their own.
const CONTEXTS: usize = 32;

/// A waiter spins this long before its gate is expected to open.
const SPIN_NS: u64 = 150_000;

/// Device time of a turn of tenants that meet: switches cost time.
const SHARED_QUANTUM_NS: u64 = 20_000_000;

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
    device: Reference<Device>,
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
            device: Reference::none(),
            stream: AtomicU64::new(0),
            lane: Lane::new(),
            events: [const { AtomicU64::new(0) }; 2 * MARKS as usize],
        }
    }

    /// The current context's gate and device; none where nothing is counted.
    #[inline(always)]
    pub(crate) fn current() -> Option<(&'static Self, &'static Device)> {
        let handle = driver::ctx_current().ok()?.0.addr() as u64;
        // All places are looked at: a context that has one has it among the first.
        match LANES.iter().find(|place| place.handle.load(Acquire) == handle) {
            Some(context) if handle > FILLING => Some((context, context.device.get()?)),
            _ => Self::enter(handle),
        }
    }

    /// Takes a place for a context that is met first.
    #[cold]
    #[inline(never)]
    fn enter(handle: u64) -> Option<(&'static Self, &'static Device)> {
        if handle <= FILLING {
            return None;
        }
        let ordinal = driver::ctx_device().ok()?;
        let Look::Counted(device) = device::look(ordinal) else { return None };
        let take =
            |place: &&Context| place.handle.compare_exchange(0, FILLING, SeqCst, Relaxed).is_ok();
        let Some((at, place)) = LANES.iter().enumerate().find(|(_, place)| take(place)) else {
            return Some((&BEYOND, device));
        };
        place.device.set(device);
        TAKEN.fetch_max(at.saturating_add(1), SeqCst);
        place.handle.store(handle, SeqCst);
        Some((place, device))
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
                // Other threads have default streams of their own.
                !is_own(stream, per_thread)
                    && stream_word(stream, per_thread) == self.stream.load(Relaxed)
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

/// Set in the word of a thread's own default stream, above what a handle has.
const OWN_STREAM: u64 = 1 << 63;

/// Whether that is the calling thread's own default stream, by whichever name.
fn is_own(stream: CUstream, per_thread: bool) -> bool {
    let handle = stream.0.addr();
    handle == PER_THREAD || (handle == 0 && per_thread)
}

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// A stream in one word: its handle, or what it is. Not for fast paths: a thread is a system call.
fn stream_word(stream: CUstream, per_thread: bool) -> u64 {
    match stream.0.addr() as u64 {
        _ if is_own(stream, per_thread) => OWN_STREAM | u64::from(thread()),
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
    /// The process's other contexts that have work on the device after `now_ns`, and when the last of
    /// it ends.
    #[inline(never)]
    fn siblings(&self, now_ns: u64) -> (u32, u64) {
        let (mut count, mut until_ns) = (0_u32, 0);
        for place in lanes() {
            let ends_ns = place.lane.busy_until_ns();
            if ends_ns > now_ns
                && place.handle.load(Relaxed) > FILLING
                && place.device.get().is_some_and(|device| core::ptr::eq(device, self.device))
                && !core::ptr::eq(place, self.context)
            {
                count = count.saturating_add(1);
                until_ns = ends_ns.max(until_ns);
            }
        }
        (count, until_ns)
    }

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
    #[inline(never)]
    fn line(&self) -> GateLine {
        let mut line = self.share.gate_line();
        let now_ns = clock::now_ns();
        let (contexts, _) = self.siblings(now_ns);
        let others = contexts.saturating_add(self.share.others_at_work(now_ns));
        let others = others.max(self.device.meeting.others());
        line.active = line.active.max(others.saturating_add(1));
        if !self.device.meeting.is_alone(now_ns) {
            line.quantum_ns = line.quantum_ns.max(SHARED_QUANTUM_NS);
        }
        line
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

    #[inline(never)]
    fn ask_device(&self, now_ns: u64, next_ns: u64) -> u64 {
        let busy_until_ns = self.share.busy_until_ns().load(Relaxed);
        self.device.meeting.ask(now_ns, busy_until_ns, next_ns, || self.device.meet_file())
    }
    fn chunk_ns(&self, now_ns: u64) -> u64 {
        if self.device.meeting.is_alone(now_ns) { CHUNK_NS } else { SHARED_CHUNK_NS }
    }
    #[inline(never)]
    fn leave_device(&self) {
        let busy_until_ns = self.share.busy_until_ns().load(Relaxed);
        self.device.meeting.leave(busy_until_ns, || self.device.meet_file());
    }

    #[inline(never)]
    fn set_busy_until_ns(&self, until_ns: u64) {
        let (_, others_ns) = self.siblings(0);
        self.share.busy_until_ns().store(until_ns.max(others_ns), Relaxed);
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
