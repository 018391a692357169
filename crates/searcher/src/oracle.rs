//! How far what was promised may be from what came: the tolerances, as formulas.
//!
//! Promises: nothing here is fitted to a case. Each formula says which of the gate's figures it comes from.

use crate::SECOND;

/// Points by which a share may be off its cap over a run: 1.5, and for what a program submits as one unit and is
/// paid for afterwards, that unit's part of the run.
pub fn run_points(unit_ns: u64, run_ns: u64) -> f64 {
    1.5 + 100.0 * unit_ns as f64 / run_ns.max(1) as f64
}

/// The same of a lone tenant whose longest kernel is known: two launches of what is not known are in flight at
/// most.
pub fn lone_points(longest_ns: u64, run_ns: u64) -> f64 {
    run_points(2 * longest_ns, run_ns)
}

/// What is not judged at the beginning of a run of a lone tenant: kernels are met for the first time, and what
/// they were charged too little is paid for.
pub fn first_ns(longest_ns: u64) -> u64 {
    2 * SECOND + 100 * longest_ns
}
