//! Settling of completed marks: comparison of measured time with the charges, and correction of the difference.
//!
//! Marks are settled under the lane's claim, in the order of the ring: beside strangers, or where they ended behind
//! their turn, as in `beside`; of several streams as in `among`; else here.
//!
//! Promises: marks are settled once each, in the order of their recording; where others' work may lie in a span, no
//! more is charged than the span. Does not record: that is done in `measure`.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::GateLine;

use super::completed::Completed;
use super::credit::signed;
use super::driver::{Driver, Words};
use super::here::Here;
use super::lane::Lane;
use super::marks::{Edge, Probe};
use super::rivals::in_turns;
use super::sample::correction_ns;
use super::shown::Shown;
use super::tuning;
use crate::cost::{Costs, Length, SLICED_FROM_NS};

impl Lane {
    /// Marks the end of a burst, so that its tail is measured while the gate is closed.
    pub(super) fn close_burst<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        line: &GateLine,
    ) {
        let seen_ns = self.marked_ns.load(Relaxed).max(self.done_ns.load(Relaxed));
        if self.launched_ns() > seen_ns
            && let Some(claim) = self.claim(here.life())
        {
            self.mark(here, &claim, None, None, line.epoch, line.active);
        }
        self.settle(here, costs, line);
    }

    /// Corrects the charges by completed marks; returns the correction, without the part for launches that a draw
    /// stands for.
    ///
    /// Cost: an event query, and for each mark that has completed an elapsed time.
    pub(super) fn settle<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        line: &GateLine,
    ) -> i64 {
        let Some(claim) = self.claim(here.life()) else {
            self.note_refused(here.now_ns());
            return 0;
        };
        // Without a pending mark nothing is charged below.
        let (mut all_ns, mut own_ns, since_ns) = (0_i64, 0_i64, self.since_ns.load(Relaxed));
        while let Some((event, mark)) = self.ring.oldest() {
            if claim.is_closing() || !here.is_done(event) {
                break;
            }
            let Some(completed) = self.complete(here, event, mark) else { break };
            // Once another turn has begun, another tenant's work may lie between the events.
            let is_just_back = self.is_just_back(here, line, here.now_ns());
            let ours = line.epoch == mark.epoch && (line.strangers != 0 || !is_just_back);
            let sharers = if ours { u64::from(line.active.max(mark.sharers).max(1)) } else { 0 };
            let now_ns = here.now_ns();
            let quiet_ns = match in_turns(here, line) {
                true => now_ns,
                false => now_ns.saturating_sub(tuning::QUIET_NS),
            };
            let quiet_ns = mark.probe.map_or(quiet_ns, |probe| quiet_ns.min(probe.at_ns));
            let is_alone = sharers == 1 && self.is_quiet_since(here, line, quiet_ns);
            // Uneven launches were charged no estimate, so they are charged now, with others beside or not.
            let is_uneven = sharers != 1 && mark.is_uneven(costs, now_ns);
            // Uneven launches that end behind their turn have no valid estimate either: longer ones end there more
            // often.
            let is_behind = !ours && line.strangers == 0;
            if is_behind {
                self.learn_behind(here, costs, &completed, now_ns);
            }
            let is_behind = is_behind && mark.sharers <= 1 && mark.was_uneven(costs, now_ns);
            let put_right = if line.strangers != 0 || is_uneven || is_behind {
                let others = line.strangers.max(sharers.saturating_sub(1)).max(1);
                self.settle_beside(here, costs, &completed, (others, is_behind)).into()
            } else if sharers == 1 && (mark.edge != Edge::Outside || !self.has_one_stream()) {
                self.settle_among(here, costs, &completed, is_alone).into()
            } else {
                self.settle_one(here, costs, &completed, (sharers, is_alone))
            };
            if ours || is_uneven || is_behind {
                all_ns = all_ns.saturating_add(put_right.all_ns);
                own_ns = own_ns.saturating_add(put_right.own_ns);
            }
            self.window.settled(mark.edge);
            self.ring.pop();
            self.untimed_ns.store(0, Relaxed);
            if let Some(probe) = mark.probe {
                self.probes.give_back(here.life(), probe.event);
            }
            self.settled_ns.store(mark.submitted_ns, Relaxed);
            self.done_ns.fetch_max(mark.submitted_ns, Relaxed);
            // Each unknown launch has a mark: those behind this one are in flight still.
            let left = self.unknown.load(Relaxed).saturating_sub(1).min(self.ring.pending());
            self.unknown.store(left, Relaxed);
        }
        if all_ns != 0 {
            self.charge(here, line, since_ns, all_ns);
        }
        if self.ring.pending() == 0 {
            self.since_ns.store(here.now_ns(), Relaxed);
        }
        own_ns
    }

    /// True if a turn had just begun at `at_ns`: a switch of contexts may lie behind an event recorded then.
    fn is_switched_to(&self, at_ns: u64) -> bool {
        at_ns < self.epoch_at_ns.load(Relaxed).saturating_add(tuning::SWITCH_NS)
    }

    /// Returns the correction that one completed mark makes.
    fn settle_one<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        completed: &Completed,
        (sharers, is_alone): (u64, bool),
    ) -> PutRight {
        let (mark, span_ns) = (&completed.mark, self.span_ns(completed));
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        let now_ns = here.now_ns();
        let span = Span { completed, now_ns, charged_ns, sharers, is_alone };
        let probed = mark.probe.and_then(|probe| self.probed(here, costs, &span, probe));
        match (mark.linked.then_some(span_ns).flatten(), probed) {
            (Some(linked_ns), probed) => {
                self.settle_linked(here, costs, &span, linked_ns, probed).into()
            }
            (None, Some(probed)) if is_alone => PutRight {
                all_ns: correction_ns(probed.charged_ns, probed.took_ns, probed.stands_ns),
                own_ns: probed.more_ns(),
            },
            // The span is not continuous, but begins at the anchor's end: it is an upper bound.
            (None, probed) if !is_alone => {
                let put_right = probed.map_or(0, ProbedLaunch::more_ns);
                let most = span_ns.map_or(i64::MAX, signed).saturating_sub(signed(charged_ns));
                put_right.min(most).into()
            }
            _ => 0.into(),
        }
    }

    /// Returns the correction of a mark that is linked, behind `span_ns` of the device's time.
    fn settle_linked<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        &Span { completed, now_ns, charged_ns, sharers, is_alone }: &Span<'_>,
        span_ns: u64,
        probed: Option<ProbedLaunch>,
    ) -> i64 {
        let mark = &completed.mark;
        // The mark's own event, and the one before a probed launch, are no work of the tenant's.
        let events = 1 + u64::from(mark.probe.is_some());
        let span_ns = span_ns.saturating_sub(events * self.event_ns()).max(span_ns / 2);
        if sharers > 1 {
            return self.beside.part_ns(span_ns, span_ns / sharers, charged_ns);
        }
        self.beside.forget();
        // Where the probed launch was the only one, the device may have waited for the host before it.
        let own_ns = match probed {
            Some(probed) if is_alone && probed.charged_ns == charged_ns => {
                span_ns.min(probed.took_ns)
            }
            _ => span_ns,
        };
        if is_alone && own_ns > charged_ns.saturating_mul(tuning::LONGER) {
            // The excess is one launch's, most likely.
            here.words.note_length(own_ns.saturating_sub(charged_ns));
        }
        if let Some((key, guess_ns)) = mark.followed.filter(|_| is_alone)
            && guess_ns == charged_ns
        {
            costs.learn(key, own_ns);
            costs.seen_alone(key, own_ns, now_ns);
        }
        signed(own_ns).saturating_sub(signed(charged_ns))
    }

    /// Returns what a mark's probe has shown of its launch, and learns from it.
    fn probed<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        span: &Span<'_>,
        probe: Probe,
    ) -> Option<ProbedLaunch> {
        let &Span { completed, now_ns, sharers, is_alone, .. } = span;
        let between_ns = completed.since_begun_ns(here)?;
        // A rough length stands until the first probe after it.
        let known_ns = costs.firm(probe.key);
        let expected = costs.expect(probe.key, now_ns);
        let is_firm = known_ns.is_some() || matches!(expected, Length::Uneven(_));
        let charged_ns = probe.charged_ns;
        let Some(shown) = probe.shows(between_ns, expected != Length::Unknown, is_firm) else {
            // The probe shows no end, but the launch lies between its events. An uneven launch was charged no
            // estimate, and all of its probe's time but the host's part is its own.
            let took_ns = match expected {
                Length::Uneven(_) => between_ns.saturating_sub(probe.gap_ns),
                _ => charged_ns.min(between_ns),
            };
            return is_alone.then_some(ProbedLaunch { charged_ns, took_ns, stands_ns: 0 });
        };
        let part_ns = shown.took_ns / sharers.max(1);
        let took_ns = match (known_ns, costs.get(probe.key)) {
            (None, None) if shown.took_ns > SLICED_FROM_NS => part_ns,
            // A length that is hunted, or rough, stands as far as the measured time allows.
            (None, Some(ns)) if shown.took_ns > SLICED_FROM_NS => ns.clamp(part_ns, shown.took_ns),
            _ => shown.took_ns,
        };
        // With others' work in it a measurement is still an upper bound.
        let is_new = known_ns.map_or(sharers != 0, |known_ns| took_ns < known_ns);
        if !is_firm && sharers == 0 {
            // The launch ended behind its turn, as one longer than a turn always does: it is no longer than the
            // measured time, and no shorter than its part of it.
            costs.learn_at_most(probe.key, took_ns);
            here.words.note_length(took_ns / tuning::MOST_AT_ONCE);
        }
        if sharers == 1 || is_new {
            let known = (known_ns, matches!(expected, Length::Uneven(_)));
            self.learn_probed(costs, span, &probe, Shown { took_ns, ..shown }, known);
            here.words.note_length(took_ns);
        }
        // Beside others the known length stands.
        let is_shown = sharers <= 1 || known_ns.is_none();
        is_shown.then_some(ProbedLaunch { charged_ns, took_ns, stands_ns: probe.stands_ns })
    }

    /// Learns the length that a probe has shown of a kernel whose length was known as it is here, or to be uneven.
    fn learn_probed(
        &self,
        costs: &Costs,
        &Span { now_ns, sharers, is_alone, .. }: &Span<'_>,
        probe: &Probe,
        Shown { took_ns, is_rough }: Shown,
        (known_ns, is_uneven): (Option<u64>, bool),
    ) {
        // A slice of another context in between must not pass for the kernel's own time.
        let most_ns = match known_ns {
            Some(ns) if !is_alone => ns.saturating_mul(3) / 2,
            _ => u64::MAX,
        };
        if let Some(known_ns) = known_ns.filter(|_| is_alone) {
            self.sample.learn(known_ns, took_ns, probe.stands_ns);
        }
        if is_rough {
            costs.learn_roughly(probe.key, took_ns);
        } else if is_alone && !self.is_switched_to(probe.at_ns) {
            costs.learn_alone(probe.key, took_ns, now_ns);
        } else {
            costs.learn(probe.key, took_ns.min(most_ns.max(tuning::GROWTH_FROM_NS)));
            if sharers == 1 && is_uneven {
                costs.seen_alone(probe.key, took_ns, now_ns);
            }
        }
    }
}

/// The time between two marks, as the second settles it.
struct Span<'a> {
    completed: &'a Completed,
    now_ns: u64,
    /// Charges in it.
    charged_ns: u64,
    /// Contexts whose slices may lie in it; 0 where that is not known, and nothing is learnt.
    sharers: u64,
    /// Surely no work of others does.
    is_alone: bool,
}

/// The launch of a probe as that has shown it, which was charged `charged_ns` and stands for `stands_ns` of the
/// charges.
#[derive(Clone, Copy, Debug)]
struct ProbedLaunch {
    charged_ns: u64,
    took_ns: u64,
    stands_ns: u64,
}

impl ProbedLaunch {
    fn more_ns(self) -> i64 {
        signed(self.took_ns).saturating_sub(signed(self.charged_ns))
    }
}

/// A completed mark's correction of the charges.
#[derive(Clone, Copy, Debug)]
struct PutRight {
    /// All of the correction.
    all_ns: i64,
    /// The part for launches before the mark, without those that a drawn launch before it stands for.
    own_ns: i64,
}

impl From<i64> for PutRight {
    fn from(own_ns: i64) -> Self {
        Self { all_ns: own_ns, own_ns }
    }
}
