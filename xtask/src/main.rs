//! The project's own chores. `cargo xtask --help` lists them.
//!
//! One module per chore. What several share has a module of its own: the staged tree ([`stage`]),
//! the vendor's headers ([`headers`]), running programs ([`command`]), places ([`workspace`]).

mod aarch64;
mod budget;
mod clients;
mod command;
mod coverage_page;
mod demo;
mod dist;
mod figures;
mod headers;
mod mutants;
mod pictures;
#[cfg(feature = "regen")]
mod regen;
mod regenerate;
mod release;
mod soak;
mod stage;
mod suite;
mod unhook;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Divvy's chores. Each prints what it does and ends with a plain verdict.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand, Debug)]
enum Chore {
    /// Build what it takes, then run two tenants on one GPU (a simulated one where there is none).
    Demo {
        /// Passed on to `divvy demo`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run every check and every test; the last line counts them.
    Test {
        /// Run only the suites whose name contains one of these words.
        only: Vec<String>,
    },
    /// Build the release tree that tests and demo use; its path is the last line.
    #[command(visible_alias = "build")]
    Stage,
    /// Write a folder that runs on a machine without a toolchain.
    Dist {
        /// Where to write it; by default `dist` in the target directory.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Make what users install: tarballs, packages, an image, sums, and a list of what is in them.
    Release(release::Arguments),
    /// Make crates/driver-api/src/generated anew from NVIDIA's headers.
    Regen,
    /// Take out one hook at a time; each time a named test must fail.
    Unhook {
        /// Only these symbols; by default all that the table maps to a test.
        symbols: Vec<String>,
    },
    /// Kill processes at random for long, and store what was seen; or search for shares that are off; or hand memory over.
    #[command(args_conflicts_with_subcommands = true)]
    Soak {
        /// How many processes to kill.
        #[arg(long, default_value_t = 10_000)]
        kills: u32,
        #[command(subcommand)]
        of: Option<soak::Of>,
    },
    /// Change policy in one place at a time; each time a test of the searcher must fail.
    Mutants(mutants::Arguments),
    /// Check the shipped library's size, dependencies, exports and relocations.
    Budget,
    /// Write the pages that are generated from the table (docs/coverage.md).
    Docs,
    /// Rewrite the README's figure table from bench/results.
    Figures,
    /// Draw the documentation's plots and its screen of `divvy top` (docs/pictures).
    Pictures(pictures::Pictures),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Demo { arguments } => demo::chore(&arguments),
        // Its last line is the count, so nothing may be said after it.
        Chore::Test { only } => match suite::chore(&only) {
            Ok(true) => return ExitCode::SUCCESS,
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Chore::Stage => stage::chore(),
        Chore::Dist { out } => dist::chore(out),
        Chore::Release(arguments) => release::chore(&arguments),
        Chore::Regen => regenerate::chore(),
        Chore::Unhook { symbols } => unhook::chore(&symbols),
        Chore::Soak { kills, of: None } => soak::chore(kills),
        Chore::Soak { of: Some(soak::Of::Share(range)), .. } => soak::share(&range),
        Chore::Soak { of: Some(soak::Of::Handovers(wanted)), .. } => soak::handovers(&wanted),
        Chore::Mutants(arguments) => mutants::chore(&arguments),
        Chore::Budget => budget::chore(),
        Chore::Docs => coverage_page::chore(),
        Chore::Figures => figures::chore(),
        Chore::Pictures(wanted) => pictures::chore(&wanted),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
