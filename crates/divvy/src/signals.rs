//! Signals and threads: who takes which.
//!
//! Ending in good order: the signals that ask a command to end become a flag ([`end_flag`]), for a
//! command that has a file half written. No handler runs; a thread waits for the signals, which all other
//! threads block. A command with a terminal to put back has a thread of its own for them
//! (`top::terminal`). A thread beside a program that runs takes none ([`quiet_thread`]). Where the stack's limit leaves the
//! first thread too little room, another does its work ([`with_room`]).

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Starts a thread that takes no signal: one that it took would be lost to the thread that runs a
/// program, and a lost SIGCHLD is an end that nobody notices.
///
/// # Errors
/// When no thread can be had, or signals cannot be blocked for it.
pub(crate) fn quiet_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    // A thread inherits the mask of the one that starts it.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    mask.thread_set_mask().context("signals cannot be opened again")?;
    started.with_context(|| format!("no thread {name:?} can be had"))
}

/// Stack that a command needs, with that of the libraries that it calls.
const STACK_BYTES: usize = 2 << 20;

/// Runs `body`; on a thread that has the stack for it where the limit of the first thread's (`ulimit -s`) is smaller. That
/// thread takes the signals that the first one would have taken.
pub(crate) fn with_room(body: fn() -> ExitCode) -> ExitCode {
    let has_room = getrlimit(Resource::RLIMIT_STACK)
        .is_ok_and(|(limit_bytes, _)| limit_bytes >= STACK_BYTES as u64);
    if has_room {
        return body();
    }
    let Ok(mask) = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return body() };
    let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        // A thread inherits the mask of the one that starts it.
        let _ = mask.thread_set_mask();
        body()
    });
    match started {
        // A panic has said what it is; its exit code is Rust's.
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(101)),
        Err(_) => {
            let _ = mask.thread_set_mask();
            body()
        }
    }
}

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
