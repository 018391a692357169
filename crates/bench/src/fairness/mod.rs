//! `divvy bench fairness`: several programs on one card.
//!
//! On the bare driver they get what its time slices give; Divvy's daemon divides by turns. Every
//! figure of ours is taken with a daemon of the benchmark's own, unless its name says otherwise. What is
//! measured are families, each in a file of its own; this chooses among them by name.

mod caps;
mod changes;
mod cost;
mod hall;
mod mixed;
mod screen;
mod strangers;
mod weights;

use anyhow::Result;

use hall::{Hall, Job};

use super::running::Bench;
use super::timing::Timing;

/// Programs that share a card.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(super) enum Family {
    /// Capped pairs, equal tenants, programs that leave the card idle, floods
    Mixed,
    /// Cost of the daemon with 8 busy tenants of one and of four processes, and of `divvy top` beside 10
    Cost,
    /// Tenants of weights 1:3, 1:9 and 2:1:1, from fresh starts
    Weights,
    /// A weight, a priority and a cap that change while programs run, and back
    Changes,
    /// Caps of 20, 30 and 50 % beside each other; one at high priority beside a queue
    Caps,
    /// A cap beside a program that does not run under Divvy
    Strangers,
}

impl Family {
    fn jobs(self, bench: &Bench, timing: &Timing, starts: u32) -> Vec<Job> {
        match self {
            Self::Mixed => mixed::jobs(bench, timing.quick),
            Self::Cost => cost::jobs(timing.quick),
            Self::Weights => weights::jobs(timing.quick, starts),
            Self::Changes => changes::jobs(timing.quick),
            Self::Caps => caps::jobs(bench, timing.quick),
            Self::Strangers => strangers::jobs(bench, timing.quick),
        }
    }
}

/// Measures `families`; each set of weights from so many fresh `starts`.
pub(super) fn measure(
    bench: &mut Bench,
    families: &[Family],
    timing: &Timing,
    starts: u32,
) -> Result<()> {
    let jobs = families.iter().flat_map(|family| family.jobs(bench, timing, starts));
    let mut jobs: Vec<Job> = jobs.collect();
    jobs.retain(|job| bench.wants(&job.name));
    Hall::new(bench, timing).play(jobs);
    Ok(())
}
