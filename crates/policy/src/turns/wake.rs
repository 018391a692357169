//! When to look again: rarely while everything goes as expected, because each look costs the daemon.
//!
//! Promises: the end of a turn, of a drain and of an overlap are met exactly; an idle holder is
//! noticed soon if it is known to pause, else within [`tuning::STEADY_POLL_NS`](super::tuning), or
//! [`tuning::AWAITED_POLL_NS`](super::tuning) where nobody ever pauses.

use super::domain::{Domain, TurnMode, goes_first};
use super::tenant::TenantState;
use super::tuning;

impl Domain<'_> {
    /// Time of the next step, and whether it needs everybody's samples.
    pub(super) fn next_wake_ns(&mut self) -> u64 {
        let now_ns = self.now_ns;
        if self.is_full_step() {
            let full_ns = match self.state.mode {
                TurnMode::Lull => self.lull_wake_ns(),
                TurnMode::Held => self.held_wake_ns(),
                TurnMode::Drain => self.drain_wake_ns(),
                TurnMode::Together => self.together_wake_ns(),
                TurnMode::Free | TurnMode::Counted => now_ns.saturating_add(tuning::LEASE_POLL_NS),
            };
            self.state.full_step_ns = full_ns.max(now_ns.saturating_add(10_000));
            self.state.light_poll_ns = self.first_poll_ns().unwrap_or(0);
        }
        let full_ns = self.state.full_step_ns;
        let light_ns = now_ns.saturating_add(self.state.light_poll_ns);
        self.state.light_step = self.state.light_poll_ns != 0 && light_ns < full_ns;
        if self.state.light_step { light_ns } else { full_ns }
    }

    /// How often idle tenants that go first are looked at while others work. One whose step ends behind its closed gate
    /// is not idle: two decode servers above a flood took 12 % of a processor
    /// (`bench/results/h200-2026-12-01/shares.txt`).
    fn first_poll_ns(&self) -> Option<u64> {
        let highest = self.members().map(|t| t.seen.priority).max()?;
        let low_works = self.members().any(|t| t.seen.priority < highest && !self.is_calm(t));
        let idle = |latency: bool| {
            self.members().any(|t| {
                (if latency { t.seen.latency } else { t.seen.priority == highest })
                    && goes_first(t, highest)
                    && !t.demands(self.now_ns)
                    && !t.busy(self.now_ns)
            })
        };
        if low_works && idle(false) {
            return Some(tuning::PRIORITY_POLL_NS);
        }
        let others_work = self.members().any(|t| !t.seen.latency && !self.is_calm(t));
        (others_work && idle(true)).then_some(tuning::LATENCY_POLL_NS)
    }

    fn lull_wake_ns(&self) -> u64 {
        let contended_of_late = self.members().filter(|t| !self.is_calm(t)).count() > 1;
        let poll_ns =
            if contended_of_late { tuning::LATENCY_POLL_NS } else { tuning::CALM_POLL_NS };
        let polled_ns = self.now_ns.saturating_add(poll_ns);
        match self.state.overlap_since_ns {
            0 => polled_ns,
            since_ns => self.overlap_wake_ns(since_ns).min(polled_ns),
        }
    }

    fn held_wake_ns(&self) -> u64 {
        let now_ns = self.now_ns;
        let contended = self.members().any(|t| self.awaits(t));
        // A look would change nothing if all others wait already, none pauses, and no cap ends work before its turn.
        // A tenant that works little is behind, and has its turn sooner for a look.
        let has_turns_alone =
            |t: &TenantState| t.seat.is_steady() && t.seen.asked.cap_ppm.is_none();
        let all_wait =
            self.members().all(|t| has_turns_alone(t) && (t.seat.holds() || self.contends(t)));
        let steady_ns = if all_wait { tuning::AWAITED_POLL_NS } else { tuning::STEADY_POLL_NS };
        let mut wake_ns = now_ns.saturating_add(steady_ns);
        for tenant in self.members() {
            if tenant.seat.holds() {
                let poll_ns =
                    if tenant.seat.is_steady() { steady_ns } else { tuning::GAPPY_POLL_NS };
                let idle_ns = tenant.idle_at_ns(now_ns);
                let idle_ns = match idle_ns <= now_ns {
                    // It keeps its turn until then, and may go on before.
                    true => idle_ns
                        .saturating_add(self.patience_ns(tenant))
                        .min(now_ns.saturating_add(tuning::GAPPY_POLL_NS)),
                    false => idle_ns,
                };
                // A pause of one that works for long is an end: it is met exactly.
                let has_ended = tenant.has_launched() && !tenant.busy(now_ns);
                let ends = tenant.works_long() && has_ended;
                let polled_ns = if ends { 0 } else { now_ns.saturating_add(poll_ns) };
                wake_ns = wake_ns.min(idle_ns.max(polled_ns));
            } else if tenant.overlap.since_ns != 0 {
                wake_ns = wake_ns.min(self.overlap_wake_ns(tenant.overlap.since_ns));
            }
        }
        let wake_ns = wake_ns.min(self.piece_look_ns());
        if contended { wake_ns.min(self.over_look_ns()).min(self.first_step_ns()) } else { wake_ns }
    }

    /// When to look whether work that should end at `end_ns` has: what is late by much is so for long.
    fn overdue_ns(&self, end_ns: u64) -> u64 {
        let late_ns = self.now_ns.saturating_sub(end_ns) / 4;
        let again_ns = late_ns.clamp(tuning::OVERDUE_POLL_NS, tuning::GAPPY_POLL_NS);
        end_ns.max(self.now_ns.saturating_add(again_ns))
    }

    /// When an overlap has lasted too long; when it has but is not proved, some time later.
    fn overlap_wake_ns(&self, since_ns: u64) -> u64 {
        let over_ns = since_ns.saturating_add(tuning::OVERLAP_NS);
        if over_ns > self.now_ns {
            return over_ns;
        }
        self.now_ns.saturating_add(tuning::LATENCY_POLL_NS)
    }

    fn drain_wake_ns(&self) -> u64 {
        let since_ns = self.state.since_ns;
        let last_ns =
            self.members().filter(|t| t.seat.lingers()).map(TenantState::end_look_ns).max();
        let drained_ns = self.overdue_ns(last_ns.unwrap_or(self.now_ns));
        // Looked at in between too: a synchronisation may have proved it drained.
        let is_step = self.members().filter(|t| t.seat.lingers()).all(|t| t.steps.is_stepper());
        let poll_ns = if is_step { tuning::DRAIN_TIMEOUT_NS } else { tuning::GAPPY_POLL_NS };
        let polled_ns = self.now_ns.saturating_add(poll_ns);
        let timeout_ns = since_ns.saturating_add(tuning::DRAIN_TIMEOUT_NS);
        drained_ns.min(polled_ns).min(timeout_ns)
    }

    fn together_wake_ns(&self) -> u64 {
        let step_ns = if self.state.trial { self.trial_step_ns() } else { tuning::CALM_POLL_NS };
        self.now_ns.saturating_add(step_ns.max(1))
    }
}
