//! What a lane's launches are worth: probes, marks, and what they put right.
//!
//! Only a thread that holds the lane's claim records or settles; see [`super::lane`].

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::GateLine;

use super::claim::Claim;
use super::credit::signed;
use super::lane::{Lane, Probed, Ticket};
use super::marks::{Mark, Probe};
use super::{LONG_NS, PROBE_EVERY_NS, World};
use crate::cost::{self, Costs};

/// What the device spends on a drained stream between two events beside the launch and the host's gap,
/// and on a busy one beside the launch. Measured on an H200: an empty burst shows 1,230 ns.
const DRAINED_BIAS_NS: u64 = 800;
const BUSY_BIAS_NS: u64 = 1_300;

/// An estimate below this may grow at once; above it by half.
const MOST_GROWTH_FROM_NS: u64 = 4_000;

/// A launch call that takes longer than this was held up.
const USUAL_GAP_NS: u64 = 20_000;
/// A drained device begins a graph as its call ends, if that takes no more than the first, or makes the
/// graph ready first; else after the second: 26 to 75 us of a training's 406 on an H200.
const GRAPH_AT_ONCE_NS: u64 = 100_000;
const GRAPH_BEGINS_NS: u64 = 50_000;

/// A probe that differs by less than this part from what is known shows nothing new.
const KNOWN_PART: u64 = 32;
/// Most time between two probes beyond the least.
const MOST_LATER_NS: u64 = 9_000_000;

/// Where the generator starts. A lane is zeros at first, so that a table of them takes no room in a
/// file.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// What takes longer cannot lie within one slice of the driver's, which are 1 to 2 ms.
const SLICED_FROM_NS: u64 = 2_000_000;

/// Launches on one stream after which the others are forgotten.
const MIXED_FOR: u32 = 64;

impl Lane {
    /// Begins to measure this launch by itself where that is due: each of which nothing firm is known,
    /// and of the others some.
    pub(super) fn probe<W: World>(
        &self,
        world: &W,
        now_ns: u64,
        known_ns: Option<u64>,
        all_marked: bool,
    ) -> Option<Probed> {
        let is_mixed = self.is_mixed(world.stream());
        let only_drained = match known_ns {
            None => false,
            // In a queue that never drains, marks measure better.
            Some(ns) if ns >= LONG_NS => true,
            // Other streams' work would be measured with it.
            Some(_) if now_ns >= self.probe_at_ns.load(Relaxed) => is_mixed,
            Some(_) => return None,
        };
        if only_drained && !all_marked {
            return None;
        }
        let _claim = self.claim(world.life())?;
        if only_drained
            && self.ring.newest_and_oldest().is_some_and(|(newest, _)| !world.is_done(newest))
        {
            return None;
        }
        self.begin_probe(world)
    }

    /// Whether launches came on several streams of late.
    pub(super) fn is_mixed(&self, stream: u64) -> bool {
        if self.stream.swap(stream, Relaxed) != stream {
            self.streams_mixed.store(MIXED_FOR, Relaxed);
        }
        self.streams_mixed.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Records the first event of a probe. The caller holds the claim.
    fn begin_probe<W: World>(&self, world: &W) -> Option<Probed> {
        if !self.ring.has_room() {
            return None;
        }
        let before_ns = world.now_ns();
        let event = self.probes.take(world.life())?;
        if !world.record(event, false) {
            self.probes.give_back(world.life(), event);
            return None;
        }
        let now_ns = world.now_ns();
        // Held up within the call, the device may have seen it as early as at its start.
        let held_up = now_ns.saturating_sub(before_ns) > USUAL_GAP_NS;
        let every_ns = PROBE_EVERY_NS.saturating_add(self.probe_later_ns.load(Relaxed));
        let spread_ns = self.random() % every_ns;
        let next_ns = now_ns.saturating_add(every_ns / 2).saturating_add(spread_ns);
        self.probe_at_ns.store(next_ns, Relaxed);
        Some(Probed { event, at_ns: if held_up { before_ns } else { now_ns } })
    }

    /// Probes cost the device some microseconds each: they become rare while they show what is known.
    fn pace_probes(&self, known_ns: Option<u64>, took_ns: u64) {
        let is_known = known_ns.is_some_and(|ns| ns.abs_diff(took_ns) <= ns / KNOWN_PART);
        let later_ns = self.probe_later_ns.load(Relaxed);
        let later_ns = match is_known {
            true => later_ns.saturating_add(PROBE_EVERY_NS / 4).min(MOST_LATER_NS),
            false => 0,
        };
        self.probe_later_ns.store(later_ns, Relaxed);
    }

    pub(super) fn anchor(&self) -> Option<u32> {
        self.anchor.load(Relaxed).checked_sub(1)
    }

    pub(super) fn random(&self) -> u64 {
        let mut x = self.random.load(Relaxed) ^ SEED;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x ^ SEED, Relaxed);
        x
    }

    /// The driver has the launch; `submitted` is false when it refused.
    pub fn launched<W: World>(&self, world: &W, ticket: Ticket, submitted: bool) {
        let after_ns = ticket.probed.map(|probed| world.now_ns().saturating_sub(probed.at_ns));
        let is_measured = submitted && self.mark_launch(world, &ticket, after_ns);
        if let Some(probed) = ticket.probed
            && !is_measured
        {
            self.probes.give_back(world.life(), probed.event);
        }
        if !submitted {
            if ticket.is_unknown {
                let _ = self.unknown.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
            }
            // Given back to the chunk: the next launch spends it.
            self.credit.give_back(world.stripe(), ticket.charged_ns);
        }
    }

    /// Marks a launch that is to be; whether there is a mark behind it.
    fn mark_launch<W: World>(&self, world: &W, ticket: &Ticket, after_ns: Option<u64>) -> bool {
        if !ticket.is_marked && ticket.probed.is_none() {
            return false;
        }
        let probe = ticket.probed.zip(after_ns).map(|(probed, gap_ns)| Probe {
            key: ticket.key,
            charged_ns: ticket.charged_ns,
            event: probed.event,
            gap_ns,
        });
        let Some(claim) = self.claim(world.life()) else { return false };
        self.mark(world, &claim, probe, ticket.epoch, ticket.sharers)
    }

    /// Records a mark behind what the calling thread submitted last; false where that cannot be.
    pub(super) fn mark<W: World>(
        &self,
        world: &W,
        claim: &Claim<'_>,
        probe: Option<Probe>,
        epoch: u64,
        sharers: u32,
    ) -> bool {
        let submitted_ns = self.submitted_ns();
        if !self.ring.has_room() || claim.is_closing() {
            return false;
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
        if claim.is_closing() || !world.record(event, whole) {
            return false;
        }
        let probe = probe.map(|probe| {
            // Its first event is still incomplete with the launch submitted: no gap lies between.
            let gap_ns = if world.is_done(probe.event) { probe.gap_ns.max(1) } else { 0 };
            Probe { gap_ns, ..probe }
        });
        let linked = busy && !self.broken.swap(false, Relaxed);
        self.ring.push(Mark { submitted_ns, epoch, linked, sharers, probe });
        self.marked_ns.store(submitted_ns, Relaxed);
        true
    }

    /// Marks the end of a burst, so that its tail is measured while the gate is closed.
    pub(super) fn close_burst<W: World>(&self, world: &W, costs: &Costs, line: &GateLine) {
        let seen_ns = self.marked_ns.load(Relaxed).max(self.done_ns.load(Relaxed));
        if self.submitted_ns() > seen_ns
            && let Some(claim) = self.claim(world.life())
        {
            self.mark(world, &claim, None, line.epoch, line.active);
        }
        self.settle(world, costs, line);
    }

    /// Puts right what completed marks show.
    ///
    /// Cost: an event query, and for each mark that has completed an elapsed time.
    pub fn settle<W: World>(&self, world: &W, costs: &Costs, line: &GateLine) {
        let Some(claim) = self.claim(world.life()) else { return };
        let mut correction_ns = 0_i64;
        while let Some((event, mark)) = self.ring.oldest() {
            if claim.is_closing() || !world.is_done(event) {
                break;
            }
            // Once another turn has begun, another tenant's work may lie between the events.
            let ours = line.epoch == mark.epoch;
            let sharers = if ours { u64::from(line.active.max(mark.sharers).max(1)) } else { 0 };
            let measured_ns = self.settle_one(world, costs, event, &mark, sharers);
            correction_ns = correction_ns.saturating_add(if ours { measured_ns } else { 0 });
            self.ring.pop();
            if let Some(probe) = mark.probe {
                self.probes.give_back(world.life(), probe.event);
            }
            self.settled_ns.store(mark.submitted_ns, Relaxed);
            self.done_ns.fetch_max(mark.submitted_ns, Relaxed);
            self.unknown.store(0, Relaxed);
        }
        if correction_ns != 0 {
            self.charge(world, world.terms(), line, world.now_ns(), correction_ns);
        }
    }

    /// What one completed mark adds to what was charged. `sharers` is how many contexts' slices may
    /// lie between its events; 0 where that is not known, and nothing is learnt.
    pub(super) fn settle_one<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        event: u32,
        mark: &Mark,
        sharers: u64,
    ) -> i64 {
        let since_ns = self.anchor().and_then(|anchor| world.elapsed_ns(anchor, event));
        let span_ns = since_ns.map(|ns| u64::try_from(ns).unwrap_or(0));
        // One that ended before another mark adds no time of its own and does not move the anchor.
        if since_ns.is_none_or(|ns| ns > 0) {
            self.anchor.store(event.saturating_add(1), Relaxed);
        }
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        let probed = mark.probe.and_then(|probe| {
            let between_ns = u64::try_from(world.elapsed_ns(probe.event, event)?).ok()?;
            // What is known roughly stands until the first probe after it.
            let (any_ns, known_ns) = (costs.get(probe.key), costs.firm(probe.key));
            let shown = probe.shows(between_ns, any_ns.is_some(), known_ns.is_some())?;
            let took_ns = match known_ns {
                None if shown.took_ns > SLICED_FROM_NS => shown.took_ns / sharers.max(1),
                _ => shown.took_ns,
            };
            // With others' work in it, it is still no more than that.
            let is_new = known_ns.map_or(sharers != 0, |known_ns| took_ns < known_ns);
            if sharers == 1 || is_new {
                // What another context was given in between must not pass for the kernel's own.
                let most_ns = known_ns.map_or(u64::MAX, |ns| ns.saturating_mul(3) / 2);
                self.pace_probes(known_ns, took_ns);
                if shown.is_rough {
                    costs.learn_roughly(probe.key, took_ns);
                } else {
                    costs.learn(probe.key, took_ns.min(most_ns.max(MOST_GROWTH_FROM_NS)));
                }
                world.note_length(took_ns);
            }
            if sharers > 1 && known_ns.is_some() {
                // What is known stands.
                return None;
            }
            Some((probe.charged_ns, took_ns))
        });
        match (mark.linked, span_ns, probed) {
            (true, Some(span_ns), _) => {
                // The mark's own event, and the one before a probed launch, are no work of the tenant's.
                let events = 1 + u64::from(mark.probe.is_some());
                let span_ns = span_ns.saturating_sub(events * BUSY_BIAS_NS).max(span_ns / 2);
                // A sharer that does not use its slices leaves more than our part to us.
                let least_ns = if sharers > 1 { charged_ns.min(span_ns) } else { 0 };
                let own_ns = (span_ns / sharers.max(1)).max(least_ns);
                signed(own_ns).saturating_sub(signed(charged_ns))
            }
            (_, _, Some((guess_ns, took_ns))) => signed(took_ns).saturating_sub(signed(guess_ns)),
            // Not continuous, but nothing before the anchor's end is in it: no more than that.
            (false, Some(span_ns), None) if span_ns < charged_ns => {
                signed(span_ns).saturating_sub(signed(charged_ns))
            }
            _ => 0,
        }
    }
}

/// What a probe shows of its launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shown {
    took_ns: u64,
    /// The host was in the way: the next probe will show more.
    is_rough: bool,
}

impl Probe {
    /// What the time between its events shows of a launch of which something `is_known`, and that firmly
    /// if `is_firm`; `None` where that is nothing better.
    ///
    /// A first launch loads code, or makes a graph ready, and the device begins as its call ends. Else a
    /// kernel's call that takes long was held up, and its gap says nothing exact, while a graph's may be
    /// so long by itself; then the device begins in its midst.
    fn shows(&self, between_ns: u64, is_known: bool, is_firm: bool) -> Option<Shown> {
        let gap_ns = self.gap_ns;
        let is_graph = cost::is_graph(self.key);
        let is_long = match is_graph {
            true => gap_ns > GRAPH_AT_ONCE_NS,
            false => gap_ns > USUAL_GAP_NS && gap_ns > between_ns / 16,
        };
        // A graph that ended before its call shows no end.
        let has_ended = between_ns < gap_ns.saturating_add(USUAL_GAP_NS);
        let shows_nothing = if is_graph { is_known && has_ended } else { is_firm };
        if is_long && shows_nothing {
            return None;
        }
        let bias_ns = match gap_ns {
            0 => BUSY_BIAS_NS,
            _ if is_graph && is_known && is_long => GRAPH_BEGINS_NS + DRAINED_BIAS_NS,
            _ => gap_ns.saturating_add(DRAINED_BIAS_NS),
        };
        let took_ns = between_ns.saturating_sub(bias_ns).max(between_ns / 8).max(500);
        Some(Shown { took_ns, is_rough: is_long && !is_known })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::cost::{Kind, key};

    #[test]
    fn what_a_call_takes_is_taken_off_as_far_as_the_device_waits_for_it() {
        const US: u64 = 1_000;
        let firmly = |ns| Some(Shown { took_ns: ns, is_rough: false });
        let roughly = |ns| Some(Shown { took_ns: ns, is_rough: true });
        let (not, little, well) = ((false, false), (true, false), (true, true));
        for (kind, gap_us, between_us, (is_known, is_firm), expected) in [
            (Kind::Kernel, 3, 103, well, firmly(100 * US - DRAINED_BIAS_NS)),
            (Kind::Kernel, 0, 100, well, firmly(100 * US - BUSY_BIAS_NS)),
            // Held up: only of what is little known that is worth having, or where it is little of it.
            (Kind::Kernel, 50, 150, well, None),
            (Kind::Kernel, 50, 150, little, firmly(100 * US - DRAINED_BIAS_NS)),
            (Kind::Kernel, 50, 150, not, roughly(100 * US - DRAINED_BIAS_NS)),
            (Kind::Kernel, 3_000, 3_100, not, roughly(3_100 * US / 8)),
            (Kind::Kernel, 50, 1_050, well, firmly(1_000 * US - DRAINED_BIAS_NS)),
            // A graph begins as a short call ends, as its first ends, and in the midst of a long one.
            (Kind::Graph, 43, 143, well, firmly(100 * US - DRAINED_BIAS_NS)),
            (Kind::Graph, 43, 143, not, firmly(100 * US - DRAINED_BIAS_NS)),
            (Kind::Graph, 406, 906, not, roughly(500 * US - DRAINED_BIAS_NS)),
            (Kind::Graph, 406, 20_050, little, firmly(20_000 * US - DRAINED_BIAS_NS)),
            (Kind::Graph, 406, 450, well, firmly(400 * US - DRAINED_BIAS_NS)),
            (Kind::Graph, 406, 416, well, None),
        ] {
            let key = key(kind, [1, 2, 3]);
            let probe = Probe { key, charged_ns: 0, event: 0, gap_ns: gap_us * US };
            let shown = probe.shows(between_us * US, is_known, is_firm);
            assert_eq!(shown, expected, "{kind:?}, call of {gap_us} us, {between_us} us between");
        }
    }
}
