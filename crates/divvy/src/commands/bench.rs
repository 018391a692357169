//! `divvy bench`: becomes `divvy-bench`, the benchmarks' program, which lies beside this one.
//!
//! Promises: arguments, environment, streams, signals and exit code are that program's own, help and mistakes
//! included; where there is none, the error says what is missing.
//!
//! Does not know what can be measured.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result};
use nix::unistd::execv;

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
    let program = install::program(install::BENCH)?;
    let words = [program.clone().into_os_string()].into_iter().chain(output.words());
    let words = words.chain(args.arguments.iter().cloned());
    let words = words.map(|word| CString::new(word.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    // Not execvp, which the standard library's `exec` calls: that gives a file cut short to a shell, as an empty script.
    match execv(&words[0], &words) {
        Ok(never) => match never {},
        Err(errno) => {
            Err(errno).with_context(|| format!("{} cannot be started", program.display()))
        }
    }
}
