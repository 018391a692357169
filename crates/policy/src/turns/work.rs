//! A tenant's work in flight: until when there is some, and whether all has ended.
//!
//! Promises: an end that is only expected is never taken for one that was seen (`drained`). Does
//! not know turns.

use super::mean::mean;
use super::observed::Observed;
use super::tuning;

/// Work in flight, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// The later of the last launch as it was written down and the last look that saw one.
    pub(super) last_launch_ns: u64,
    /// Until when a thread's sleep says that some is: it may sleep for a host function, or be stopped.
    sleeps_until_ns: u64,
    /// When it ends at the latest, as far as the tenant says and as long as its kernels have been.
    pub(super) until_ns: u64,
    /// There was some at the last look. A process that waits at the gate is busy until now.
    is_busy: bool,
    /// There was some at the look before, or since.
    pub(super) was_there: bool,
    /// It has ended beyond doubt, not by an estimate.
    pub(super) drained: bool,
    /// Moving mean of its pauses: from the end of what was launched to the next launch, without its wait for turns.
    pause_ns: u64,
    /// For how long it had paused at the last look.
    idle_ns: u64,
}

impl Work {
    /// One look, after the look `before`; `launched`: there was a launch between the two.
    pub(super) fn look(
        &mut self,
        now_ns: u64,
        [before, seen]: [&Observed; 2],
        launched: bool,
        is_stepper: bool,
    ) {
        // Nothing was in flight when who slept for it woke. A stepper that wakes has nothing in flight, whatever it was
        // charged.
        let has_ended = seen.busy_until_ns <= now_ns || is_stepper;
        self.drained &= !launched && !seen.sleeps;
        self.drained |= before.sleeps && !seen.sleeps && has_ended;
        // A launch whose time was not written down was since the last look.
        self.last_launch_ns = match launched {
            true => now_ns,
            false => self.last_launch_ns.max(seen.launched_ns),
        };
        let ends_ns = seen.busy_until_ns.max(self.last_launch_ns);
        // The first kernel may be as long as any.
        let longest_ns = match seen.longest_ns {
            0 => tuning::LINGER_NS,
            ns => ns.saturating_mul(tuning::LONGEST_IN_FLIGHT).min(tuning::LINGER_NS),
        };
        self.sleeps_until_ns = ends_ns.saturating_add(longest_ns.max(tuning::DRAIN_TIMEOUT_NS));
        self.until_ns = match seen.sleeps {
            true => ends_ns.saturating_add(longest_ns),
            false => seen.busy_until_ns,
        };
        self.look_at_pause(now_ns, [before, seen], launched);
        self.idle_ns = match seen.wants {
            true => 0,
            false => now_ns.saturating_sub(ends_ns),
        };
        self.was_there = self.is_busy || launched;
        self.is_busy = self.is_in_flight(seen, now_ns);
    }

    /// Looks for a pause that has ended, in a launch or at the closed gate.
    fn look_at_pause(&mut self, now_ns: u64, [before, seen]: [&Observed; 2], launched: bool) {
        if before.launched_ns == 0 {
            return;
        }
        let launches = seen.launches.wrapping_sub(before.launches);
        let went_on_ns = match launched {
            // The time of a launch is written down once in a while.
            true if seen.launched_ns == before.launched_ns => now_ns,
            true => seen.launched_ns,
            // One that comes to the gate says that it is busy until then.
            false if seen.wants && launches == 0 => seen.busy_until_ns.min(now_ns),
            false => return,
        };
        let waited_ns = seen.waited_ns.saturating_sub(before.waited_ns);
        let used_ns = seen.used_ns.saturating_sub(before.used_ns);
        let from_ns = before.busy_until_ns.max(before.launched_ns);
        let idle_ns =
            went_on_ns.saturating_sub(from_ns.saturating_add(waited_ns).saturating_add(used_ns));
        let pause_ns = self.idle_ns.max(idle_ns / launches.max(1));
        // A shorter one ends no turn.
        if pause_ns >= tuning::IDLE_NS {
            self.pause_ns = mean(self.pause_ns, pause_ns.min(tuning::MOST_PAUSE_NS));
        }
    }

    /// How long it usually pauses.
    pub(super) fn pause_ns(&self) -> u64 {
        self.pause_ns
    }

    /// The tenant uses no device any more.
    pub(super) fn detach(&mut self) {
        self.drained = true;
    }

    /// There was work at the last look, and it has not been seen to end.
    pub(super) fn is_known(&self) -> bool {
        self.is_busy && !self.drained
    }

    pub(super) fn is_in_flight(&self, seen: &Observed, now_ns: u64) -> bool {
        self.is_slept_for(seen, now_ns) || seen.busy_until_ns > now_ns
    }

    /// A thread sleeps, and what it sleeps for may be work that takes longer than was expected.
    pub(super) fn is_slept_for(&self, seen: &Observed, now_ns: u64) -> bool {
        seen.sleeps && now_ns < self.sleeps_until_ns
    }

    /// The last launch was a moment ago.
    pub(super) fn has_just_begun(&self, now_ns: u64) -> bool {
        self.last_launch_ns.saturating_add(tuning::AT_WORK_NS) > now_ns
    }
}
