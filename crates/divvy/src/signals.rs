//! Ending in good order: the signals that ask a command to end become a flag.
//!
//! For commands that have something to put right before they go: a terminal, a file half written. No
//! handler runs; a thread waits for the signals, which all other threads block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};

/// A flag that is set when this process is asked to end. Called before any thread is started.
pub(crate) fn end_flag() -> Result<Arc<AtomicBool>> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block().context("signals cannot be blocked")?;
    let flag = Arc::new(AtomicBool::new(false));
    let setter = Arc::clone(&flag);
    std::thread::Builder::new()
        .name("divvy signals".to_owned())
        .stack_size(64 << 10)
        .spawn(move || {
            while signals.wait().is_err() {}
            setter.store(true, Relaxed);
        })
        .context("no thread can be had")?;
    Ok(flag)
}
