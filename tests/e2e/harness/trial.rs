//! Waiting for what comes in the end, and judging by time what a busy host can spoil.
//!
//! Promises: a wait ends with what it waited for, or with its name; what is wrong in a trial is printed,
//! and what is wrong in three of them fails the test. A host that lets a process wait for a tenth of a
//! second is no defect, and does so rarely at the same place of three trials; a broken promise is broken
//! in each.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// Longer than anything that comes at all takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

const TRIALS: usize = 3;

/// Waits until `is_so`; panics with what it waited for when that never comes.
pub(crate) fn until<What: Display>(what: What, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Tries until `trial` finds nothing wrong, three times at most; what was wrong in each fails the test.
///
/// For what is judged by a time that a host which stops can prolong. A trial tells what was wrong by its
/// name, with what was seen of it; what no host can cause it asserts itself.
pub(crate) fn best_of_three(what: &str, trial: impl FnMut() -> BTreeMap<String, String>) {
    best_of(TRIALS, what, trial);
}

/// The same with so many trials.
pub(crate) fn best_of(
    trials: usize,
    what: &str,
    mut trial: impl FnMut() -> BTreeMap<String, String>,
) {
    let mut always: Option<BTreeMap<String, String>> = None;
    for number in 1..=trials {
        let wrong = trial();
        if !wrong.is_empty() {
            println!("{what}, trial {number}: {wrong:?}");
        }
        let mut left = always.take().unwrap_or_else(|| wrong.clone());
        left.retain(|name, _| wrong.contains_key(name));
        if left.is_empty() {
            return;
        }
        always = Some(left);
    }
    panic!("{what}, wrong in each of {trials} trials: {:?}", always.unwrap_or_default());
}

/// Progress of a run whose result is kept: a line on standard error every five seconds. Others say nothing.
#[derive(Debug)]
pub(crate) struct Soaking {
    what: &'static str,
    wanted: u64,
    begun: Instant,
    said: Instant,
}

impl Soaking {
    pub(crate) fn new(what: &'static str, wanted: u64) -> Self {
        let now = Instant::now();
        Self { what, wanted, begun: now, said: now }
    }

    /// So many are done, and this part of all, by whatever ends them.
    pub(crate) fn note(&mut self, count: u64, part: f64) {
        let is_kept = std::env::var_os("DIVVY_RESULT").is_some();
        if !is_kept || self.said.elapsed() < Duration::from_secs(5) {
            return;
        }
        self.said = Instant::now();
        let left = self.begun.elapsed().as_secs_f64() * (1.0 - part) / part.max(1e-6);
        eprintln!("{count} of {} {}, about {left:.0} s left", self.wanted, self.what);
    }
}
