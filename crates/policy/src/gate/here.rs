//! A thread at the gate of its current context: what a lane asks of the driver and of the tenant's words where one call
//! of theirs does not tell it. All else a lane asks of them itself.
//!
//! Promises: our own events are recorded only on the stream the program launches on, or behind a whole context where
//! several are in use and nothing is being captured; nothing is recorded on a stream that is being captured; events are
//! made when they are first needed. Others at work on the device are counted on the slow path: the process's contexts,
//! the tenant's processes, and, where no daemon makes turns, those met at the device's board. Does not decide that a
//! launch goes: that is the lane's.

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::MAX_DEVICES;
use divvy_abi::config::{GateLine, gate};
use divvy_abi::usage::SHARED_SLOT;

use super::driver::{Device, Driver, LaunchStream, Terms, Words};
use super::elsewhere::{Elsewhere, Linked};
use super::inside::Inside;
use super::process::{Current, Gates};
use super::tuning;
use super::turn::{Had, Patience, Queued, Turned};
use crate::pace::Clock;

/// Value of a life that was not asked for yet: lives are counted from 0.
const UNASKED: u64 = u64::MAX - 1;

/// The words of a driver's devices.
pub(super) type WordsOf<D> = <<D as Driver>::Device as Device>::Words;

/// The work that an event was recorded behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behind {
    /// One stream's work.
    Stream,
    /// All of a context's work.
    Context,
}

/// A launch on a stream of a context.
#[derive(Debug)]
pub(super) struct Here<'a, D: Driver> {
    pub(super) gates: &'a Gates<D>,
    pub(super) current: Current<'a, D>,
    pub(super) words: WordsOf<D>,
    pub(super) stream: LaunchStream,
    /// True if marks stand behind all streams of the context, or nowhere.
    behind_all: bool,
    /// The lane's life, asked for when it is first needed: it takes two calls of the driver's, and a synchronisation
    /// that has returned needs none. [`UNASKED`] before.
    life: Cell<u64>,
}

impl<'a, D: Driver> Here<'a, D> {
    /// The calling thread at its current context, as [`Gates::current`] found it.
    pub(super) fn new(
        gates: &'a Gates<D>,
        current: Current<'a, D>,
        words: WordsOf<D>,
        stream: LaunchStream,
    ) -> Self {
        Self { gates, current, words, stream, behind_all: false, life: Cell::new(UNASKED) }
    }

    /// Returns the calling thread at its current context, on no stream.
    pub(super) fn behind_all(
        gates: &'a Gates<D>,
        current: Current<'a, D>,
        words: WordsOf<D>,
    ) -> Self {
        Self { behind_all: true, ..Self::new(gates, current, words, LaunchStream::NULL) }
    }

    fn device(&self) -> D::Device {
        self.current.1
    }

    /// Returns the limits as they are now.
    #[inline(never)]
    pub(super) fn terms(&self) -> Terms {
        self.device().terms()
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.gates.driver.now_ns()
    }

    /// Returns the tenant's turns, where a cap or the owner has its processes take them.
    pub(super) fn inside(&self) -> Option<Inside<WordsOf<D>>> {
        let device = self.device();
        let state = device.state();
        let has_turns = matches!(state, gate::TURNS | gate::SHARED_TURNS);
        let owned = || has_turns && self.words.gate_line().lease_ns > self.now_ns();
        let is_capped = device.terms().share_ppm != 0;
        let takes_turns = is_capped || owned();
        // Turns are never shared without an owner: that is untried since processes of a tenant do not meet.
        let may_share = state == gate::SHARED_TURNS || is_capped && state != gate::FREE;
        if takes_turns { Inside::of(self.words, may_share, || self.now_ns()) } else { None }
    }

    /// Counts the tenant's processes whose work is beside this one's after `since_ns`.
    fn others_beside(&self, inside: Option<Inside<WordsOf<D>>>, since_ns: u64) -> u32 {
        let but = inside.map_or(SHARED_SLOT, |inside| inside.next());
        self.words.others_at_work(since_ns, but)
    }

    /// True if no other tenant was met of late.
    pub(super) fn is_alone(&self, now_ns: u64) -> bool {
        self.device().meeting().is_alone(now_ns)
    }

    /// True if the tenant has other devices.
    fn has_others(&self) -> bool {
        self.words.beside(1).is_some()
    }

    /// Returns the words of the tenant's other devices.
    fn others(&self) -> impl Iterator<Item = (usize, WordsOf<D>)> {
        let own: *const _ = self.words.busy_until_ns();
        let all = (0..MAX_DEVICES).map_while(|nth| Some((nth, self.words.beside(nth)?)));
        all.filter(move |(_, words)| !core::ptr::eq(words.busy_until_ns(), own))
    }

    /// Returns the owner's line as it is now, with those counted of whom the owner does not know.
    #[inline(never)]
    pub(super) fn line(&self) -> GateLine {
        let mut line = self.words.gate_line();
        let now_ns = self.now_ns();
        let (contexts, _) = self.gates.siblings(self.current, now_ns);
        let inside = self.inside();
        line.epoch ^= inside.map_or(0, |inside| inside.last() << 32);
        let others = contexts.saturating_add(self.others_beside(inside, now_ns));
        let others = others.max(self.device().meeting().others());
        line.active = line.active.max(others.saturating_add(1));
        // A cap that closes for a shorter time does not show that devices wait for each other.
        if self.has_others() && line.active <= 1 || !self.is_alone(now_ns) {
            line.quantum_ns = line.quantum_ns.max(tuning::MEET_QUANTUM_NS);
        }
        if self.is_linked(now_ns) {
            line.quantum_ns = line.quantum_ns.max(tuning::LINKED_QUANTUM_NS);
        }
        line
    }

    /// True if work of the tenant here and on another device has waited for each other of late.
    pub(super) fn is_linked(&self, now_ns: u64) -> bool {
        self.has_others() && Linked(&self.words).is_linked(now_ns)
    }

    /// Returns the state of the tenant's other devices.
    #[inline(never)]
    pub(super) fn elsewhere(&self, now_ns: u64) -> Elsewhere {
        let mut seen = Elsewhere::default();
        if self.has_others() {
            seen.is_linked = Linked(&self.words).is_linked(now_ns);
            if self.terms().share_ppm == 0 && self.words.closed_until_ns() != 0 {
                // The time is of a cap that was taken away: it binds no other device.
                self.words.set_closed_until_ns(0);
            }
            self.others().for_each(|(nth, words)| seen.add(nth, &Linked(&words), now_ns));
        }
        seen
    }

    /// Notes that work of these devices of the tenant has waited for this one's.
    #[cold]
    pub(super) fn link(&self, devices: u32, now_ns: u64) {
        Linked(&self.words).link(now_ns);
        let linked = self.others().filter(|(nth, _)| devices >> nth & 1 != 0);
        linked.for_each(|(_, words)| Linked(&words).link(now_ns));
    }

    /// True if no other context of the process, process of the tenant or tenant that is met has had work on the device
    /// since then, as far as is known.
    pub(super) fn is_alone_since(&self, since_ns: u64) -> bool {
        self.is_alone(self.now_ns())
            && self.gates.siblings(self.current, since_ns).0 == 0
            && self.others_beside(self.inside(), since_ns) == 0
    }

    /// True if the tenant's processes take turns.
    pub(super) fn has_turns(&self) -> bool {
        self.inside().is_some()
    }

    /// Waits while the gate's word is `state`, at most until `deadline_ns`.
    pub(super) fn wait(&self, state: u32, deadline_ns: u64) {
        let t_open_ns = if state == gate::CLOSED { self.line().t_open_ns } else { 0 };
        let now_ns = self.now_ns();
        let open_ns = t_open_ns.saturating_add(tuning::SPIN_NS);
        if t_open_ns > now_ns.saturating_add(tuning::SPIN_NS) {
            self.words.wait(state, deadline_ns.min(t_open_ns.saturating_sub(tuning::SPIN_NS)));
        } else if open_ns > now_ns {
            // Short steps without sleep, up to just after the gate should have opened.
            while self.device().state() == state && self.now_ns() < open_ns {
                self.gates.driver.spin();
            }
        } else {
            self.words.wait(state, deadline_ns);
        }
    }

    /// Asks for the tenant's turn among its processes, as [`Inside::ask`].
    ///
    /// # Errors
    /// A place in the queue for it.
    #[inline(never)]
    pub(super) fn ask_turn(
        &self,
        now_ns: u64,
        had: Had,
        patience: &mut Patience,
    ) -> Result<Turned, Queued> {
        self.inside().map_or(Ok(Turned::GoesOn), |inside| inside.ask(now_ns, had, patience))
    }

    /// Keeps the tenant's turn while the calling thread waits until `until_ns` for the cap or something else.
    #[inline(never)]
    pub(super) fn keep_turn(&self, until_ns: u64, is_cap: bool) {
        if let Some(inside) = self.inside() {
            inside.keep(until_ns, is_cap);
        }
    }

    /// Asks for the device where no owner makes turns, for what is in flight and a launch of `next_ns`: 0 when it may
    /// be used, else when to ask again.
    #[inline(never)]
    pub(super) fn ask_device(&self, now_ns: u64, next_ns: u64) -> u64 {
        let busy_until_ns = self.words.busy_until_ns().load(Relaxed);
        let device = self.device();
        device.meeting().ask(now_ns, busy_until_ns, next_ns, || device.board())
    }

    /// Lets the device go: nothing more will be submitted for a while.
    #[inline(never)]
    pub(super) fn leave_device(&self) {
        let busy_until_ns = self.words.busy_until_ns().load(Relaxed);
        let device = self.device();
        device.meeting().leave(busy_until_ns, || device.board());
    }

    /// Publishes that work in flight should have ended; true if any reader needs that.
    pub(super) fn note_late(&self, now_ns: u64) -> bool {
        let has_others = self.has_others();
        if has_others {
            Linked(&self.words).note_late(now_ns);
        }
        has_others
    }

    /// Returns the life of the lane in which the calling thread found its context; [`super::lives::NO_LIFE`] where it
    /// cannot tell. A thread with another life neither marks nor measures.
    pub(super) fn life(&self) -> u64 {
        if self.life.get() == UNASKED {
            self.life.set(self.gates.life(self.current.0));
        }
        self.life.get()
    }

    /// Records event `event` behind all work that the calling thread's launch follows on its stream, or, `whole`,
    /// behind all of the context's work where the driver can; `None` where it refuses, or the stream is being captured.
    pub(super) fn record(&self, event: u32, whole: bool) -> Option<Behind> {
        let (gates, (context, _)) = (self.gates, self.current);
        let driver = &gates.driver;
        let event = context.make_event(event, || driver.create_event())?;
        let record = || driver.record(event, self.stream).then_some(Behind::Stream);
        // Captures that another thread is about to begin wait; a capture that waits no longer may be this stream's.
        let _held = gates.captures.hold();
        if gates.captures.any() {
            let may_record = !self.behind_all
                && !gates.captures.is_any_about_to_begin()
                && !gates.is_capturing(self.stream);
            return may_record.then(|| gates.relaxed(record)).flatten();
        }
        let behind_all =
            || driver.record_context(context.handle(), event).then_some(Behind::Context);
        match (self.behind_all, whole) {
            (true, _) => behind_all(),
            (false, true) => behind_all().or_else(record),
            (false, false) => record(),
        }
    }

    /// True if the event has completed. An error counts as completed.
    pub(super) fn is_done(&self, event: u32) -> bool {
        let gates = self.gates;
        let event = self.current.0.event(event);
        event.is_none_or(|event| gates.relaxed(|| gates.driver.is_done(event)))
    }

    /// Returns the device time from one completed event to another, negative if the second came first.
    pub(super) fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64> {
        let (gates, (context, _)) = (self.gates, self.current);
        let (from, to) = (context.event(from)?, context.event(to)?);
        gates.relaxed(|| gates.driver.elapsed_ns(from, to))
    }
}
