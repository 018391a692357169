//! The place of each tenant among its peers: its virtual time, which is what it held divided by its weight.
//!
//! Peers are of one priority and share a device. How far two of them are apart is all that counts. So virtual
//! time is that of the tenants that are served, and at each full look the others are taken along:
//!
//! - A tenant that has slept comes back at most a round behind the lowest peer that is served or waits.
//! - No tenant stays further behind a peer that was served than three rounds and the longest kernel of that
//!   peer. Of several devices the one counts where this is least.
//! - A newcomer stands as far ahead of its peers as it stood ahead of those it was among before.
//!
//! Promises: what a tenant had while no peer wanted the device is no debt, and what it did not want is no
//! credit beyond a round. For let a tenant begin to want the device. The first two rules bound how far it is
//! behind each peer that is served, and how far such a peer is behind it, whatever they had before. The pick
//! takes the tenant furthest behind. So nothing from before delays its turn by more than these rounds and one
//! kernel of each other. What runs on behind its turn, or is let go, is charged and is no service: it stays a
//! debt. Does not choose who goes next.

use super::domain::Domain;
use super::place::Standing;
use super::tenant::{TenantState, VIRTUAL_SCALE};
use super::tuning;

impl Domain<'_> {
    /// Takes all tenants along with their peers that were served since the last full look.
    pub(super) fn take_along(&mut self) {
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row).filter(|t| self.is_member(t)) else {
                continue;
            };
            let place_ns = self.place_of(tenant);
            if let Some(tenant) = self.tenants.get_mut(row) {
                tenant.place.virtual_ns = place_ns;
            }
        }
        let now_ns = self.now_ns;
        for tenant in self.members_mut() {
            // A stepper does not sleep while its step ends behind its turn.
            if tenant.seat.lingers() && tenant.steps.is_stepper() {
                tenant.asleep_since_ns = 0;
            } else if tenant.demands(now_ns) {
                tenant.asleep_since_ns = 0;
                tenant.last_demand_ns = now_ns;
            } else if tenant.asleep_since_ns == 0 {
                tenant.asleep_since_ns = now_ns;
            }
            tenant.place.was_served = false;
            tenant.place.standing = Standing::Placed;
        }
    }

    /// Notes how far each is ahead of its peers.
    pub(super) fn note_leads(&mut self) {
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row).filter(|t| self.is_member(t)) else {
                continue;
            };
            let lowest = self.peers(tenant).map(|t| t.place.virtual_ns).min();
            let now_ns = self.now_ns;
            if let Some(tenant) = self.tenants.get_mut(row) {
                tenant.place.note_lead(lowest, now_ns);
            }
        }
    }

    /// Those of the tenant's priority that share a device with it.
    fn peers<'t>(&'t self, tenant: &'t TenantState) -> impl Iterator<Item = &'t TenantState> {
        let is_other = move |t: &&TenantState| !core::ptr::eq(*t, tenant);
        let is_peer =
            |t: &&TenantState| t.place.level() == tenant.place.level() && t.shares_device(tenant);
        self.members().filter(is_other).filter(is_peer)
    }

    /// It was served since the last full look, or waits and has not slept before.
    fn has_part(&self, tenant: &TenantState) -> bool {
        let now_ns = self.now_ns;
        let waits = tenant.demands(now_ns) && !tenant.has_slept(now_ns);
        tenant.place.was_served || waits
    }

    /// Where the tenant stands by the rules of this module.
    fn place_of(&self, tenant: &TenantState) -> u64 {
        let own_ns = self.place_of_newcomer(tenant).unwrap_or(tenant.place.virtual_ns);
        let parts = || self.peers(tenant).filter(|t| self.has_part(t));
        let step_ns = self.step_of(parts().chain(core::iter::once(tenant)));
        let awake = match tenant.has_slept(self.now_ns) {
            true => parts().map(|t| t.place.virtual_ns).min(),
            false => None,
        };
        let back_ns = awake.unwrap_or(0).saturating_sub(step_ns);
        own_ns.max(back_ns).max(self.least_beside_served(tenant, step_ns))
    }

    /// The place of one that has come, beside peers that have theirs.
    fn place_of_newcomer(&self, tenant: &TenantState) -> Option<u64> {
        let Standing::Comes { ahead_ns } = tenant.place.standing else { return None };
        let placed = || self.peers(tenant).filter(|t| t.place.standing == Standing::Placed);
        let lowest = placed().filter(|t| self.has_part(t)).map(|t| t.place.virtual_ns).min();
        let among_ns = lowest.or_else(|| placed().map(|t| t.place.virtual_ns).max())?;
        Some(among_ns.saturating_add(ahead_ns))
    }

    /// The least virtual time beside the peers that were served, on the device where that is least.
    fn least_beside_served(&self, tenant: &TenantState, step_ns: u64) -> u64 {
        let beside = |t: &TenantState| {
            let unit_ns = t.seen.longest_ns.saturating_mul(VIRTUAL_SCALE) / t.weight.max(1);
            let behind_ns = step_ns.saturating_mul(tuning::ROUNDS_BEHIND).saturating_add(unit_ns);
            t.place.virtual_ns.saturating_sub(behind_ns)
        };
        let on_device = |device: u32| {
            let served = self.peers(tenant).filter(|t| t.place.was_served && t.seats & device != 0);
            served.map(beside).max().unwrap_or(0)
        };
        let devices = (0..u32::BITS).map(|at| 1 << at).filter(|bit| tenant.seats & bit != 0);
        devices.map(on_device).min().unwrap_or(0)
    }
}
