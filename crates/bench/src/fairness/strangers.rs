//! `divvy bench fairness --family strangers`: a cap beside a program that does not run under Divvy.
//!
//! The tenant runs when the stranger's process is started. Promises: the share is judged from three seconds after
//! the stranger began to work, but that it is never above its cap from that moment on; what the stranger itself has is
//! shown. Several strangers, and tenants without a cap beside them, are not measured.

use std::time::Duration;

use anyhow::{Context, Result};

use super::hall::{Hall, Job, MS, US};
use crate::busy::{self, Comes, Part, Ran, RunLength, Work};
use crate::kernel::text;
use crate::report::{Figure, Goal};
use crate::running::Bench;

const CAP: u32 = 50;
/// When the stranger's process is started, and how long behind its coming the share is judged.
const COMES: Duration = Duration::from_secs(2);
const SETTLES: Duration = Duration::from_secs(3);
/// Judged seconds, unless the command line says otherwise.
const SECONDS: f64 = 6.0;
/// Least share of the tenant beside one that is always busy, in percent; its most is its cap.
const LEAST: f64 = 43.0;
const WINDOW_NS: u64 = 5_000 * MS;
const STEP_NS: u64 = 100 * MS;
/// Points that it may be off by beside the others.
const POINTS: f64 = 2.0;
const STRANGER_NS: u64 = MS;

/// Work of a program of no tenant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stranger {
    /// Kernels in a queue.
    Queue,
    /// It has a context, and does nothing with it.
    Idle,
    /// A kernel every five times its length.
    Duty,
}

impl Stranger {
    fn words(self) -> String {
        match self {
            Self::Queue => format!("a stranger's {} queue", text(STRANGER_NS)),
            Self::Idle => "a stranger that idles".to_owned(),
            Self::Duty => "a stranger of 20 % duty".to_owned(),
        }
    }

    fn goal(self) -> Goal {
        match self {
            Self::Queue => Goal::AtLeast(LEAST),
            Self::Idle | Self::Duty => Goal::Within(f64::from(CAP), POINTS),
        }
    }
}

/// The tenant's way to submit, its kernels, and who comes.
type Case = (&'static str, u64, Stranger);

const CASES: [Case; 4] = [
    ("async", MS, Stranger::Queue),
    ("async", MS, Stranger::Idle),
    ("async", MS, Stranger::Duty),
    ("sync", 100 * US, Stranger::Duty),
];

fn name((mode, kernel_ns, stranger): Case) -> String {
    format!("{CAP} % of {} {mode} beside {}", text(kernel_ns), stranger.words())
}

pub(super) fn jobs(bench: &Bench, quick: bool) -> Vec<Job> {
    let sides = bench.sides.iter().filter(|side| !side.is_native()).count();
    let cases = if quick { &CASES[..2] } else { &CASES };
    let job = |case: &Case| {
        let case = *case;
        Job::new(name(case), sides, move |hall| measure(hall, case))
    };
    cases.iter().map(job).collect()
}

fn measure(hall: &mut Hall<'_>, case @ (mode, kernel_ns, stranger): Case) -> Result<()> {
    let name = name(case);
    let work = Work::new(mode, hall.kernel(kernel_ns)?);
    let kernel = hall.kernel(STRANGER_NS)?;
    let (its_work, comes) = match stranger {
        Stranger::Queue => (Work::new("async", kernel), Comes::Started(COMES)),
        Stranger::Idle => (Work::new("async", kernel), Comes::Idle(COMES)),
        Stranger::Duty => {
            let pauses = Work::new("gap", kernel).with("pause", 4 * STRANGER_NS);
            (pauses, Comes::Started(COMES))
        }
    };
    let seconds = hall.timing.seconds_or(SECONDS);
    let length = RunLength { warm_up: SETTLES, ..RunLength::seconds(seconds) };
    let mut share = Figure::new(format!("{name}, share"), "%", stranger.goal());
    let never = Goal::AtMost(f64::from(CAP));
    let mut most = Figure::new(format!("{name}, most in 5 s"), "%", never);
    let mut its = Figure::new(format!("{name}, the stranger's share"), "%", Goal::None);
    for side in hall.capping() {
        hall.step(&name, &side)?;
        let tenancy = side.tenancy_of(&hall.bench.stage, &hall.terms().share(CAP))?;
        let nobodys = hall.bench.native()?.tenancy_of(&hall.bench.stage, &hall.terms())?;
        let parts = [
            Part { tenancy: &tenancy, work: work.clone(), comes: Comes::Ready(Duration::ZERO) },
            Part { tenancy: &nobodys, work: its_work.clone(), comes },
        ];
        let ran = match busy::run_parts(hall.bench, &parts, length, |_| Ok(())) {
            Ok(ran) => ran,
            Err(error) => {
                share.take(&side.name, Err(error));
                continue;
            }
        };
        for (figure, got) in [&mut share, &mut its].into_iter().zip(ran.shares()?) {
            figure.take(&side.name, Ok(got));
        }
        if stranger == Stranger::Queue {
            most.take(&side.name, most_of(&ran).context("there was no window"));
        }
        let from_ns = ran.tracks.first().map_or(ran.span_ns.0, |track| track.began_ns);
        hall.draw_from(&name, &side, &ran, from_ns);
    }
    hall.keep(&[kernel_ns, STRANGER_NS], [share, most, its]);
    Ok(())
}

/// The most that the tenant had in five seconds, from the stranger's coming on.
fn most_of(ran: &Ran) -> Option<f64> {
    let [tenant, stranger] = &ran.tracks[..] else { return None };
    let (from, until) = (stranger.began_ns, ran.span_ns.1);
    // A short run has no window that long.
    let width_ns = WINDOW_NS.min(until.saturating_sub(from));
    tenant.series.windows_each(from, until, width_ns, STEP_NS).into_iter().reduce(f64::max)
}
