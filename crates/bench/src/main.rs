//! `divvy-bench`, which `divvy bench` starts: what Divvy costs, beside the bare driver and beside peers, in one run.
//!
//! Each figure is measured on every side in turn, round after round, so that what the machine does
//! meanwhile meets all sides alike; medians are compared, samples are stored. The clients are the C
//! programs of bench/clients, which know nothing of any side.
//!
//! Makes its tenants as `divvy run` does, by the command's own library, and ends by the same exit codes. Holds no
//! `unsafe`. Does not decide anything that holds for other tenants than its own.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod busy;
mod cell;
#[cfg(test)]
#[path = "../../divvy/src/command_lines.rs"]
mod command_lines;
mod daemon;
mod fairness;
mod handover;
mod kernel;
mod latency;
mod matrices;
mod memory;
mod moved;
mod overhead;
mod oversubscribe;
mod panels;
#[cfg(test)]
mod pictures;
mod plot;
mod processes;
mod report;
mod room;
mod rows;
mod running;
mod series;
mod share;
mod side;
mod timing;
mod varied;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;

use divvy_command::output::options::OutputOptions;
use divvy_command::output::{ending, exit_codes, json, out};
use divvy_command::stage::{ClientStage, Simulation, client, there_is_a_gpu};
use report::Report;
use running::{Bench, Only};
use timing::{QUICK_SECONDS, Timing};

/// Measure what Divvy costs.
#[derive(Debug, Parser)]
#[command(name = "divvy-bench", bin_name = "divvy bench", version)]
struct Args {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    output: OutputOptions,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Nanoseconds added to calls, to starting programs and to many starting at once
    ///
    /// On the null driver (a simulated driver that does nothing, so that nanoseconds show) unless --gpu
    /// is given: kernel launches, a call without an effect, cuMemAlloc and cuMemFree pairs with 0, 20,000
    /// and 200,000 live blocks and with 1, 16 and 300 attached processes, refused allocations, a program
    /// that never uses the GPU, and 300 processes that start at once under one tenant.
    Overhead(Options),
    /// How allocations behave when many allocate at once, and how exact the limit is
    ///
    /// On the machine's GPU where there is one, else on the simulated one: 8 processes that allocate
    /// 256 MiB at the same moment; one and four processes that take memory until refused, and what the
    /// ledger, the limit and NVML say then.
    Memory(Options),
    /// How exactly a cap of device time is held
    ///
    /// On the machine's GPU where there is one, else on the simulated one. One program at a time: kernels
    /// of fixed work of 5 us, 100 us, 5 ms and 500 ms, launched and synchronised, in a queue, as graphs,
    /// by cuLaunchKernelEx, cooperatively, on four streams, paced, and after copies, under caps of 10, 30
    /// and 70 %; and a cap that changes while the program runs. The share is what the device itself has
    /// counted, read from outside. Peers are measured in six of the cells.
    ///
    /// --family asks for others: programs whose kernels take now this long, now that, under one name and
    /// grid; programs of several threads; tenants of several processes, some of them under a daemon of the
    /// benchmark's own. There peers are measured in all but caps under a daemon.
    Share(Shares),
    /// How several programs divide a card
    ///
    /// On the machine's GPU where there is one, else on the simulated one, with a daemon of its own: two
    /// tenants capped at 30 and 70 % and at 20 and 80 %, with and without the daemon; two and three equal
    /// tenants that synchronise; tenants that do not fill the card; fairness and steadiness of four and of
    /// two; one beside three floods; one that idles half the time; and what the daemon itself takes.
    ///
    /// --family asks for others: weights from fresh starts; limits that change while programs run; caps beside
    /// each other; a cap beside a program that does not run under Divvy.
    Fairness(Fairnesses),
    /// How long requests take beside another program's flood
    ///
    /// On the machine's GPU where there is one, else on the simulated one, with a daemon of its own: a
    /// program of high priority gets a request of 10 ms of work every 100 ms, alone and beside a program
    /// that floods the card with kernels of 100 us and of 2 ms.
    Latency(Timed),
    /// Throughput of programs whose memory exceeds the card together
    ///
    /// On the machine's GPU where there is one, else on the simulated one, with a daemon of its own: copies of a
    /// program that adds matrices over and over and touches all of its memory in each step. One copy alone on the
    /// bare driver, all of them there one after the other, and all at once under Divvy by each back end and beside each
    /// peer; then copies that all fit, with --oversubscribe and without. The host must have room for what exceeds the
    /// card. A copy whose memory is not what it should be is a failure, with exit code 1.
    ///
    /// --capacity makes the card smaller for Divvy, so that pressure can be made at any size. Managed memory, and a
    /// peer's, is left out where all of it together is more than the card has free: it may disturb others on it.
    Oversubscribe(oversubscribe::Args),
    /// How fast memory leaves a card and comes back, beside what the link carries
    ///
    /// On the machine's GPU where there is one, else on the simulated one: a tenant whose memory leaves by
    /// `divvy freeze` and comes back by its next call; then two tenants on a card that one of them fits, with a daemon
    /// of the benchmark's own, from the call of one to the end of its first kernel, when the other has been idle for a
    /// second and right behind its answer; and calls for which nothing moves. The link is measured in the same run by pinned
    /// copies, each way and both at once.
    Handover(handover::Args),
}

#[derive(Debug, clap::Args)]
struct Options {
    #[command(flatten)]
    common: Common,

    /// Rounds of every figure
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

#[derive(Debug, clap::Args)]
struct Shares {
    #[command(flatten)]
    timed: Timed,

    /// Programs to be measured; may be several with commas between
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform")]
    family: Vec<Family>,
}

/// Programs under a cap.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Family {
    /// One program, whose kernels are alike
    Uniform,
    /// One program, whose kernels differ in length under one name and grid
    Varied,
    /// One program of 2, 4 and 16 threads
    Threads,
    /// A tenant of 2 to 16 processes
    Processes,
}

#[derive(Debug, clap::Args)]
struct Fairnesses {
    #[command(flatten)]
    timed: Timed,

    /// Programs to be measured; may be several with commas between
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mixed,cost")]
    family: Vec<fairness::Family>,

    /// Fresh starts of each set of weights, in the family weights
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    starts: u32,
}

#[derive(Debug, clap::Args)]
struct Timed {
    #[command(flatten)]
    common: Common,

    /// Seconds that a measurement lasts: 3, of the families varied and threads 10, of processes, weights and
    /// caps 5, of strangers 6, of changes 1.7 behind each
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,

    /// Seconds that a measurement of kernels of 500 ms lasts
    #[arg(long, default_value_t = 12.0, value_parser = seconds)]
    long_seconds: f64,

    /// A few figures, shortly: shows that everything works, and little else
    #[arg(long)]
    quick: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    match (0.5..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("write seconds from 0.5 to 3600".to_owned()),
    }
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Another library to measure beside, preloaded: NAME=PATH; may be repeated
    #[arg(long, value_name = "NAME=PATH")]
    peer: Vec<String>,

    /// Only figures whose name contains this, or one of these with commas between
    #[arg(long, value_name = "TEXT", visible_alias = "cells")]
    only: Option<String>,

    /// Measure on the machine's GPU, and fail where there is none
    #[arg(long, conflicts_with = "sim")]
    gpu: bool,

    /// Measure on the simulated GPU, even where there is a real one
    #[arg(long)]
    sim: bool,

    /// Store table and samples as JSON in this directory
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,

    /// Exit with code 1 when a goal is missed
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let read = Args::try_parse();
    let output = match &read {
        Ok(args) => args.output,
        Err(_) => OutputOptions::of_line(&std::env::args_os().collect::<Vec<_>>()),
    };
    output.settle();
    ending::exit_code(match read {
        Ok(args) => run(&args),
        Err(error) => ending::explain(&error),
    })
}

fn run(args: &Args) -> Result<u8> {
    let (common, name) = match &args.what {
        What::Overhead(options) => (&options.common, "overhead"),
        What::Memory(options) => (&options.common, "memory"),
        What::Share(shares) => (&shares.timed.common, "share"),
        What::Fairness(fairnesses) => (&fairnesses.timed.common, "fairness"),
        What::Latency(timed) => (&timed.common, "latency"),
        What::Oversubscribe(args) => (&args.common, "oversubscribe"),
        What::Handover(args) => (&args.common, "handover"),
    };
    let rounds = match &args.what {
        What::Overhead(options) | What::Memory(options) => options.rounds,
        What::Handover(args) => args.rounds,
        What::Share(_) | What::Fairness(_) | What::Latency(_) | What::Oversubscribe(_) => 1,
    };
    let sides = side::all(&common.peer)?;
    let on_gpu = common.gpu || (name != "overhead" && !common.sim && there_is_a_gpu());
    let stage = if on_gpu {
        ClientStage::machine("bench")?
    } else {
        let simulation = match args.what {
            What::Overhead(_) => Simulation { mode: "null", memory: "2TiB" },
            _ => Simulation { mode: "calibrated", memory: "140GiB" },
        };
        ClientStage::simulated("bench", simulation)?
    };
    let names = sides.iter().map(|side| side.name.clone()).collect();
    let mut report = Report::new(name, stage.driver(), names);
    report.card = stage.card();
    let only = common.only.as_deref().map(Only::parse);
    let mut bench = Bench::new(report, stage, sides, rounds, only);
    match &args.what {
        What::Overhead(_) => overhead::measure(&mut bench)?,
        What::Memory(_) => memory::measure(&mut bench)?,
        What::Share(shares) => shares.measure(&mut bench)?,
        What::Fairness(Fairnesses { timed, family, starts }) => {
            fairness::measure(&mut bench, family, &timed.timing(), *starts)?;
        }
        What::Latency(timed) => latency::measure(&mut bench, &timed.timing())?,
        What::Oversubscribe(args) => oversubscribe::measure(&mut bench, args)?,
        What::Handover(args) => handover::measure(&mut bench, args)?,
    }
    bench.say("");
    let unknown = bench.only.as_ref().map(Only::unknown).unwrap_or_default();
    if bench.report.figures.is_empty() && !unknown.is_empty() {
        let more =
            if ["share", "fairness"].contains(&name) { ", or name its --family" } else { "" };
        bail!(
            "--only {unknown}: nothing that is measured has that in its name, which is a figure's up \
             to its last comma; leave --only out to measure all{more}"
        );
    }
    if !unknown.is_empty() {
        out::warn(&format!("bench: --only {unknown}: nothing measured has that in its name"));
    }
    // Where nothing at all has a value, there is nothing to store, and the first reason is all there is.
    if bench.report.figures.iter().all(|figure| figure.medians.is_empty())
        && let Some(error) = bench.failure
    {
        return Err(error);
    }
    store_and_print(&bench, common)?;
    for wrong in &bench.wrong {
        out::warn(&format!("bench: {wrong}"));
    }
    let missed = (common.check && bench.report.missed()) || !bench.wrong.is_empty();
    Ok(if missed { exit_codes::NOT_AS_EXPECTED } else { 0 })
}

/// Stores a report and prints it, with its pictures. One that took minutes is printed if it cannot be stored.
fn store_and_print(bench: &Bench, common: &Common) -> Result<()> {
    let stored = bench.report.store(&common.out);
    let stored_in = stored.as_ref().map(|path| format!("stored in {}", path.display()));
    let stored_in = stored_in.unwrap_or_else(|_| "not stored".to_owned());
    out::after(&format!("the figures were {stored_in}"), || match common.json {
        true => json::print(&bench.report),
        false => out::text(&format!(
            "{} on {}, medians of one run\n\n{}\n{stored_in}\n",
            bench.report.benchmark,
            bench.report.driver,
            bench.report.table(),
        )),
    })?;
    bench.report.draw(&stored?)
}

impl Shares {
    fn measure(&self, bench: &mut Bench) -> Result<()> {
        let timing = self.timed.timing();
        for family in &self.family {
            match family {
                Family::Uniform => share::measure(bench, &timing)?,
                Family::Varied => varied::measure(bench, &timing)?,
                Family::Threads => varied::measure_threads(bench, &timing)?,
                Family::Processes => processes::measure(bench, &timing)?,
            }
        }
        Ok(())
    }
}

impl Timed {
    fn timing(&self) -> Timing {
        let most = if self.quick { QUICK_SECONDS } else { f64::MAX };
        Timing {
            seconds: self.seconds.unwrap_or(3.0).min(most),
            long_seconds: self.long_seconds.min(most * 4.0),
            quick: self.quick,
            asked: self.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_has_help_and_every_benchmark_json() {
        command_lines::explain_themselves::<Args>(&[]);
    }

    #[test]
    fn a_mistyped_option_is_named_with_the_one_that_was_meant() {
        let asked = command_lines::name_mistyped_options::<Args>();
        assert!(asked > 30, "{asked}");
    }

    #[test]
    fn it_is_spoken_of_as_the_command_that_starts_it() {
        for line in [&["divvy-bench"][..], &["/x/divvy-bench", "share", "--nothing"]] {
            let words = Args::try_parse_from(line).unwrap_err().to_string();
            assert!(words.contains("Usage: divvy bench"), "{words}");
        }
    }
}
