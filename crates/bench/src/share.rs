//! `divvy bench share`: one program under a cap of device time, for every length of kernel and road.
//!
//! A cell is a kernel's length, a way to submit it and a cap (see [`super::cell`]). The lengths are measured
//! natively before and after their cells; cells between two measurements that differ have no figure. The
//! other families, of kernels that differ and of several processes, are not here.

use std::time::Duration;

use anyhow::{Context, Result};

use super::busy::{self, RunLength, Work};
use super::cell::{Cell, Found, Full};
use super::kernel::{Kernel, text};
use super::panels::DOTS;
use super::plot::CHANGE as CHANGED;
use super::report::{Figure, Goal};
use super::running::Bench;
use super::series::mean;
use super::side::TenantTerms;
use super::timing::Timing;

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
    // The sum of some of them would pass for that of all.
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

/// Sums over all cells, by side.
#[derive(Default)]
struct Summary {
    errors: Vec<(String, f64)>,
    windows: Vec<(String, f64)>,
    /// Target and what was reached.
    dots: Vec<(String, (f64, f64))>,
}

impl Summary {
    /// Adds what a cell gave, and says what of it is shown.
    fn take(&mut self, found: Found, judges_windows: bool) -> [Figure; 2] {
        let target = found.target;
        for (side, share) in &found.shares {
            self.errors.push((side.clone(), (share - target).abs()));
            self.dots.push((side.clone(), (target, *share)));
        }
        if judges_windows {
            self.windows.extend(found.off());
        }
        let windows = found.windows.into_iter();
        self.dots.extend(
            windows.map(|(side, window)| (format!("{side}, windows of 1 s"), (target, window))),
        );
        [found.reached.known_as("IS-003"), found.worst]
    }

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
            bench.line(DOTS, name, of.map(|(_, dot)| *dot).collect());
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
        let cells = group.caps.iter().map(|cap| cell(timing, kernel, mode, *cap));
        let cells: Vec<Cell> = cells.filter(|cell| bench.wants(&cell.name)).collect();
        let Some(first) = cells.first() else { continue };
        let alone = match first.measure_alone(bench) {
            Ok(alone) => alone,
            Err(error) => {
                bench.fails(&format!("share, {} {mode}", text(group.kernel_ns)), error);
                continue;
            }
        };
        for cell in cells {
            figures.extend(found.take(cell.measure(bench, alone), group.kernel_ns <= SHORT_NS));
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

fn cell(timing: &Timing, kernel: Kernel, mode: &'static str, cap: u32) -> Cell {
    let kernel_ns = kernel.nominal_ns;
    let is_long = kernel_ns >= LONG;
    let mut length = RunLength::seconds(if is_long { timing.long_seconds } else { timing.seconds });
    // A long kernel is charged when it has ended; what follows is what holds from then on.
    length.warm_up = length.warm_up.max(Duration::from_nanos(kernel_ns * 2));
    Cell {
        name: name(kernel_ns, mode, cap),
        work: work(mode, kernel),
        cap,
        length,
        alone: RunLength::seconds(if is_long { 4.0 } else { timing.seconds.min(1.5) }),
        // Graphs and streams overlap kernels, so a full card does more of them than one after another.
        full: if SATURATING.contains(&mode) { Full::Alone } else { Full::Wall },
        compared: is_compared(kernel_ns, mode, cap),
        mean_points: MEAN_POINTS,
        window_points: (kernel_ns <= SHORT_NS).then_some(WINDOW_POINTS),
    }
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
        let terms = TenantTerms::memory(bench.limit_bytes()).share(30);
        let mut tenancy = side.tenancy_of(&bench.stage, &terms)?;
        let length =
            RunLength { measured: AT * 2 + Duration::from_millis(200), ..RunLength::seconds(1.0) };
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
        bench.line(CHANGED, &side.name, points);
    }
    bench.report.figures.extend([after, response]);
    Ok(())
}
