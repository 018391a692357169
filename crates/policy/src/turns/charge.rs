//! Charging: who pays for the time since the last step.
//!
//! Wall time, not claims, is what a turn costs: a tenant that says it used little has still kept the
//! others out. The first moments of a turn that came from another tenant are the takeover's and
//! nobody's, so that short turns of a small weight are not dearer than long ones.
//!
//! Promises: one device's time is charged once; a tenant never gains by what it writes, but for the eighth that one
//! may that has a cap and no weight ([`super::in_use`]).

use super::domain::{Domain, TurnMode};
use super::line::CLOSED_LEASE_NS;
use super::tenant::TenantState;
use super::tuning;

impl Domain<'_> {
    /// Charges the time since the last step.
    pub(super) fn charge(&mut self) {
        let now_ns = self.now_ns;
        // A gate closed for longer than its lease keeps no launch out, so a daemon that was stopped meanwhile charges no
        // tenant for that time.
        let from_ns = self.state.last_ns.clamp(now_ns.saturating_sub(CLOSED_LEASE_NS.0), now_ns);
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
        let now_ns = self.now_ns;
        let takeover_ns = tuning::TAKEOVER_NS;
        let drains = self.state.mode == TurnMode::Drain;
        let owed_ns = |tenant: &TenantState| match drains && tenant.seat.lingers() {
            // The device is kept for it, whatever it has said of when it will have ended.
            true => {
                let said_ns = tenant.seen.busy_until_ns.saturating_add(tuning::TAKEOVER_NS);
                due_ns(tenant, from_ns, now_ns, takeover_ns)
                    .max(now_ns.saturating_sub(from_ns.max(said_ns)))
            }
            false => due_ns(tenant, from_ns, now_ns, takeover_ns),
        };
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row) else { continue };
            if !self.is_member(tenant) {
                continue;
            }
            let due_ns = owed_ns(tenant);
            if due_ns == 0 {
                continue;
            }
            let beside = || {
                let is_other = |t: &&TenantState| !core::ptr::eq(*t, tenant);
                self.tenants.iter().filter(is_other).filter(|t| t.shares_device(tenant))
            };
            // The driver gives each context that has work its part.
            let others = beside().filter(|t| owed_ns(t) > 0).map(|t| t.seen.contexts);
            let contexts = tenant.seen.contexts.max(1);
            let all = others.fold(contexts, |all, one| all.saturating_add(one.max(1)));
            // Launches let go beside it ran in its time.
            let let_go_ns = beside().fold(0_u64, |sum, t| sum.saturating_add(t.let_go_ns));
            let let_go_ns = let_go_ns.min(due_ns / tuning::LET_GO_PART);
            if let Some(tenant) = self.tenants.get_mut(row) {
                let own_ns = due_ns.saturating_mul(contexts) / all;
                tenant.charge(own_ns.saturating_sub(let_go_ns));
                // Work behind its turn, and work that was let go, stays a debt.
                tenant.place.was_served |= tenant.seat.is_open();
            }
        }
        let wall_ns = now_ns.saturating_sub(from_ns);
        self.members_mut().for_each(|tenant| tenant.pay_for_let_go(wall_ns));
    }
}

/// Debt of a tenant for the time from `from_ns` on if no other ran beside it.
fn due_ns(tenant: &TenantState, from_ns: u64, now_ns: u64, takeover_ns: u64) -> u64 {
    if tenant.seat.holds() {
        return now_ns
            .saturating_sub(from_ns.max(tenant.seat.opened_ns.saturating_add(takeover_ns)));
    }
    if (tenant.seat.lingers() || tenant.seat.is_open()) && tenant.work.was_there {
        return tenant.work.until_ns.min(now_ns).saturating_sub(from_ns);
    }
    0
}
