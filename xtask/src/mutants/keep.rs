//! Where results are kept that are to be committed.

use std::process::Command;

use anyhow::{Context, Result};

use crate::command;
use crate::workspace::root;

/// Keeps a result under bench/results, with the day in its name.
pub(super) fn keep(name: &str, text: &str) -> Result<()> {
    let day = command::output(Command::new("date").args(["-u", "+%F"]))?;
    let name = format!("bench/results/{name}-{}.json", day.trim());
    let path = root().join(&name);
    std::fs::write(&path, format!("{text}\n")).with_context(|| name.clone())?;
    eprintln!("kept: {name}");
    Ok(())
}
