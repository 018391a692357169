//! Turns by steps: a tenant that launches, waits for it and launches again has turns that end as a
//! step does.
//!
//! A decode server has nothing queued, so a hand-over at the end of its step costs it nothing but
//! the switch of contexts, and the host's time between two steps is another's. So beside such
//! steppers turns are short: a cycle, in which each has its turn, is a step of each, or as long as
//! its hand-overs are worth. A turn ends with the step that ends nearest to its planned end: half a
//! step before that the gate of who waits for its step is closed.
//!
//! Promises: a turn has one step at least; it ends half a step beyond its planned end at the
//! latest. Without a stepper turns are as they are else. What a tenant claims shortens turns, and
//! gives it no more of the device.
//!
//! Does not choose who goes next.

use super::domain::Domain;
use super::stepping::{First, Stepping};
use super::tenant::{TenantState, VIRTUAL_SCALE};
use super::tuning;
use crate::scaled::scaled;

impl TenantState {
    /// When to look whether work in flight has ended.
    pub(super) fn end_look_ns(&self) -> u64 {
        match self.steps.is_stepper() {
            true => self.seen.busy_until_ns.min(self.steps.end_look_ns(self.seen.launched_ns)),
            false => self.seen.busy_until_ns,
        }
    }

    /// When the step will have ended that it waits for; `now_ns` where it waits for none.
    fn step_end_ns(&self, now_ns: u64) -> u64 {
        let step_ns = if self.seen.sleeps { self.steps.half_ns() * 2 } else { 0 };
        self.seen.busy_until_ns.clamp(now_ns, now_ns.saturating_add(step_ns))
    }

    /// Its virtual time then, where it has the turn.
    pub(super) fn virtual_at_end_ns(&self, now_ns: u64) -> u64 {
        let end_ns = if self.seat.holds() { self.step_end_ns(now_ns) } else { now_ns };
        let left_ns = end_ns.saturating_sub(now_ns);
        let more = left_ns.saturating_mul(VIRTUAL_SCALE) / self.weight.max(1);
        self.place.virtual_ns.saturating_add(more)
    }

    /// It has made a step in its turn, or is about to end one: it has nothing more to submit before
    /// that.
    fn ends_step(&self) -> bool {
        self.has_launched() && self.waits_for_end()
    }

    /// When to look at the first step of its turn, if its length is worth knowing.
    fn step_look_ns(&self, now_ns: u64, poll_ns: u64) -> Option<u64> {
        let is_short = self.steps.step_ns == 0 || self.steps.pause_ns <= self.steps.step_ns;
        if !(self.steps.is_free && self.steps.may_be_one() && is_short) {
            return None;
        }
        let part_ns = now_ns.saturating_sub(self.seat.opened_ns) / 4;
        let again_ns = now_ns.saturating_add(part_ns.max(poll_ns));
        match self.steps.first {
            First::Over => None,
            First::Awaited => Some(again_ns),
            First::Waits { .. } if self.seen.busy_until_ns > now_ns => {
                Some(self.seen.busy_until_ns)
            }
            First::Waits { .. } => Some(now_ns.saturating_add(part_ns.clamp(poll_ns / 8, poll_ns))),
        }
    }
}

impl Domain<'_> {
    /// Says how long a mean turn is beside steppers.
    pub(super) fn divide_cycle(&mut self) {
        self.state.step_turn_ns = self.step_turn_ns().unwrap_or(0);
    }

    /// The mean turn of a cycle: `None` where no tenant at work is a stepper.
    fn step_turn_ns(&self) -> Option<u64> {
        let at_work = || self.members().filter(|t| self.is_at_work(t));
        let level = at_work().map(|t| t.seen.priority).max()?;
        let these = || at_work().filter(|t| t.seen.priority == level);
        let steppers = || these().filter(|t| t.steps.is_stepper()).map(|t| &t.steps);
        steppers().next()?;
        // Short turns would end in the midst of a kernel that outlasts them all. Beside a cap they cost
        // who makes no steps more hand-overs, which a cap cannot make good.
        let full_ns = self.state.full_quantum_ns();
        let outlasts = |t: &TenantState| {
            !t.steps.is_stepper() && t.seen.longest_ns.max(t.seat.drain_ns) > full_ns
        };
        let are_all = these().all(|t| t.steps.is_stepper());
        if these().any(|t| outlasts(t) || !are_all && t.seen.asked.cap_ppm.is_some()) {
            return None;
        }
        let sum = |of: fn(&Stepping) -> u64| steppers().map(of).fold(0, u64::saturating_add);
        let (count, steps_ns, gaps_ns) = (sum(|_| 1), sum(|s| s.step_ns), sum(|s| s.gap_ns));
        let mean_ns = (steps_ns.saturating_add(gaps_ns) / count.max(1)).max(1);
        let count = u64::try_from(these().count()).unwrap_or(u64::MAX);
        let handover_ns = self.state.bubble_ns.saturating_add(tuning::STEP_TAKEOVER_NS);
        let lost_ns = handover_ns.saturating_mul(count).saturating_sub(gaps_ns);
        let worth_ns = scaled(lost_ns, 1_000_000, tuning::STEP_COST_PPM);
        // Whole steps, so that who makes none has a turn as long as a step beside it.
        let steps = (worth_ns / count / mean_ns).max(1);
        Some(mean_ns.saturating_mul(steps))
    }

    /// The virtual time to which a tenant's turn takes it: a round beyond who is furthest behind,
    /// or to who is furthest ahead. A round that went on by itself would leave steps behind, each
    /// of which ends before or behind its planned end.
    pub(super) fn round_of_steps_ns(&self, tenant: &TenantState, step_ns: u64) -> u64 {
        let level = self.members().filter(|t| t.seen.priority == tenant.seen.priority);
        let these = level.filter(|t| t.demands(self.now_ns) || self.comes_soon(t));
        let own_ns = tenant.virtual_at_end_ns(self.now_ns);
        let (lowest_ns, highest_ns) = these
            .map(|t| t.virtual_at_end_ns(self.now_ns))
            .fold((own_ns, own_ns), |(low, high), at| (low.min(at), high.max(at)));
        let next_ns = lowest_ns.saturating_add(step_ns);
        let is_near = highest_ns <= next_ns.saturating_add(step_ns / 2);
        if is_near { next_ns } else { highest_ns }
    }

    /// Whether the turn is at its end: at the planned one, or where the step under way ends nearer
    /// to that than the next.
    pub(super) fn is_over(&self) -> bool {
        let (half_ns, end_ns) = (self.half_step_ns(), self.turn_end_ns());
        let ends_step = || self.members().filter(|t| t.seat.holds()).all(TenantState::ends_step);
        let is_nearest = || end_ns < self.step_end_ns().saturating_add(half_ns);
        self.now_ns >= end_ns.saturating_add(half_ns) || half_ns != 0 && is_nearest() && ends_step()
    }

    /// When to look whether it is: in the midst of a step, since between two it may launch another
    /// one meanwhile.
    pub(super) fn over_look_ns(&self) -> u64 {
        let (half_ns, end_ns) = (self.half_step_ns(), self.turn_end_ns());
        let from_ns = self.step_end_ns();
        let left_ns = end_ns.saturating_sub(half_ns).saturating_sub(from_ns);
        let look_ns = match left_ns.checked_div(2 * half_ns) {
            None => end_ns,
            Some(_) if left_ns == 0 => {
                self.now_ns.saturating_add(tuning::GAPPY_POLL_NS.max(half_ns / tuning::STEP_LOOKS))
            }
            Some(steps) => from_ns.saturating_add(steps * 2 * half_ns).saturating_add(half_ns),
        };
        look_ns.min(end_ns.saturating_add(half_ns))
    }

    /// When the steps will have ended that holders wait for.
    pub(super) fn step_end_ns(&self) -> u64 {
        let holders = self.members().filter(|t| t.seat.holds());
        holders.map(|t| t.step_end_ns(self.now_ns)).max().unwrap_or(self.now_ns)
    }

    /// When to look at the first steps of holders.
    pub(super) fn first_step_ns(&self) -> u64 {
        let of = |t: &TenantState| t.step_look_ns(self.now_ns, tuning::GAPPY_POLL_NS);
        self.members().filter(|t| t.seat.holds()).filter_map(of).min().unwrap_or(u64::MAX)
    }

    /// How long a turn lasts at least before a tenant that is far behind ends it: half of a mean
    /// turn beside steppers.
    pub(super) fn min_hold_ns(&self) -> u64 {
        match self.state.has_steps() {
            true => tuning::MIN_HOLD_NS.min(self.state.step_turn_ns / 2),
            false => tuning::MIN_HOLD_NS,
        }
    }

    /// Whether it is a stepper at work, which comes back between two steps.
    pub(super) fn comes_soon(&self, tenant: &TenantState) -> bool {
        tenant.steps.is_stepper() && self.is_at_work(tenant)
    }

    /// Whether it waits for the turn to end, or soon will.
    pub(super) fn awaits(&self, tenant: &TenantState) -> bool {
        !tenant.seat.holds() && (tenant.demands(self.now_ns) || self.comes_soon(tenant))
    }

    /// Half of the longest step of a holder.
    pub(super) fn half_step_ns(&self) -> u64 {
        self.members().filter(|t| t.seat.holds()).map(|t| t.steps.half_ns()).max().unwrap_or(0)
    }
}
