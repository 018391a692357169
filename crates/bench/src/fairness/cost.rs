//! `divvy bench fairness --family cost`: what the daemon takes while eight tenants are busy, and a screen that shows ten.
//!
//! Promises: its time on processors is to the nanosecond, of all its threads; what it asks of NVML as tenants come
//! is a figure of its own.

use std::time::Duration;

use anyhow::{Result, anyhow};

use super::hall::{Hall, Job, US};
use super::screen;
use crate::busy::{self, RunLength, Work};
use crate::daemon::Watch;
use crate::report::{Figure, Goal};

const TENANTS: usize = 8;
const KERNEL_NS: u64 = 100 * US;
/// Processes of each tenant.
const PROCESSES: [usize; 2] = [1, 4];
/// Percent of a processor, and MiB.
const MOST_CPU: f64 = 2.0;
const MOST_MEMORY: f64 = 20.0;

/// Tenants that come make the daemon ask NVML who else is there, some seconds after at the latest: that
/// is a figure of its own, and no part of what the daemon takes while they run.
const COME: Duration = Duration::from_secs(4);
const QUICK_COME: Duration = Duration::from_secs(1);

fn name(processes: usize) -> String {
    match processes {
        1 => format!("daemon with {TENANTS} busy tenants"),
        _ => format!("daemon with {TENANTS} busy tenants of {processes} processes"),
    }
}

pub(super) fn jobs(quick: bool) -> Vec<Job> {
    let processes = if quick { &PROCESSES[1..] } else { &PROCESSES };
    let job = |processes: &usize| {
        let processes = *processes;
        Job::new(name(processes), 1, move |hall| measure(hall, processes))
    };
    processes.iter().map(job).chain([screen::job()]).collect()
}

fn measure(hall: &mut Hall<'_>, processes: usize) -> Result<()> {
    let name = name(processes);
    let come = name.replace("with ", "asking NVML as ").replace("busy ", "") + " come";
    let work = Work::new("async", hall.kernel(KERNEL_NS)?);
    let mut cpu = Figure::new(format!("{name}, of a processor"), "%", Goal::AtMost(MOST_CPU));
    let mut asking = Figure::new(format!("{come}, of a processor"), "ms", Goal::None);
    let mut memory = Figure::new(format!("{name}, resident"), "MiB", Goal::AtMost(MOST_MEMORY));
    for side in hall.ours() {
        hall.bench.step(&name);
        let Some(Ok(daemon)) = &hall.daemon else {
            cpu.take(&side.name, Err(anyhow!("no daemon runs")));
            continue;
        };
        let tenancies = hall.tenancies(&side, &vec![(hall.terms(), work.clone()); TENANTS])?;
        let of_each = |tenancy| std::iter::repeat_n((tenancy, work.clone()), processes);
        let programs: Vec<_> = tenancies.iter().flat_map(of_each).collect();
        let mut watch = Watch::default();
        let before = daemon.usage()?.children;
        let warm_up = if hall.timing.quick { QUICK_COME } else { COME };
        let length = RunLength { warm_up, ..hall.length() };
        let look = |since| watch.look(daemon.usage()?, since);
        match busy::run_with(hall.bench, &programs, length, look) {
            Ok(_) => {
                cpu.take(&side.name, watch.cpu_percent());
                let after = watch.children();
                let ms = after.map(|after| after.saturating_sub(before).as_secs_f64() * 1e3);
                asking.take(&side.name, ms);
                memory.take(&side.name, watch.resident_mib());
            }
            Err(error) => cpu.take(&side.name, Err(error)),
        }
    }
    hall.keep(&[KERNEL_NS], [cpu, asking, memory]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_one_process_keeps_its_name() {
        assert_eq!(
            [name(1), name(4)].map(|name| name.replace("daemon with 8 busy ", "")),
            ["tenants", "tenants of 4 processes"]
        );
        assert_eq!(jobs(true).len() + jobs(false).len(), 5);
    }
}
