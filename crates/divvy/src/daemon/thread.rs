//! Threads of the daemon beside the one that schedules.
//!
//! Promises: without a thread it is an error in words, never a panic.

use anyhow::{Context, Result};

/// Starts a thread with a small stack.
pub(super) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
    builder.spawn(body).with_context(|| format!("no thread {name:?} can be had"))?;
    Ok(())
}
