//! Starts a client of the doctor: a program of ours that asks the driver itself.
//!
//! Promises: no library is preloaded into it, so that its answers are the driver's own and of no tenant; its three
//! streams are pipes. Does not wait for it.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::machine::install;

pub(super) fn start(name: &str, arguments: &[&str]) -> Result<Child> {
    let program = install::client(name)?;
    Command::new(&program)
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))
}
