//! The gates of a process: one for each context that it launches in, and the state that they share.
//!
//! Promises: a launch that may go is one look-up of the current context and one of its cost ([`super::launch`]); events
//! go with their context, before whose end every thread has let go of them ([`Gates::retire`]). Beyond [`CONTEXTS`]
//! contexts work is charged by estimate alone. Does not decide that a launch may go: that is [`super::lane`]; does not
//! call a driver but by [`Driver`].

use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use super::captures::{Captures, Undisturbed};
use super::driver::{Device, Driver, Home, LaunchStream};
use super::lane::Lane;
use super::lives::NO_LIFE;
use super::marks::EVENTS;
use super::tuning;
use crate::atomic::{AtomicU32, AtomicU64};
use crate::cost::Costs;

/// Contexts with marks of their own. A model makes them anew for each schedule.
const CONTEXTS: usize = if cfg!(shuttle) { 2 } else { 32 };

/// A place that is being filled.
const FILLING: u64 = 1;
/// A place whose context is gone while a thread still was at its events: free as soon as that thread lets go.
const GONE: u64 = 2;

/// The gates of a process.
#[derive(Debug)]
pub struct Gates<D: Driver> {
    /// The driver that the gates stand on.
    pub driver: D,
    /// Costs of launches, of all contexts of the process.
    pub(super) costs: Costs,
    /// Captures under way in the process.
    pub(super) captures: Captures,
    places: [Context<D::Home>; CONTEXTS],
    beyond: Context<D::Home>,
    /// Number of places that were ever taken: the others need not be looked at.
    taken: AtomicU32,
    /// Not 0 once events may be recorded by other processes.
    pub(super) shared_events: AtomicU32,
}

/// Fields that every launch reads, and that change with the context alone: in cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Known<H> {
    /// The context's handle; 0 for a free place.
    handle: AtomicU64,
    /// The context's number, which no other context has: the driver gives handles again. 0 where the driver does not
    /// number contexts.
    id: AtomicU64,
    device: H,
}

/// One context's gate.
#[derive(Debug)]
pub(super) struct Context<H> {
    known: Known<H>,
    pub(super) lane: Lane,
    /// Handles of events, 0 where none was made.
    events: [AtomicU64; EVENTS as usize],
}

impl<H: Home> Context<H> {
    const fn new() -> Self {
        let (handle, id) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            known: Known { handle, id, device: H::NONE },
            lane: Lane::new(),
            events: [const { AtomicU64::new(0) }; EVENTS as usize],
        }
    }

    /// The context's handle.
    pub(super) fn handle(&self) -> u64 {
        self.known.handle.load(Relaxed)
    }

    /// Takes a place if it is free.
    #[inline(never)]
    fn take(&self) -> bool {
        let take =
            |free| self.known.handle.compare_exchange(free, FILLING, SeqCst, Relaxed).is_ok();
        take(0) || (!self.lane.is_closed() && take(GONE))
    }

    /// Returns event `index`, if it was made.
    pub(super) fn event(&self, index: u32) -> Option<u64> {
        let event = self.events.get(index as usize)?.load(Relaxed);
        (event != 0).then_some(event)
    }

    /// Returns event `index`, made by `make` if there is none. The caller has the lane's claim, in the life of its
    /// context.
    pub(super) fn make_event(&self, index: u32, make: impl FnOnce() -> u64) -> Option<u64> {
        if let Some(event) = self.event(index) {
            return Some(event);
        }
        let event = make();
        self.events.get(index as usize)?.store(event, Relaxed);
        (event != 0).then_some(event)
    }
}

/// A context's gate, and the context's device.
pub(super) type Current<'a, D> = (&'a Context<<D as Driver>::Home>, <D as Driver>::Device);

impl<D: Driver> Gates<D> {
    /// The gates of a process that has launched nothing.
    pub const fn new(driver: D) -> Self {
        Self {
            driver,
            costs: Costs::new(),
            captures: Captures::new(),
            places: [const { Context::new() }; CONTEXTS],
            beyond: Context::new(),
            taken: AtomicU32::new(0),
            shared_events: AtomicU32::new(0),
        }
    }

    fn met(&self) -> impl Iterator<Item = &Context<D::Home>> {
        self.places.iter().take(self.taken.load(Relaxed) as usize)
    }

    /// Returns the current context's gate and device; none where nothing is counted.
    #[inline(always)]
    pub(super) fn current(&self) -> Option<Current<'_, D>> {
        let handle = self.driver.context();
        // All places are looked at: a context that has one has it among the first.
        match self.places.iter().find(|place| place.known.handle.load(Acquire) == handle) {
            Some(context) if handle > GONE => Some((context, context.known.device.get()?)),
            _ => self.enter(handle),
        }
    }

    /// Takes a place for a context that is met first.
    #[cold]
    #[inline(never)]
    fn enter(&self, handle: u64) -> Option<Current<'_, D>> {
        if handle <= GONE {
            return None;
        }
        let device = self.driver.device()?;
        let taken = self.places.iter().zip(1..).find(|(place, _)| place.take());
        let Some((place, count)) = taken else { return Some((&self.beyond, device)) };
        place.events.iter().for_each(|event| event.store(0, Relaxed));
        place.known.id.store(self.driver.context_id(), Relaxed);
        place.known.device.set(device);
        self.taken.fetch_max(count, SeqCst);
        place.known.handle.store(handle, SeqCst);
        Some((place, device))
    }

    /// Returns the life of the context's lane, where the calling thread's context still has that lane.
    #[inline(never)]
    pub(super) fn life(&self, context: &Context<D::Home>) -> u64 {
        let life = context.lane.life();
        let handle = context.known.handle.load(SeqCst);
        if self.driver.context() != handle || handle == 0 {
            return NO_LIFE;
        }
        if context.known.id.load(Relaxed) != self.driver.context_id() {
            // The context ended unseen, and its handle is another's by now.
            self.retire(&|retired| retired == handle).gone();
            return NO_LIFE;
        }
        life
    }

    /// True if the process ever had two contexts at once.
    #[inline(always)]
    pub(super) fn has_siblings(&self) -> bool {
        self.taken.load(Relaxed) > 1
    }

    /// Counts the process's other contexts that have work on the device after `now_ns`, and returns the time at which
    /// the last of it ends.
    #[inline(never)]
    pub(super) fn siblings(&self, (context, device): Current<'_, D>, now_ns: u64) -> (u32, u64) {
        let (mut count, mut until_ns) = (0_u32, 0);
        for place in self.met() {
            let ends_ns = place.lane.busy_until_ns.load(Relaxed);
            if ends_ns > now_ns
                && place.handle() > GONE
                && place.known.device.get().is_some_and(|other| other.is(device))
                && !core::ptr::eq(place, context)
            {
                count = count.saturating_add(1);
                until_ns = ends_ns.max(until_ns);
            }
        }
        (count, until_ns)
    }

    /// Closes the lanes of the contexts that are `retired` and waits until no thread is at their events. To be called
    /// before the driver is asked to end a context, whose events must not be used after that.
    ///
    /// Cost: a look at each context that has marks; where a thread is at an event, until it has returned.
    #[inline(never)]
    pub fn retire(&self, retired: &dyn Fn(u64) -> bool) -> Retiring<'_, D> {
        let mut lives = [(GONE, NO_LIFE); CONTEXTS];
        let give_up_ns = self.driver.now_ns().saturating_add(tuning::RETIRE_PATIENCE_NS);
        for (place, closed) in self.met().zip(&mut lives) {
            let handle = place.known.handle.load(SeqCst);
            if handle <= GONE || !retired(handle) {
                continue;
            }
            *closed = (handle, place.lane.close());
            while place.lane.is_claimed() && self.driver.now_ns() < give_up_ns {
                let look_ns = self.driver.now_ns().saturating_add(tuning::RETIRE_LOOK_NS);
                self.driver.sleep_until(look_ns);
            }
        }
        Retiring { gates: self, lives }
    }

    /// Returns a stream in one word: its handle, or its kind. Not for fast paths: a thread's number is a system call.
    #[inline(never)]
    pub fn stream_word(&self, stream: LaunchStream) -> u64 {
        match stream.handle {
            _ if stream.is_own() => OWN_STREAM | u64::from(self.driver.thread()),
            _ => stream.word(),
        }
    }

    /// True if the stream is being captured.
    ///
    /// Cost: one load while the process captures nothing.
    #[inline(always)]
    pub fn is_capturing(&self, stream: LaunchStream) -> bool {
        self.captures.any() && self.driver.is_captured(stream)
    }

    /// True if a capture is under way in the process.
    pub fn captures(&self) -> bool {
        self.captures.any()
    }

    /// Keeps captures from beginning while the answer lives; `None` where one is under way.
    pub fn undisturbed(&self) -> Option<Undisturbed<'_>> {
        self.captures.keep_out()
    }

    /// Runs `act`, which takes microseconds, so that no capture of this process is disturbed by the driver calls in it.
    pub fn relaxed<T>(&self, act: impl FnOnce() -> T) -> T {
        match self.captures.keep_out() {
            Some(_undisturbed) => act(),
            None => self.driver.relaxed(act),
        }
    }

    /// The same for what may take longer: captures begin meanwhile.
    pub fn beside_captures<T>(&self, act: impl FnOnce() -> T) -> T {
        self.driver.relaxed(act)
    }

    /// Counts a capture that is about to begin, and waits for calls of ours that it must not meet.
    #[inline(never)]
    pub fn capture_begins(&self) {
        self.captures.begin();
        let give_up_ns = self.driver.now_ns().saturating_add(tuning::CAPTURE_PATIENCE_NS);
        while !self.captures.quiet() && self.driver.now_ns() < give_up_ns {
            self.driver.sleep_until(self.driver.now_ns().saturating_add(tuning::CAPTURE_LOOK_NS));
        }
    }

    /// Takes the driver's answer to a capture that was about to begin.
    pub fn capture_begun(&self, has_begun: bool) {
        self.captures.begun(has_begun);
    }

    /// Counts captures that have ended.
    pub fn captures_ended(&self, captures: u32) {
        self.captures.end(captures);
    }
}

/// Flag in the word of a thread's own default stream, above the bits of a handle.
const OWN_STREAM: u64 = 1 << 63;

/// Contexts that may be about to go: no thread is at their events, and none comes to them, until [`Retiring::gone`] is
/// called, or this is dropped.
#[derive(Debug)]
#[must_use = "the contexts' marks go on when this is dropped"]
pub struct Retiring<'a, D: Driver> {
    gates: &'a Gates<D>,
    /// The context's handle and the life in which each place was closed.
    lives: [(u64, u64); CONTEXTS],
}

impl<'a, D: Driver> Retiring<'a, D> {
    fn closed(&self) -> impl Iterator<Item = (&'a Context<D::Home>, (u64, u64))> {
        self.gates.places.iter().zip(self.lives).filter(|(_, (_, life))| *life != NO_LIFE)
    }

    /// Notes that the contexts are gone, and with them their events.
    #[inline(never)]
    pub fn gone(self) {
        for (place, (handle, life)) in self.closed() {
            // The handle goes first, so that no thread finds the next life under the handle of this one. Where another
            // thread has ended this life too, the place may be another context's by now.
            if place.lane.life() == life {
                let _ = place.known.handle.compare_exchange(handle, GONE, SeqCst, Relaxed);
            }
            place.lane.end_life(life);
        }
    }
}

impl<D: Driver> Drop for Retiring<'_, D> {
    #[inline(never)]
    fn drop(&mut self) {
        // A life that has ended has nothing to open.
        self.closed().for_each(|(place, (_, life))| place.lane.reopen(life));
    }
}
