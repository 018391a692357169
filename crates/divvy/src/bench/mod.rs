//! `divvy bench`: what Divvy costs, beside the bare driver and beside peers, in one run.
//!
//! Each figure is measured on every side in turn, round after round, so that what the machine does
//! meanwhile meets all sides alike; medians are compared, samples are stored. The clients are the C
//! programs of bench/clients, which know nothing of any side.

mod client;
mod memory;
mod overhead;
mod report;
mod side;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::stage::{Simulation, Stage, there_is_a_gpu};
use crate::{failure, json};
use report::Report;
use side::Side;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// Measure what Divvy costs.
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
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Another library to measure beside, preloaded: NAME=PATH; may be repeated
    #[arg(long, value_name = "NAME=PATH")]
    peer: Vec<String>,

    /// Rounds of every figure
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Only figures whose name contains this
    #[arg(long, value_name = "TEXT")]
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

pub(crate) fn run(args: &Args) -> Result<u8> {
    let (options, name) = match &args.what {
        What::Overhead(options) => (options, "overhead"),
        What::Memory(options) => (options, "memory"),
    };
    let sides = side::all(&options.peer)?;
    let on_gpu = options.gpu || (name == "memory" && !options.sim && there_is_a_gpu());
    let stage = if on_gpu {
        Stage::machine("bench")?
    } else {
        let simulation = match args.what {
            What::Overhead(_) => Simulation { mode: "null", memory: "2TiB" },
            What::Memory(_) => Simulation { mode: "calibrated", memory: "140GiB" },
        };
        Stage::simulated("bench", simulation)?
    };
    let names = sides.iter().map(|side| side.name.clone()).collect();
    let mut bench = Bench {
        report: Report::new(name, stage.driver(), names),
        stage,
        sides,
        rounds: options.rounds,
        only: options.only.clone(),
    };
    match args.what {
        What::Overhead(_) => overhead::measure(&mut bench)?,
        What::Memory(_) => memory::measure(&mut bench)?,
    }
    bench.say("");
    let path = bench.report.store(&options.out)?;
    if options.json {
        json::print(&bench.report)?;
    } else {
        println!("{} on {}, medians of one run\n", bench.report.benchmark, bench.report.driver);
        println!("{}\nstored in {}", bench.report.table(), path.display());
    }
    let missed = options.check && bench.report.missed();
    Ok(if missed { failure::NOT_AS_EXPECTED } else { 0 })
}

/// A benchmark that runs.
struct Bench {
    stage: Stage,
    sides: Vec<Side>,
    rounds: u32,
    only: Option<String>,
    report: Report,
}

impl Bench {
    /// Whether figures called `name` are wanted.
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// The sides in the order of `round`: turned, so that no side is always the first.
    fn turn(&self, round: u32) -> Vec<Side> {
        let mut sides = self.sides.clone();
        let by = round as usize % sides.len().max(1);
        sides.rotate_left(by);
        sides
    }

    /// Progress, on standard error.
    fn say(&self, what: &str) {
        let mut err = std::io::stderr();
        // Nobody to tell is no reason to stop measuring.
        let _ = if err.is_terminal() {
            write!(err, "\r\x1b[K{what}")
        } else if what.is_empty() {
            Ok(())
        } else {
            writeln!(err, "{what}")
        };
    }

    /// A client program's path.
    fn client(&self, name: &str) -> Result<PathBuf> {
        crate::install::client(name).context("the benchmark's clients are needed")
    }
}
