//! `divvy bench overhead`: nanoseconds of calls, of starting, of starting together.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::client::{self, StageClient, number};
use super::report::{Figure, Goal};
use super::running::Bench;
use super::side::{Side, TenantTerms};

const TIB: u64 = 1 << 40;
const GIB: u64 = 1 << 30;
/// No sample takes longer; a side that does has failed the figure.
const PATIENCE: Duration = Duration::from_secs(60);
/// Starts of a program that never uses the GPU, each round.
const EXECS: u32 = 100;
/// Processes that start at once.
const STORM: u32 = 300;

/// A figure that `cost` measures.
struct Cost {
    name: &'static str,
    what: &'static str,
    calls: u64,
    /// Threads that launch at once, or live blocks.
    live: u64,
    /// Processes of the tenant beside the one measured.
    others: u64,
    /// Cap of device time in percent.
    share: Option<u32>,
    goal: Goal,
    /// Whether a real card has room for it.
    on_gpu: bool,
}

/// Under a cap with credit left: what a synchronisation adds is what the two add, less what the launch adds.
const LAUNCH: &str = "cuLaunchKernel under a cap, credit left";
const LAUNCH_AND_SYNC: &str = "cuLaunchKernel and cuCtxSynchronize under a cap, credit left";
const SYNC: &str = "cuCtxSynchronize alone under a cap, credit left";
const SYNC_NS: f64 = 60.0;

const fn pair(name: &'static str, calls: u64, live: u64, others: u64, most_ns: f64) -> Cost {
    let goal = Goal::Added(most_ns);
    let on_gpu = live == 0 && others < 20;
    Cost { name, what: "pair", calls, live, others, share: None, goal, on_gpu }
}

const COSTS: [Cost; 11] = [
    Cost {
        name: "cuLaunchKernel",
        what: "launch",
        calls: 2_000_000,
        live: 0,
        others: 0,
        share: None,
        goal: Goal::Added(10.0),
        on_gpu: true,
    },
    Cost {
        // No kernel is charged less than half a microsecond: the cap paces a launch in some eight hundred, which
        // the middle leaves out.
        name: LAUNCH,
        what: "launch",
        calls: 2_000_000,
        live: 0,
        others: 0,
        share: Some(90),
        goal: Goal::Added(40.0),
        on_gpu: true,
    },
    Cost {
        name: LAUNCH_AND_SYNC,
        what: "sync",
        calls: 1_000_000,
        live: 0,
        others: 0,
        share: Some(90),
        goal: Goal::Added(40.0 + SYNC_NS),
        on_gpu: true,
    },
    Cost {
        name: "cuLaunchKernel by 16 threads under a cap, credit left",
        what: "launch",
        calls: 1_280_000,
        live: 16,
        others: 0,
        share: Some(90),
        goal: Goal::Added(60.0),
        on_gpu: true,
    },
    Cost {
        name: "a call without effect",
        what: "pass",
        calls: 2_000_000,
        live: 0,
        others: 0,
        share: None,
        // Nothing is added; a nanosecond is what two runs of one program differ by.
        goal: Goal::Added(1.0),
        on_gpu: true,
    },
    pair("alloc+free, 1 process", 200_000, 0, 0, 300.0),
    pair("alloc+free, 20,000 live blocks", 200_000, 20_000, 0, 300.0),
    pair("alloc+free, 200,000 live blocks", 200_000, 200_000, 0, 300.0),
    pair("alloc+free, 16 processes", 200_000, 0, 15, 600.0),
    pair("alloc+free, 300 processes", 50_000, 0, 299, 5_000.0),
    Cost {
        name: "refused allocation",
        what: "refuse",
        calls: 50_000,
        live: 0,
        others: 0,
        share: None,
        goal: Goal::AtMost(5_000.0),
        on_gpu: true,
    },
];

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let is_of_sync = |cost: &Cost| [LAUNCH, LAUNCH_AND_SYNC].contains(&cost.name);
    let wants_sync = bench.wants(SYNC);
    for cost in &COSTS {
        let is_wanted = bench.wants(cost.name) || wants_sync && is_of_sync(cost);
        if is_wanted && (bench.stage.is_simulated() || cost.on_gpu) {
            measure_cost(bench, cost)?;
        }
    }
    if wants_sync {
        let sync = of_sync(&bench.report.figures, added(bench, SYNC_NS));
        bench.report.figures.extend(sync);
    }
    if bench.wants("exec") {
        measure_exec(bench)?;
    }
    if bench.wants("starting at once") && bench.stage.is_simulated() {
        measure_storm(bench)?;
    }
    Ok(())
}

fn limit(bench: &Bench) -> u64 {
    if bench.stage.is_simulated() { TIB } else { 16 * GIB }
}

/// The goal of a call that may add so much.
fn added(bench: &Bench, most_ns: f64) -> Goal {
    match bench.stage.is_simulated() {
        true => Goal::Added(most_ns),
        // A real driver's calls take microseconds and differ from run to run by more than ours cost.
        false => Goal::Spread,
    }
}

/// Time of a synchronisation, round by round: that of one with a launch, less that of the launch alone.
fn of_sync(figures: &[Figure], goal: Goal) -> Option<Figure> {
    let named = |name| figures.iter().find(|figure| figure.name == name);
    let (both, launch) = (named(LAUNCH_AND_SYNC)?, named(LAUNCH)?);
    let mut sync = Figure::new(SYNC, "ns", goal);
    for (side, both) in &both.samples {
        let launches = launch.samples.get(side).into_iter().flatten();
        both.iter().zip(launches).for_each(|(both, launch)| sync.take(side, Ok(both - launch)));
    }
    Some(sync).filter(|sync| !sync.samples.is_empty())
}

fn measure_cost(bench: &mut Bench, cost: &Cost) -> Result<()> {
    let client = bench.client("cost")?;
    let hold = bench.client("hold")?;
    let goal = match cost.goal {
        Goal::Added(most_ns) => added(bench, most_ns),
        goal => goal,
    };
    let mut time = Figure::new(cost.name, "ns", goal);
    time.id = match (cost.what, cost.share) {
        ("launch", None) => Some("OH-001"),
        ("launch", Some(_)) => Some("OH-008"),
        _ => None,
    };
    let mut counted = Figure::new(format!("{}, instructions", cost.name), "", Goal::None);
    for round in 0..bench.rounds {
        for side in bench.turn(round) {
            // The null driver's memory has no end; on it the bare side refuses nothing.
            let endless = cost.what == "refuse" && side.is_native() && bench.stage.is_simulated();
            if endless || time.has_failed(&side.name) {
                continue;
            }
            bench.say(&format!("{}: round {} on {}", cost.name, round + 1, side.name));
            let answer = one_cost(bench, cost, &side, &client, &hold);
            let field = |name, scale| match &answer {
                Ok(answer) => number(answer, name).map(|value| value / scale),
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            time.take(&side.name, field("ps", 1000.0));
            counted.take(&side.name, field("milli_instructions", 1000.0));
        }
    }
    bench.report.figures.push(time);
    // A machine without a counter counts nothing anywhere.
    if counted.medians.values().any(|median| *median > 0.0) {
        bench.report.figures.push(counted);
    }
    Ok(())
}

fn one_cost(bench: &Bench, cost: &Cost, side: &Side, client: &Path, hold: &Path) -> Result<Value> {
    let terms = TenantTerms { share_percent: cost.share, ..TenantTerms::memory(limit(bench)) };
    let tenancy = side.tenancy_of(&bench.stage, &terms)?;
    // On the bare driver other processes of this kind share nothing; the figure is the same.
    let others = if cost.others == 0 || (side.is_native() && bench.stage.is_simulated()) {
        None
    } else {
        let mut command = tenancy.command(&bench.stage, hold);
        command.arg(cost.others.to_string());
        let mut others = StageClient::start(command)?;
        let ready = number(&others.answer(PATIENCE)?, "ready")?;
        ensure!(ready == cost.others as f64, "{ready} of {} processes attached", cost.others);
        Some(others)
    };
    let mut command = tenancy.command(&bench.stage, client);
    let calls = if bench.stage.is_simulated() { cost.calls } else { cost.calls.min(20_000) };
    // Three blocks of this size fit the limit, a fourth does not.
    let more = if cost.what == "refuse" { limit(bench) / 16 * 5 } else { cost.live };
    command.args([cost.what.to_owned(), calls.to_string(), more.to_string()]);
    let answer = client::run(command, PATIENCE);
    if let Some(others) = others {
        others.finish();
    }
    answer
}

/// A program that never uses the GPU, from before it is started until it has ended.
fn measure_exec(bench: &mut Bench) -> Result<()> {
    let idle = bench.client("idle")?;
    let mut figure =
        Figure::new("exec of a program without GPU", "us", Goal::AddedOrNvshare(50.0, 0.8));
    let tenancies = bench
        .sides
        .iter()
        .map(|side| side.tenancy(&bench.stage, limit(bench)))
        .collect::<Result<Vec<_>>>()?;
    for round in 0..bench.rounds.max(7) {
        bench.say(&format!("exec: round {}", round + 1));
        let mut samples = vec![Vec::new(); tenancies.len()];
        for again in 0..EXECS {
            for at in 0..tenancies.len() {
                let at = (at + again as usize) % tenancies.len();
                let (Some(tenancy), Some(samples)) = (tenancies.get(at), samples.get_mut(at))
                else {
                    continue;
                };
                let mut command = tenancy.command(&bench.stage, &idle);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let before = Instant::now();
                let status = command.spawn()?.wait()?;
                let elapsed = before.elapsed();
                ensure!(status.success(), "a program that does nothing ended with {status}");
                samples.push(elapsed.as_secs_f64() * 1e6);
            }
        }
        for (side, samples) in bench.sides.iter().zip(&samples) {
            if let Some(median) = super::report::median(samples) {
                figure.take(&side.name, Ok(median));
            }
        }
    }
    bench.report.figures.push(figure);
    Ok(())
}

fn measure_storm(bench: &mut Bench) -> Result<()> {
    let storm = bench.client("storm")?;
    let name = |what: &str| format!("{STORM} starting at once, {what}");
    let mut cpu = Figure::new(name("CPU of each"), "us", Goal::Added(500.0));
    let mut slept = Figure::new(name("longest wait"), "us", Goal::Added(1000.0));
    let mut wall = Figure::new(name("until all are ready"), "ms", Goal::None);
    for round in 0..bench.rounds.min(3) {
        for side in bench.turn(round) {
            if cpu.has_failed(&side.name) {
                continue;
            }
            bench.say(&format!("{STORM} starting at once: round {} on {}", round + 1, side.name));
            let tenancy = side.tenancy(&bench.stage, limit(bench))?;
            let mut command = tenancy.command(&bench.stage, &storm);
            command.arg(STORM.to_string());
            match client::run(command, PATIENCE * 2) {
                Ok(answer) => {
                    cpu.take(&side.name, number(&answer, "cpu_ns").map(|ns| ns / 1e3));
                    slept.take(&side.name, number(&answer, "longest_slept_ns").map(|ns| ns / 1e3));
                    wall.take(&side.name, number(&answer, "wall_ns").map(|ns| ns / 1e6));
                }
                Err(error) => cpu.take(&side.name, Err(error)),
            }
        }
    }
    bench.report.figures.extend([cpu, slept, wall]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synchronisation_is_what_the_launch_leaves() {
        let mut figures = Vec::new();
        for (name, native, divvy) in [(LAUNCH, 10.0, 45.0), (LAUNCH_AND_SYNC, 140.0, 230.0)] {
            let mut figure = Figure::new(name, "ns", Goal::None);
            figure.take("native", Ok(native));
            figure.take("divvy", Ok(divvy));
            figures.push(figure);
        }
        assert!(of_sync(&figures[..1], Goal::None).is_none());
        let sync = of_sync(&figures, Goal::Added(SYNC_NS)).unwrap();
        assert_eq!(sync.medians["divvy"] - sync.medians["native"], 55.0);
        assert_eq!(sync.is_met(), Some(true));
    }
}
