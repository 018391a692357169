//! The record of calls that reached something not simulated.
//!
//! Each name is written once per process to `unsimulated.log` in the machine's directory, so that a
//! test that got there by accident fails instead of passing on an error code it did not mean.

use crate::machine::description;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The file's name in the machine's directory.
pub const LOG: &str = "unsimulated.log";

static SEEN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Records that `entry` was called. It never fails: without a directory there is nobody to tell.
pub fn record(entry: &'static str) {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !seen.insert(entry) {
        return;
    }
    append(LOG, entry);
}

/// Adds a line of this process's to a file of the machine's directory.
pub(crate) fn append(log: &str, what: &str) {
    let directory = description::directory(&description::from_environment);
    let file = std::fs::OpenOptions::new().append(true).create(true).open(directory.join(log));
    if let Ok(mut file) = file {
        // One write of one line: appends of several processes do not mix.
        let _ = file.write_all(format!("{what} pid {}\n", std::process::id()).as_bytes());
    }
}
