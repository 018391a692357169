//! `divvy bench share`: one program under a cap of device time, for every length of kernel and road.
//!
//! A cell is a kernel's length, a way to submit it and a cap. Its target is the cap, or what the
//! program reaches alone on the bare driver where that is less. Where that is so, and where kernels are
//! so short that processes differ, both are measured anew, by turns, and their middle rounds compared.
//! The lengths are measured natively before and after their cells; cells between two measurements that
//! differ have no figure.

use std::time::Duration;

use anyhow::{Context, Result};

use super::busy::{self, Kernel, Length, ROUNDS, Work, text};
use super::report::{Figure, Goal, median};
use super::series::mean;
use super::side::{Side, Terms};
use super::{Bench, Timing};

const SECOND_NS: u64 = 1_000_000_000;
/// Kernels of which every window of a second is judged.
const SHORT_NS: u64 = 5_000_000;
/// Points a cell may miss its target by, on average and in its worst window of a second.
const MEAN_POINTS: f64 = 1.0;
const WINDOW_POINTS: f64 = 3.0;

/// Cells of one length.
struct Group {
    kernel_ns: u64,
    modes: &'static [&'static str],
    caps: &'static [u32],
}

const LONG: u64 = 500_000_000;
const USUAL: &[&str] = &["sync", "async", "graph"];
const GROUPS: [Group; 6] = [
    Group { kernel_ns: 5_000, modes: USUAL, caps: &[10, 30, 70] },
    Group { kernel_ns: 100_000, modes: USUAL, caps: &[10, 30, 70] },
    Group { kernel_ns: SHORT_NS, modes: USUAL, caps: &[10, 30, 70] },
    Group { kernel_ns: LONG, modes: USUAL, caps: &[30, 70] },
    Group { kernel_ns: 100_000, modes: &["ex", "cooperative", "streams"], caps: &[30] },
    Group { kernel_ns: 200_000, modes: &["copy"], caps: &[30] },
];
/// Ways to submit that keep the card full, whatever a single kernel takes.
const SATURATING: &[&str] = &["async", "graph", "ex", "cooperative", "streams"];
const PACED: Group = Group { kernel_ns: 5_000, modes: &["paced"], caps: &[10] };
const QUICK: [Group; 1] = [Group { kernel_ns: 100_000, modes: &["sync", "async"], caps: &[30] }];

/// Cells that peers are measured in.
fn is_compared(kernel_ns: u64, mode: &str, cap: u32) -> bool {
    [100_000, SHORT_NS].contains(&kernel_ns) && USUAL.contains(&mode) && cap == 30
}

fn name(kernel_ns: u64, mode: &str, cap: u32) -> String {
    format!("{} {mode} at {cap} %", text(kernel_ns))
}

fn work(mode: &'static str, kernel: Kernel) -> Work {
    let work = Work::new(mode, kernel);
    match mode {
        "paced" => work.with("period", 20_000),
        // A graph of many would be longer than the run.
        "graph" if kernel.nominal_ns >= LONG => work.with("graph", 1),
        _ => work,
    }
}

pub(super) fn measure(bench: &mut Bench, timing: &Timing) -> Result<()> {
    let groups: Vec<&Group> =
        if timing.quick { QUICK.iter().collect() } else { GROUPS.iter().chain([&PACED]).collect() };
    let wanted = |bench: &Bench, group: &Group, mode: &str, cap: u32| {
        bench.wants(&name(group.kernel_ns, mode, cap))
    };
    let peers = bench.sides.iter().filter(|side| side.is_peer()).count();
    let cells = groups.iter().flat_map(|group| {
        group
            .modes
            .iter()
            .flat_map(move |mode| group.caps.iter().map(move |cap| (*group, *mode, *cap)))
    });
    let cells: Vec<_> = cells.collect();
    let asked = || cells.iter().filter(|(group, mode, cap)| wanted(bench, group, mode, *cap));
    let steps = asked().map(
        |(group, mode, cap)| {
            if is_compared(group.kernel_ns, mode, *cap) { 1 + peers } else { 1 }
        },
    );
    // What some of them come to would pass for what all do.
    let are_most = asked().count() * 10 >= cells.len() * 9;
    bench.expect(steps.sum::<usize>() + usize::from(bench.wants(CHANGE)));
    let mut summary = Summary::default();
    for group in &groups {
        if group
            .modes
            .iter()
            .any(|mode| group.caps.iter().any(|cap| wanted(bench, group, mode, *cap)))
        {
            let measured = measure_group(bench, timing, group, &mut summary);
            if let Err(error) = measured {
                bench.fails(&format!("share, kernels of {}", text(group.kernel_ns)), error);
            }
        }
    }
    if are_most {
        summary.report(bench);
    }
    if bench.wants(CHANGE)
        && let Err(error) = measure_change(bench)
    {
        bench.fails(&format!("share, {CHANGE}"), error);
    }
    Ok(())
}

/// What all cells come to, by side.
#[derive(Default)]
struct Summary {
    errors: Vec<(String, f64)>,
    windows: Vec<(String, f64)>,
    /// Target and what was reached.
    dots: Vec<(String, (f64, f64))>,
}

impl Summary {
    fn report(&self, bench: &mut Bench) {
        let mut error = Figure::new("share, mean error of all cells", "points", Goal::AtMost(1.0));
        let mut largest =
            Figure::new("share, largest error of a cell", "points", Goal::AtMost(1.0));
        let mut worst = Figure::new(
            "share, worst 1 s window, up to 5 ms",
            "points",
            Goal::AtMost(WINDOW_POINTS),
        );
        for side in bench.sides.iter().filter(|side| !side.is_native()) {
            let of = |list: &[(String, f64)]| -> Vec<f64> {
                list.iter()
                    .filter(|(name, _)| *name == side.name)
                    .map(|(_, value)| *value)
                    .collect()
            };
            let (errors, windows) = (of(&self.errors), of(&self.windows));
            let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
            for (figure, value) in [
                (&mut error, mean(&errors)),
                (&mut largest, most(&errors)),
                (&mut worst, most(&windows)),
            ] {
                if let Some(value) = value {
                    figure.take(&side.name, Ok(value));
                }
            }
        }
        let mut names: Vec<&String> = self.dots.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let of = self.dots.iter().filter(|(one, _)| one == name);
            bench.line("share", name, of.map(|(_, dot)| *dot).collect());
        }
        let measured = |figure: &Figure| !figure.medians.is_empty();
        let figures = [error.known_as("IS-003"), largest.known_as("IS-003"), worst];
        bench.report.figures.extend(figures.into_iter().filter(measured));
    }
}

fn measure_group(
    bench: &mut Bench,
    timing: &Timing,
    group: &Group,
    summary: &mut Summary,
) -> Result<()> {
    let kernel = Kernel::calibrate(bench, group.kernel_ns)?;
    let mut figures = Vec::new();
    let mut found = Summary::default();
    for mode in group.modes {
        let caps = group.caps.iter().copied();
        let caps: Vec<u32> =
            caps.filter(|cap| bench.wants(&name(group.kernel_ns, mode, *cap))).collect();
        if caps.is_empty() {
            continue;
        }
        let alone = match measure_alone(bench, timing, &work(mode, kernel)) {
            Ok(alone) => alone,
            Err(error) => {
                bench.fails(&format!("share, {} {mode}", text(group.kernel_ns)), error);
                continue;
            }
        };
        for cap in caps {
            figures.extend(measure_cell(bench, timing, kernel, mode, cap, alone, &mut found)?);
        }
    }
    // Windows are judged by a kernel's length that must still be the same.
    if let Err(error) = kernel.check(bench) {
        for figure in &mut figures {
            figure.void(&format!("{error:#}"));
        }
        found = Summary::default();
    }
    summary.errors.extend(found.errors);
    summary.windows.extend(found.windows);
    summary.dots.extend(found.dots);
    bench.report.figures.extend(figures);
    Ok(())
}

/// What a program reaches alone on the bare driver, in percent.
fn measure_alone(bench: &Bench, timing: &Timing, work: &Work) -> Result<f64> {
    let tenancy = bench.native()?.tenancy(&bench.stage, bench.limit_bytes())?;
    bench.say(&format!("{} {}, alone on the bare driver", text(work.kernel_ns()), work.mode()));
    let length = if work.kernel_ns() >= LONG { 4.0 } else { timing.seconds.min(1.5) };
    busy::run(bench, &[(&tenancy, work.clone())], Length::seconds(length))
        .and_then(|ran| ran.shares()?.first().copied().context("nothing ran"))
}

fn measure_cell(
    bench: &mut Bench,
    timing: &Timing,
    kernel: Kernel,
    mode: &'static str,
    cap: u32,
    alone: f64,
    found: &mut Summary,
) -> Result<Vec<Figure>> {
    let name = name(kernel.nominal_ns, mode, cap);
    let work = work(mode, kernel);
    let mut reached = Figure::new(format!("share, {name}"), "%", Goal::None).known_as("IS-003");
    let mut worst =
        Figure::new(format!("share, {name}, worst 1 s window off by"), "points", Goal::None);
    if kernel.nominal_ns <= SHORT_NS {
        worst.goal = Goal::AtMost(WINDOW_POINTS);
    }
    let compared = is_compared(kernel.nominal_ns, mode, cap);
    let sides: Vec<Side> = bench.sides.iter().filter(|side| !side.is_native()).cloned().collect();
    let sides: Vec<Side> = sides.into_iter().filter(|side| compared || !side.is_peer()).collect();
    // Graphs and streams overlap kernels, so a full card does more of them than one after another.
    let saturates = SATURATING.contains(&mode);
    let is_host_bound = !saturates && f64::from(cap) > alone;
    let rounds = if is_host_bound || kernel.differs() { ROUNDS } else { 1 };
    let mut natively = vec![Ok(alone)];
    let mut ran: Vec<(&Side, Outcome)> = Vec::new();
    for round in 0..rounds {
        if round > 0 {
            natively.push(measure_alone(bench, timing, &work));
        }
        for side in &sides {
            let doing = format!("share, {name} on {}", side.name);
            if round == 0 {
                bench.step(&doing)
            } else {
                bench.say(&doing)
            }
            ran.push((side, measure_once(bench, timing, side, &work, cap)));
        }
    }
    let reaches: Vec<f64> = natively.iter().flatten().copied().collect();
    let full = if saturates { median(&reaches).unwrap_or(alone) } else { 100.0 };
    let of_full = |share: f64| share * 100.0 / full;
    natively.into_iter().for_each(|share| reached.take("native", share.map(of_full)));
    let mut windows: Vec<(&Side, f64)> = Vec::new();
    for (side, outcome) in ran {
        if let Ok((_, seconds)) = &outcome {
            windows.extend(seconds.iter().map(|window| (side, of_full(*window))));
        }
        reached.take(&side.name, outcome.map(|(share, _)| of_full(share)));
    }
    let alone = reached.medians.get("native").copied().unwrap_or(of_full(alone));
    let target = f64::from(cap).min(alone);
    reached.goal = Goal::Within(target, MEAN_POINTS);
    for side in &sides {
        let Some(share) = reached.medians.get(&side.name).copied() else { continue };
        found.errors.push((side.name.clone(), (share - target).abs()));
        found.dots.push((side.name.clone(), (target, share)));
        let own = || windows.iter().filter(|(of, _)| of.name == side.name).map(|(_, share)| *share);
        if let Some(off) = own().map(|window| (window - target).abs()).reduce(f64::max) {
            if kernel.nominal_ns <= SHORT_NS {
                found.windows.push((side.name.clone(), off));
            }
            worst.take(&side.name, Ok(off));
        }
        let dots = own().map(|window| (target, window));
        found.dots.extend(dots.map(|dot| (format!("{}, windows of 1 s", side.name), dot)));
    }
    Ok(vec![reached, worst])
}

/// A program's share over a whole run and in each window of a second, in percent.
type Outcome = Result<(f64, Vec<f64>)>;

/// The program's under a cap.
fn measure_once(bench: &Bench, timing: &Timing, side: &Side, work: &Work, cap: u32) -> Outcome {
    let kernel_ns = work.kernel_ns();
    let seconds = if kernel_ns >= LONG { timing.long_seconds } else { timing.seconds };
    let mut length = Length::seconds(seconds);
    // A long kernel is charged when it has ended; what follows is what holds from then on.
    length.warm_up = length.warm_up.max(Duration::from_nanos(kernel_ns * 2));
    let terms = Terms::memory(bench.limit_bytes()).share(cap);
    let tenancy = side.tenancy_of(&bench.stage, &terms)?;
    let ran = busy::run(bench, &[(&tenancy, work.clone())], length)?;
    let share = ran.shares()?.first().copied().context("nothing ran")?;
    Ok((share, ran.windows(SECOND_NS).concat()))
}

const CHANGE: &str = "30 to 70 % while it runs";

/// A cap that changes while the program runs.
fn measure_change(bench: &mut Bench) -> Result<()> {
    const AT: Duration = Duration::from_millis(1000);
    bench.step(CHANGE);
    let kernel = Kernel::calibrate(bench, 100_000)?;
    let mut after = Figure::new(
        format!("share, {CHANGE}, from 20 ms to 1 s after"),
        "%",
        Goal::Within(70.0, 2.0),
    );
    let mut response =
        Figure::new(format!("share, {CHANGE}, until within 5 points"), "ms", Goal::AtMost(20.0))
            .known_as("IS-004");
    for side in bench.sides.clone().into_iter().filter(|side| !side.is_native() && !side.is_peer())
    {
        let terms = Terms::memory(bench.limit_bytes()).share(30);
        let mut tenancy = side.tenancy_of(&bench.stage, &terms)?;
        let length =
            Length { measured: AT * 2 + Duration::from_millis(200), ..Length::seconds(1.0) };
        let limits = tenancy.limits()?;
        let mut changed = None;
        let ran = busy::run_with(bench, &[(&tenancy, work("async", kernel))], length, |since| {
            if since >= AT && changed.is_none() {
                super::side::change_share(limits.as_ref(), 70)?;
                changed = Some(divvy_page::now_ns());
            }
            Ok(())
        });
        tenancy.expect_share(70);
        let (ran, changed) = match ran.and_then(|ran| {
            tenancy.check_share()?;
            Ok((ran, changed.context("the run ended before the change")?))
        }) {
            Ok(both) => both,
            Err(error) => {
                after.take(&side.name, Err(error));
                continue;
            }
        };
        let Some(track) = ran.tracks.first() else { continue };
        let ms = |ms: u64| changed + ms * 1_000_000;
        let share = track.series.share(ms(20), ms(1000));
        after.take(&side.name, share.context("nothing was sampled"));
        // The first 50 ms that are right, looked for every 10 ms.
        let is_right = |from: &u64| {
            let share = track.series.share(ms(*from), ms(*from + 50));
            share.is_some_and(|share| (share - 70.0).abs() <= 5.0)
        };
        let first = (0..=950).step_by(10).find(is_right);
        response.take(&side.name, first.map(|ms| ms as f64).context("not within a second"));
        let begin = changed.saturating_sub(500_000_000);
        let windows = track.series.windows(begin, ms(1000), 20_000_000);
        let points = windows.iter().zip(0_u32..);
        let points = points.map(|(window, at)| (f64::from(at) * 20.0 - 500.0, *window)).collect();
        bench.line("change", &side.name, points);
    }
    bench.report.figures.extend([after, response]);
    Ok(())
}
