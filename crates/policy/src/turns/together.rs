//! Trials of "everybody open", for tenants that do not fill the device.
//!
//! Turns waste a device whose holder leaves it idle in gaps too short to hand over in. When much
//! of its time is left unused, all are opened for a while and their progress is compared.
//! Everybody open stays only if the sum is better and nobody is worse off, so that no claim of one
//! tenant can talk another out of its turns.
//!
//! Promises: a trial that goes badly ends early; trials become rare when they keep failing; the state
//! is left when progress falls back.

use super::domain::{Domain, Mode};
use super::phase::Handover;
use super::tenant::rate_ppm;

/// Turns of each tenant after which it is known how much they leave unused.
const ROUNDS: u64 = 4;
/// What a trial must bring in sum to be worth it, of the progress under turns.
const GAIN_PERCENT: u64 = 105;
/// What each must keep of its progress under turns; what is in flight makes the measure this rough.
const KEEPS_PERCENT: u64 = 92;

/// Progress per time over all tenants, in millionths, and whether none is worse off than under turns.
struct Progress {
    sum_ppm: u64,
    gated_sum_ppm: u64,
    none_loses: bool,
}

impl Domain<'_> {
    /// Whether everybody should be opened for a trial now: under turns, and with nobody closed by a cap
    /// of its own, part of the device is left unused.
    pub(super) fn trial_due(&self) -> bool {
        let mut active = self.members().filter(|t| !self.is_calm(t));
        let Some(first) = active.next() else { return false };
        let (mut count, mut used_ns) = (1_u64, first.window_used());
        let mut comparable = !first.ended_by_cap;
        for tenant in active {
            comparable &= !tenant.ended_by_cap && tenant.priority == first.priority;
            used_ns = used_ns.saturating_add(tenant.window_used());
            count = count.saturating_add(1);
        }
        let rounds_ns = self.state.quantum_ns(self.tuning).saturating_mul(count * ROUNDS);
        let since_ns = self.state.window_ns;
        let window_ns = self.now_ns.saturating_sub(since_ns);
        count > 1
            && comparable
            && self.now_ns >= self.state.next_trial_ns
            && self.lasted(since_ns, self.tuning.baseline_ns.max(rounds_ns))
            && !self.actives_changed()
            && rate_ppm(used_ns, window_ns) < self.tuning.fills_ppm
    }

    /// Opens everybody and begins to measure.
    pub(super) fn begin_trial(&mut self) {
        let now_ns = self.now_ns;
        let window_ns = now_ns.saturating_sub(self.state.window_ns);
        for tenant in self.members_mut() {
            tenant.gated_ppm = rate_ppm(tenant.window_used(), window_ns);
            tenant.end_turn(now_ns, false);
            tenant.open_gate(now_ns);
            tenant.picked = false;
        }
        self.state.mode = Mode::Together;
        self.state.trial = true;
        self.state.turn_end_ns = 0;
        self.state.counters.trials = self.state.counters.trials.saturating_add(1);
        self.begin_window();
    }

    /// One step with everybody open.
    pub(super) fn together(&mut self) {
        let elapsed_ns = self.now_ns.saturating_sub(self.state.window_ns);
        if self.overtaken() || self.actives_changed() {
            return self.end_together();
        }
        let progress = self.progress(elapsed_ns);
        if self.state.trial {
            let hopeless = progress.sum_ppm < progress.gated_sum_ppm / 10 * 7;
            if elapsed_ns < self.tuning.trial_ns
                && !(hopeless && elapsed_ns >= self.trial_step_ns())
            {
                return;
            }
            self.schedule_trial();
            let gains = progress.sum_ppm > progress.gated_sum_ppm / 100 * GAIN_PERCENT;
            if !(gains && progress.none_loses) {
                return self.end_together();
            }
            self.state.trial = false;
            self.begin_window();
        } else if self.now_ns >= self.state.next_trial_ns {
            self.state.next_trial_ns = 0;
            self.end_together();
        } else if elapsed_ns >= self.tuning.baseline_ns {
            if progress.sum_ppm < progress.gated_sum_ppm || !progress.none_loses {
                return self.end_together();
            }
            self.begin_window();
        }
    }

    /// How often a trial is looked at.
    pub(super) fn trial_step_ns(&self) -> u64 {
        self.tuning.trial_ns / 16
    }

    fn progress(&self, elapsed_ns: u64) -> Progress {
        let mut progress = Progress { sum_ppm: 0, gated_sum_ppm: 0, none_loses: true };
        for tenant in self.members() {
            let rate = rate_ppm(tenant.window_used(), elapsed_ns);
            progress.sum_ppm = progress.sum_ppm.saturating_add(rate);
            progress.gated_sum_ppm = progress.gated_sum_ppm.saturating_add(tenant.gated_ppm);
            progress.none_loses &= rate >= tenant.gated_ppm / 100 * KEEPS_PERCENT;
        }
        progress
    }

    fn schedule_trial(&mut self) {
        let first_ns = self.tuning.retrial_ns;
        let wait_ns = self.state.retrial_ns.max(first_ns);
        self.state.next_trial_ns = self.now_ns.saturating_add(wait_ns);
        self.state.retrial_ns =
            wait_ns.saturating_mul(2).min(self.tuning.max_retrial_ns.max(first_ns));
    }

    /// Back to turns, from equal starting points.
    fn end_together(&mut self) {
        let floor_ns = self.members().map(|t| t.virtual_ns).max().unwrap_or(0);
        for tenant in self.members_mut() {
            tenant.virtual_ns = floor_ns;
        }
        self.state.floor_ns = self.state.floor_ns.max(floor_ns);
        self.state.trial = false;
        self.begin_window();
        self.state.mode = Mode::Lull;
        self.hand_over(Handover::All);
    }

    fn count_active(&self) -> usize {
        self.members().filter(|t| !self.is_calm(t)).count()
    }

    /// Whether others are active than when the running measurement began.
    pub(super) fn actives_changed(&self) -> bool {
        self.count_active() != self.state.window_active
    }

    /// Begins to measure progress.
    pub(super) fn begin_window(&mut self) {
        self.state.window_ns = self.now_ns;
        self.state.window_active = self.count_active();
        for tenant in self.members_mut() {
            tenant.window_used_ns = tenant.used_ns;
        }
    }
}
