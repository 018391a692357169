//! Device time of tenants in truth, and the charge for it.

use super::state::{Process, World};
use crate::card::Had;
use crate::files::Row;

impl World {
    /// The truth about a tenant: what its contexts had of a device so far.
    pub fn had(&self, tenant: u32, device: usize) -> Had {
        let of_it = self.contexts.iter();
        let of_it = of_it.filter(|one| one.process.tenant == tenant && one.device == device);
        let all = of_it.map(|context| self.cards[device].had(context.id));
        all.fold(Had::default(), Had::and)
    }

    /// Device time of each process of a tenant so far, in the order in which they began.
    pub fn had_by_process(&self, tenant: u32, device: usize) -> Vec<Had> {
        let of_tenant = self.processes.iter().filter(|process| process.actor.tenant == tenant);
        let of_process = |process: &Process| {
            let of_it = self.contexts.iter().filter(|one| one.process.is_beside(process.actor));
            let of_it = of_it.filter(|one| one.device == device);
            of_it.map(|one| self.cards[device].had(one.id)).fold(Had::default(), Had::and)
        };
        of_tenant.map(of_process).collect()
    }

    /// Charge of a tenant for its use of a device so far.
    pub fn charged_ns(&self, tenant: u32, device: usize) -> u64 {
        let row = self.tenants.get(tenant as usize).and_then(|one| one.files.row(device));
        row.map_or(0, Row::charged_ns)
    }
}
