//! One context's launches: credit, marks, and the waits before a launch.
//!
//! A thread that records or settles marks holds the lane's claim ([`super::claim`]), which nobody waits
//! for: whoever finds it taken goes on without marks, and what it submits is measured by the next mark
//! of another. What marks and probes are is `measure`'s.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{GateLine, gate};

use super::claim::Claims;
use super::credit::{Credit, Paid, signed};
use super::marks::{Probes, Ring};
use super::{
    CHUNK_NS, DRAIN_PATIENCE_NS, HORIZON_NS, QUANTUM_NS, Terms, UNKNOWN_NS, WANT_EVERY_NS, World,
};
use crate::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::cost::Costs;
use crate::pace::{Admission, Cap};

/// Below this a horizon counts the launch to come.
const SHORT_HORIZON_NS: u64 = 1_000_000;

/// What a sleeper may take to be awake.
const WAKE_NS: u64 = 150_000;

/// Time after which work that should have ended is looked at.
const SETTLE_NS: u64 = 20_000;

/// How much sooner than expected all that is in flight may end.
const UNSURE_NS: u64 = 200_000;

/// A turn that its owner has not ended so long after its planned end goes on.
const OVERTIME_NS: u64 = 500_000;

/// Part of itself that long work may take longer than was expected.
const LATE_PART: u64 = 32;
/// Work that ends so soon is looked at often.
const OFTEN_NS: u64 = 1_000_000;

/// Launches on the slow path after which a long one is half forgotten, and half as many again.
const LONG_LASTS: u64 = 64;

/// What work that should have ended is given at a time.
const OVERDUE_NS: u64 = 100_000;

/// Launches of unknown length that may be in flight.
const UNKNOWN_AT_ONCE: u32 = 2;

/// The launches of one context.
#[derive(Debug)]
pub struct Lane {
    /// Credit in hand.
    pub(super) credit: Credit,
    /// What was submitted before the newest point that is known to have completed.
    pub(super) done_ns: AtomicU64,
    /// When the work in flight will have ended.
    pub(super) busy_until_ns: AtomicU64,
    /// What the longest launch of late costs.
    pub(super) long_ns: AtomicU64,
    /// Launches of unknown length in flight.
    pub(super) unknown: AtomicU32,
    /// What ends a measured span happened since the last mark.
    pub(super) broken: AtomicBool,
    /// Held while marks are recorded or settled.
    pub(super) claims: Claims,
    pub(super) ring: Ring,
    pub(super) probes: Probes,
    /// One more than the event of the settled mark that completed last; 0 for none.
    pub(super) anchor: AtomicU32,
    /// What had been submitted before the mark that was settled last.
    pub(super) settled_ns: AtomicU64,
    /// What had been submitted before the mark that was recorded last.
    pub(super) marked_ns: AtomicU64,
    /// Stream of the slow path's last launch, and how many more launches on one stream make the lane
    /// count as having only that one.
    pub(super) stream: AtomicU64,
    pub(super) streams_mixed: AtomicU32,
    /// When the next short kernel is probed, and how often that is done beyond the least.
    pub(super) probe_at_ns: AtomicU64,
    pub(super) probe_later_ns: AtomicU64,
    /// State of the generator that spreads probes.
    pub(super) random: AtomicU64,
}

/// A launch that may go: what is to be done once the driver has it.
#[derive(Debug)]
#[must_use = "the launch must be reported by `Lane::launched`"]
pub struct Ticket {
    pub(super) key: u64,
    pub(super) charged_ns: u64,
    pub(super) is_unknown: bool,
    /// Work is in flight whose end is to be seen. What follows a synchronisation is marked by the next
    /// launch that comes here, if it has not been synchronised by then: a mark delays who waits.
    pub(super) is_marked: bool,
    /// The event recorded before it, and the host's time after that.
    pub(super) probed: Option<Probed>,
    /// The turn it is in.
    pub(super) epoch: u64,
    /// Contexts that worked on the device when it was let go.
    pub(super) sharers: u32,
}

/// The first half of a probe. The event is the ticket's until it is a mark's, or given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probed {
    pub(super) event: u32,
    pub(super) at_ns: u64,
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

impl Lane {
    /// Nothing submitted yet.
    pub const fn new() -> Self {
        Self {
            credit: Credit::new(),
            done_ns: AtomicU64::new(0),
            busy_until_ns: AtomicU64::new(0),
            long_ns: AtomicU64::new(0),
            unknown: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            claims: Claims::new(),
            ring: Ring::new(),
            probes: Probes::new(),
            anchor: AtomicU32::new(0),
            settled_ns: AtomicU64::new(0),
            marked_ns: AtomicU64::new(0),
            stream: AtomicU64::new(0),
            streams_mixed: AtomicU32::new(0),
            probe_at_ns: AtomicU64::new(0),
            probe_later_ns: AtomicU64::new(0),
            random: AtomicU64::new(0),
        }
    }

    /// Pays for a launch from the chunk in hand, and counts it; [`Paid::Not`] when there is not enough,
    /// or nothing or little is known of the launch.
    ///
    /// Cost: a look-up and a change of a word in a line of the calling thread's own.
    #[inline]
    pub fn take(&self, costs: &Costs, key: u64, stripe: usize) -> Paid {
        match costs.firm(key) {
            Some(cost_ns) => self.credit.spend(stripe, signed(cost_ns)),
            None => Paid::Not,
        }
    }

    /// Estimate of all that was submitted, in nanoseconds, since the lane began.
    pub fn submitted_ns(&self) -> u64 {
        self.credit.submitted_ns()
    }

    /// The launches paid from a stripe's credit since this was asked last, or since [`Lane::admit`], but
    /// for a [`Paid::First`].
    pub fn take_launches(&self, stripe: usize) -> u64 {
        self.credit.take_launches(stripe)
    }

    /// Waits until a launch may go, takes the next chunk of credit, and begins a probe where one is due.
    pub fn admit<W: World>(&self, world: &W, costs: &Costs, key: u64) -> Ticket {
        let mut drain = Drain::default();
        self.note_long(costs.get(key));
        let (now_ns, terms, line, room_ns, submitted_ns) = loop {
            let now_ns = world.now_ns();
            let terms = world.terms();
            let line = world.line();
            self.settle(world, costs, &line);
            // Before the turn: who may not use it must not be given it.
            if let Some(cap) = self.cap(terms, &line)
                && let Admission::Closed { until_ns } = cap.admit(world.clock(), now_ns)
            {
                self.wait(world, costs, now_ns, Wait::Cap(until_ns), &line);
                continue;
            }
            // What an owner has left behind is nobody's.
            let is_owned = line.gate != gate::FREE && now_ns < line.lease_ns;
            let closed = is_owned && line.gate == gate::CLOSED;
            if terms.paused || closed {
                let what = if terms.paused { Wait::Pause } else { Wait::Turn };
                self.wait(world, costs, now_ns, what, &line);
                continue;
            }
            // An owner that makes turns leaves no gate free.
            if terms.share_ppm != 0 && !is_owned {
                let again_ns = world.ask_device(now_ns, costs.get(key).unwrap_or(0));
                if again_ns != 0 {
                    self.wait(world, costs, now_ns, Wait::Device(again_ns), &line);
                    continue;
                }
            }
            let horizon_ns = horizon_ns(&line, now_ns);
            let next = costs.get(key);
            // Once: all threads' stripes are read, and each of them misses its own once for that.
            let submitted_ns = self.submitted_ns();
            if self.wait_for_horizon(world, now_ns, submitted_ns, horizon_ns, next, &mut drain) {
                continue;
            }
            break (now_ns, terms, line, horizon_ns.min(world.chunk_ns(now_ns)), submitted_ns);
        };
        let known_ns = costs.get(key);
        let charged_ns = known_ns.unwrap_or(UNKNOWN_NS);
        let is_drained = submitted_ns <= self.done_ns.load(Relaxed) && self.ring.pending() == 0;
        // What was submitted since the last mark may still run.
        let all_marked = is_drained || submitted_ns <= self.marked_ns.load(Relaxed);
        // What others have in hand is in advance already; who finds much there takes less.
        let others_ns = self.credit.others_left_ns(world.stripe(), submitted_ns);
        let room_ns = room_ns.saturating_sub(others_ns).max(room_ns / 4);
        self.draw(world, terms, &line, now_ns, charged_ns, room_ns);
        if known_ns.is_none() {
            self.unknown.fetch_add(1, Relaxed);
        }
        let mut ticket = Ticket {
            key,
            charged_ns,
            is_unknown: known_ns.is_none(),
            is_marked: known_ns.is_none() || !is_drained,
            probed: None,
            epoch: line.epoch,
            sharers: line.active,
        };
        ticket.probed = self.probe(world, now_ns, costs.firm(key), all_marked);
        ticket
    }

    /// Takes a chunk of credit that covers `charged_ns`, and no more than `room_ns` where that is more,
    /// and spends `charged_ns`.
    fn draw<W: World>(
        &self,
        world: &W,
        terms: Terms,
        line: &GateLine,
        now_ns: u64,
        charged_ns: u64,
        room_ns: u64,
    ) {
        let stripe = world.stripe();
        let left_ns = self.credit.left_ns(stripe);
        // Spread, so that chunks do not end at the same place of a loop each time.
        let spread_ns = CHUNK_NS / 2 + self.random() % CHUNK_NS;
        let chunk_ns = charged_ns.max(spread_ns.min(room_ns)).saturating_sub(left_ns);
        self.credit.take(stripe, chunk_ns, charged_ns);
        self.charge(world, terms, line, now_ns, signed(chunk_ns));
        let ahead_ns = self.busy_until_ns.load(Relaxed).max(now_ns);
        // One long launch may take longer than was expected; who waits for it sees when it ends.
        let late_ns = if charged_ns < OFTEN_NS { 0 } else { charged_ns / LATE_PART };
        self.set_busy_until(world, ahead_ns.saturating_add(chunk_ns).saturating_add(late_ns));
        world.note_launch(now_ns);
        world.count_launches(self.credit.take_launches(stripe).saturating_add(1));
    }

    fn set_busy_until<W: World>(&self, world: &W, until_ns: u64) {
        self.busy_until_ns.store(until_ns, Relaxed);
        world.set_busy_until_ns(until_ns);
    }

    /// Waits for the cap, for a turn or the end of a pause, or for others that have the device where
    /// they share it among themselves.
    fn wait<W: World>(&self, world: &W, costs: &Costs, now_ns: u64, what: Wait, line: &GateLine) {
        // Behind work that has ended a mark would have the device to itself, which takes it from who
        // has it now for two switches of contexts.
        let is_alone = line.gate == gate::FREE && matches!(what, Wait::Cap(_) | Wait::Pause);
        let surely_ns = self.busy_until_ns.load(Relaxed).saturating_sub(UNSURE_NS);
        if is_alone || self.ring.pending() != 0 || now_ns <= surely_ns {
            self.close_burst(world, costs, line);
        }
        // Exact from here on: whatever was promised for the rest of a chunk is not submitted.
        self.narrow(world, now_ns);
        let (until_ns, at_most_ns) = match what {
            // The owner wakes those who wait when it changes a limit.
            Wait::Cap(until_ns) => {
                world.leave_device();
                (until_ns, 5 * WANT_EVERY_NS)
            }
            Wait::Turn => {
                world.note_want(now_ns);
                (line.lease_ns, WANT_EVERY_NS)
            }
            Wait::Pause => (u64::MAX, WANT_EVERY_NS),
            Wait::Device(until_ns) => (until_ns, WANT_EVERY_NS),
        };
        // Woken when the work in flight should have ended, to say so or for how much longer it runs; it
        // may turn out to be worth less than it was charged.
        let deadline_ns = until_ns.min(now_ns.saturating_add(at_most_ns));
        world.wait(line.gate, deadline_ns.min(self.settled_at_ns(now_ns)));
        let is_cap = matches!(what, Wait::Cap(_));
        let line = if is_cap { &world.line() } else { line };
        self.settle(world, costs, line);
        let waited_ns = world.now_ns().saturating_sub(now_ns);
        if is_cap { world.add_throttled(waited_ns) } else { world.add_waited(waited_ns) }
    }

    /// When the marks that have not completed are worth a look; never when there are none.
    fn settled_at_ns(&self, now_ns: u64) -> u64 {
        if self.ring.pending() == 0 {
            return u64::MAX;
        }
        // Halfway, and halfway again, then often: it may end earlier than was expected.
        let left_ns = self.busy_until_ns.load(Relaxed).saturating_sub(now_ns);
        let look_ns =
            if left_ns < OFTEN_NS { (left_ns / 2).min(OFTEN_NS / 16) } else { left_ns / 2 };
        now_ns.saturating_add(look_ns).saturating_add(SETTLE_NS)
    }

    /// Bounds the time in flight; true after a wait.
    fn wait_for_horizon<W: World>(
        &self,
        world: &W,
        now_ns: u64,
        submitted_ns: u64,
        horizon_ns: u64,
        next_ns: Option<u64>,
        drain: &mut Drain,
    ) -> bool {
        let crowded = next_ns.is_none() && self.unknown.load(Relaxed) >= UNKNOWN_AT_ONCE;
        let ahead_ns = self.in_flight_ns(now_ns, submitted_ns);
        // A short horizon is there for somebody who waits: the launch to come counts as well.
        let next_ns = if horizon_ns < SHORT_HORIZON_NS { next_ns.unwrap_or(0) } else { 0 };
        let fits = ahead_ns == 0 || ahead_ns.saturating_add(next_ns) <= horizon_ns;
        if fits && !crowded {
            return false;
        }
        if self.ring.pending() == 0 {
            // Nothing would show when it drains.
            self.unknown.store(0, Relaxed);
            if ahead_ns > horizon_ns {
                self.count_as_done(world, now_ns);
            }
            return false;
        }
        let done_ns = self.done_ns.load(Relaxed);
        if drain.deadline_ns == 0 || drain.done_ns != done_ns {
            let patience_ns = ahead_ns.saturating_add(DRAIN_PATIENCE_NS);
            let deadline_ns = now_ns.saturating_add(patience_ns);
            *drain = Drain { since_ns: now_ns, deadline_ns, done_ns };
        }
        if now_ns >= drain.deadline_ns {
            // Kernels that wait for this very launch: it must go.
            world.count_drain_given_up();
            self.unknown.store(0, Relaxed);
            self.count_as_done(world, now_ns);
            *drain = Drain::default();
            return false;
        }
        // Beside others it takes longer than was expected, and is in flight for as long.
        self.narrow(world, now_ns);
        let excess_ns = ahead_ns.saturating_add(next_ns).saturating_sub(horizon_ns);
        // What has not drained for long is looked at more rarely.
        let waited_ns = now_ns.saturating_sub(drain.since_ns);
        let look_ns = excess_ns.max(waited_ns / 8).clamp(5_000, 1_000_000);
        let until_ns = now_ns.saturating_add(look_ns);
        // So little is in flight under a short horizon that the device would be idle before a sleeper
        // is awake.
        if horizon_ns < SHORT_HORIZON_NS && excess_ns < WAKE_NS {
            world.spin_until(until_ns);
        } else {
            world.sleep_until(until_ns);
        }
        true
    }

    fn note_long(&self, cost_ns: Option<u64>) {
        let before_ns = self.long_ns.load(Relaxed);
        let faded_ns = before_ns.saturating_sub(before_ns / LONG_LASTS);
        self.long_ns.store(faded_ns.max(cost_ns.unwrap_or(0)), Relaxed);
    }

    /// The tenant's cap. Who waits for its turn must not lose what its cap saves up meanwhile, up to
    /// a launch as long as any of late and the next like it.
    fn cap(&self, terms: Terms, line: &GateLine) -> Option<Cap> {
        let saved_ns = match line.gate {
            gate::FREE => 0,
            _ => self.long_ns.load(Relaxed).saturating_mul(2),
        };
        let quantum_ns = line.quantum_ns.max(QUANTUM_NS).max(saved_ns);
        (terms.share_ppm != 0).then_some(Cap { share_ppm: terms.share_ppm, quantum_ns })
    }

    /// Charges the tenant, against its cap where it has one.
    pub(super) fn charge<W: World>(
        &self,
        world: &W,
        terms: Terms,
        line: &GateLine,
        now_ns: u64,
        ns: i64,
    ) {
        world.add_used(ns);
        if let Some(cap) = self.cap(terms, line) {
            cap.charge(world.clock(), now_ns, ns);
        }
    }

    /// Takes all that was submitted for ended.
    fn count_as_done<W: World>(&self, world: &W, now_ns: u64) {
        self.done_ns.store(self.submitted_ns(), Relaxed);
        self.set_busy_until(world, now_ns);
    }

    /// Work in flight: what the model says, bounded by what marks have shown.
    fn in_flight_ns(&self, now_ns: u64, submitted_ns: u64) -> u64 {
        let upper_ns = submitted_ns.saturating_sub(self.done_ns.load(Relaxed));
        let model_ns = self.busy_until_ns.load(Relaxed).saturating_sub(now_ns);
        let lower_ns = match self.ring.oldest() {
            // The oldest mark has not completed: what came after it is in flight at least.
            Some((_, mark)) => submitted_ns.saturating_sub(mark.submitted_ns),
            None => 0,
        };
        model_ns.min(upper_ns).max(lower_ns.min(upper_ns))
    }

    /// Publishes how long the work in flight takes from now on, no more than was submitted; a moment
    /// longer where a mark shows that it takes longer than was expected.
    fn narrow<W: World>(&self, world: &W, now_ns: u64) {
        let left_ns = match self.in_flight_ns(now_ns, self.submitted_ns()) {
            0 if self.ring.pending() != 0 => OVERDUE_NS,
            left_ns => left_ns,
        };
        self.set_busy_until(world, now_ns.saturating_add(left_ns));
    }

    /// What had been submitted before `submitted_ns` has completed: a synchronisation has returned.
    pub fn drained<W: World>(&self, world: &W, submitted_ns: u64) {
        self.done_ns.fetch_max(submitted_ns, Relaxed);
        self.unknown.store(0, Relaxed);
        let now_ns = world.now_ns();
        let left_ns = self.submitted_ns().saturating_sub(self.done_ns.load(Relaxed));
        self.set_busy_until(world, now_ns.saturating_add(left_ns));
    }

    /// Forgets all marks: their events are gone with the context. The caller has the claim.
    pub(super) fn forget_marks(&self) {
        let submitted_ns = self.submitted_ns();
        self.ring.clear();
        self.anchor.store(0, Relaxed);
        for word in [&self.settled_ns, &self.marked_ns, &self.done_ns] {
            word.store(submitted_ns, Relaxed);
        }
        self.unknown.store(0, Relaxed);
        self.busy_until_ns.store(0, Relaxed);
    }

    /// When the work in flight will have ended, as far as this lane can tell.
    pub fn busy_until_ns(&self) -> u64 {
        self.busy_until_ns.load(Relaxed)
    }

    /// Whether launches came on one stream alone of late, so that its end is the end of all.
    pub fn has_one_stream(&self) -> bool {
        self.streams_mixed.load(Relaxed) == 0
    }

    /// Something that is no work of the device's lies between the launches: the span ends here.
    pub fn break_span(&self) {
        self.broken.store(true, Relaxed);
    }
}

/// Work that may be in flight at `now_ns`: none beyond the planned end of a turn, unless the owner lets
/// it go on.
fn horizon_ns(line: &GateLine, now_ns: u64) -> u64 {
    let horizon_ns = if line.horizon_ns == 0 { HORIZON_NS } else { line.horizon_ns };
    let in_turn = line.gate == gate::TIMED
        && line.turn_end_ns != 0
        && now_ns < line.turn_end_ns.saturating_add(OVERTIME_NS);
    if in_turn { horizon_ns.min(line.turn_end_ns.saturating_sub(now_ns)) } else { horizon_ns }
}

/// What a launch waits for, and when it is to ask again.
#[derive(Clone, Copy)]
enum Wait {
    Cap(u64),
    Turn,
    Pause,
    Device(u64),
}

/// Progress of one thread's wait for work to drain.
#[derive(Clone, Copy, Default)]
struct Drain {
    since_ns: u64,
    deadline_ns: u64,
    done_ns: u64,
}
