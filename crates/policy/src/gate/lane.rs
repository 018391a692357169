//! One context's launches: credit, marks, and the waits before a launch.
//!
//! A thread that records or settles marks holds the lane's claim, a flag that nobody waits for: whoever
//! finds it taken goes on without marks, and what it submits is measured by the next mark of another.

use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use divvy_abi::config::{GateLine, gate};

use super::marks::{Mark, Probe, Ring};
use super::{
    CHUNK_NS, DRAIN_PATIENCE_NS, HORIZON_NS, LONG_NS, PROBE_EVERY_NS, QUANTUM_NS, Terms,
    UNKNOWN_NS, WANT_EVERY_NS, World,
};
use crate::cost::Costs;
use crate::pace::{Admission, Cap};

/// What the device spends on a drained stream between two events beside the launch and the host's gap,
/// and on a busy one beside the launch. Measured on an H200: an empty burst shows 1,230 ns.
const DRAINED_BIAS_NS: u64 = 800;
const BUSY_BIAS_NS: u64 = 1_300;

/// An estimate below this may grow at once; above it by half.
const MOST_GROWTH_FROM_NS: u64 = 4_000;

/// Below this a horizon counts the launch to come.
const SHORT_HORIZON_NS: u64 = 1_000_000;

/// Time after which work that should have ended is looked at.
const SETTLE_NS: u64 = 20_000;

/// A launch call that takes longer than this was held up.
const USUAL_GAP_NS: u64 = 20_000;

/// Where the generator starts. A lane is zeros at first, so that a table of them takes no room in a
/// file.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Launches on one stream after which the others are forgotten.
const MIXED_FOR: u32 = 64;

/// Launches of unknown length that may be in flight.
const UNKNOWN_AT_ONCE: u32 = 2;

/// The launches of one context.
#[derive(Debug)]
pub struct Lane {
    /// Credit taken and not spent.
    credit_ns: AtomicI64,
    /// Credit ever taken.
    taken_ns: AtomicU64,
    /// Launches since they were last published.
    launches: AtomicU64,
    /// What was submitted before the newest point that is known to have completed.
    done_ns: AtomicU64,
    /// When the work in flight will have ended.
    busy_until_ns: AtomicU64,
    /// Launches of unknown length in flight.
    unknown: AtomicU32,
    /// What ends a measured span happened since the last mark.
    broken: AtomicBool,
    /// Held while marks are recorded or settled.
    claim: AtomicBool,
    ring: Ring,
    /// One more than the event of the settled mark that completed last; 0 for none.
    anchor: AtomicU32,
    /// What had been submitted before the mark that was settled last.
    settled_ns: AtomicU64,
    /// What had been submitted before the mark that was recorded last.
    marked_ns: AtomicU64,
    /// Stream of the slow path's last launch, and how many more launches on one stream make the lane
    /// count as having only that one.
    stream: AtomicU64,
    streams_mixed: AtomicU32,
    /// When the next short kernel is probed.
    probe_at_ns: AtomicU64,
    /// State of the generator that spreads probes.
    random: AtomicU64,
}

/// A launch that may go: what is to be done once the driver has it.
#[derive(Debug)]
#[must_use = "the launch must be reported by `Lane::launched`"]
pub struct Ticket {
    key: u64,
    charged_ns: u64,
    is_unknown: bool,
    mark: bool,
    /// Host time after the probe's first event was recorded.
    probed_at_ns: Option<u64>,
    active: u32,
    /// The turn it is in.
    epoch: u64,
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
            credit_ns: AtomicI64::new(0),
            taken_ns: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            done_ns: AtomicU64::new(0),
            busy_until_ns: AtomicU64::new(0),
            unknown: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            claim: AtomicBool::new(false),
            ring: Ring::new(),
            anchor: AtomicU32::new(0),
            settled_ns: AtomicU64::new(0),
            marked_ns: AtomicU64::new(0),
            stream: AtomicU64::new(0),
            streams_mixed: AtomicU32::new(0),
            probe_at_ns: AtomicU64::new(0),
            random: AtomicU64::new(0),
        }
    }

    /// Pays for a launch from the chunk in hand; false when there is not enough, or nothing is known
    /// of the launch.
    ///
    /// Cost: a look-up and two additions.
    #[inline]
    pub fn take(&self, costs: &Costs, key: u64) -> bool {
        let Some(cost_ns) = costs.get(key) else { return false };
        let cost_ns = i64::try_from(cost_ns).unwrap_or(i64::MAX);
        if self.credit_ns.fetch_sub(cost_ns, Relaxed) < cost_ns {
            self.credit_ns.fetch_add(cost_ns, Relaxed);
            return false;
        }
        self.launches.fetch_add(1, Relaxed);
        true
    }

    /// Estimate of all that was submitted, in nanoseconds, since the lane began.
    pub fn submitted_ns(&self) -> u64 {
        let left_ns = u64::try_from(self.credit_ns.load(Relaxed)).unwrap_or(0);
        self.taken_ns.load(Relaxed).saturating_sub(left_ns)
    }

    /// Waits until a launch may go, takes the next chunk of credit, and begins a probe where one is due.
    pub fn admit<W: World>(&self, world: &W, costs: &Costs, key: u64) -> Ticket {
        let mut drain = Drain::default();
        let room_ns;
        let (now_ns, terms, line) = loop {
            let now_ns = world.now_ns();
            let terms = world.terms();
            let line = world.line();
            let closed = line.gate == gate::CLOSED && now_ns < line.lease_ns;
            if terms.paused || closed {
                self.wait_for_turn(world, costs, now_ns, terms, &line);
                continue;
            }
            self.settle(world, costs, &line);
            if let Some(cap) = cap(terms, line.quantum_ns)
                && let Admission::Closed { until_ns } = cap.admit(world.clock(), now_ns)
            {
                self.wait_for_cap(world, costs, now_ns, until_ns, &line);
                continue;
            }
            let horizon_ns = horizon_ns(&line, now_ns);
            let next = costs.get(key);
            if self.wait_for_horizon(world, now_ns, horizon_ns, next, &mut drain) {
                continue;
            }
            room_ns = horizon_ns;
            break (now_ns, terms, line);
        };
        let known_ns = costs.get(key);
        let charged_ns = known_ns.unwrap_or(UNKNOWN_NS);
        // What was submitted since the last mark may still run.
        let all_marked = self.submitted_ns() <= self.marked_ns.load(Relaxed);
        self.draw(world, terms, now_ns, charged_ns, room_ns);
        if known_ns.is_none() {
            self.unknown.fetch_add(1, Relaxed);
        }
        let mut ticket = Ticket {
            key,
            charged_ns,
            is_unknown: known_ns.is_none(),
            mark: true,
            probed_at_ns: None,
            active: line.active,
            epoch: line.epoch,
        };
        if line.active <= 1 && self.is_probe_due(world, now_ns, known_ns, all_marked) {
            self.begin_probe(world, &mut ticket);
        }
        ticket
    }

    /// Takes a chunk of credit that covers `charged_ns`, and no more than `room_ns` where that is more,
    /// and spends `charged_ns`.
    fn draw<W: World>(&self, world: &W, terms: Terms, now_ns: u64, charged_ns: u64, room_ns: u64) {
        let left_ns = u64::try_from(self.credit_ns.load(Relaxed)).unwrap_or(0);
        // Spread, so that chunks do not end at the same place of a loop each time.
        let spread_ns = CHUNK_NS / 2 + self.random() % CHUNK_NS;
        let chunk_ns = charged_ns.max(spread_ns.min(room_ns)).saturating_sub(left_ns);
        self.taken_ns.fetch_add(chunk_ns, Relaxed);
        let net_ns = signed(chunk_ns).saturating_sub(signed(charged_ns));
        self.credit_ns.fetch_add(net_ns, Relaxed);
        charge(world, terms, now_ns, signed(chunk_ns));
        let ahead_ns = self.busy_until_ns.load(Relaxed).max(now_ns);
        self.set_busy_until(world, ahead_ns.saturating_add(chunk_ns));
        world.note_launch(now_ns);
        let launches = self.launches.swap(0, Relaxed);
        world.add_launches(launches.saturating_add(1));
    }

    fn set_busy_until<W: World>(&self, world: &W, until_ns: u64) {
        self.busy_until_ns.store(until_ns, Relaxed);
        world.set_busy_until_ns(until_ns);
    }

    /// Waits at a gate the owner closed, or while the tenant is paused.
    fn wait_for_turn<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        now_ns: u64,
        terms: Terms,
        line: &GateLine,
    ) {
        self.close_burst(world, costs, line);
        // Exact from here on: whatever was promised for the rest of a chunk is not submitted.
        self.narrow(world, now_ns);
        let mut deadline_ns = now_ns.saturating_add(WANT_EVERY_NS);
        if !terms.paused {
            world.note_want(now_ns);
            deadline_ns = deadline_ns.min(line.lease_ns);
        }
        world.wait(line.gate, deadline_ns);
        self.settle(world, costs, line);
        world.add_waited(world.now_ns().saturating_sub(now_ns));
    }

    fn wait_for_cap<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        now_ns: u64,
        until_ns: u64,
        line: &GateLine,
    ) {
        self.close_burst(world, costs, line);
        self.narrow(world, now_ns);
        // The owner wakes those who wait when it changes a limit.
        let mut deadline_ns = until_ns.min(now_ns.saturating_add(5 * WANT_EVERY_NS));
        if self.ring.pending() != 0 {
            // What is still running may turn out to be worth less than it was charged.
            let drained_ns = self.busy_until_ns.load(Relaxed).max(now_ns);
            deadline_ns = deadline_ns.min(drained_ns.saturating_add(SETTLE_NS));
        }
        world.wait(line.gate, deadline_ns);
        self.settle(world, costs, &world.line());
        world.add_throttled(world.now_ns().saturating_sub(now_ns));
    }

    /// Bounds the time in flight; true after a wait.
    fn wait_for_horizon<W: World>(
        &self,
        world: &W,
        now_ns: u64,
        horizon_ns: u64,
        next_ns: Option<u64>,
        drain: &mut Drain,
    ) -> bool {
        let crowded = next_ns.is_none() && self.unknown.load(Relaxed) >= UNKNOWN_AT_ONCE;
        let ahead_ns = self.in_flight_ns(now_ns);
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
                self.done_ns.store(self.submitted_ns(), Relaxed);
                self.set_busy_until(world, now_ns);
            }
            return false;
        }
        let done_ns = self.done_ns.load(Relaxed);
        if drain.deadline_ns == 0 || drain.done_ns != done_ns {
            let patience_ns = ahead_ns.saturating_add(DRAIN_PATIENCE_NS);
            *drain = Drain { deadline_ns: now_ns.saturating_add(patience_ns), done_ns };
        }
        if now_ns >= drain.deadline_ns {
            // Kernels that wait for this very launch: it must go.
            world.count_drain_given_up();
            self.unknown.store(0, Relaxed);
            self.done_ns.store(self.submitted_ns(), Relaxed);
            self.set_busy_until(world, now_ns);
            *drain = Drain::default();
            return false;
        }
        let excess_ns = ahead_ns.saturating_sub(horizon_ns);
        world.sleep_until(now_ns.saturating_add(excess_ns.clamp(5_000, 1_000_000)));
        true
    }

    /// Work in flight: what the model says, bounded by what marks have shown.
    fn in_flight_ns(&self, now_ns: u64) -> u64 {
        let upper_ns = self.submitted_ns().saturating_sub(self.done_ns.load(Relaxed));
        let model_ns = self.busy_until_ns.load(Relaxed).saturating_sub(now_ns);
        let lower_ns = match self.ring.oldest() {
            // The oldest mark has not completed: what came after it is in flight at least.
            Some((_, mark)) => self.submitted_ns().saturating_sub(mark.submitted_ns),
            None => 0,
        };
        model_ns.min(upper_ns).max(lower_ns.min(upper_ns))
    }

    /// Publishes how long the work in flight takes from now on, no more than was submitted.
    fn narrow<W: World>(&self, world: &W, now_ns: u64) {
        self.set_busy_until(world, now_ns.saturating_add(self.in_flight_ns(now_ns)));
    }

    /// What had been submitted before `submitted_ns` has completed: a synchronisation has returned.
    pub fn drained<W: World>(&self, world: &W, submitted_ns: u64) {
        self.done_ns.fetch_max(submitted_ns, Relaxed);
        self.unknown.store(0, Relaxed);
        let now_ns = world.now_ns();
        let left_ns = self.submitted_ns().saturating_sub(self.done_ns.load(Relaxed));
        self.set_busy_until(world, now_ns.saturating_add(left_ns));
    }

    /// Forgets all marks: their events are gone, with the context or in a forked child.
    pub fn forget_marks(&self) {
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

    fn claim(&self) -> Option<Claim<'_>> {
        self.claim
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_ok()
            .then_some(Claim(&self.claim))
    }

    /// Whether this launch is to be measured by itself.
    fn is_probe_due<W: World>(
        &self,
        world: &W,
        now_ns: u64,
        known_ns: Option<u64>,
        all_marked: bool,
    ) -> bool {
        let is_mixed = self.is_mixed(world.stream());
        let is_drained = || {
            all_marked
                && self.ring.newest_and_oldest().is_none_or(|(newest, _)| world.is_done(newest))
        };
        match known_ns {
            None => true,
            // In a queue that never drains, marks measure better.
            Some(ns) if ns >= LONG_NS => is_drained(),
            // Other streams' work would be measured with it.
            Some(_) if now_ns >= self.probe_at_ns.load(Relaxed) => !is_mixed || is_drained(),
            Some(_) => false,
        }
    }

    /// Whether launches came on several streams of late.
    fn is_mixed(&self, stream: u64) -> bool {
        if self.stream.swap(stream, Relaxed) != stream {
            self.streams_mixed.store(MIXED_FOR, Relaxed);
        }
        self.streams_mixed.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn begin_probe<W: World>(&self, world: &W, ticket: &mut Ticket) {
        let Some(_claim) = self.claim() else { return };
        let before_ns = world.now_ns();
        if !self.ring.has_room() || !world.record(self.ring.next_probe_event(), false) {
            return;
        }
        let now_ns = world.now_ns();
        // Held up within the call, the device may have seen it as early as at its start.
        let held_up = now_ns.saturating_sub(before_ns) > USUAL_GAP_NS;
        ticket.probed_at_ns = Some(if held_up { before_ns } else { now_ns });
        let spread_ns = self.random() % PROBE_EVERY_NS;
        let next_ns = now_ns.saturating_add(PROBE_EVERY_NS / 2).saturating_add(spread_ns);
        self.probe_at_ns.store(next_ns, Relaxed);
    }

    fn anchor(&self) -> Option<u32> {
        self.anchor.load(Relaxed).checked_sub(1)
    }

    fn random(&self) -> u64 {
        let mut x = self.random.load(Relaxed) ^ SEED;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x ^ SEED, Relaxed);
        x
    }

    /// The driver has the launch; `submitted` is false when it refused.
    pub fn launched<W: World>(&self, world: &W, ticket: Ticket, submitted: bool) {
        let Ticket { key, charged_ns, is_unknown, mark, probed_at_ns, active, epoch } = ticket;
        if !submitted {
            if is_unknown {
                let _ = self.unknown.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
            }
            // Given back to the chunk: the next launch spends it.
            self.credit_ns.fetch_add(signed(charged_ns), Relaxed);
            return;
        }
        if !mark {
            return;
        }
        let after_ns = probed_at_ns.map(|before_ns| world.now_ns().saturating_sub(before_ns));
        let Some(_claim) = self.claim() else { return };
        let probe_event = self.ring.next_probe_event();
        let probe = after_ns.map(|gap_ns| Probe { key, charged_ns, gap_ns });
        let probe = probe.filter(|_| active <= 1).map(|probe| (probe_event, probe));
        self.mark(world, probe, epoch);
    }

    /// Records a mark behind what the calling thread submitted last. The caller holds the claim.
    fn mark<W: World>(&self, world: &W, probe: Option<(u32, Probe)>, epoch: u64) {
        let submitted_ns = self.submitted_ns();
        if !self.ring.has_room() {
            return;
        }
        let event = self.ring.next_event();
        if self.anchor() == Some(event) {
            self.anchor.store(0, Relaxed);
        }
        let busy = self
            .ring
            .newest_and_oldest()
            .is_some_and(|(newest, oldest)| !world.is_done(newest) || !world.is_done(oldest));
        let whole = self.streams_mixed.load(Relaxed) != 0;
        if !world.record(event, whole) {
            return;
        }
        let probe = probe.map(|(first, probe)| {
            // Its first event is still incomplete with the launch submitted: no gap lies between.
            let gap_ns = if world.is_done(first) { probe.gap_ns.max(1) } else { 0 };
            Probe { gap_ns, ..probe }
        });
        let linked = busy && !self.broken.swap(false, Relaxed);
        self.ring.push(Mark { submitted_ns, epoch, linked, probe });
        self.marked_ns.store(submitted_ns, Relaxed);
    }

    /// Marks the end of a burst, so that its tail is measured while the gate is closed.
    fn close_burst<W: World>(&self, world: &W, costs: &Costs, line: &GateLine) {
        if self.submitted_ns() > self.marked_ns.load(Relaxed)
            && let Some(_claim) = self.claim()
        {
            self.mark(world, None, line.epoch);
        }
        self.settle(world, costs, line);
    }

    /// Puts right what completed marks show.
    ///
    /// Cost: an event query, and for each mark that has completed an elapsed time.
    pub fn settle<W: World>(&self, world: &W, costs: &Costs, line: &GateLine) {
        let Some(_claim) = self.claim() else { return };
        let mut correction_ns = 0_i64;
        while let Some((event, mark)) = self.ring.oldest() {
            if !world.is_done(event) {
                break;
            }
            // Behind the end of a turn another tenant's work lies between the events.
            let alone = line.active <= 1 && line.gate != gate::CLOSED && line.epoch == mark.epoch;
            let measured_ns = self.settle_one(world, costs, event, &mark, alone);
            correction_ns = correction_ns.saturating_add(if alone { measured_ns } else { 0 });
            self.ring.pop();
            self.settled_ns.store(mark.submitted_ns, Relaxed);
            self.done_ns.fetch_max(mark.submitted_ns, Relaxed);
            self.unknown.store(0, Relaxed);
        }
        if correction_ns != 0 {
            charge(world, world.terms(), world.now_ns(), correction_ns);
        }
    }

    /// What one completed mark adds to what was charged.
    fn settle_one<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        event: u32,
        mark: &Mark,
        alone: bool,
    ) -> i64 {
        let since_ns = self.anchor().and_then(|anchor| world.elapsed_ns(anchor, event));
        let span_ns = since_ns.map(|ns| u64::try_from(ns).unwrap_or(0));
        // One that ended before another mark adds no time of its own and does not move the anchor.
        if since_ns.is_none_or(|ns| ns > 0) {
            self.anchor.store(event.saturating_add(1), Relaxed);
        }
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        let probed = mark.probe.and_then(|probe| {
            let between_ns = u64::try_from(world.elapsed_ns(super::MARKS + event, event)?).ok()?;
            // The host was held up (a first launch loads code): its gap says nothing exact. Of what is
            // not known at all even that is worth having, or a slow host would pay for nothing.
            let held_up = probe.gap_ns > USUAL_GAP_NS && probe.gap_ns > between_ns / 16;
            if held_up && costs.get(probe.key).is_some() {
                return None;
            }
            let bias_ns = match probe.gap_ns {
                0 => BUSY_BIAS_NS,
                gap_ns => gap_ns.saturating_add(DRAINED_BIAS_NS),
            };
            let took_ns = between_ns.saturating_sub(bias_ns).max(between_ns / 8).max(500);
            if alone {
                // What another context was given in between must not pass for the kernel's own.
                let most_ns = costs.get(probe.key).map_or(u64::MAX, |ns| ns.saturating_mul(3) / 2);
                costs.learn(probe.key, took_ns.min(most_ns.max(MOST_GROWTH_FROM_NS)));
                world.note_length(took_ns);
            }
            Some((probe.charged_ns, took_ns))
        });
        match (mark.linked, span_ns, probed) {
            (true, Some(span_ns), _) => signed(span_ns).saturating_sub(signed(charged_ns)),
            (_, _, Some((guess_ns, took_ns))) => signed(took_ns).saturating_sub(signed(guess_ns)),
            // Not continuous, but nothing before the anchor's end is in it: no more than that.
            (false, Some(span_ns), None) if span_ns < charged_ns => {
                signed(span_ns).saturating_sub(signed(charged_ns))
            }
            _ => 0,
        }
    }
}

/// Work that may be in flight at `now_ns`: none beyond the end of a turn, as long as its owner lives.
fn horizon_ns(line: &GateLine, now_ns: u64) -> u64 {
    let horizon_ns = if line.horizon_ns == 0 { HORIZON_NS } else { line.horizon_ns };
    let in_turn = line.gate == gate::TIMED && line.turn_end_ns != 0 && now_ns < line.lease_ns;
    if in_turn { horizon_ns.min(line.turn_end_ns.saturating_sub(now_ns)) } else { horizon_ns }
}

/// Progress of one thread's wait for work to drain.
#[derive(Clone, Copy, Default)]
struct Drain {
    deadline_ns: u64,
    done_ns: u64,
}

/// The right to change a lane's marks.
struct Claim<'a>(&'a AtomicBool);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

fn cap(terms: Terms, quantum_ns: u64) -> Option<Cap> {
    // Who waits for its turn must not lose what its cap saves up meanwhile.
    let quantum_ns = quantum_ns.max(QUANTUM_NS);
    (terms.share_ppm != 0).then_some(Cap { share_ppm: terms.share_ppm, quantum_ns })
}

/// Charges the tenant, against its cap where it has one.
fn charge<W: World>(world: &W, terms: Terms, now_ns: u64, ns: i64) {
    world.add_used(ns);
    if let Some(cap) = cap(terms, world.line().quantum_ns) {
        cap.charge(world.clock(), now_ns, ns);
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
