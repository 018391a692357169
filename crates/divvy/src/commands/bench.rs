//! `divvy bench`: becomes `divvy-bench`, the benchmarks' program, which lies beside this one.
//!
//! Promises: arguments, environment, streams, signals and exit code are that program's own, help and mistakes
//! included; where there is none, the error says what is missing.
//!
//! Does not know what can be measured.

use std::ffi::OsString;

use anyhow::Result;

use super::becoming::become_program;
use crate::machine::install;
use crate::output::options::OutputOptions;

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
pub(crate) fn run(args: &Args, output: OutputOptions) -> Result<u8> {
    let words = output.words().into_iter().chain(args.arguments.iter().cloned());
    match become_program(&install::program(install::BENCH)?, words)? {}
}
