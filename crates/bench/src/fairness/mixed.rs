//! `divvy bench fairness --family mixed`: what several programs make of a card.
//!
//! Pairs under caps, with the daemon and without; equal tenants; programs that leave the card idle; one beside
//! floods. What the daemon takes meanwhile, and what changes, is measured elsewhere.

use anyhow::{Context, Result};

use super::hall::{Hall, Job, MS, US};
use crate::busy::{Ran, Work};
use crate::kernel::{ROUNDS, text};
use crate::report::{Figure, Goal};
use crate::running::Bench;
use crate::series::{jain, mean, variation};

const US_100: u64 = 100 * US;

/// Caps that are measured; the names are those that `--only` finds.
const CAPPED: [[u32; 2]; 2] = [[30, 70], [20, 80]];
const EQUAL_NS: [u64; 3] = [20 * US, US_100, MS];
const NO_DAEMON: &str = ", without a daemon";
const LEAVES: &str = "that leave the card idle";
const GAPS: [&str; 3] = [PAUSES, PACED, COPIES];
const PAUSES: &str = "1 ms kernels and 2 ms pauses";
const PACED: &str = "5 us kernels every 20 us";
const COPIES: &str = "4 MiB copies and 200 us kernels";
const FOUR: &str = "4 equal tenants";
const TWO: &str = "2 equal tenants, variation";
const NOISY: &str = "one that synchronises beside 3 floods";
const HALF: &str = "one that idles half the time";
/// How fast a program is that waits for each of its kernels is the host's doing too where they are no
/// longer than this, and differs by some percent from process to process.
const HOST_BOUND_NS: u64 = US_100;

fn rounds_of_sync(kernel_ns: u64) -> usize {
    if kernel_ns <= HOST_BOUND_NS { ROUNDS } else { 1 }
}

/// Programs that leave the card idle, one or two of them, each kind.
fn gaps() -> impl Iterator<Item = (usize, &'static str, String)> {
    let each = GAPS.into_iter().flat_map(|what| [1, 2].map(|tenants| (tenants, what)));
    each.map(|(tenants, what)| (tenants, what, format!("{tenants} {LEAVES}: {what}, sum")))
}

fn capped(caps: [u32; 2]) -> String {
    format!("tenants of {} and {} %", caps[0], caps[1])
}

fn equal(tenants: usize, kernel_ns: u64) -> String {
    format!("{tenants} equal tenants, {} sync", text(kernel_ns))
}

pub(super) fn jobs(bench: &Bench, quick: bool) -> Vec<Job> {
    let sides = bench.sides.len();
    let pairs = if quick { &CAPPED[..1] } else { &CAPPED };
    let lengths = if quick { &EQUAL_NS[1..2] } else { &EQUAL_NS };
    // Native and ours, each beside one alone.
    let of_sync = |ns: u64| 3 * rounds_of_sync(ns);
    let mut jobs = Vec::new();
    for caps in pairs.iter().copied() {
        let name = capped(caps) + NO_DAEMON;
        let measure = move |hall: &mut Hall<'_>| hall.measure_capped(caps, NO_DAEMON);
        jobs.push(Job::new(name, 2, measure).without_daemon());
        let measure = move |hall: &mut Hall<'_>| hall.measure_capped(caps, "");
        jobs.push(Job::new(capped(caps), 1 + sides, measure));
    }
    for ns in lengths.iter().copied() {
        for tenants in [2, 3] {
            let measure = move |hall: &mut Hall<'_>| hall.measure_equal(tenants, ns);
            jobs.push(Job::new(equal(tenants, ns), of_sync(ns), measure));
        }
    }
    if quick {
        return jobs;
    }
    jobs.extend(gaps().map(|(tenants, what, name)| {
        Job::new(name.clone(), 2, move |hall| hall.measure_gap(tenants, what, &name))
    }));
    jobs.push(Job::new(FOUR, 2, |hall| hall.measure_four()));
    jobs.push(Job::new(TWO, 2, |hall| hall.measure_two()));
    jobs.push(Job::new(NOISY, of_sync(US_100), |hall| hall.measure_noisy()));
    jobs.push(Job::new(HALF, 3, |hall| hall.measure_half()));
    jobs
}

impl Hall<'_> {
    fn measure_capped(&mut self, caps: [u32; 2], how: &str) -> Result<()> {
        let work = Work::new("async", self.kernel(US_100)?);
        let alone = self.alone(&work)?;
        let name = format!("{}{how}", capped(caps));
        let judged = how.is_empty();
        let mut shares = caps.map(|cap| {
            Figure::new(format!("{name}, {cap} %'s share"), "%", Goal::None).known_as("IS-003")
        });
        // Both together cannot reach all of the device: what was asked is a ratio.
        let mut parts = caps.map(|cap| {
            let goal = Goal::Within(f64::from(cap), if judged { 1.0 } else { 5.0 });
            Figure::new(format!("{name}, {cap} %'s part of both"), "%", goal)
        });
        let goal = if judged { Goal::AtLeast(97.0) } else { Goal::None };
        let mut sum = Figure::new(format!("{name}, sum of one alone"), "%", goal);
        for side in self.sides(judged) {
            // On the bare driver nobody is capped; it stands beside one of the two rows.
            if side.is_native() && !judged {
                continue;
            }
            let programs = caps.map(|cap| (self.terms().share(cap), work.clone()));
            let ran = match self.together(&name, &side, &programs) {
                Ok(ran) => ran,
                Err(error) => {
                    sum.take(&side.name, Err(error));
                    continue;
                }
            };
            let got = ran.shares()?;
            let both: f64 = got.iter().sum();
            for ((share, part), got) in shares.iter_mut().zip(&mut parts).zip(&got) {
                share.take(&side.name, Ok(*got));
                part.take(&side.name, Ok(got / both * 100.0));
            }
            sum.take(&side.name, Ok(both / alone * 100.0));
            self.draw(&name, &side, &ran);
        }
        self.keep(&[US_100], shares.into_iter().chain(parts).chain([sum]));
        Ok(())
    }

    fn measure_equal(&mut self, tenants: usize, kernel_ns: u64) -> Result<()> {
        let work = Work::new("sync", self.kernel(kernel_ns)?);
        let name = equal(tenants, kernel_ns);
        let mut sum = Figure::new(format!("{name}, sum of one alone"), "%", Goal::AtLeast(95.0));
        let mut off = Figure::new(format!("{name}, furthest from equal"), "%", Goal::AtMost(1.0));
        for _ in 0..rounds_of_sync(kernel_ns) {
            let alone = self.alone(&work)?;
            for side in self.sides(false) {
                let programs = vec![(self.terms(), work.clone()); tenants];
                match self.together(&name, &side, &programs) {
                    Ok(ran) => {
                        let got = ran.shares()?;
                        let all = Some(got.iter().sum::<f64>()).filter(|all| *all > 0.0);
                        let all = all.context("nothing ran")?;
                        sum.take(&side.name, Ok(all / alone * 100.0));
                        let equal = 100.0 / got.len() as f64;
                        let most = got.iter().map(|share| (share / all * 100.0 - equal).abs());
                        off.take(&side.name, most.reduce(f64::max).context("nothing ran"));
                    }
                    Err(error) => sum.take(&side.name, Err(error)),
                }
            }
        }
        self.keep(&[kernel_ns], [sum, off]);
        Ok(())
    }

    /// Programs that leave the card idle at times: one under a cap above its need, and two in turns.
    fn measure_gap(&mut self, tenants: usize, what: &str, name: &str) -> Result<()> {
        let kernel_ns = match what {
            PAUSES => MS,
            PACED => 5_000,
            _ => 200_000,
        };
        let kernel = self.kernel(kernel_ns)?;
        let work = match what {
            PAUSES => Work::new("gap", kernel).with("pause", 2 * MS),
            PACED => Work::new("paced", kernel).with("period", 20 * US),
            _ => Work::new("copy", kernel),
        };
        let terms = if tenants == 1 { self.terms().share(90) } else { self.terms() };
        // A run differs from the next by about a percent.
        let mut sum = Figure::new(name, "%", Goal::Kept(0.98));
        for side in self.sides(false) {
            let programs = vec![(terms, work.clone()); tenants];
            let ran = self.together(name, &side, &programs);
            sum.take(&side.name, ran.and_then(|ran| Ok(ran.shares()?.iter().sum())));
        }
        self.keep(&[kernel_ns], [sum]);
        Ok(())
    }

    /// Equal programs with queues; what `judge` makes of their windows.
    fn measure_windows(
        &mut self,
        tenants: usize,
        width_ns: u64,
        figure: Figure,
        judge: impl Fn(&[Vec<f64>]) -> Option<f64>,
    ) -> Result<()> {
        let mut figure = figure;
        let work = Work::new("async", self.kernel(US_100)?);
        for side in self.sides(false) {
            let programs = vec![(self.terms(), work.clone()); tenants];
            let name = figure.name.clone();
            match self.together(&name, &side, &programs) {
                Ok(ran) => {
                    let found = judge(&ran.windows(width_ns)).context("there was no window");
                    figure.take(&side.name, found);
                    self.draw(&name, &side, &ran);
                }
                Err(error) => figure.take(&side.name, Err(error)),
            }
        }
        self.keep(&[US_100], [figure]);
        Ok(())
    }

    fn measure_four(&mut self) -> Result<()> {
        let figure = Figure::new(format!("{FOUR}, Jain's index of 1 s"), "", Goal::AtLeast(0.999));
        self.measure_windows(4, 1000 * MS, figure.known_as("IS-008"), |windows| {
            let count = windows.iter().map(Vec::len).min()?;
            let of = |at: usize| -> Option<f64> {
                jain(&windows.iter().filter_map(|one| one.get(at).copied()).collect::<Vec<_>>())
            };
            mean(&(0..count).map(of).collect::<Option<Vec<_>>>()?)
        })
    }

    fn measure_two(&mut self) -> Result<()> {
        let figure = Figure::new(format!("{TWO} of 200 ms"), "", Goal::AtMost(0.05));
        self.measure_windows(2, 200 * MS, figure.known_as("IS-007"), |windows| {
            windows
                .iter()
                .map(|one| variation(one))
                .collect::<Option<Vec<_>>>()
                .and_then(|all| all.into_iter().reduce(f64::max))
        })
    }

    fn measure_noisy(&mut self) -> Result<()> {
        let kernel = self.kernel(US_100)?;
        let victim = Work::new("sync", kernel);
        let mut kept = Figure::new(format!("{NOISY}, of a quarter"), "%", Goal::AtLeast(98.0))
            .known_as("IS-009");
        for _ in 0..rounds_of_sync(US_100) {
            let alone = self.alone(&victim)?;
            for side in self.sides(false) {
                let mut programs = vec![(self.terms(), Work::new("async", kernel)); 3];
                programs.insert(0, (self.terms(), victim.clone()));
                let ran = self.together(NOISY, &side, &programs);
                let of = |ran: Ran| ran.shares()?.first().copied().context("nothing ran");
                kept.take(&side.name, ran.and_then(of).map(|share| share / alone * 400.0));
            }
        }
        self.keep(&[US_100], [kept]);
        Ok(())
    }

    fn measure_half(&mut self) -> Result<()> {
        let kernel = self.kernel(US_100)?;
        let busy = Work::new("async", kernel);
        let alone = self.alone(&busy)?;
        let half = Work::new("half", kernel).with("period", 100 * MS);
        let mut sum = Figure::new(
            format!("{HALF} beside a busy one, sum of one alone"),
            "%",
            Goal::AtLeast(98.0),
        );
        for side in self.sides(false) {
            let programs = [(self.terms(), busy.clone()), (self.terms(), half.clone())];
            let ran = self.together(HALF, &side, &programs);
            let of = |ran: Ran| Ok(ran.shares()?.iter().sum::<f64>() / alone * 100.0);
            sum.take(&side.name, ran.and_then(of));
        }
        self.keep(&[US_100], [sum]);
        Ok(())
    }
}
