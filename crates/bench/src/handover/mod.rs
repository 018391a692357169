//! `divvy bench handover`: how fast memory leaves a card and comes back, beside what the link carries.
//!
//! One tenant whose memory leaves by a wish and comes back by its own call; two of which one fits, so that each call for
//! memory is a hand-over, out and in; and calls for which nothing has to move. A figure's percentage is of the time that
//! the link would need, measured in the same run, for the bytes that were moved. Every block is looked at after each time.
//!
//! Promises: a size that card or host have no room for is a row that says so; before a hand-over is measured the bytes
//! that are to move are where they come from, or the row is void and says where they were.

mod grants;
mod keeper;
mod turns;
mod way;

use std::time::Duration;

use anyhow::{Context, Result};

use super::Common;
use super::client;
use super::report::{Figure, Goal, LEFT_OUT, median};
use super::room::{self, Room, WrittenSize, bytes};
use super::running::Bench;
use super::side::Side;
use divvy_command::output::{out, sizes};
use way::{GIB, Link, MIB, capacity};

/// Sizes of a tenant on a card, and on a simulated one, whose memory is the host's.
const ON_CARD: [u64; 3] = [GIB, 12 * GIB, 60 * GIB];
const SIMULATED: [u64; 2] = [128 * MIB, 256 * MIB];
/// Bytes that the link carries in one measurement.
const LINK_BYTES: u64 = 4 * GIB;
const LINK_SIMULATED_BYTES: u64 = 64 * MIB;
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,

    /// Memory of a tenant; may be several with commas between. By default 1, 12 and 60 GiB, on a simulated card 128
    /// and 256 MiB; what card or host have no room for is left out, and said
    #[arg(long, value_name = "SIZE", value_parser = bytes, value_delimiter = ',')]
    sizes: Vec<WrittenSize>,

    /// Rounds of every figure
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) rounds: u32,
}

pub(super) fn measure(bench: &mut Bench, args: &Args) -> Result<()> {
    let name = |bytes: &u64| sizes::text(*bytes);
    let wanted: Vec<u64> =
        sizes(bench, args).into_iter().filter(|bytes| bench.wants(&name(bytes))).collect();
    let grants = bench.wants(grants::NAME);
    if wanted.is_empty() && !grants {
        return Ok(());
    }
    let ours =
        bench.sides.iter().find(|side| side.is_ours()).cloned().context("Divvy is no side")?;
    let room = Room::measure(bench)?;
    bench.expect(1 + usize::from(grants) + 2 * wanted.len());
    if grants {
        grants::measure(bench, &ours, &room);
    }
    bench.step("measuring the link");
    let link = measure_link(bench)?;
    for bytes in wanted {
        if let Err(why) = fits(bench, &room, bytes) {
            leave_out(bench, &name(&bytes), &ours, &why);
            continue;
        }
        turns::one_way(bench, &ours, &room, &link, bytes);
        turns::out_and_in(bench, &ours, &room, &link, bytes);
    }
    Ok(())
}

/// A row that says why nothing of a size was measured.
fn leave_out(bench: &mut Bench, size: &str, side: &Side, why: &str) {
    out::warn(&format!("bench: {size} left out: {why}"));
    let mut figure = Figure::new(format!("{size}, out and in"), "ms", Goal::None);
    figure.take(&side.name, Err(anyhow::anyhow!("{LEFT_OUT}{why}")));
    bench.report.figures.push(figure);
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
    let text = sizes::text;
    if capacity(room, bytes) > room.usable_bytes(None, 2) {
        return Err(format!(
            "one tenant and two contexts need more than the {} that the card has free",
            text(room.free_bytes)
        ));
    }
    let on_host = if bench.stage.is_simulated() { 2 * bytes } else { bytes };
    match room::fits_host(on_host) {
        true => Ok(()),
        false => Err(format!("the host has no room for {} that leave", text(on_host))),
    }
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
