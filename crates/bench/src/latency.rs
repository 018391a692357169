//! `divvy bench latency`: requests of one program beside another's flood.
//!
//! Every 100 ms a request arrives that is 10 ms of work; its time counts from its arrival. Under
//! Divvy its program has high priority. Beside it another program floods the card.

use std::time::Duration;

use anyhow::{Context, Result};

use super::busy::{self, RunLength, Work};
use super::daemon::{Daemon, Watch};
use super::kernel::{Kernel, text};
use super::plot::LATENCY;
use super::report::{Figure, Goal};
use super::running::Bench;
use super::series::percentile;
use super::side::{Tenancy, TenantTerms};
use super::timing::Timing;

const MS: u64 = 1_000_000;
/// Of the flood's kernels; and what it keeps of its throughput, while a tenth is the requests'.
const FLOODS: [(u64, f64); 2] = [(100_000, 85.0), (2_000_000, 80.0)];

fn name(kernel_ns: u64) -> String {
    format!("request beside a flood of {}", text(kernel_ns))
}

/// Longest time of the slowest hundredth.
fn bound_ms(kernel_ns: u64, alone_ms: f64) -> f64 {
    if kernel_ns <= 100_000 { alone_ms * 1.05 } else { alone_ms + 2.5 }
}

pub(super) fn measure(bench: &mut Bench, timing: &Timing) -> Result<()> {
    // A hundredth of a hundred requests is one of them.
    let length = RunLength::seconds(timing.seconds * if timing.quick { 1.0 } else { 3.4 });
    let floods = if timing.quick { &FLOODS[..1] } else { &FLOODS };
    let floods: Vec<_> = floods.iter().filter(|(ns, _)| bench.wants(&name(*ns))).collect();
    if floods.is_empty() {
        return Ok(());
    }
    let sides: Vec<_> = bench.sides.iter().filter(|side| !side.is_peer()).cloned().collect();
    bench.expect(1 + floods.len() * (1 + sides.len()));
    let first = bench.report.figures.len();
    let kernel = Kernel::calibrate(bench, 100_000)?;
    let mut kernels = vec![kernel];
    let request = Work::new("request", kernel).with("period", 100 * MS).with("requests", 100);
    let memory = TenantTerms::memory(bench.limit_bytes());
    let native = bench.native()?;
    let daemon = Daemon::start(&bench.stage);

    let alone = native.tenancy_of(&bench.stage, &memory)?;
    let slowest = requests_alone(bench, &alone, request.clone(), length)?;
    for (flood_ns, kept_percent) in floods {
        let flood_kernel = if *flood_ns == kernel.nominal_ns {
            kernel
        } else {
            let found = Kernel::calibrate(bench, *flood_ns)?;
            kernels.push(found);
            found
        };
        let flood = Work::new("async", flood_kernel);
        bench.step(&format!("flood of {} alone", text(*flood_ns)));
        let tenancy = native.tenancy_of(&bench.stage, &memory)?;
        let seconds = RunLength::seconds(timing.seconds.min(2.0));
        let ran = busy::run(bench, &[(&tenancy, flood.clone())], seconds)?;
        let flood_alone = ran.shares()?.first().copied().context("nothing ran")?;

        let name = name(*flood_ns);
        let mut middle = Figure::new(format!("{name}, middle"), "ms", Goal::None);
        let bound = Goal::AtMost(bound_ms(*flood_ns, slowest));
        let mut worst =
            Figure::new(format!("{name}, 99th percentile"), "ms", bound).known_as("SCHED-004");
        let kept = format!("{name}, flood's throughput of alone");
        let mut kept = Figure::new(kept, "%", Goal::AtLeast(*kept_percent));
        let mut cost =
            Figure::new(format!("{name}, daemon, of a processor"), "%", Goal::AtMost(10.0));
        for side in &sides {
            bench.step(&format!("{name} on {}", side.name));
            let works = [request.clone(), flood.clone()];
            let mut watch = Watch::default();
            let ran = match &daemon {
                Err(error) if side.is_ours() => Err(anyhow::anyhow!("{error:#}")),
                Ok(daemon) if side.is_ours() => {
                    let look = |since| watch.look(daemon.usage()?, since);
                    beside(bench, side, &memory, works, length, look)
                }
                _ => beside(bench, side, &memory, works, length, |_| Ok(())),
            };
            let ran = match ran {
                Ok(ran) => ran,
                Err(error) => {
                    worst.take(&side.name, Err(error));
                    continue;
                }
            };
            let took = ran.tracks.first().map(|track| &track.latencies_ms[..]).unwrap_or_default();
            for (figure, percent) in [(&mut middle, 50.0), (&mut worst, 99.0)] {
                figure.take(&side.name, percentile(took, percent).context("there was no request"));
            }
            let share = ran.shares()?.get(1).copied().context("nothing ran")?;
            kept.take(&side.name, Ok(share / flood_alone * 100.0));
            if side.is_ours() {
                cost.take(&side.name, watch.cpu_percent());
            }
            draw(bench, &format!("beside {}, {}", text(*flood_ns), side.name), took);
        }
        bench.report.figures.extend([middle, worst, kept, cost]);
    }
    for kernel in kernels {
        if let Err(error) = kernel.check(bench) {
            let figures = bench.report.figures.iter_mut().skip(first);
            figures.for_each(|figure| figure.void(&format!("{error:#}")));
        }
    }
    Ok(())
}

/// Measures the requests with nothing beside them; returns the time of the slowest hundredth.
fn requests_alone(
    bench: &mut Bench,
    alone: &Tenancy,
    request: Work,
    length: RunLength,
) -> Result<f64> {
    bench.step("requests alone");
    let ran = busy::run(bench, &[(alone, request)], length)?;
    let alone_ms = ran.tracks.first().context("nothing ran")?.latencies_ms.clone();
    let of_alone = |percent| percentile(&alone_ms, percent).context("there was no request");
    let (middle, slowest) = (of_alone(50.0)?, of_alone(99.0)?);
    for (what, value) in [("middle", middle), ("99th percentile", slowest)] {
        let mut figure = Figure::new(format!("request alone, {what}"), "ms", Goal::None);
        figure.take("native", Ok(value));
        bench.report.figures.push(figure);
    }
    draw(bench, "alone", &alone_ms);
    Ok(slowest)
}

fn beside(
    bench: &Bench,
    side: &super::side::Side,
    memory: &TenantTerms,
    [request, flood]: [Work; 2],
    length: RunLength,
    look: impl FnMut(Duration) -> Result<()>,
) -> Result<busy::Ran> {
    let first = side.tenancy_of(&bench.stage, &memory.first())?;
    let other = side.tenancy_of(&bench.stage, memory)?;
    busy::run_with(bench, &[(&first, request), (&other, flood)], length, look)
}

/// How many percent of the requests took at most so long.
fn draw(bench: &mut Bench, name: &str, took: &[f64]) {
    let mut sorted = took.to_vec();
    sorted.sort_by(f64::total_cmp);
    let all = sorted.len().max(1) as f64;
    let points = sorted.iter().zip(1_u32..).map(|(ms, rank)| (*ms, f64::from(rank) / all * 100.0));
    bench.line(LATENCY, name, points.collect());
}
