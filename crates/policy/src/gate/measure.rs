//! What a lane's launches are worth: probes, marks, and what they put right.
//!
//! Only a thread that holds the lane's claim records or settles; see [`super::lane`].

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::GateLine;

use super::claim::Claim;
use super::credit::signed;
use super::drain::SWITCH_NS;
use super::lane::{Lane, Ticket, in_turns};
use super::marks::{Edge, Mark, Probe};
use super::sample::correction_ns;
use super::{QUIET_NS, World};
use crate::cost::{self, Costs, Length};

/// What the device spends on a drained stream between two events beside the launch and the host's gap,
/// and on a busy one beside the launch. Measured on an H200: an empty burst shows 1,230 ns.
const DRAINED_BIAS_NS: u64 = 800;
pub(super) const BUSY_BIAS_NS: u64 = 1_300;

/// An estimate below this may grow at once; above it by half.
const MOST_GROWTH_FROM_NS: u64 = 4_000;

/// A launch call that takes longer than this was held up.
const USUAL_GAP_NS: u64 = 20_000;
/// A record that takes longer was made by a process that was stopped, or kept from its processors, meanwhile.
const STOPPED_NS: u64 = 5_000_000;
/// A drained device begins a graph as its call ends, if that takes no more than the first, or makes the
/// graph ready first; else after the second: 26 to 75 us of a training's 406 on an H200.
const GRAPH_AT_ONCE_NS: u64 = 100_000;
const GRAPH_BEGINS_NS: u64 = 50_000;

/// What takes longer cannot lie within one slice of the driver's, which are 1 to 2 ms.
const SLICED_FROM_NS: u64 = 2_000_000;

/// Launches that took so many times as long as was expected hold one that took almost all of it.
pub(super) const LONGER: u64 = 4;

/// The first half of a probe. The event is the ticket's until it is a mark's, or given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probed {
    pub(super) event: u32,
    pub(super) at_ns: u64,
    /// What of all that was charged the launch stands for.
    pub(super) stands_ns: u64,
}

impl Lane {
    /// Begins to measure this launch by itself where that is due: each of which nothing firm is known,
    /// and of the others some.
    pub(super) fn probe<W: World>(
        &self,
        world: &W,
        submitted_ns: u64,
        (known_ns, long_ns): (Option<u64>, u64),
        all_marked: bool,
    ) -> Option<Probed> {
        let is_long = known_ns.is_some_and(|ns| ns >= long_ns);
        let Some(known_ns) = known_ns.filter(|_| !is_long) else {
            // In a queue that never drains, marks measure long ones better.
            return self.begin_where(world, is_long, all_marked);
        };
        if !self.sample.is_due(submitted_ns, known_ns) {
            return None;
        }
        let probed = self.begin_where(world, false, all_marked);
        let stands_ns = self.sample.draw(submitted_ns, self.random());
        Some(Probed { stands_ns, ..probed? })
    }

    /// Begins a probe, `only_drained` where the device has nothing to do.
    fn begin_where<W: World>(
        &self,
        world: &W,
        only_drained: bool,
        all_marked: bool,
    ) -> Option<Probed> {
        if only_drained && !all_marked {
            return None;
        }
        let _claim = self.claim(world.life())?;
        let newest = self.ring.newest_and_oldest();
        if only_drained && newest.is_some_and(|(newest, _)| !world.is_done(newest)) {
            return None;
        }
        self.begin_probe(world, false)
    }

    /// Records the first event of a probe, `whole` behind all of the context's work. The caller holds the claim.
    pub(super) fn begin_probe<W: World>(&self, world: &W, whole: bool) -> Option<Probed> {
        if !self.ring.has_room() {
            return None;
        }
        let before_ns = world.now_ns();
        let event = self.probes.take(world.life())?;
        if !world.record(event, whole) {
            self.probes.give_back(world.life(), event);
            return None;
        }
        let now_ns = world.now_ns();
        // Held up within the call, the device may have seen it as early as at its start.
        let held_up = now_ns.saturating_sub(before_ns) > USUAL_GAP_NS;
        Some(Probed { event, at_ns: if held_up { before_ns } else { now_ns }, stands_ns: 0 })
    }

    pub(super) fn anchor(&self) -> Option<u32> {
        self.anchor.load(Relaxed).checked_sub(1)
    }

    /// The driver has the launch; `submitted` is false when it refused.
    pub fn launched<W: World>(&self, world: &W, ticket: Ticket, submitted: bool) {
        self.coming_ns.fetch_sub(ticket.charged_ns, Relaxed);
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
            stands_ns: probed.stands_ns.max(ticket.charged_ns),
            at_ns: probed.at_ns,
            key: ticket.key,
            charged_ns: ticket.charged_ns,
            event: probed.event,
            gap_ns,
            is_behind: false,
        });
        let Some(claim) = self.claim(world.life()) else { return false };
        let launch = probe.is_none().then_some((ticket.key, ticket.charged_ns));
        self.mark(world, &claim, probe, launch, ticket.epoch, ticket.sharers)
    }

    /// Records a mark behind what the calling thread submitted last; false where that cannot be.
    #[inline(never)]
    pub(super) fn mark<W: World>(
        &self,
        world: &W,
        claim: &Claim<'_>,
        probe: Option<Probe>,
        followed: Option<(u64, u64)>,
        epoch: u64,
        sharers: u32,
    ) -> bool {
        if !self.ring.has_room() || claim.is_closing() {
            return false;
        }
        let event = self.ring.next_event();
        if self.anchor() == Some(event) {
            self.anchor.store(0, Relaxed);
        }
        let asked_ns = world.now_ns();
        let busy = self
            .ring
            .newest_and_oldest()
            .is_some_and(|(newest, oldest)| !world.is_done(newest) || !world.is_done(oldest));
        let whole = self.streams_mixed.load(Relaxed) != 0;
        if claim.is_closing() || !world.record(event, whole) {
            return false;
        }
        // Stopped meanwhile, the process may have left the device idle before the event.
        if world.now_ns().saturating_sub(asked_ns) >= STOPPED_NS {
            return false;
        }
        // Other threads' launches that were in the driver's hands went first where the driver has them one by one.
        let submitted_ns = self.launched_ns();
        let probe = probe.or_else(|| self.begun.take(|| world.now_ns(), submitted_ns));
        let probe = probe.map(|probe| {
            // Its first event is still incomplete with the launch submitted: no gap lies between.
            let gap_ns = if world.is_done(probe.event) { probe.gap_ns.max(1) } else { 0 };
            Probe { gap_ns, ..probe }
        });
        let breaks = self.breaks.load(Relaxed);
        let linked = busy && self.breaks_marked.swap(breaks, Relaxed) == breaks;
        let followed = followed.filter(|_| probe.is_none());
        let edge = match whole {
            true => self.window.mark(submitted_ns, self.random()),
            false => Edge::Outside,
        };
        self.ring.push(Mark { submitted_ns, epoch, linked, sharers, probe, followed, edge });
        self.marked_ns.store(submitted_ns, Relaxed);
        true
    }

    /// Marks the end of a burst, so that its tail is measured while the gate is closed.
    pub(super) fn close_burst<W: World>(&self, world: &W, costs: &Costs, line: &GateLine) {
        let seen_ns = self.marked_ns.load(Relaxed).max(self.done_ns.load(Relaxed));
        if self.launched_ns() > seen_ns
            && let Some(claim) = self.claim(world.life())
        {
            self.mark(world, &claim, None, None, line.epoch, line.active);
        }
        self.settle(world, costs, line);
    }

    /// Puts right what completed marks show; by how much, without what launches that were drawn stand for.
    ///
    /// Cost: an event query, and for each mark that has completed an elapsed time.
    pub fn settle<W: World>(&self, world: &W, costs: &Costs, line: &GateLine) -> i64 {
        let Some(claim) = self.claim(world.life()) else { return 0 };
        // Where nothing is pending nothing is charged below.
        let (mut all_ns, mut own_ns, since_ns) = (0_i64, 0_i64, self.since_ns.load(Relaxed));
        while let Some((event, mark)) = self.ring.oldest() {
            if claim.is_closing() || !world.is_done(event) {
                break;
            }
            // Once another turn has begun, another tenant's work may lie between the events.
            let is_just_back = self.is_just_back(world, line, world.now_ns());
            let ours = line.epoch == mark.epoch && (line.strangers != 0 || !is_just_back);
            let sharers = if ours { u64::from(line.active.max(mark.sharers).max(1)) } else { 0 };
            let now_ns = world.now_ns();
            let quiet_ns = match in_turns(world, line) {
                true => now_ns,
                false => now_ns.saturating_sub(QUIET_NS),
            };
            let quiet_ns = mark.probe.map_or(quiet_ns, |probe| quiet_ns.min(probe.at_ns));
            let is_alone = sharers == 1 && self.is_quiet_since(world, line, quiet_ns);
            // No estimate was charged for what is uneven: whoever was there meanwhile, it is charged now.
            let is_uneven = sharers != 1 && mark.is_uneven(costs, now_ns);
            // Nor does an estimate stand for that where it ends behind its turn: longer launches do so more often.
            let is_behind = !ours && line.strangers == 0 && mark.sharers <= 1;
            if is_behind {
                self.learn_behind(world, costs, event, &mark, now_ns);
            }
            let is_behind = is_behind && mark.was_uneven(costs, now_ns);
            let put_right = if line.strangers != 0 || is_uneven || is_behind {
                let others = line.strangers.max(sharers.saturating_sub(1)).max(1);
                self.settle_beside(world, costs, event, &mark, (others, is_behind)).into()
            } else if sharers == 1 && (mark.edge != Edge::Outside || !self.has_one_stream()) {
                self.settle_among(world, costs, event, &mark, is_alone).into()
            } else {
                self.settle_one(world, costs, event, &mark, (sharers, is_alone))
            };
            if ours || is_uneven || is_behind {
                all_ns = all_ns.saturating_add(put_right.all_ns);
                own_ns = own_ns.saturating_add(put_right.own_ns);
            }
            self.window.settled(mark.edge);
            self.ring.pop();
            if let Some(probe) = mark.probe {
                self.probes.give_back(world.life(), probe.event);
            }
            self.settled_ns.store(mark.submitted_ns, Relaxed);
            self.done_ns.fetch_max(mark.submitted_ns, Relaxed);
            // Each of them has a mark: those behind this one are in flight still.
            let left = self.unknown.load(Relaxed).saturating_sub(1).min(self.ring.pending());
            self.unknown.store(left, Relaxed);
        }
        if all_ns != 0 {
            self.charge(world, line, since_ns, all_ns);
        }
        if self.ring.pending() == 0 {
            self.since_ns.store(world.now_ns(), Relaxed);
        }
        own_ns
    }

    /// Device time since the mark before this one, from which the next is measured.
    pub(super) fn span_ns<W: World>(&self, world: &W, event: u32) -> Option<u64> {
        let since_ns = self.anchor().and_then(|anchor| world.elapsed_ns(anchor, event));
        // One that ended before another mark adds no time of its own and does not move the anchor.
        if since_ns.is_none_or(|ns| ns > 0) {
            self.anchor.store(event.saturating_add(1), Relaxed);
        }
        since_ns.map(|ns| u64::try_from(ns).unwrap_or(0))
    }

    /// Whether a turn had just begun then: a switch of contexts may lie behind what was recorded.
    fn is_switched_to(&self, at_ns: u64) -> bool {
        at_ns < self.epoch_at_ns.load(Relaxed).saturating_add(SWITCH_NS)
    }

    /// What one completed mark adds to what was charged. `sharers` is how many contexts' slices may
    /// lie between its events; 0 where that is not known, and nothing is learnt. With it, whether surely nothing of
    /// others does.
    pub(super) fn settle_one<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        event: u32,
        mark: &Mark,
        (sharers, is_alone): (u64, bool),
    ) -> PutRight {
        let span_ns = self.span_ns(world, event);
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        let now_ns = world.now_ns();
        let probed = mark.probe.and_then(|probe| {
            let between_ns = u64::try_from(world.elapsed_ns(probe.event, event)?).ok()?;
            // What is known roughly stands until the first probe after it.
            let known_ns = costs.firm(probe.key);
            let expected = costs.expect(probe.key, now_ns);
            let is_firm = known_ns.is_some() || matches!(expected, Length::Uneven(_));
            let Some(shown) = probe.shows(between_ns, expected != Length::Unknown, is_firm) else {
                // It shows no end, but the launch lies between its events; no estimate was charged for one that is
                // uneven, and the host's part is all that is not its own.
                let took_ns = match expected {
                    Length::Uneven(_) => between_ns.saturating_sub(probe.gap_ns),
                    _ => probe.charged_ns.min(between_ns),
                };
                return is_alone.then_some((probe.charged_ns, took_ns, 0));
            };
            let took_ns = match known_ns {
                None if shown.took_ns > SLICED_FROM_NS => shown.took_ns / sharers.max(1),
                _ => shown.took_ns,
            };
            // With others' work in it, it is still no more than that.
            let is_new = known_ns.map_or(sharers != 0, |known_ns| took_ns < known_ns);
            if expected == Length::Unknown && sharers == 0 {
                // It ended behind its turn, as one longer than a turn always does: it is no longer than that.
                costs.learn_roughly(probe.key, took_ns);
            }
            if sharers == 1 || is_new {
                // What another context was given in between must not pass for the kernel's own.
                let most_ns = match known_ns {
                    Some(ns) if !is_alone => ns.saturating_mul(3) / 2,
                    _ => u64::MAX,
                };
                if let Some(known_ns) = known_ns.filter(|_| is_alone) {
                    self.sample.learn(known_ns, took_ns, probe.stands_ns);
                }
                if shown.is_rough {
                    costs.learn_roughly(probe.key, took_ns);
                } else if is_alone && !self.is_switched_to(probe.at_ns) {
                    costs.learn_alone(probe.key, took_ns, now_ns);
                } else {
                    costs.learn(probe.key, took_ns.min(most_ns.max(MOST_GROWTH_FROM_NS)));
                }
                world.note_length(took_ns);
            }
            if sharers > 1 && known_ns.is_some() {
                // What is known stands.
                return None;
            }
            Some((probe.charged_ns, took_ns, probe.stands_ns))
        });
        match (mark.linked, span_ns, probed) {
            (true, Some(span_ns), _) => {
                // The mark's own event, and the one before a probed launch, are no work of the tenant's.
                let events = 1 + u64::from(mark.probe.is_some());
                let span_ns = span_ns.saturating_sub(events * BUSY_BIAS_NS).max(span_ns / 2);
                if sharers > 1 {
                    return self.beside.part_ns(span_ns, span_ns / sharers, charged_ns).into();
                }
                self.beside.forget();
                let own_ns = span_ns;
                // Where the probed launch was the only one, the device may have waited for the host before it.
                let own_ns = match probed {
                    Some((guess_ns, took_ns, _)) if is_alone && guess_ns == charged_ns => {
                        own_ns.min(took_ns)
                    }
                    _ => own_ns,
                };
                if is_alone && own_ns > charged_ns.saturating_mul(LONGER) {
                    // One of them, most likely.
                    world.note_length(own_ns.saturating_sub(charged_ns));
                }
                if let Some((key, guess_ns)) = mark.followed.filter(|_| is_alone)
                    && guess_ns == charged_ns
                {
                    costs.learn(key, own_ns);
                    costs.seen_alone(key, own_ns, now_ns);
                }
                signed(own_ns).saturating_sub(signed(charged_ns)).into()
            }
            (_, _, Some((guess_ns, took_ns, stands_ns))) if is_alone => PutRight {
                all_ns: correction_ns(guess_ns, took_ns, stands_ns),
                own_ns: signed(took_ns).saturating_sub(signed(guess_ns)),
            },
            // Not continuous, but nothing before the anchor's end is in it: no more than that.
            (_, span_ns, probed) if !is_alone => {
                let put_right = probed.map_or(0, |(guess_ns, took_ns, _)| {
                    signed(took_ns).saturating_sub(signed(guess_ns))
                });
                let most = span_ns.map_or(i64::MAX, signed).saturating_sub(signed(charged_ns));
                put_right.min(most).into()
            }
            _ => 0.into(),
        }
    }
}

/// What a completed mark adds to what was charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct PutRight {
    /// In all.
    all_ns: i64,
    /// For what lies before the mark: without launches that one before it stands for.
    own_ns: i64,
}

impl From<i64> for PutRight {
    fn from(own_ns: i64) -> Self {
        Self { all_ns: own_ns, own_ns }
    }
}

/// What a probe shows of its launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown {
    pub(super) took_ns: u64,
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
    pub(super) fn shows(&self, between_ns: u64, is_known: bool, is_firm: bool) -> Option<Shown> {
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
            let probe = Probe {
                key,
                charged_ns: 0,
                stands_ns: 0,
                at_ns: 0,
                event: 0,
                gap_ns: gap_us * US,
                is_behind: false,
            };
            let shown = probe.shows(between_us * US, is_known, is_firm);
            assert_eq!(shown, expected, "{kind:?}, call of {gap_us} us, {between_us} us between");
        }
    }
}
