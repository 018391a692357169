//! The share gate of each context of this process, and what it asks of the driver and the tenant.
//!
//! Promises: a launch that may go is one look-up of the current context and one of its cost; our own
//! events are recorded only on the stream the program launches on, or behind a whole context where
//! several are in use and nothing is being captured; nothing is recorded on a stream that is being
//! captured; events are made when they are first needed and go with their context, before whose end
//! every thread has let go of them ([`retire`]). Beyond
//! [`CONTEXTS`] contexts work is charged by estimate alone. Who else works on the device is counted on the
//! slow path: the process's contexts, the tenant's processes, and, where no daemon makes turns, those met
//! at the device's board.
//!
//! Does not decide: that is `divvy_policy::gate`.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use divvy_abi::config::{GateLine, gate};
use divvy_driver_api::types::{CUcontext, CUevent, CUstream};
use divvy_page::Share;
use divvy_policy::cost::Costs;
use divvy_policy::gate::{
    CHUNK_NS, EVENTS, Lane, NO_LIFE, SHARED_CHUNK_NS, Terms, World, stripe_of,
};

use super::device::{self, Device, Look};
use crate::hooks::capture::{is_capturing, keep_out, relaxed};
use crate::hooks::submit::Waited;
use crate::sys::reference::Reference;
use crate::sys::{clock, driver, thread, thread_pointer};

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
/// One whose context is gone while a thread still was at its events: free as soon as that lets go.
const GONE: u64 = 2;

/// Longest wait for a thread that is at the events of a context that is about to go. It is in the
/// driver for microseconds; one that is stuck there meets what it would have met without us.
const RETIRE_PATIENCE_NS: u64 = 100_000_000;
const RETIRE_LOOK_NS: u64 = 20_000;

/// What every launch looks at, and what changes with the context alone: in cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Known {
    /// The context's handle; 0 for a place nobody has.
    handle: AtomicU64,
    /// Its number, which no other context has: the driver gives handles again. 0 where the driver
    /// does not number them.
    id: AtomicU64,
    device: Reference<Device>,
}

impl Known {
    const fn new() -> Self {
        Self { handle: AtomicU64::new(0), id: AtomicU64::new(0), device: Reference::none() }
    }
}

/// One context's gate.
#[derive(Debug)]
pub(crate) struct Context {
    known: Known,
    /// Stream of the launch that asked the lane last, as [`stream_word`] says it.
    stream: AtomicU64,
    pub(crate) lane: Lane,
    /// Handles of events, 0 where none was made.
    events: [AtomicU64; EVENTS as usize],
}

impl Context {
    const fn new() -> Self {
        Self {
            known: Known::new(),
            stream: AtomicU64::new(0),
            lane: Lane::new(),
            events: [const { AtomicU64::new(0) }; EVENTS as usize],
        }
    }

    /// The current context's gate and device; none where nothing is counted.
    #[inline(always)]
    pub(crate) fn current() -> Option<(&'static Self, &'static Device)> {
        let handle = driver::ctx_current().ok()?.0.addr() as u64;
        // All places are looked at: a context that has one has it among the first.
        match LANES.iter().find(|place| place.known.handle.load(Acquire) == handle) {
            Some(context) if handle > GONE => Some((context, context.known.device.get()?)),
            _ => Self::enter(handle),
        }
    }

    /// Takes a place for a context that is met first.
    #[cold]
    #[inline(never)]
    fn enter(handle: u64) -> Option<(&'static Self, &'static Device)> {
        if handle <= GONE {
            return None;
        }
        let ordinal = driver::ctx_device().ok()?;
        let Look::Counted(device) = device::look(ordinal) else { return None };
        let taken = LANES.iter().enumerate().find(|(_, place)| place.take());
        let Some((at, place)) = taken else { return Some((&BEYOND, device)) };
        place.events.iter().for_each(|event| event.store(0, Relaxed));
        place.known.id.store(current_id(), Relaxed);
        place.known.device.set(device);
        TAKEN.fetch_max(at.saturating_add(1), SeqCst);
        place.known.handle.store(handle, SeqCst);
        Some((place, device))
    }

    /// Takes a place that nobody has.
    #[inline(never)]
    fn take(&self) -> bool {
        let take =
            |free| self.known.handle.compare_exchange(free, FILLING, SeqCst, Relaxed).is_ok();
        take(0) || (!self.lane.is_closed() && take(GONE))
    }

    /// The life of its lane, where the calling thread's context is still the one that has it.
    #[inline(never)]
    fn life(&self) -> u64 {
        let life = self.lane.life();
        let handle = self.known.handle.load(SeqCst);
        if !driver::ctx_current().is_ok_and(|current| current.0.addr() as u64 == handle) {
            return NO_LIFE;
        }
        if self.known.id.load(Relaxed) != current_id() {
            // It ended where nobody looked, and its handle is another's by now.
            retire(&|retired| retired == handle).gone();
            return NO_LIFE;
        }
        life
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
            Waited::Context(context) => self.known.handle.load(Relaxed) == context.0.addr() as u64,
            Waited::Stream(stream, per_thread) => {
                // Other threads have default streams of their own.
                !is_own(stream, per_thread)
                    && stream_word(stream, per_thread) == self.stream.load(Relaxed)
                    && self.lane.has_one_stream()
            }
        }
    }

    /// Event `index`, if it was made.
    fn event(&self, index: u32) -> Option<CUevent> {
        let handle = usize::try_from(self.events.get(index as usize)?.load(Relaxed)).ok()?;
        (handle != 0).then(|| CUevent(core::ptr::with_exposed_provenance_mut(handle)))
    }

    /// The same, made if there is none. The caller has the lane's claim, in the life of its context.
    fn make_event(&self, index: u32) -> Option<CUevent> {
        if let Some(event) = self.event(index) {
            return Some(event);
        }
        let event = driver::event_create().ok()?;
        let place = self.events.get(index as usize)?;
        place.store(event.0.expose_provenance() as u64, Relaxed);
        Some(event)
    }
}

/// The number of the calling thread's context; 0 where the driver does not say.
fn current_id() -> u64 {
    driver::current_ctx_id().unwrap_or(0)
}

/// The calling thread's stripe of credit, the same at each call.
#[inline(always)]
pub(crate) fn stripe() -> usize {
    stripe_of(thread_pointer())
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
pub(crate) fn stream_word(stream: CUstream, per_thread: bool) -> u64 {
    match stream.0.addr() as u64 {
        _ if is_own(stream, per_thread) => OWN_STREAM | u64::from(thread()),
        0 => 1,
        handle => handle,
    }
}

/// Contexts that may be about to go: no thread is at their events, and none comes to them, until it is
/// said that they went, or this is dropped.
#[derive(Debug)]
#[must_use = "the contexts' marks go on when this is dropped"]
pub(crate) struct Retiring {
    /// The life in which each place was closed.
    lives: [u64; CONTEXTS],
}

/// Closes the lanes of the contexts that are `retired` and waits until no thread is at their events: to
/// be called before the driver is asked to end a context, whose events must not be used after that.
///
/// Cost: a look at each context that has marks; where a thread is at an event, until it has returned.
#[inline(never)]
pub(crate) fn retire(retired: &dyn Fn(u64) -> bool) -> Retiring {
    let mut lives = [NO_LIFE; CONTEXTS];
    let give_up_ns = clock::now_ns().saturating_add(RETIRE_PATIENCE_NS);
    for (place, life) in lanes().zip(&mut lives) {
        let handle = place.known.handle.load(SeqCst);
        if handle <= GONE || !retired(handle) {
            continue;
        }
        *life = place.lane.close();
        while place.lane.is_claimed() && clock::now_ns() < give_up_ns {
            clock::sleep_until(clock::now_ns().saturating_add(RETIRE_LOOK_NS));
        }
    }
    Retiring { lives }
}

impl Retiring {
    fn closed(&self) -> impl Iterator<Item = (&'static Context, u64)> {
        LANES.iter().zip(self.lives).filter(|(_, life)| *life != NO_LIFE)
    }

    /// They are gone, and with them their events.
    #[inline(never)]
    pub(crate) fn gone(self) {
        for (place, life) in self.closed() {
            // First, so that nobody finds the next life under the handle of this one.
            place.known.handle.store(GONE, SeqCst);
            place.lane.end_life(life);
        }
    }
}

impl Drop for Retiring {
    #[inline(never)]
    fn drop(&mut self) {
        // Where a life has ended there is nothing to open.
        self.closed().for_each(|(place, life)| place.lane.reopen(life));
    }
}

/// A launch on a stream of a context.
pub(crate) struct Here {
    pub(crate) context: &'static Context,
    pub(crate) device: &'static Device,
    pub(crate) share: Share,
    stream: CUstream,
    per_thread: bool,
    /// [`Context::life`], asked for by the first who needs it: it takes two calls of the driver's, and a
    /// synchronisation that has returned needs none. [`UNASKED`] before.
    life: Cell<u64>,
}

/// No life: they are counted from 0.
const UNASKED: u64 = u64::MAX - 1;

impl Here {
    /// The calling thread at its current context, as [`Context::current`] found it.
    pub(crate) fn new(
        (context, device): (&'static Context, &'static Device),
        share: Share,
        stream: CUstream,
        per_thread: bool,
    ) -> Self {
        Self { context, device, share, stream, per_thread, life: Cell::new(UNASKED) }
    }

    /// The process's other contexts that have work on the device after `now_ns`, and when the last of
    /// it ends.
    #[inline(never)]
    fn siblings(&self, now_ns: u64) -> (u32, u64) {
        let (mut count, mut until_ns) = (0_u32, 0);
        for place in lanes() {
            let ends_ns = place.lane.busy_until_ns();
            if ends_ns > now_ns
                && place.known.handle.load(Relaxed) > GONE
                && place.known.device.get().is_some_and(|device| core::ptr::eq(device, self.device))
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
    fn count_launches(&self, launches: u64) {
        self.share.count_launches(launches);
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

    fn life(&self) -> u64 {
        if self.life.get() == UNASKED {
            self.life.set(self.context.life());
        }
        self.life.get()
    }
    fn stripe(&self) -> usize {
        stripe()
    }
    fn stream(&self) -> u64 {
        stream_word(self.stream, self.per_thread)
    }
    fn record(&self, event: u32, whole: bool) -> bool {
        let Some(event) = self.context.make_event(event) else { return false };
        let record = || driver::event_record(event, self.stream, self.per_thread).is_ok();
        let Some(_undisturbed) = keep_out() else {
            return !is_capturing(self.stream, self.per_thread) && relaxed(record);
        };
        let handle = usize::try_from(self.context.known.handle.load(Relaxed)).unwrap_or(0);
        let context = CUcontext(core::ptr::with_exposed_provenance_mut(handle));
        (whole && driver::ctx_record_event(context, event).is_ok()) || record()
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
