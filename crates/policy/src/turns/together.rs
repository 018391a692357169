//! Trials of "everybody open", for tenants that do not fill the device.
//!
//! Turns waste a device whose holder leaves it idle in gaps too short to hand over in. When much
//! of its time is left unused, all are opened for a while and their progress is compared.
//! The state "everybody open" stays only if the sum is better and no tenant is worse off, so that no claim of one
//! tenant can talk another out of its turns.
//!
//! Promises: a trial that goes badly ends early; trials become rare when they keep failing; the state
//! is left at once when progress falls back, or is no longer what the trial saw and fills the device; in time when it is
//! another, and each minute. To go back and look costs what turns cost these tenants: up to half of the device for a
//! tenth of a second.

use super::domain::{Domain, TurnMode};
use super::phase::Handover;
use super::tenant::{TenantState, rate_ppm};
use super::tuning;
use crate::scaled::scaled;

/// Progress per time over all tenants, in millionths; whether none is worse off than under turns, and
/// whether each goes on as it did in the trial.
struct Progress {
    sum_ppm: u64,
    /// Upper bound of the sum, if the last chunks are not charged yet.
    at_most_ppm: u64,
    gated_sum_ppm: u64,
    none_loses: bool,
    one_loses_much: bool,
    as_tried: bool,
}

impl Domain<'_> {
    /// Whether everybody should be opened for a trial now: under turns, and with nobody closed by a cap
    /// of its own, part of the device is left unused.
    pub(super) fn trial_due(&self) -> bool {
        let mut active = self.members().filter(|t| !self.is_calm(t));
        let Some(first) = active.next() else { return false };
        // Work that was charged nothing has not ended, so its use is not known yet.
        let is_known = |t: &TenantState| t.window_used() != 0;
        let (mut count, mut used_ns) = (1_u64, first.window_used());
        let is_fit =
            |t: &TenantState| !t.seat.ended_by_cap && is_known(t) && !self.exceeds_turns(t);
        let mut comparable = is_fit(first);
        for tenant in active {
            comparable &= is_fit(tenant) && tenant.seen.priority == first.seen.priority;
            used_ns = used_ns.saturating_add(tenant.window_used());
            count = count.saturating_add(1);
        }
        let since_ns = self.state.window_ns;
        let window_ns = self.now_ns.saturating_sub(since_ns);
        count > 1
            && comparable
            && self.now_ns >= self.state.next_trial_ns
            && self.lasted(since_ns, self.baseline_ns(count))
            && !self.actives_changed()
            && rate_ppm(used_ns, window_ns) < tuning::FILLS_PPM
    }

    /// How long turns of so many are measured before a trial.
    fn baseline_ns(&self, count: u64) -> u64 {
        let rounds_ns = self.state.quantum_ns().saturating_mul(count * tuning::TRIAL_ROUNDS);
        tuning::BASELINE_NS.max(rounds_ns)
    }

    /// Begins a new window once tenants may have changed what they do since this one began.
    pub(super) fn renew_window(&mut self) {
        let count = u64::try_from(self.count_active()).unwrap_or(u64::MAX);
        if self.lasted(self.state.window_ns, self.baseline_ns(count).saturating_mul(4)) {
            self.begin_window();
        }
    }

    /// The tenant's work takes longer to end behind its turns than a turn lasts. It is charged all at once, so that no
    /// window shows its progress; and the gaps behind it, too short to hand over in, are too small a part to waste. Judged
    /// by its last turns: the longest kernel that it ever had says nothing of today's.
    fn exceeds_turns(&self, tenant: &TenantState) -> bool {
        tenant.seat.drain_ns > self.state.full_quantum_ns()
    }

    /// Opens everybody and begins to measure.
    pub(super) fn begin_trial(&mut self) {
        let now_ns = self.now_ns;
        let window_ns = now_ns.saturating_sub(self.state.window_ns);
        for tenant in self.members_mut() {
            tenant.tried.gated_ppm = rate_ppm(tenant.window_used(), window_ns);
            tenant.tried.gated_launches = tenant.launches_in_second(window_ns);
            tenant.end_turn(now_ns, false);
            tenant.open_gate(now_ns);
            tenant.picked = false;
        }
        self.begin_window();
        self.state.mode = TurnMode::Together;
        self.state.since_ns = now_ns;
        self.state.trial = true;
        self.state.turn_end_ns = 0;
        self.state.counters.trials = self.state.counters.trials.saturating_add(1);
    }

    /// One step with everybody open.
    pub(super) fn together(&mut self) {
        let elapsed_ns = self.now_ns.saturating_sub(self.state.window_ns);
        if self.overtaken() || self.actives_changed() {
            return self.end_together();
        }
        let progress = self.progress(elapsed_ns);
        if self.state.trial {
            let all_lose_much = loses_much(progress.at_most_ppm, progress.gated_sum_ppm);
            let hopeless = all_lose_much || progress.one_loses_much;
            if elapsed_ns < tuning::TRIAL_NS && !(hopeless && elapsed_ns >= self.trial_step_ns()) {
                return;
            }
            self.schedule_trial();
            let gains = progress.sum_ppm > progress.gated_sum_ppm / 100 * tuning::GAIN_PERCENT;
            if !(gains && progress.none_loses) || self.any_launches_less() {
                return self.end_together();
            }
            self.state.trial = false;
            for row in 0..self.tenants.len() {
                let Some(tenant) = self.tenants.get(row) else { continue };
                let tried_ppm = self.rate_ppm(tenant, elapsed_ns);
                if let Some(tenant) = self.tenants.get_mut(row) {
                    tenant.tried.tried_ppm = tried_ppm;
                }
            }
            self.begin_window();
        } else if elapsed_ns >= tuning::BASELINE_NS {
            // Slices divide what is filled now, which the trial has not seen.
            let is_filled = !progress.as_tried && progress.sum_ppm >= tuning::FILLS_PPM;
            let loses = progress.sum_ppm < progress.gated_sum_ppm || !progress.none_loses;
            if loses || is_filled || self.any_launches_less() {
                return self.end_together();
            }
            if self.now_ns >= self.state.next_trial_ns {
                if !progress.as_tried || self.lasted(self.state.since_ns, tuning::RENEW_NS) {
                    self.state.next_trial_ns = 0;
                    return self.end_together();
                }
                self.schedule_trial();
            }
            self.begin_window();
        }
    }

    /// How often a trial is looked at.
    pub(super) fn trial_step_ns(&self) -> u64 {
        tuning::TRIAL_NS / 16
    }

    fn progress(&self, elapsed_ns: u64) -> Progress {
        let rough_ppm = rate_ppm(tuning::ROUGH_NS, elapsed_ns);
        let mut progress = Progress {
            sum_ppm: 0,
            at_most_ppm: 0,
            gated_sum_ppm: 0,
            none_loses: true,
            one_loses_much: false,
            as_tried: true,
        };
        for tenant in self.members() {
            let rate = self.rate_ppm(tenant, elapsed_ns);
            let at_most =
                if tenant.tried.gated_ppm > 0 { rate.saturating_add(rough_ppm) } else { rate };
            progress.sum_ppm = progress.sum_ppm.saturating_add(rate);
            progress.at_most_ppm = progress.at_most_ppm.saturating_add(at_most);
            progress.gated_sum_ppm = progress.gated_sum_ppm.saturating_add(tenant.tried.gated_ppm);
            progress.none_loses &= at_most >= tenant.tried.gated_ppm / 100 * tuning::KEEPS_PERCENT;
            progress.one_loses_much |= loses_much(at_most, tenant.tried.gated_ppm);
            let same_ppm = (tenant.tried.tried_ppm / tuning::SAME_PART).max(rough_ppm);
            progress.as_tried &= rate.abs_diff(tenant.tried.tried_ppm) <= same_ppm;
        }
        progress
    }

    /// A tenant's progress. All together have used no more than there was: where they say more, others' slices are in
    /// what each has measured, and each had its part of what switches between them leave.
    fn rate_ppm(&self, tenant: &TenantState, elapsed_ns: u64) -> u64 {
        let devices = |mask: u32| u64::from(mask.count_ones());
        let said = self.members().map(|t| t.window_used().saturating_mul(devices(t.seats)));
        let said_ns = said.fold(0, u64::saturating_add);
        let wall_ns = elapsed_ns.saturating_mul(devices(self.state.group));
        let most_ns = scaled(wall_ns, tuning::SLICED_PERCENT, 100);
        let ppm = rate_ppm(tenant.window_used(), elapsed_ns);
        scaled(ppm, most_ns, said_ns.max(most_ns).max(1))
    }

    /// Whether a tenant has launched less since the trial began than under turns, give or take a
    /// turn's. What a tenant says it has used is an even part of what others' slices are in, and
    /// one with several contexts has more slices than that.
    fn any_launches_less(&self) -> bool {
        let elapsed_ns = self.now_ns.saturating_sub(self.state.since_ns);
        let turn_ns = self.state.full_quantum_ns();
        self.members().any(|tenant| {
            let launches = tenant.launches_in_second(elapsed_ns);
            let at_most = scaled(launches, elapsed_ns.saturating_add(turn_ns), elapsed_ns.max(1));
            at_most < tenant.tried.gated_launches / 100 * tuning::KEEPS_PERCENT
        })
    }

    fn schedule_trial(&mut self) {
        let wait_ns = self.state.retrial_ns.max(tuning::RETRIAL_NS);
        self.state.next_trial_ns = self.now_ns.saturating_add(wait_ns);
        self.state.retrial_ns = wait_ns.saturating_mul(2).min(tuning::MAX_RETRIAL_NS);
    }

    /// Back to turns. Each tenant stands where it stood: no time was charged meanwhile.
    fn end_together(&mut self) {
        self.state.trial = false;
        self.state.mode = TurnMode::Lull;
        self.begin_window();
        self.hand_over(Handover::All);
    }

    pub(super) fn count_active(&self) -> usize {
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
        let counts_anew = self.state.mode != TurnMode::Together;
        for tenant in self.members_mut() {
            tenant.tried.from_ns = tenant.used_ns;
            if counts_anew {
                tenant.tried.from_launches = tenant.seen.launches;
            }
        }
    }
}

/// Whether progress that is at most this is so far below that under turns that a trial can end.
fn loses_much(at_most_ppm: u64, gated_ppm: u64) -> bool {
    at_most_ppm < gated_ppm / 10 * 7
}
