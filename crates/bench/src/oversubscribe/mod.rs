//! `divvy bench oversubscribe`: copies of a program whose matrices exceed the card together.
//!
//! The experiment that nvshare's users know: each copy adds matrices over and over and touches all of its memory in each
//! step. What one copy does alone on the bare driver is the measure; one after the other is what a user without any of
//! this would do. Every block of every copy is looked at when it has ended.
//!
//! Promises: managed memory, ours or a peer's, is asked for only as far as the card has it free, unless the user says
//! otherwise for a peer; a way to run the copies that is left out is said, with the reason.

mod args;
mod cells;
mod copies;
mod plan;
mod steady;

use anyhow::{Error, Result};

use super::daemon::Daemon;
use super::matrices::WrongValue;
use super::report::{Figure, Goal, median};
use super::room::Room;
use super::running::Bench;
use super::side::Side;
pub(super) use args::Args;
use args::RowKind;
use cells::{Cells, GOAL_PERCENT, Measure};
use copies::Ran;
use divvy_command::output::sizes;
use plan::Plan;

/// One copy after the other.
const SERIAL: &str = "serial";
/// Divvy's managed back end, and Divvy without --oversubscribe.
const MANAGED: &str = "managed";
const PLAIN: &str = "plain";
/// Least that copies which fit do, of what they do without --oversubscribe.
const GOAL_FITS_PERCENT: f64 = 99.0;
const PLOT: &str = "throughput";

/// A way to run all copies at once.
#[derive(Clone, Debug)]
enum Together {
    Vmm(Side),
    Managed(Side),
    /// Memory stays.
    Plain(Side),
    Peer(Side),
}

impl Together {
    fn side(&self) -> &Side {
        match self {
            Self::Vmm(side) | Self::Managed(side) | Self::Plain(side) | Self::Peer(side) => side,
        }
    }
}

pub(super) fn measure(bench: &mut Bench, args: &Args) -> Result<()> {
    let room = Room::measure(bench)?;
    let plans = args.copies.iter().map(|copies| Plan::make(bench, args, &room, *copies));
    let plans = plans.collect::<Result<Vec<_>>>()?;
    let mut ways = Vec::new();
    let mut ours = None;
    for side in &bench.sides {
        if side.is_ours() {
            ours = Some(side.clone());
            ways.push((RowKind::Vmm, Together::Vmm(side.clone())));
            ways.push((RowKind::Managed, Together::Managed(side.named(MANAGED))));
        }
    }
    ways.retain(|(kind, _)| args.rows.contains(kind));
    let mut ways: Vec<Together> = ways.into_iter().map(|(_, way)| way).collect();
    ways.extend(bench.sides.iter().filter(|side| side.is_peer()).cloned().map(Together::Peer));
    let mut columns = vec!["native".to_owned(), SERIAL.to_owned(), "divvy".to_owned()];
    columns.extend([MANAGED, PLAIN].map(str::to_owned));
    let peers = bench.sides.iter().filter(|side| side.is_peer());
    columns.extend(peers.map(|side| side.name.clone()));
    bench.report.sides = columns;

    let fits = ours.filter(|_| args.rows.contains(&RowKind::Fits) && args.busy >= 1.0);
    let mut wanted = Vec::new();
    for plan in plans {
        let fitting = fits.clone().map(|side| (plan.fitting(), side));
        let fitting = fitting.filter(|(plan, _)| bench.wants(&plan.name));
        let plan = Some(plan).filter(|plan| !ways.is_empty() && bench.wants(&plan.name));
        wanted.push((plan, fitting));
    }
    let of_plan = |plan: &Plan| 1 + alone_of(args, plan) as usize + ways.len();
    let steps = wanted.iter().map(|(plan, fitting)| {
        plan.as_ref().map_or(0, of_plan) + if fitting.is_some() { 3 } else { 0 }
    });
    bench.expect(steps.sum());
    for (plan, fitting) in wanted {
        if let Some(plan) = plan {
            measure_plan(bench, args, plan, &ways)?;
        }
        if let Some((plan, side)) = fitting {
            measure_fitting(bench, plan, &side)?;
        }
    }
    Ok(())
}

/// Copies alone, one after the other, and all at once in each of these ways.
fn measure_plan(bench: &mut Bench, args: &Args, mut plan: Plan, ways: &[Together]) -> Result<()> {
    bench.step(&format!("finding what a step of {} takes", plan.name));
    plan.calibrate(bench)?;
    let natives = measure_alone(bench, &plan, alone_of(args, &plan))?;
    let alone: Vec<f64> = natives.iter().map(Ran::steps_per_s).collect();
    let alone_per_s = median(&alone).unwrap_or_default();
    let serial = Ran::one_after_the_other(&natives, plan.copies);
    let others = f64::from(plan.copies.saturating_sub(1).max(1));
    // By turns, whose next turn is furthest leaves first: each but the one that runs has an equal part away.
    let turn_bytes = if plan.is_always_busy() { plan.beyond_bytes() as f64 / others } else { 0.0 };
    let mut cells =
        Cells::new(&plan, Measure { alone_per_s, serial_s: serial.makespan_s, turn_bytes });
    natives.iter().for_each(|ran| cells.take("native", Ok(ran)));
    cells.take(SERIAL, Ok(&serial));
    cells.take_serial(SERIAL);
    let of_alone = |per_s: f64| per_s / alone_per_s * 100.0;
    let plot = format!("{PLOT}, {}", plan.name);
    bench.row(
        &plot,
        "alone",
        &alone.iter().map(|per_s| of_alone(*per_s)).collect::<Vec<_>>(),
        None,
    );
    bench.row(&plot, "one after the other", &[of_alone(serial.steps_per_s())], None);

    let mut all_turns = Vec::new();
    for way in ways {
        let side = way.side();
        let what = format!("{} on {}", plan.name, side.name);
        bench.step(&what);
        if let Err(why) = may_run(bench, args, &plan, way) {
            bench.say(&format!("{what}: left out: {why}"));
            cells.leave_out(&side.name, &why);
            continue;
        }
        let ran = measure_way(bench, args, &plan, way);
        let band = (side.is_ours() && plan.is_always_busy()).then_some([GOAL_PERCENT, 100.0]);
        // A side without a value keeps its row.
        let whole: Vec<f64> = ran.iter().map(|ran| of_alone(ran.steps_per_s())).collect();
        let steady = ran.iter().filter_map(Ran::steady);
        let steady: Vec<f64> = steady.map(|window| of_alone(window.steps_per_s())).collect();
        if plan.is_always_busy() {
            bench.row(&plot, &format!("{}, steady", side.name), &steady, band);
        }
        bench.row(&plot, &format!("{}, whole run", side.name), &whole, None);
        match &ran {
            Err(error) => note_wrong(bench, &plan.name, &side.name, error),
            Ok(ran) if plan.is_always_busy() => cells.take_steady(&side.name, ran),
            Ok(_) => {}
        }
        cells.take(&side.name, ran.as_ref());
        all_turns.extend(ran.ok().map(|ran| (side.name.clone(), ran)));
    }
    draw_turns(bench, &plan, &all_turns);
    bench.keep_told(cells.into_figures());
    Ok(())
}

/// Rows of a plot that shows when each copy ran, from the first one's first step on.
fn draw_turns(bench: &mut Bench, plan: &Plan, runs: &[(String, Ran)]) {
    let plot = format!("turns, {}", plan.name);
    for (side, ran) in runs {
        let began_ns = ran.turns.iter().flatten().map(|turn| turn.began_ns).min().unwrap_or(0);
        let second = |at_ns: u64| at_ns.saturating_sub(began_ns) as f64 / 1e9;
        for (turns, copy) in ran.turns.iter().zip(1..) {
            let spans = turns.iter().map(|turn| (second(turn.began_ns), second(turn.ended_ns)));
            bench.line(&plot, &format!("{side}, copy {copy}"), spans.collect());
        }
    }
}

/// Whether a card that may be shared has room for what these would take of it.
fn may_run(bench: &Bench, args: &Args, plan: &Plan, way: &Together) -> Result<(), String> {
    match way {
        Together::Managed(_) => plan.managed_bytes().map(|_| ()),
        Together::Peer(_) if !args.peer_pressure && !bench.stage.is_simulated() => {
            let fits = plan.fits_card("a peer's memory, which may be managed,");
            fits.map_err(|why| format!("{why}, and --peer-pressure allows it"))
        }
        Together::Vmm(_) | Together::Plain(_) | Together::Peer(_) => Ok(()),
    }
}

/// Copies that all fit the card, without --oversubscribe and with it.
fn measure_fitting(bench: &mut Bench, mut plan: Plan, ours: &Side) -> Result<()> {
    bench.step(&format!("finding what a step of {} takes", plan.name));
    plan.calibrate(bench)?;
    let figure = |what: &str, unit, goal| Figure::new(format!("{}, {what}", plan.name), unit, goal);
    let mut per_s = figure("steps of all", "1/s", Goal::None);
    let mut part =
        figure("of Divvy's without --oversubscribe", "%", Goal::AtLeast(GOAL_FITS_PERCENT));
    for way in [Together::Plain(ours.named(PLAIN)), Together::Vmm(ours.clone())] {
        let side = &way.side().name;
        bench.step(&format!("{} on {side}", plan.name));
        match measure_all(bench, &plan, &way) {
            Ok(ran) => {
                let steady = ran.steady().map(|window| window.steps_per_s());
                per_s.take(side, Ok(steady.unwrap_or_else(|| ran.steps_per_s())));
                let in_bytes = ran.moved.map_or(0, |moved| moved.in_bytes);
                if in_bytes > 0 {
                    let came = sizes::text(in_bytes);
                    part.take(
                        side,
                        Err(anyhow::anyhow!("void: {came} came back, so not all fitted")),
                    );
                }
            }
            Err(error) => {
                note_wrong(bench, &plan.name, side, &error);
                per_s.take(side, Err(error));
            }
        }
    }
    let medians = [PLAIN, &ours.name].map(|side| per_s.medians.get(side).copied());
    if let [Some(plain), Some(divvy)] = medians
        && part.failures.is_empty()
    {
        part.take(&ours.name, Ok(divvy / plain * 100.0));
        let plot = format!("{PLOT}, {}", plan.name);
        let band = Some([GOAL_FITS_PERCENT, 100.0]);
        bench.row(&plot, "without --oversubscribe", &[100.0], None);
        bench.row(&plot, "with it", &[divvy / plain * 100.0], band);
    }
    bench.keep_told([part, per_s]);
    Ok(())
}

/// Copies that are measured alone.
fn alone_of(args: &Args, plan: &Plan) -> u32 {
    args.alone.unwrap_or(plan.copies).min(plan.copies)
}

/// So many copies alone on the bare driver, one after the other.
fn measure_alone(bench: &mut Bench, plan: &Plan, count: u32) -> Result<Vec<Ran>> {
    let native = bench.native()?;
    let mut natives = Vec::new();
    for copy in 1..=count {
        let what = format!("copy {copy} of {} alone", plan.name);
        bench.step(&what);
        let tenancy = native.tenancy(&bench.stage, 0)?;
        let ran = copies::run(bench, &[tenancy], plan, &what);
        if let Err(error) = &ran {
            note_wrong(bench, &plan.name, "native", error);
        }
        natives.push(ran?);
    }
    Ok(natives)
}

/// All copies at once: under Divvy with a daemon of the benchmark's own, beside a peer's library on the card as it is.
fn measure_way(bench: &Bench, args: &Args, plan: &Plan, way: &Together) -> Result<Ran> {
    let is_pressed = matches!(way, Together::Peer(_)) && args.peer_pressure;
    let _ballast = if is_pressed { plan.ballast(bench)? } else { None };
    measure_all(bench, plan, way)
}

fn measure_all(bench: &Bench, plan: &Plan, way: &Together) -> Result<Ran> {
    let _daemon = match way {
        Together::Peer(_) => None,
        Together::Managed(_) => {
            let managed_bytes = plan.managed_bytes().map_err(Error::msg)?;
            Some(Daemon::start_for_managed(&bench.stage, plan.capacity_bytes, managed_bytes)?)
        }
        Together::Vmm(_) | Together::Plain(_) => Some(match plan.capacity_bytes {
            Some(bytes) => Daemon::start_smaller(&bench.stage, bytes)?,
            None => Daemon::start(&bench.stage)?,
        }),
    };
    let terms = match way {
        Together::Plain(_) => plan.terms(),
        Together::Managed(_) => plan.terms().managed(),
        Together::Vmm(_) | Together::Peer(_) => plan.terms().oversubscribed(),
    };
    let side = way.side();
    let tenancies = (0..plan.copies).map(|_| side.tenancy_of(&bench.stage, &terms));
    let tenancies = tenancies.collect::<Result<Vec<_>>>()?;
    copies::run(bench, &tenancies, plan, &format!("{} on {}", plan.name, side.name))
}

/// Stores what must not be overlooked.
fn note_wrong(bench: &mut Bench, name: &str, side: &str, error: &Error) {
    if error.downcast_ref::<WrongValue>().is_some() {
        bench.wrong.push(format!("{name} on {side}: {error}"));
    }
}
