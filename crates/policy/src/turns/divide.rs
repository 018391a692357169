//! Gives the tenants of a domain what they are due of it (`parts`).
//!
//! Promises: what is due counts beside tenants of the same priority that are at work; who is at work is seen anew at
//! each step.

use super::domain::Domain;
use super::parts::{Left, OF_WEIGHT};
use super::tenant::TenantState;

impl Domain<'_> {
    /// Gives everybody what it is due beside those of its priority that are at work.
    pub(super) fn divide(&mut self) {
        if !self.members().any(|t| t.seen.asked.yields()) {
            return self.members_mut().for_each(|t| t.weight = t.seen.asked.weight() * OF_WEIGHT);
        }
        let mut priority = self.members().map(|t| t.seen.priority).max();
        while let Some(this) = priority {
            let all = || self.members().filter(move |t| t.seen.priority == this);
            let is_any = all().any(|t| self.is_at_work(t));
            let left =
                Left::of(|| all().filter(|t| !is_any || self.is_at_work(t)).map(|t| t.seen.asked));
            let of_this = self.members_mut().filter(|t| t.seen.priority == this);
            of_this.for_each(|t| t.weight = left.part(t.seen.asked));
            priority = self.members().map(|t| t.seen.priority).filter(|other| *other < this).max();
        }
    }

    /// It wants the device, or did a moment ago, or has work in flight behind its closed gate, or its own cap keeps it
    /// from it.
    pub(super) fn is_at_work(&self, tenant: &TenantState) -> bool {
        let is_awake = !tenant.has_slept(self.now_ns) || tenant.seat.lingers();
        is_awake || tenant.seen.cap_opens_ns(self.now_ns) != 0
    }
}
