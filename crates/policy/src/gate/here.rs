//! A thread at the gate of its current context: a lane's questions go to the driver and to the tenant's words.
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
use divvy_abi::usage::{SHARED_SLOT, gate as slot};

use super::driver::{Device, Driver, LaunchStream, Words};
use super::elsewhere::Elsewhere;
use super::inside::Inside;
use super::linked::{LINKED_QUANTUM_NS, Linked};
use super::process::{Current, Gates};
use super::times::{CHUNK_NS, SHARED_CHUNK_NS};
use super::turn::{Had, Patience, Queued, Turned};
use super::world::{Access, Behind, Marks, Published, Terms, Time};
use crate::pace::Clock;

/// Time for which a waiter spins before its gate is expected to open.
const SPIN_NS: u64 = 150_000;

/// Device time of a turn of tenants that meet: switches cost time.
const SHARED_QUANTUM_NS: u64 = 20_000_000;

/// Value of a life that was not asked for yet: lives are counted from 0.
const UNASKED: u64 = u64::MAX - 1;

/// The words of a driver's devices.
pub(super) type WordsOf<D> = <<D as Driver>::Device as Device>::Words;

/// A launch on a stream of a context.
#[derive(Debug)]
pub(super) struct Here<'a, D: Driver> {
    pub(super) gates: &'a Gates<D>,
    pub(super) current: Current<'a, D>,
    words: WordsOf<D>,
    stream: LaunchStream,
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

    /// Returns the tenant's turns, where a cap or the owner has its processes take them.
    fn inside(&self) -> Option<Inside<WordsOf<D>>> {
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

    fn is_alone(&self, now_ns: u64) -> bool {
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
}

impl<D: Driver> Time for Here<'_, D> {
    fn now_ns(&self) -> u64 {
        self.gates.driver.now_ns()
    }
    fn sleep_until(&self, deadline_ns: u64) {
        self.gates.driver.sleep_until(deadline_ns);
    }
    fn spin(&self) {
        self.gates.driver.spin();
    }
}

impl<D: Driver> Access for Here<'_, D> {
    fn terms(&self) -> Terms {
        self.device().terms()
    }
    #[inline(never)]
    fn line(&self) -> GateLine {
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
            line.quantum_ns = line.quantum_ns.max(SHARED_QUANTUM_NS);
        }
        if self.is_linked(now_ns) {
            line.quantum_ns = line.quantum_ns.max(LINKED_QUANTUM_NS);
        }
        line
    }
    fn is_linked(&self, now_ns: u64) -> bool {
        self.has_others() && Linked(&self.words).is_linked(now_ns)
    }
    #[inline(never)]
    fn elsewhere(&self, now_ns: u64) -> Elsewhere {
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
    fn ahead_ns(&self, now_ns: u64) -> u64 {
        Linked(&self.words).ahead_ns(now_ns)
    }
    #[cold]
    fn add_ahead(&self, ns: u64, now_ns: u64) {
        Linked(&self.words).add_ahead(ns, now_ns);
    }
    #[cold]
    fn link(&self, devices: u32, now_ns: u64) {
        Linked(&self.words).link(now_ns);
        let linked = self.others().filter(|(nth, _)| devices >> nth & 1 != 0);
        linked.for_each(|(_, words)| Linked(&words).link(now_ns));
    }
    fn is_alone_since(&self, since_ns: u64) -> bool {
        self.is_alone(self.now_ns())
            && self.gates.siblings(self.current, since_ns).0 == 0
            && self.others_beside(self.inside(), since_ns) == 0
    }
    fn is_waited_in(&self) -> bool {
        self.words.own(slot::SLEEPERS).load(Relaxed) != 0
    }
    fn has_turns(&self) -> bool {
        self.inside().is_some()
    }
    fn wait(&self, state: u32, deadline_ns: u64) {
        let t_open_ns = if state == gate::CLOSED { self.line().t_open_ns } else { 0 };
        let now_ns = self.now_ns();
        let open_ns = t_open_ns.saturating_add(SPIN_NS);
        if t_open_ns > now_ns.saturating_add(SPIN_NS) {
            self.words.wait(state, deadline_ns.min(t_open_ns.saturating_sub(SPIN_NS)));
        } else if open_ns > now_ns {
            // Short steps without sleep, up to just after the gate should have opened.
            while self.device().state() == state && self.now_ns() < open_ns {
                self.spin();
            }
        } else {
            self.words.wait(state, deadline_ns);
        }
    }
    #[inline(never)]
    fn ask_turn(&self, now_ns: u64, had: Had, patience: &mut Patience) -> Result<Turned, Queued> {
        self.inside().map_or(Ok(Turned::GoesOn), |inside| inside.ask(now_ns, had, patience))
    }
    fn wait_for_turn(&self, queued: Queued, deadline_ns: u64) {
        self.words.wait_for_turn(queued.turn, deadline_ns);
    }
    fn unsettled_since_ns(&self, own_ns: u64, now_ns: u64) -> u64 {
        self.inside().map_or(own_ns, |inside| inside.unsettled_since_ns(own_ns, now_ns))
    }
    #[inline(never)]
    fn keep_turn(&self, until_ns: u64, is_cap: bool) {
        if let Some(inside) = self.inside() {
            inside.keep(until_ns, is_cap);
        }
    }
    #[inline(never)]
    fn ask_device(&self, now_ns: u64, next_ns: u64) -> u64 {
        let busy_until_ns = self.words.busy_until_ns().load(Relaxed);
        let device = self.device();
        device.meeting().ask(now_ns, busy_until_ns, next_ns, || device.board())
    }
    fn chunk_ns(&self, now_ns: u64) -> u64 {
        if self.is_alone(now_ns) { CHUNK_NS } else { SHARED_CHUNK_NS }
    }
    #[inline(never)]
    fn leave_device(&self) {
        let busy_until_ns = self.words.busy_until_ns().load(Relaxed);
        let device = self.device();
        device.meeting().leave(busy_until_ns, || device.board());
    }
}

impl<D: Driver> Published for Here<'_, D> {
    type Clock = WordsOf<D>;

    fn clock(&self) -> &Self::Clock {
        &self.words
    }
    #[inline(never)]
    fn set_busy_until_ns(&self, until_ns: u64) {
        let (_, others_ns) = self.gates.siblings(self.current, 0);
        self.words.busy_until_ns().store(until_ns.max(others_ns), Relaxed);
    }
    fn note_late(&self, now_ns: u64) -> bool {
        let has_others = self.has_others();
        if has_others {
            Linked(&self.words).note_late(now_ns);
        }
        has_others
    }
    fn note_want(&self, now_ns: u64) {
        self.words.note_want(now_ns);
    }
    fn note_launch(&self, now_ns: u64) {
        self.words.note_launch(now_ns);
    }
    fn add_used(&self, ns: i64) {
        self.words.add_used(ns);
    }
    fn count_launches(&self, launches: u64) {
        self.words.count_launches(launches);
    }
    #[inline(never)]
    fn note_length(&self, ns: u64) {
        self.words.note_length(ns);
    }
    fn add_throttled(&self, ns: u64) {
        self.words.add_throttled(ns);
    }
    fn add_waited(&self, ns: u64) {
        self.words.add_waited(ns);
    }
    fn count_drain_given_up(&self, is_stuck: bool) {
        self.words.count_drain_given_up();
        if let Some(inside) = self.inside().filter(|_| is_stuck) {
            inside.drain_given_up(self.now_ns());
        }
    }
}

impl<D: Driver> Marks for Here<'_, D> {
    fn life(&self) -> u64 {
        if self.life.get() == UNASKED {
            self.life.set(self.gates.life(self.current.0));
        }
        self.life.get()
    }
    fn stripe(&self) -> usize {
        self.gates.driver.stripe()
    }
    fn stream(&self) -> u64 {
        self.gates.stream_word(self.stream)
    }
    fn record(&self, event: u32, whole: bool) -> Option<Behind> {
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
    fn is_done(&self, event: u32) -> bool {
        let gates = self.gates;
        let event = self.current.0.event(event);
        event.is_none_or(|event| gates.relaxed(|| gates.driver.is_done(event)))
    }
    fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64> {
        let (gates, (context, _)) = (self.gates, self.current);
        let (from, to) = (context.event(from)?, context.event(to)?);
        gates.relaxed(|| gates.driver.elapsed_ns(from, to))
    }
}
