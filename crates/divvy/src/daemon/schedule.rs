//! `divvy daemon --schedule`: whether turns are given.
//!
//! A daemon that runs is told; where none does, the one that is started begins so. Does not say who may: that is
//! [`super::server`]'s.

use anyhow::Result;

use super::client;
use super::place::DaemonHome;
use crate::output::failure::usage;
use crate::output::{json, out};
use crate::wire::{Call, Schedule};

/// The word of `--schedule`.
pub(super) fn read(text: &str) -> Result<Schedule> {
    match text {
        "on" => Ok(Schedule::On),
        "off" => Ok(Schedule::Off),
        text => Err(usage(format!("--schedule {text:?} is neither on nor off"))),
    }
}

/// Tells the daemon of `home`; false where none answers.
///
/// # Errors
/// In the daemon's words, where it refuses.
pub(super) fn tell(home: &DaemonHome, to: Schedule, as_json: bool) -> Result<bool> {
    let Some(view) = client::view(home) else { return Ok(false) };
    client::ask(home, Call::Schedule { to })?;
    let pid = view.pid;
    let words = match to {
        Schedule::On => "gives turns",
        Schedule::Off => "gives no turns: all tenants run at once",
    };
    out::after(&format!("the daemon (pid {pid}) {words}"), || match as_json {
        true => json::print(&serde_json::json!({ "pid": pid, "schedule": to })),
        false => out::text(&format!("pid {pid} {words}\n")),
    })?;
    Ok(true)
}
