//! `divvy bench handover`: how fast memory leaves a card and comes back, beside what the link carries.
//!
//! One tenant whose memory is taken off the card and comes back by its own call; and two of which one fits, so that each
//! call for memory is a hand-over: out and in. A figure's percentage is of the time that the link would need, measured in
//! the same run, for the bytes that were moved. Every block is looked at after each time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Common;
use super::client::{self, number};
use super::daemon::Daemon;
use super::matrices::{BESIDE_BYTES, Matrices, WrongValue, wait};
use super::moved::Meter;
use super::report::{Figure, Goal, median};
use super::room::{self, Room, WrittenSize, bytes};
use super::running::Bench;
use super::side::{Side, Tenancy, TenantTerms};
use divvy_command::output::{out, sizes};
use divvy_command::wire::LimitChange;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Sizes of a tenant on a card, and on a simulated one, whose memory is the host's.
const ON_CARD: [u64; 4] = [GIB, 4 * GIB, 12 * GIB, 60 * GIB];
const SIMULATED: [u64; 2] = [128 * MIB, 256 * MIB];
/// WrittenSize that the link carries in one measurement.
const LINK_BYTES: u64 = 4 * GIB;
const LINK_SIMULATED_BYTES: u64 = 64 * MIB;
/// Beside a size, on a card that two do not fit.
const SPARE_BYTES: u64 = 32 * MIB;
/// Time without movement after which a movement is over.
const STILL: Duration = Duration::from_millis(50);
const PLOT: &str = "link";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,

    /// Memory of a tenant; may be several with commas between. By default 1, 4, 12 and 60 GiB, on a simulated card 128
    /// and 256 MiB, as far as card and host have room
    #[arg(long, value_name = "SIZE", value_parser = bytes, value_delimiter = ',')]
    sizes: Vec<WrittenSize>,

    /// Rounds of every figure
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) rounds: u32,
}

/// Rates of the link, in bytes for each nanosecond.
#[derive(Clone, Copy, Debug)]
struct Link {
    inward: f64,
    outward: f64,
    /// Of both ways together.
    both: f64,
}

impl Link {
    /// Part of the time in which it would have moved these bytes, in percent.
    fn percent(&self, out_bytes: u64, in_bytes: u64, ns: f64) -> f64 {
        let (out, back) = (out_bytes as f64, in_bytes as f64);
        let one_way = (out / self.outward).max(back / self.inward);
        one_way.max((out + back) / self.both) / ns * 100.0
    }
}

/// A way in which memory moves: its time, and what that is beside the link.
struct Way {
    time: Figure,
    of_link: Figure,
}

impl Way {
    fn new(name: &str) -> Self {
        Self {
            time: Figure::new(name, "ms", Goal::None),
            of_link: Figure::new(format!("{name}: of the link"), "%", Goal::None),
        }
    }

    fn take(&mut self, side: &str, link: &Link, [out, back]: [u64; 2], ns: f64) {
        self.time.take(side, Ok(ns / 1e6));
        self.of_link.take(side, Ok(link.percent(out, back, ns)));
    }

    fn keep(self, bench: &mut Bench, side: &str) {
        let parts = self.of_link.samples.get(side).cloned().unwrap_or_default();
        if !parts.is_empty() {
            bench.row(PLOT, &self.time.name, &parts, None);
        }
        let is_told = |figure: &Figure| !figure.medians.is_empty() || !figure.failures.is_empty();
        bench.report.figures.extend([self.time, self.of_link].into_iter().filter(is_told));
    }
}

pub(super) fn measure(bench: &mut Bench, args: &Args) -> Result<()> {
    let sizes = sizes(bench, args);
    let name = |bytes: &u64| sizes::text(*bytes);
    let sizes: Vec<u64> = sizes.into_iter().filter(|bytes| bench.wants(&name(bytes))).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    let ours =
        bench.sides.iter().find(|side| side.is_ours()).cloned().context("Divvy is no side")?;
    let room = Room::measure(bench)?;
    bench.expect(1 + 2 * sizes.len());
    bench.step("measuring the link");
    let link = measure_link(bench)?;
    for bytes in sizes {
        if let Err(why) = fits(bench, &room, bytes) {
            out::warn(&format!("bench: {} left out: {why}", name(&bytes)));
            continue;
        }
        one_way(bench, &ours, &room, &link, bytes);
        out_and_in(bench, &ours, &room, &link, bytes);
    }
    Ok(())
}

fn sizes(bench: &Bench, args: &Args) -> Vec<u64> {
    let by_default = if bench.stage.is_simulated() { &SIMULATED[..] } else { &ON_CARD[..] };
    match args.sizes.is_empty() {
        true => by_default.to_vec(),
        false => args.sizes.iter().map(|bytes| room::whole(bytes.0)).collect(),
    }
}

/// Whether card and host have room for two tenants of a size of which one is on the card.
fn fits(bench: &Bench, room: &Room, bytes: u64) -> Result<(), String> {
    if capacity(room, bytes) > room.usable_bytes(None, 2) {
        return Err(format!("the card has {} free", sizes::text(room.free_bytes)));
    }
    let on_host = if bench.stage.is_simulated() { 2 * bytes } else { bytes };
    match room::fits_host(on_host) {
        true => Ok(()),
        false => Err("the host has no room for what leaves".to_owned()),
    }
}

/// Of a card on which one of two tenants fits.
fn capacity(room: &Room, bytes: u64) -> u64 {
    room.capacity_for(bytes, 2) + SPARE_BYTES
}

fn measure_link(bench: &mut Bench) -> Result<Link> {
    let bytes = if bench.stage.is_simulated() { LINK_SIMULATED_BYTES } else { LINK_BYTES };
    let tenancy = bench.native()?.tenancy(&bench.stage, 0)?;
    let mut command = tenancy.command(&bench.stage, &bench.client("link")?);
    command.args([bytes.to_string(), bench.rounds.to_string()]);
    let answer =
        client::run(command, Duration::from_secs(60)).context("the link cannot be measured")?;
    let mut rate = |key: &str, what: &str| -> Result<f64> {
        let rates = answer.get(key).and_then(|rates| rates.as_array()).context("no rates")?;
        let rates: Vec<f64> = rates.iter().filter_map(serde_json::Value::as_f64).collect();
        let middle = median(&rates).filter(|rate| *rate > 0.0).context("no rate")?;
        let mut figure = Figure::new(format!("link, {what}"), "GB/s", Goal::None);
        figure.take_all("native", rates, middle);
        bench.report.figures.push(figure);
        Ok(middle)
    };
    Ok(Link {
        inward: rate("in", "in")?,
        outward: rate("out", "out")?,
        both: rate("both", "both ways")?,
    })
}

/// A tenant of ours and its program.
struct Keeper {
    tenancy: Tenancy,
    program: Matrices,
}

impl Keeper {
    fn start(bench: &Bench, side: &Side, room: &Room, bytes: u64, what: &str) -> Result<Self> {
        let terms = TenantTerms::memory(room.limit_for(bytes)).oversubscribed();
        let tenancy = side.tenancy_of(&bench.stage, &terms)?;
        let mut program = Matrices::start(bench, &tenancy, "touch", &[bytes.to_string()])?;
        program.await_ready(bench, what, patience(bytes))?;
        Ok(Self { tenancy, program })
    }

    /// Tells it to want its memory: nanoseconds until its first kernel is done.
    fn wants(&mut self, bench: &Bench, bytes: u64, what: &str) -> Result<f64> {
        number(&self.program.ask(bench, what, patience(bytes))?, "first_ns")
    }

    fn meter(&self) -> Result<Meter> {
        let mut meter = Meter::default();
        meter.look(&self.tenancy)?;
        Ok(meter)
    }

    /// Waits until nothing more moves; bytes that left and came back since the meter's first look.
    fn moved(&self, bench: &Bench, mut meter: Meter, what: &str) -> Result<[u64; 2]> {
        let (mut moved, mut since) = ([0; 2], Instant::now());
        wait(bench, what, Duration::from_secs(60), || {
            meter.look(&self.tenancy)?;
            let now = [meter.out_bytes(), meter.in_bytes()];
            if now != moved {
                (moved, since) = (now, Instant::now());
            }
            Ok((since.elapsed() >= STILL).then_some(moved))
        })
    }
}

/// Time in which anything is done with so many bytes, or never.
fn patience(bytes: u64) -> Duration {
    Duration::from_secs(60 + bytes / GIB * 2)
}

/// Leaves by `divvy freeze`, and comes back by the program's own call.
fn one_way(bench: &mut Bench, side: &Side, room: &Room, link: &Link, bytes: u64) {
    let size = sizes::text(bytes);
    let (leave, back) = (format!("{size}, leaves"), format!("{size}, comes back"));
    let what = format!("{size} leaves and comes back");
    bench.step(&what);
    let (mut leaves, mut returns) = (Way::new(&leave), Way::new(&back));
    let mut rounds = || -> Result<()> {
        let mut holder = Keeper::start(bench, side, room, bytes, &what)?;
        for _ in 0..bench.rounds {
            let mut meter = holder.meter()?;
            let begun = Instant::now();
            freeze(&holder.tenancy, true)?;
            wait(bench, &what, patience(bytes), || {
                meter.look(&holder.tenancy)?;
                Ok(meter.is_away().then_some(()))
            })?;
            let ns = begun.elapsed().as_nanos() as f64;
            leaves.take(&side.name, link, [meter.out_bytes(), 0], ns);
            let meter = holder.meter()?;
            let ns = holder.wants(bench, bytes, &what)?;
            let [_, in_bytes] = holder.moved(bench, meter, &what)?;
            returns.take(&side.name, link, [0, in_bytes], ns);
            freeze(&holder.tenancy, false)?;
        }
        holder.program.finish();
        Ok(())
    };
    let ended = rounds();
    if let Err(error) = ended {
        fails(bench, &mut leaves, side, error);
    }
    leaves.keep(bench, &side.name);
    returns.keep(bench, &side.name);
}

fn freeze(tenancy: &Tenancy, frozen: bool) -> Result<()> {
    tenancy.change(&LimitChange { frozen: Some(frozen), ..LimitChange::default() })
}

/// Two tenants by turns on a card that one fits.
fn out_and_in(bench: &mut Bench, side: &Side, room: &Room, link: &Link, bytes: u64) {
    let name = format!("{}, out and in", sizes::text(bytes));
    bench.step(&name);
    let mut way = Way::new(&name);
    let mut moved = Figure::new(format!("{name}: moved"), "MiB", Goal::None);
    let mut rounds = || -> Result<()> {
        let _daemon = Daemon::start_smaller(&bench.stage, capacity(room, bytes))?;
        let first = Keeper::start(bench, side, room, bytes, &name)?;
        let second = Keeper::start(bench, side, room, bytes, &name)?;
        let mut holders = [first, second];
        for _ in 0..bench.rounds {
            for _ in 0..holders.len() {
                let [comes, leaves] = &mut holders;
                let meters = [leaves.meter()?, comes.meter()?];
                let ns = comes.wants(bench, bytes, &name)?;
                let [left, came] = meters;
                let ([out, _], [_, back]) =
                    (leaves.moved(bench, left, &name)?, comes.moved(bench, came, &name)?);
                // Bytes for which the card has room to spare may stay; the rest must go.
                let least = bytes.saturating_sub(SPARE_BYTES + 2 * BESIDE_BYTES) / 2;
                ensure!(
                    out >= least,
                    "void: {} of {} left the card, so nothing was handed over",
                    sizes::text(out),
                    sizes::text(bytes)
                );
                way.take(&side.name, link, [out, back], ns);
                moved.take(&side.name, Ok((out + back) as f64 / MIB as f64));
                holders.reverse();
            }
        }
        for holder in holders {
            holder.program.finish();
        }
        Ok(())
    };
    let ended = rounds();
    if let Err(error) = ended {
        fails(bench, &mut way, side, error);
    }
    way.keep(bench, &side.name);
    if !moved.medians.is_empty() {
        bench.report.figures.push(moved);
    }
}

fn fails(bench: &mut Bench, way: &mut Way, side: &Side, error: anyhow::Error) {
    if error.downcast_ref::<WrongValue>().is_some() {
        bench.wrong.push(format!("{}: {error}", way.time.name));
    }
    way.time.take(&side.name, Err(error));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_judged_by_the_slowest_way() {
        let link = Link { inward: 50.0, outward: 40.0, both: 80.0 };
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-6, "{value}");
        close(link.percent(400, 0, 10.0), 100.0);
        close(link.percent(0, 400, 16.0), 50.0);
        close(link.percent(400, 400, 20.0), 50.0);
        close(link.percent(400, 40, 10.0), 100.0);
    }
}
