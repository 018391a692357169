//! Settling of work that has others' slices in it.
//!
//! Tenants are known to use their slices: a span is worth their parts. A stranger, a process of no tenant, may have a
//! context and do nothing, or fill the device: NVML tells only that it is there. So beside strangers a kernel's known
//! length stands, and a kernel of uneven lengths is charged its measured time, up to the longest that was seen of it
//! alone; the latter beside tenants as well.
//!
//! Promises: no charge is above the measured time; beside strangers none is below the launch's part if all of them
//! filled the device, but for a slice of theirs. Does not ask who is there.

use core::sync::atomic::Ordering::Relaxed;

use super::completed::Completed;
use super::credit::signed;
use super::driver::{Driver, Words};
use super::here::Here;
use super::lane::Lane;
use super::marks::Mark;
use super::tuning;
use crate::cost::{Costs, Length, Moments};
use crate::scaled::scaled;
use crate::turns::tuning::DRAIN_TIMEOUT_NS;

impl Mark {
    /// Returns the kernel of the launch before it, where the mark is its own.
    fn key(&self) -> Option<u64> {
        let probed = self.probe.map(|probe| probe.key);
        probed.or(self.followed.map(|(key, _)| key))
    }

    /// True if that kernel is known to be uneven.
    pub(super) fn is_uneven(&self, costs: &Costs, now_ns: u64) -> bool {
        self.key().is_some_and(|key| matches!(costs.expect(key, now_ns), Length::Uneven(_)))
    }

    /// True if that kernel was uneven of late, also where that was forgotten since others came.
    pub(super) fn was_uneven(&self, costs: &Costs, now_ns: u64) -> bool {
        self.key().is_some_and(|key| costs.was_uneven(key, now_ns))
    }
}

/// True if launches of this key are let go by the dozen.
fn is_let_go_as_short(costs: &Costs, key: u64) -> bool {
    costs.get(key).is_some_and(|ns| ns < tuning::LONG_NS)
}

/// A launch beside others, as its mark has shown it.
struct OneLaunch<'a> {
    mark: &'a Mark,
    now_ns: u64,
    key: u64,
    /// Measured time, and the part that is its own if all others filled the device.
    took_ns: u64,
    least_ns: u64,
    /// The longest that was seen of its kernel alone.
    longest_ns: Option<u64>,
    /// It ended behind its turn; and its kernel is let go by the dozen.
    is_behind: bool,
    is_taken_for_short: bool,
}

impl Lane {
    /// Learns from a mark behind its own turn that the kernel before it at times takes far longer than is known. All of
    /// its launches may end there: then nothing else ever shows it, since in a turn a kernel taken for short is let go
    /// by the hundred.
    #[inline(never)]
    pub(super) fn learn_behind<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        completed: &Completed,
        now_ns: u64,
    ) {
        let mark = &completed.mark;
        // A mark that closes a burst belongs to no launch: it teaches the kernel that most of the burst is made of, as
        // a rule.
        let key = mark.key().unwrap_or_else(|| self.drawn_key.load(Relaxed));
        let known = costs.get(key).map(|ns| (key, ns));
        let is_even = |_: &(u64, u64)| !matches!(costs.expect(key, now_ns), Length::Uneven(_));
        let Some((key, known_ns)) = known.filter(is_even) else { return };
        let Some((span_ns, charged_ns)) = self.span_behind(here, completed, now_ns) else { return };
        // The length of one launch before the mark, if all were of its kind.
        let took_ns = scaled(span_ns, known_ns, charged_ns.max(known_ns));
        let least_ns = span_ns.saturating_sub(tuning::SLICE_NS) / tuning::MOST_AT_ONCE;
        let is_sure = least_ns > charged_ns.saturating_mul(tuning::LONGER);
        let longer_ns =
            known_ns.saturating_mul(tuning::LONGER).saturating_add(tuning::EVENT_LATE_NS);
        let seems_so = match mark.linked {
            // Long kernels are let go few at a time, and each shows its own length.
            true if known_ns >= tuning::HORIZON_NS => return,
            true => mark.sharers <= 1 && took_ns > longer_ns,
            false => mark.sharers <= 1 && least_ns > known_ns,
        };
        if is_sure || seems_so {
            costs.count_as_uneven(key);
            costs.learn_uneven(key, if is_sure { least_ns } else { took_ns }, now_ns);
            if is_sure {
                costs.make_sure(key, now_ns);
            }
        }
    }

    /// Returns the time in which the work before a mark lies, and its charges: that since the mark
    /// before, or of one launch that has a probe; `None` where neither can be told.
    fn span_behind<D: Driver>(
        &self,
        here: &Here<'_, D>,
        completed: &Completed,
        now_ns: u64,
    ) -> Option<(u64, u64)> {
        let mark = &completed.mark;
        if mark.linked {
            let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
            return completed.since_ns.map(|ns| (u64::try_from(ns).unwrap_or(0), charged_ns));
        }
        // A turn waits for so long for a launch that was alone in it, unless others go first.
        let is_long = |ns: &u64| *ns >= DRAIN_TIMEOUT_NS;
        let probe = mark.probe.filter(|probe| is_long(&now_ns.saturating_sub(probe.at_ns)))?;
        let ns = completed.since_begun_ns(here).filter(is_long)?;
        Some((ns.saturating_sub(probe.gap_ns), probe.charged_ns))
    }

    /// Returns the correction that one completed mark makes, with so many others beside that may use their slices or
    /// not.
    #[inline(never)]
    pub(super) fn settle_beside<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        completed: &Completed,
        (others, is_behind): (u64, bool),
    ) -> i64 {
        let (span_ns, mark) = (self.span_ns(completed), &completed.mark);
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        let now_ns = here.now_ns();
        let event_ns = self.event_ns();
        let own_by_span_ns = span_ns.map(|ns| ns.saturating_sub(event_ns).max(ns / 2));
        let followed = || {
            let (key, guess_ns) =
                mark.followed.filter(|(_, ns)| mark.linked && *ns == charged_ns)?;
            Some((key, guess_ns, own_by_span_ns?))
        };
        let one = probed_beside(here, costs, completed).or_else(followed);
        let least_ns =
            |took_ns: u64| took_ns.saturating_sub(tuning::SLICE_NS) / others.saturating_add(1);
        let Some((key, guess_ns, took_ns)) = one else {
            // The known lengths stand, within the bounds of the span.
            let Some(span_ns) = own_by_span_ns else { return 0 };
            let least_ns = if mark.linked { least_ns(span_ns) } else { 0 };
            return signed(charged_ns.max(least_ns).min(span_ns))
                .saturating_sub(signed(charged_ns));
        };
        here.words.note_length(least_ns(took_ns));
        let is_taken_for_short = is_behind && is_let_go_as_short(costs, key);
        if is_taken_for_short {
            costs.learn_uneven(key, took_ns, now_ns);
        }
        let longest_ns = costs.longest_alone(key).map(|ns| ns.max(least_ns(took_ns)));
        if let Some(span_ns) = own_by_span_ns.filter(|_| is_behind && mark.linked)
            && guess_ns < charged_ns
        {
            // Several launches, each as long as the longest at most.
            let each_ns = longest_ns.unwrap_or(0).max(guess_ns);
            let most_ns = scaled(each_ns.saturating_mul(9) / 8, charged_ns, guess_ns.max(1));
            return signed(span_ns.min(most_ns)).saturating_sub(signed(charged_ns));
        }
        let least_ns = least_ns(took_ns);
        let one = OneLaunch {
            mark,
            now_ns,
            key,
            took_ns,
            least_ns,
            longest_ns,
            is_behind,
            is_taken_for_short,
        };
        let own_ns = self.own_beside(here, costs, &one);
        signed(own_ns).saturating_sub(signed(guess_ns))
    }

    /// Returns how much of its measured time is one launch's own, and learns from it.
    fn own_beside<D: Driver>(&self, here: &Here<'_, D>, costs: &Costs, one: &OneLaunch<'_>) -> u64 {
        let &OneLaunch { mark, now_ns, key, took_ns, least_ns, longest_ns, is_behind, .. } = one;
        match (costs.expect(key, now_ns), longest_ns) {
            (Length::Even(known_ns), longest_ns) if is_behind => {
                took_ns.min(longest_ns.unwrap_or(known_ns).max(known_ns).saturating_mul(9) / 8)
            }
            (Length::Even(known_ns), Some(longest_ns)) => {
                let own_ns = known_ns.min(longest_ns).max(least_ns).min(took_ns);
                if let Some(probe) = mark.probe {
                    // The deviation is the stranger's doing.
                    self.sample.learn(known_ns, known_ns, probe.stands_ns);
                }
                costs.keep(key, longest_ns, now_ns);
                own_ns
            }
            (Length::Uneven(_), Some(longest_ns)) => {
                let own_ns = took_ns.min(longest_ns);
                if !one.is_taken_for_short {
                    costs.keep(key, longest_ns, now_ns);
                    // All of its launches may end there, and the known length decides how many go at a time.
                    if is_behind {
                        costs.learn_uneven(key, own_ns, now_ns);
                    }
                }
                own_ns
            }
            // A kernel never seen alone: slices lie in few of its launches, as a rule.
            (Length::Even(known_ns) | Length::Uneven(Moments { mean_ns: known_ns, .. }), None) => {
                let own_ns = took_ns.min(known_ns.saturating_mul(3) / 2).max(least_ns);
                costs.learn(key, own_ns);
                own_ns
            }
            (Length::Unknown, _) => {
                costs.learn(key, took_ns);
                here.words.note_length(took_ns);
                took_ns
            }
        }
    }
}

/// Returns key, charge and measured time of the launch of a mark's probe.
fn probed_beside<D: Driver>(
    here: &Here<'_, D>,
    costs: &Costs,
    completed: &Completed,
) -> Option<(u64, u64, u64)> {
    let probe = completed.mark.probe?;
    let between_ns = completed.since_begun_ns(here)?;
    let is_known = costs.get(probe.key).is_some();
    let took_ns = match probe.shows(between_ns, is_known, is_known) {
        Some(shown) => shown.took_ns,
        // The probe shows no end, but the launch lies between its events.
        None => between_ns.saturating_sub(probe.gap_ns),
    };
    Some((probe.key, probe.charged_ns, took_ns))
}
