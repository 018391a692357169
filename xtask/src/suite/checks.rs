//! Commands that are checks: one by its success, or a run of tests, each counted.
//!
//! Promises: a run that fails without a failed test, or that runs none, is an error.

use std::process::Command;

use anyhow::{Result, bail};

use super::beside::GROUP;
use super::tally::{Reader, Tally};
use crate::command::{lines, words};
use crate::stage::Stage;

/// Seed of property tests, unless the environment has another.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

/// A command whose success is one check.
pub(super) fn check(tally: &mut Tally, command: &mut Command) -> Result<()> {
    let status = lines(command, |line| println!("{line}"))?;
    tally.check(&words(command), status.success());
    Ok(())
}

/// A run of libtest, whose tests are counted one by one.
pub(super) fn run_tests(
    tally: &mut Tally,
    command: &mut Command,
    stage: Option<&Stage>,
) -> Result<()> {
    command.args(["--", "--show-output"]);
    // A run that fails fails again. Who looks for more sets another, or runs `cargo test`, which draws one each time.
    if std::env::var_os(SEED.0).is_none() {
        command.env(SEED.0, SEED.1);
    }
    if let Some(stage) = stage {
        command.env("DIVVY_STAGE", stage.path());
    }
    if let Some(group) = tally.beside {
        command.env(GROUP, group.to_string());
    }
    let (passed, failed) = (tally.passed, tally.failed.len());
    let mut reader = Reader::default();
    let status = lines(command, |line| {
        if let Some(line) = reader.line(line, tally) {
            println!("{line}");
        }
    })?;
    if !status.success() && tally.failed.len() == failed {
        bail!("`{}` ended with {status} although no test failed", words(command));
    }
    if tally.passed == passed && tally.failed.len() == failed {
        bail!("`{}` ran no test", words(command));
    }
    Ok(())
}
