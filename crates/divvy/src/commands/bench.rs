//! `divvy bench`: becomes `divvy-bench`, the benchmarks' program, which lies beside this one.
//!
//! Promises: arguments, environment, streams, signals and exit code are that program's own, help and mistakes
//! included; where there is none, the error says what is missing.
//!
//! Does not know what can be measured.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::machine::install;

/// Measure what Divvy costs.
///
/// The program divvy-bench does it, which lies beside this command. `divvy bench --help` is its help, and
/// lists what is measured.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Measurement and its options: `divvy bench --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// # Errors
/// Where the program is missing or cannot be started; else this process is that program.
pub(crate) fn run(args: &Args) -> Result<u8> {
    let program = install::program(install::BENCH)?;
    let error = Command::new(&program).args(&args.arguments).exec();
    Err(error).with_context(|| format!("{} cannot be started", program.display()))
}
