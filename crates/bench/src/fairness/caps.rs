//! `divvy bench fairness --family caps`: tenants with caps beside each other, and one at high priority beside a queue.
//!
//! Promises: a cap is of the device, whatever turns take of it. What one tenant with a cap reaches alone,
//! `divvy bench share` measures.

use std::time::Duration;

use anyhow::Result;

use super::hall::{Hall, Job, MS, Program, US};
use crate::busy::{RunLength, Work};
use crate::kernel::text;
use crate::report::{Figure, Goal};
use crate::running::Bench;
use crate::timing::SECOND_NS;

/// Measured seconds, unless the command line says otherwise, and those before them.
const SECONDS: f64 = 5.0;
const WARM_UP: Duration = Duration::from_secs(2);
/// Least part of its cap that each has, and points that a window of a second may be off by.
const LEAST_OF_CAP: f64 = 0.955;
const WINDOW_POINTS: f64 = 3.0;
/// Least sum of a cap at high priority and an uncapped queue, in percent.
const LEAST_SUM: f64 = 97.0;

/// Mode, length of the kernels, cap in percent.
type Capped = (&'static str, u64, u32);

const THREE: [Capped; 3] = [("sync", 100 * US, 20), ("async", MS, 30), ("async", 5 * MS, 50)];
/// At high priority, and the queue beside each of them.
const FIRST: [Capped; 3] = [("sync", 100 * US, 30), ("async", 100 * US, 30), ("async", MS, 30)];
const BESIDE_NS: u64 = MS;

const NAME: &str = "caps of 20 and 30 and 50 %";

fn words((mode, kernel_ns, cap): Capped) -> String {
    let what = if mode == "sync" { "sync" } else { "queue" };
    format!("{cap} % ({} {what})", text(kernel_ns))
}

fn name_of(first: Capped) -> String {
    format!("{} at high priority beside a queue of {}", words(first), text(BESIDE_NS))
}

pub(super) fn jobs(bench: &Bench, quick: bool) -> Vec<Job> {
    let sides = bench.sides.iter().filter(|side| !side.is_native()).count();
    let firsts = if quick { &FIRST[2..] } else { &FIRST };
    let first = |first: &Capped| {
        let first = *first;
        Job::new(name_of(first), 1, move |hall| measure_first(hall, first))
    };
    [Job::new(NAME, sides, measure_three)].into_iter().chain(firsts.iter().map(first)).collect()
}

fn length(hall: &Hall<'_>) -> RunLength {
    RunLength { warm_up: WARM_UP, ..RunLength::seconds(hall.timing.seconds_or(SECONDS)) }
}

fn program(hall: &mut Hall<'_>, (mode, kernel_ns, cap): Capped) -> Result<Program> {
    Ok((hall.terms().share(cap), Work::new(mode, hall.kernel(kernel_ns)?)))
}

fn measure_three(hall: &mut Hall<'_>) -> Result<()> {
    let mut programs = Vec::new();
    for capped in THREE {
        programs.push(program(hall, capped)?);
    }
    let mut rows = THREE.map(|capped @ (_, _, cap)| {
        let who = format!("{NAME}, {}", words(capped));
        let least = Goal::AtLeast(f64::from(cap) * LEAST_OF_CAP);
        let off = format!("{who}: worst 1 s window off by");
        [
            Figure::new(format!("{who}: share"), "%", least),
            Figure::new(off, "points", Goal::AtMost(WINDOW_POINTS)),
        ]
    });
    let mut sum = Figure::new(format!("{NAME}, sum"), "%", Goal::None);
    let length = length(hall);
    for side in hall.capping() {
        let ran = match hall.together_for(NAME, &side, &programs, length) {
            Ok(ran) => ran,
            Err(error) => {
                sum.take(&side.name, Err(error));
                continue;
            }
        };
        let (got, windows) = (ran.shares()?, ran.windows(SECOND_NS));
        for ((([share, off], got), windows), (_, _, cap)) in
            rows.iter_mut().zip(&got).zip(&windows).zip(THREE)
        {
            share.take(&side.name, Ok(*got));
            let most = windows.iter().map(|window| (window - f64::from(cap)).abs());
            if let Some(most) = most.reduce(f64::max) {
                off.take(&side.name, Ok(most));
            }
        }
        sum.take(&side.name, Ok(got.iter().sum()));
        hall.draw(NAME, &side, &ran);
    }
    let lengths = THREE.map(|(_, kernel_ns, _)| kernel_ns);
    hall.keep(&lengths, rows.into_iter().flatten().chain([sum]));
    Ok(())
}

fn measure_first(hall: &mut Hall<'_>, first: Capped) -> Result<()> {
    let name = name_of(first);
    let (terms, work) = program(hall, first)?;
    let beside = Work::new("async", hall.kernel(BESIDE_NS)?);
    let programs = [(terms.first(), work), (hall.terms(), beside)];
    let mut share = Figure::new(format!("{name}, share"), "%", Goal::None);
    let mut sum = Figure::new(format!("{name}, sum"), "%", Goal::AtLeast(LEAST_SUM));
    let length = length(hall);
    for side in hall.ours() {
        match hall.together_for(&name, &side, &programs, length) {
            Ok(ran) => {
                let got = ran.shares()?;
                got.first().into_iter().for_each(|got| share.take(&side.name, Ok(*got)));
                sum.take(&side.name, Ok(got.iter().sum()));
                hall.draw(&name, &side, &ran);
            }
            Err(error) => sum.take(&side.name, Err(error)),
        }
    }
    hall.keep(&[first.1, BESIDE_NS], [share, sum]);
    Ok(())
}
