//! `divvy bench oversubscribe`: copies of a program whose matrices exceed the card together.
//!
//! The experiment that nvshare's users know: each copy adds matrices over and over and touches all of its memory in each
//! step. What one copy does alone on the bare driver is the measure; one after the other is what a user without any of
//! this would do. Every block of every copy is looked at when it has ended.

mod args;
mod copies;
mod plan;

use anyhow::{Error, Result};

use super::daemon::Daemon;
use super::matrices::WrongValue;
use super::report::{Figure, Goal, median};
use super::room::Room;
use super::running::Bench;
use super::side::Side;
pub(super) use args::Args;
use copies::Ran;
use plan::Plan;

/// Part of what one copy does alone that copies do together which are always busy.
const GOAL_PERCENT: f64 = 97.0;
/// One copy after the other.
const SERIAL: &str = "serial";
const PLOT: &str = "throughput";
const GIB: f64 = 1_073_741_824.0;

pub(super) fn measure(bench: &mut Bench, args: &Args) -> Result<()> {
    let room = Room::measure(bench)?;
    let mut plan = Plan::make(bench, args, &room)?;
    if !bench.wants(&plan.name) {
        return Ok(());
    }
    let ours: Vec<Side> = bench.sides.iter().filter(|side| !side.is_native()).cloned().collect();
    bench.report.sides.insert(1, SERIAL.to_owned());
    bench.expect(1 + args.copies as usize + ours.len());
    bench.step("finding what a step takes");
    plan.calibrate(bench)?;

    let mut cells = Cells::new(&plan);
    let natives = measure_alone(bench, &plan)?;
    let alone: Vec<f64> = natives.iter().map(Ran::steps_per_s).collect();
    let alone_per_s = median(&alone).unwrap_or_default();
    natives.iter().for_each(|ran| cells.take("native", alone_per_s, Ok(ran)));
    let serial = Ran::one_after_the_other(&natives);
    cells.take(SERIAL, alone_per_s, Ok(&serial));
    let of_alone = |per_s: &f64| per_s / alone_per_s * 100.0;
    bench.row(PLOT, "alone", &alone.iter().map(of_alone).collect::<Vec<_>>(), None);
    bench.row(PLOT, SERIAL, &[of_alone(&serial.steps_per_s())], None);

    for side in ours {
        bench.step(&format!("{} on {}", plan.name, side.name));
        let ran = measure_side(bench, &plan, &side);
        let band = (side.is_ours() && plan.is_always_busy()).then_some([GOAL_PERCENT, 100.0]);
        // A side without a value keeps its row.
        let reached: Vec<f64> = ran.iter().map(|ran| of_alone(&ran.steps_per_s())).collect();
        bench.row(PLOT, &side.name, &reached, band);
        if let Err(error) = &ran {
            note_wrong(bench, &plan.name, &side.name, error);
        }
        cells.take(&side.name, alone_per_s, ran.as_ref());
    }
    bench.report.figures.extend(cells.into_figures());
    Ok(())
}

/// Each copy alone on the bare driver, one after the other.
fn measure_alone(bench: &mut Bench, plan: &Plan) -> Result<Vec<Ran>> {
    let native = bench.native()?;
    let mut natives = Vec::new();
    for copy in 1..=plan.copies {
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

/// All copies at once: under Divvy with a daemon of the benchmark's own, beside a peer's library on a card of the same size.
fn measure_side(bench: &Bench, plan: &Plan, side: &Side) -> Result<Ran> {
    let _daemon = match (side.is_ours(), plan.capacity_bytes) {
        (true, Some(bytes)) => Some(Daemon::start_smaller(&bench.stage, bytes)?),
        (true, None) => Some(Daemon::start(&bench.stage)?),
        (false, _) => None,
    };
    let _ballast = if side.is_peer() { plan.ballast(bench)? } else { None };
    let terms = plan.terms();
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

/// The figures of one set of copies.
struct Cells {
    together: Figure,
    per_s: Figure,
    makespan: Figure,
    longest: Figure,
    out: Figure,
    back: Figure,
    out_rate: Figure,
    in_rate: Figure,
    away: Figure,
    host: Figure,
}

impl Cells {
    fn new(plan: &Plan) -> Self {
        let figure =
            |what: &str, unit, goal| Figure::new(format!("{}, {what}", plan.name), unit, goal);
        let goal = if plan.is_always_busy() { Goal::AtLeast(GOAL_PERCENT) } else { Goal::None };
        Self {
            together: figure("steps of all, of one alone", "%", goal),
            per_s: figure("steps of all", "1/s", Goal::None),
            makespan: figure("makespan", "s", Goal::None),
            longest: figure("longest wait between two steps", "s", Goal::None),
            out: figure("left the card", "GiB", Goal::None),
            back: figure("came back", "GiB", Goal::None),
            out_rate: figure("rate of a leave", "GB/s", Goal::None),
            in_rate: figure("rate of a return", "GB/s", Goal::None),
            away: figure("on the host at most", "GiB", Goal::None),
            host: figure("host memory taken at most", "GiB", Goal::None),
        }
    }

    /// Adds what a run of `side` gave.
    fn take(&mut self, side: &str, alone_per_s: f64, ran: Result<&Ran, &Error>) {
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => {
                self.together.take(side, Err(anyhow::anyhow!("{error:#}")));
                return;
            }
        };
        self.together.take(side, Ok(ran.steps_per_s() / alone_per_s * 100.0));
        self.per_s.take(side, Ok(ran.steps_per_s()));
        self.makespan.take(side, Ok(ran.makespan_s));
        self.longest.take(side, Ok(ran.longest_s));
        if let Some(taken) = ran.host_taken_bytes {
            self.host.take(side, Ok(taken as f64 / GIB));
        }
        let Some(moved) = &ran.moved else { return };
        self.out.take(side, Ok(moved.out_bytes as f64 / GIB));
        self.back.take(side, Ok(moved.in_bytes as f64 / GIB));
        self.away.take(side, Ok(moved.away_most_bytes as f64 / GIB));
        moved.outs.iter().for_each(|rate| self.out_rate.take(side, Ok(*rate)));
        moved.ins.iter().for_each(|rate| self.in_rate.take(side, Ok(*rate)));
    }

    fn into_figures(self) -> impl Iterator<Item = Figure> {
        let Self { together, per_s, makespan, longest, out, back, out_rate, in_rate, away, host } =
            self;
        let all = [together, per_s, makespan, longest, out, back, out_rate, in_rate, away, host];
        all.into_iter().filter(|figure| !figure.medians.is_empty() || !figure.failures.is_empty())
    }
}
