//! The choice of the next holder, and of its turn's length.
//!
//! Start-time fair queueing with rounds: each tenant is taken, turn by turn, to one common virtual
//! time, so that a turn that ran over makes the next one of its tenant shorter by as much. Among those
//! about equally far behind, the one that has waited longest goes first.
//!
//! Promises: higher priority first; a tenant on several devices is picked only if all of them are to
//! be had; the tenant furthest behind is never passed over for one more than half a round ahead.

use super::domain::{Domain, TurnMode};
use super::tenant::{TenantState, VIRTUAL_SCALE};
use super::tuning;
use crate::scaled::scaled;

impl Domain<'_> {
    /// Virtual time each tenant advances by in one round.
    pub(super) fn round_step_ns(&self) -> u64 {
        self.step_of(self.members().filter(|t| t.demands(self.now_ns) || self.comes_soon(t)))
    }

    /// Virtual time that each of these would advance by in a round of theirs.
    pub(super) fn step_of<'t>(&self, these: impl Iterator<Item = &'t TenantState>) -> u64 {
        let each = these.map(|t| (t.weight, t.in_use.paid_ppm()));
        let (count, weights, paid_ppm) = each.fold((0_u64, 0_u64, 0_u64), |sums, (weight, ppm)| {
            let (count, weights, paid_ppm) = sums;
            let more = count.saturating_add(1);
            (more, weights.saturating_add(weight), paid_ppm.saturating_add(ppm))
        });
        let mean_weight = (weights / count.max(1)).max(1);
        let quantum_ns = self.state.quantum_ns();
        // In what is paid for it a turn is as long as in wall time, on average.
        let quantum_ns = match count {
            0 => quantum_ns,
            _ => scaled(quantum_ns, paid_ppm, count.saturating_mul(1_000_000)),
        };
        (quantum_ns.saturating_mul(VIRTUAL_SCALE) / mean_weight).max(1)
    }

    /// Gives those whose priority has changed their place among the others of it.
    pub(super) fn change_levels(&mut self) {
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row) else { continue };
            let (is_member, level) = (self.is_member(tenant), tenant.seen.priority);
            let before = tenant.place.level_before(level).filter(|_| is_member);
            let Some(before) = before else { continue };
            let lowest = [self.lowest_of(level, row), self.lowest_of(before, row)];
            let step_ns = self.round_step_ns();
            if let Some(tenant) = self.tenants.get_mut(row) {
                tenant.place.change_level(level, lowest, step_ns);
            }
        }
    }

    /// Lowest virtual time among the tenants of a priority, but for one row: of those that want the device, or of all
    /// if none does.
    fn lowest_of(&self, level: i32, row: usize) -> Option<u64> {
        let all = self.tenants.iter().enumerate();
        let is_other = |(at, t): &(usize, &TenantState)| {
            *at != row && self.is_member(t) && t.place.level() == level
        };
        let others = all.filter(is_other).map(|(_, t)| t);
        let wanting = others.clone().filter(|t| t.demands(self.now_ns));
        let lowest = wanting.map(|t| t.place.virtual_ns).min();
        lowest.or_else(|| others.map(|t| t.place.virtual_ns).min())
    }

    /// Marks those that go next as picked; with `keep`, holders that still work keep their seats.
    /// Returns the row of the first, which sets the length of the turn.
    pub(super) fn pick(&mut self, keep: bool) -> Option<usize> {
        let now_ns = self.now_ns;
        let mut taken = 0_u32;
        let mut first = None;
        let group = self.state.group;
        for (row, tenant) in self.tenants.iter_mut().enumerate() {
            if tenant.seats & group == 0 {
                continue;
            }
            tenant.picked = keep && tenant.seat.holds() && tenant.demands(now_ns);
            if tenant.picked {
                taken |= tenant.seats;
                first = first.or(Some(row));
            }
        }
        while let Some(row) = self.best(taken) {
            let Some(tenant) = self.tenants.get_mut(row) else { break };
            tenant.picked = true;
            taken |= tenant.seats;
            first = first.or(Some(row));
        }
        first
    }

    /// Marks who is expected to have the next turn, and says when.
    pub(super) fn expect_next(&mut self) {
        let next = match self.state.mode {
            TurnMode::Held => self.first_of(|t| self.awaits(t)),
            TurnMode::Drain => return self.expect_drained(),
            _ => None,
        };
        self.members_mut().for_each(|t| t.next = false);
        if let Some(tenant) = next.and_then(|row| self.tenants.get_mut(row)) {
            tenant.next = true;
        }
        // When the holders' turn ends and what they have in flight by then has drained.
        let drain_ns =
            self.members().filter(|t| t.seat.holds()).map(|t| t.seat.drain_ns).max().unwrap_or(0);
        self.state.opens_ns = self.state.turn_end_ns.saturating_add(drain_ns);
    }

    /// The same while the last holders' work drains: who has been told a time near enough is not told
    /// another.
    fn expect_drained(&mut self) {
        self.members_mut().for_each(|t| t.next = t.picked && !t.seat.is_open());
        let lingering = self.members().filter(|t| t.seat.lingers());
        let ends_ns = lingering.map(|t| t.seen.busy_until_ns).max().unwrap_or(0).max(self.now_ns);
        if ends_ns.abs_diff(self.state.opens_ns) > tuning::NEAR_NS {
            self.state.opens_ns = ends_ns;
        }
    }

    /// The tenant that goes first among those that want only devices not yet taken.
    fn best(&self, taken: u32) -> Option<usize> {
        self.first_of(|t| t.seats & taken == 0 && !t.picked && t.demands(self.now_ns))
    }

    /// The member that goes first among those that are as asked.
    fn first_of(&self, is: impl Fn(&TenantState) -> bool) -> Option<usize> {
        let near_ns = self.round_step_ns() / 2;
        let fits = |t: &TenantState| self.is_member(t) && is(t);
        let fitting = || self.tenants.iter().enumerate().filter(|(_, t)| fits(t));
        let rank = fitting().map(|(_, t)| t.rank()).max()?;
        let level = || fitting().filter(|(_, t)| t.rank() == rank);
        let lowest_ns = level().map(|(_, t)| t.virtual_at_end_ns(self.now_ns)).min()?;
        let is_near =
            |t: &TenantState| t.virtual_at_end_ns(self.now_ns) <= lowest_ns.saturating_add(near_ns);
        let near = level().filter(|(_, t)| is_near(t));
        // The holder's turn ends only after this choice: it has been served last.
        near.min_by_key(|(_, t)| if t.seat.holds() { self.now_ns } else { t.seat.served_ns })
            .map(|(row, _)| row)
    }

    /// Length of the turn that `row` begins now; moves the round on when it is complete, or to
    /// where steps have brought it.
    pub(super) fn turn_ns(&mut self, row: usize) -> u64 {
        if let Some(piece_ns) = self.piece_ns(row) {
            return piece_ns;
        }
        let step_ns = self.round_step_ns();
        let Some(tenant) = self.tenants.get(row) else { return tuning::MIN_TURN_NS };
        let (virtual_ns, weight) = (tenant.virtual_at_end_ns(self.now_ns), tenant.weight);
        self.state.round_ns = match self.state.has_steps() {
            true => self.round_of_steps_ns(tenant, step_ns),
            false => next_round_ns(self.state.round_ns, virtual_ns, step_ns),
        };
        let full_ns = step_ns.saturating_mul(weight) / VIRTUAL_SCALE;
        let owed_ns = self.state.round_ns.saturating_sub(virtual_ns).saturating_mul(weight);
        let owed_ns = (owed_ns / VIRTUAL_SCALE).clamp(full_ns / 2, full_ns.saturating_mul(2));
        owed_ns.clamp(tuning::MIN_TURN_NS, tuning::MAX_QUANTUM_NS)
    }
}

/// The round that a turn from `virtual_ns` on belongs to: the next one where the last is complete.
fn next_round_ns(round_ns: u64, virtual_ns: u64, step_ns: u64) -> u64 {
    let from_ns = virtual_ns.saturating_add(step_ns / 4);
    if from_ns < round_ns {
        return round_ns;
    }
    let next_ns = round_ns.saturating_add(step_ns);
    if next_ns > from_ns { next_ns } else { virtual_ns.saturating_add(step_ns) }
}
