//! Changes that an operator makes to a running tenant.
//!
//! Does not tell the daemon: it looks at limits when it does, as the real one.

use super::state::World;
use crate::program::Change;
use crate::world::words;

impl World {
    /// Changes a tenant's limits: launches look at their gates, and who waits at one looks again.
    pub fn set(&mut self, tenant: u32, change: Change, at_ns: u64) {
        let Some(one) = self.tenant(tenant) else { return };
        match change {
            Change::Priority(priority) => one.plan.priority = priority,
            Change::Weight(weight) => one.plan.weight = weight,
            Change::Cap(share_ppm) => one.plan.share_ppm = share_ppm,
            Change::Pause(paused) => one.paused = paused,
        }
        one.changes += 1;
        one.any_gate |= one.paused || one.plan.share_ppm != 0;
        for device in 0..self.devices() {
            words::wake(self, tenant, device, at_ns);
        }
    }
}
