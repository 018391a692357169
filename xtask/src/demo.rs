//! `cargo xtask demo`: the first thing a newcomer runs.
//!
//! Builds what the demonstration starts, and hands over to `divvy demo`, which finds a real GPU or starts the
//! simulated one and says which. Promises: what it does and how long that takes is said before it begins.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{command, stage};

pub(crate) fn chore(arguments: &[String]) -> Result<()> {
    eprintln!(
        "Building the command, the library and the simulated GPU: about three minutes on two processors the \
         first time. Then the demonstration, about twenty seconds."
    );
    let stage = stage::build_for_demo()?;
    let mut demo = Command::new(stage.divvy());
    demo.arg("demo").args(arguments);
    let status = demo.status().with_context(|| command::words(&demo))?;
    if !status.success() {
        bail!("the demo ended with {status}");
    }
    Ok(())
}
