//! `cargo xtask demo`: the first thing a newcomer runs.
//!
//! Builds the release tree and hands over to `divvy demo`, which finds a real GPU or starts the
//! simulated one and says which.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{clients, command, stage};

pub(crate) fn chore(arguments: &[String]) -> Result<()> {
    eprintln!("building (release)");
    let stage = stage::build(clients::BENCH)?;
    let mut demo = Command::new(stage.divvy());
    demo.arg("demo").args(arguments);
    let status = demo.status().with_context(|| command::words(&demo))?;
    if !status.success() {
        bail!("the demo ended with {status}");
    }
    Ok(())
}
