//! Charging: who pays for the time since the last step.
//!
//! Wall time, not claims, is what a turn costs: a tenant that says it used little has still kept the
//! others out. Only beside work that outlasts another's turn, which the driver slices with its own, it pays for what it
//! uses of its part, and who outlasts for the rest. The first moments of a turn that came from another tenant are the
//! takeover's, and no tenant pays for them, so that short turns of a small weight are not dearer than long ones.
//!
//! Promises: one device's time is charged once; a tenant never gains by what it writes, but for the eighth that one
//! may that has a cap and no weight, and what it says of its time beside work that outlasts another's turn
//! ([`super::in_use`]).

use super::domain::{Domain, TurnMode};
use super::tenant::TenantState;
use super::tuning;

impl Domain<'_> {
    /// Charges the time since the last step.
    pub(super) fn charge(&mut self) {
        let now_ns = self.now_ns;
        // A gate closed for longer than its lease keeps no launch out, so a daemon that was stopped meanwhile charges
        // no tenant for that time.
        let from_ns =
            self.state.last_ns.clamp(now_ns.saturating_sub(tuning::CLOSED_LEASE_NS.0), now_ns);
        self.state.last_ns = now_ns;
        let wall_ns = now_ns.saturating_sub(from_ns);
        if wall_ns == 0 {
            return;
        }
        match self.state.mode {
            TurnMode::Together => {
                self.state.counters.together_ns =
                    self.state.counters.together_ns.saturating_add(wall_ns);
            }
            TurnMode::Held | TurnMode::Drain | TurnMode::Lull => self.charge_each(from_ns),
            TurnMode::Free | TurnMode::Counted => {}
        }
    }

    fn charge_each(&mut self, from_ns: u64) {
        let owed =
            Owed { from_ns, now_ns: self.now_ns, drains: self.state.mode == TurnMode::Drain };
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row).filter(|t| self.is_member(t)) else {
                continue;
            };
            let due_ns = owed.of(tenant);
            if due_ns == 0 {
                if let Some(tenant) = self.tenants.get_mut(row) {
                    tenant.sliced.charged(None);
                }
                continue;
            }
            let part_ns = self.part_ns(&owed, tenant);
            let is_sliced = self.is_sliced(&owed, tenant);
            let own_ns = match is_sliced {
                true => tenant.sliced.of(part_ns),
                false => part_ns.saturating_add(self.left_ns(&owed, tenant)),
            };
            // Launches let go beside it ran in its time.
            let let_go_ns =
                self.beside(tenant).fold(0_u64, |sum, t| sum.saturating_add(t.let_go_ns));
            let let_go_ns = let_go_ns.min(due_ns / tuning::LET_GO_PART);
            let Some(tenant) = self.tenants.get_mut(row) else { continue };
            tenant.sliced.charged(is_sliced.then_some(part_ns));
            tenant.charge(own_ns.saturating_sub(let_go_ns));
            // Work behind its turn, and work that was let go, stays a debt.
            tenant.place.was_served |= tenant.seat.is_open();
        }
        let wall_ns = self.now_ns.saturating_sub(from_ns);
        self.members_mut().for_each(|tenant| tenant.pay_for_let_go(wall_ns));
    }

    fn beside<'t>(&'t self, tenant: &'t TenantState) -> impl Iterator<Item = &'t TenantState> {
        let is_other = move |t: &&TenantState| !core::ptr::eq(*t, tenant);
        self.tenants.iter().filter(is_other).filter(|t| t.shares_device(tenant))
    }

    /// An even part of what is owed: the driver gives each context that has work its slice.
    fn part_ns(&self, owed: &Owed, tenant: &TenantState) -> u64 {
        let others = self.beside(tenant).filter(|t| owed.of(t) > 0).map(contexts);
        let all = others.fold(contexts(tenant), u64::saturating_add);
        owed.of(tenant).saturating_mul(contexts(tenant)) / all
    }

    /// The tenant has its turn beside work that outlasts another's, and its own kernels end within a turn: a longer one
    /// is said to be used as it ends, at whatever time.
    fn is_sliced(&self, owed: &Owed, tenant: &TenantState) -> bool {
        let is_short = tenant.seen.longest_ns <= self.state.full_quantum_ns();
        is_short && tenant.seat.holds() && self.outlasts(owed, tenant) > 0
    }

    /// How many contexts have work beside the tenant that outlasts their turns.
    fn outlasts(&self, owed: &Owed, tenant: &TenantState) -> u64 {
        let those = self.beside(tenant).filter(|t| owed.outlasts(t));
        those.map(contexts).fold(0, u64::saturating_add)
    }

    /// The rest of their parts that holders leave beside a tenant whose work outlasts its turn.
    fn left_ns(&self, owed: &Owed, tenant: &TenantState) -> u64 {
        if !owed.outlasts(tenant) {
            return 0;
        }
        let left_of = |holder: &TenantState| {
            let part_ns = self.part_ns(owed, holder);
            let left_ns = part_ns.saturating_sub(holder.sliced.of(part_ns));
            left_ns.saturating_mul(contexts(tenant)) / self.outlasts(owed, holder).max(1)
        };
        let holders = self.beside(tenant).filter(|t| self.is_sliced(owed, t));
        holders.map(left_of).fold(0, u64::saturating_add)
    }
}

/// Contexts of a tenant that have work: the driver gives each its slice.
fn contexts(tenant: &TenantState) -> u64 {
    tenant.seen.contexts.max(1)
}

/// The time since the last step, of which each tenant owes what it had.
struct Owed {
    from_ns: u64,
    now_ns: u64,
    drains: bool,
}

impl Owed {
    /// The tenant's work outlasts its turn: a drain for it was given up. What ends sooner is charged by even parts,
    /// since what a tenant says of so short a time comes too late.
    fn outlasts(&self, tenant: &TenantState) -> bool {
        tenant.outlasts_turn(self.now_ns) && self.of(tenant) > 0
    }

    /// Debt of a tenant if no other ran beside it.
    fn of(&self, tenant: &TenantState) -> u64 {
        let &Self { from_ns, now_ns, drains } = self;
        if tenant.seat.holds() {
            let taken_ns = tenant.seat.opened_ns.saturating_add(tuning::TAKEOVER_NS);
            return now_ns.saturating_sub(from_ns.max(taken_ns));
        }
        let has_worked = tenant.work.was_there && (tenant.seat.lingers() || tenant.seat.is_open());
        let had_ns = match has_worked {
            true => tenant.work.until_ns.min(now_ns).saturating_sub(from_ns),
            false => 0,
        };
        // While it drains the device is kept for it, whatever it has said of when it will have ended.
        let said_ns = tenant.seen.busy_until_ns.saturating_add(tuning::TAKEOVER_NS);
        let kept_ns = now_ns.saturating_sub(from_ns.max(said_ns));
        if drains && tenant.seat.lingers() { had_ns.max(kept_ns) } else { had_ns }
    }
}
