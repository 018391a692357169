//! Report of a run.

use crate::card::{Books, Had};
use crate::sched::Visits;
use crate::site::{Actor, Dev};
use crate::trace::Event;

/// A promise that was not kept, or a thing no program may see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub at_ns: u64,
    /// By whom.
    pub who: Actor,
    /// Its text.
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

/// Report of a run.
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
    /// The longest that a launch of each tenant took to return.
    pub longest_call_ns: Vec<u64>,
    /// Trials of everybody open that a daemon has begun.
    pub trials: u64,
    /// Promises that were not kept.
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
