//! What came of a run.

use super::{Process, World};
use crate::card::{Books, Had};
use crate::sched::Visits;
use crate::site::{Actor, Dev};
use crate::trace::Event;
use crate::words;

/// What was promised and not kept, or a thing no program may see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub at_ns: u64,
    /// By whom.
    pub who: Actor,
    /// What.
    pub what: String,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Its time was over.
    InTime,
    /// Every thread had ended.
    AllEnded,
    /// Threads are left that nothing will wake.
    Deadlock,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub end: End,
    /// Virtual time that passed.
    pub wall_ns: u64,
    /// The hash of its events, and how many there were.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// The last events.
    pub last: Vec<Event>,
    /// Of each device.
    pub books: Vec<Books>,
    /// Of each tenant and device.
    pub had: Vec<Vec<Had>>,
    /// What was not kept.
    pub violations: Vec<Violation>,
    /// Calls by which programs broke captures of their own.
    pub faults: u64,
    /// How often whom came where.
    pub visits: Visits,
    /// The deviations that happened; the others' sites were not come to so often.
    pub met: Vec<Dev>,
}

impl Report {
    /// Part of the wall in which a tenant had the first device, in percent.
    pub fn busy_percent(&self, tenant: usize) -> f64 {
        self.percent(self.had.get(tenant).and_then(|had| had.first()).map_or(0, |had| had.busy_ns))
    }

    /// The same by the lengths of the kernels that were completed.
    pub fn work_percent(&self, tenant: usize) -> f64 {
        self.percent(self.had.get(tenant).and_then(|had| had.first()).map_or(0, |had| had.work_ns))
    }

    fn percent(&self, ns: u64) -> f64 {
        100.0 * ns as f64 / self.wall_ns.max(1) as f64
    }
}

impl World {
    /// The truth about a tenant: what its contexts had of a device so far.
    pub fn had(&self, tenant: u32, device: usize) -> Had {
        let of_it = self.contexts.iter();
        let of_it = of_it.filter(|one| one.process.tenant == tenant && one.device == device);
        let all = of_it.map(|context| self.cards[device].had(context.id));
        all.fold(Had::default(), Had::and)
    }

    /// What each process of a tenant has had of a device so far, in the order in which they began.
    pub fn had_by_process(&self, tenant: u32, device: usize) -> Vec<Had> {
        let of_tenant = self.processes.iter().filter(|process| process.actor.tenant == tenant);
        let of_process = |process: &Process| {
            let of_it = self.contexts.iter().filter(|one| one.process.is_beside(process.actor));
            let of_it = of_it.filter(|one| one.device == device);
            of_it.map(|one| self.cards[device].had(one.id)).fold(Had::default(), Had::and)
        };
        of_tenant.map(of_process).collect()
    }

    /// What a tenant was charged for its use of a device so far.
    pub fn charged_ns(&self, tenant: u32, device: usize) -> u64 {
        let row = self.tenants.get(tenant as usize).and_then(|one| one.files.row(device));
        row.map_or(0, words::Row::charged_ns)
    }

    /// Adds an event to the trace.
    pub fn note(&mut self, at_ns: u64, what: &'static str, who: u64, value: u64) {
        self.trace.add(Event { at_ns, what, who, value });
    }

    /// Something was seen that must not be.
    pub fn violated(&mut self, who: Actor, at_ns: u64, what: impl Into<String>) {
        self.note(at_ns, "violation", who.word(), 0);
        self.violations.push(Violation { at_ns, who, what: what.into() });
    }
}
