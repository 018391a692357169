//! Trials of "everybody open", for tenants that do not fill the device.
//!
//! Turns waste a device whose holder leaves it idle in gaps too short to hand over in. When some
//! tenant uses little of its own turns, all are opened for a while and their progress is compared.
//! Everybody open stays only if the sum is better and nobody is worse off, so that no claim of one
//! tenant can talk another out of its turns.
//!
//! Promises: a trial that goes badly ends early; trials become rare when they keep failing; the state
//! is left when progress falls back.

use super::domain::{Domain, Mode};
use super::phase::Handover;
use super::tenant::rate_ppm;

/// Progress per time over all tenants, in millionths, and whether none is worse off than under turns.
struct Progress {
    sum_ppm: u64,
    gated_sum_ppm: u64,
    none_loses: bool,
}

impl Domain<'_> {
    /// Whether everybody should be opened for a trial now.
    pub(super) fn trial_due(&self) -> bool {
        let state = &*self.state;
        if self.now_ns < state.next_trial_ns
            || !self.lasted(state.window_ns, self.tuning.baseline_ns)
        {
            return false;
        }
        let mut active = self.members().filter(|t| !self.is_calm(t));
        let Some(first) = active.next() else { return false };
        let fills = |t: &super::TenantState| !t.usage_known || t.usage_ppm >= self.tuning.fills_ppm;
        let mut all_fill = fills(first);
        let mut others = 0_u32;
        for tenant in active {
            if tenant.priority != first.priority {
                return false;
            }
            all_fill &= fills(tenant);
            others = others.saturating_add(1);
        }
        others > 0 && !all_fill
    }

    /// Opens everybody and begins to measure.
    pub(super) fn begin_trial(&mut self) {
        let (now_ns, takeover_ns) = (self.now_ns, self.tuning.takeover_ns);
        let window_ns = now_ns.saturating_sub(self.state.window_ns);
        for tenant in self.members_mut() {
            let used_ns = tenant.used_ns.saturating_sub(tenant.window_used_ns);
            tenant.gated_ppm = rate_ppm(used_ns, window_ns);
            tenant.usage_at_trial_ppm = tenant.usage_ppm;
            tenant.end_turn(now_ns, takeover_ns, false);
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
        let active = self.members().filter(|t| !self.is_calm(t)).count();
        if self.overtaken() || active < 2 {
            return self.end_together();
        }
        let progress = self.progress(elapsed_ns);
        if self.state.trial {
            let hopeless = progress.sum_ppm < progress.gated_sum_ppm / 10 * 7;
            if elapsed_ns < self.tuning.trial_ns && !(hopeless && self.trial_quarter(elapsed_ns)) {
                return;
            }
            self.schedule_trial();
            let gains = progress.sum_ppm > progress.gated_sum_ppm / 100 * 102;
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

    fn trial_quarter(&self, elapsed_ns: u64) -> bool {
        elapsed_ns >= self.tuning.trial_ns / 4
    }

    fn progress(&self, elapsed_ns: u64) -> Progress {
        let mut progress = Progress { sum_ppm: 0, gated_sum_ppm: 0, none_loses: true };
        for tenant in self.members() {
            let used_ns = tenant.used_ns.saturating_sub(tenant.window_used_ns);
            let rate = rate_ppm(used_ns, elapsed_ns);
            progress.sum_ppm = progress.sum_ppm.saturating_add(rate);
            progress.gated_sum_ppm = progress.gated_sum_ppm.saturating_add(tenant.gated_ppm);
            progress.none_loses &= rate >= tenant.gated_ppm / 100 * 97;
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

    fn begin_window(&mut self) {
        self.state.window_ns = self.now_ns;
        for tenant in self.members_mut() {
            tenant.window_used_ns = tenant.used_ns;
        }
    }
}
