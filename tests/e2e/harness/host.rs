//! How late the host wakes who sleeps: what a test of shares must leave to the host.
//!
//! A thread sleeps for a millisecond again and again and adds up what it overslept. On an idle machine
//! that is some tens of microseconds, beside a compiler that has all processors it may be milliseconds,
//! and a program that waits for each of its kernels loses as much of the device at each of them. So a
//! lower bound is judged less the time that the host can have lost; an upper bound is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Sums {
    late_ns: AtomicU64,
    naps: AtomicU64,
    ended: AtomicBool,
}

/// Measures from when it is made to when it is dropped.
#[derive(Debug)]
pub(crate) struct Host {
    sums: Arc<Sums>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Begins to measure.
    pub(crate) fn watch() -> Self {
        let sums = Arc::new(Sums::default());
        let napping = Arc::clone(&sums);
        let thread = std::thread::spawn(move || {
            while !napping.ended.load(Relaxed) {
                let before = Instant::now();
                std::thread::sleep(NAP);
                let late = before.elapsed().saturating_sub(NAP);
                let late_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                napping.late_ns.fetch_add(late_ns, Relaxed);
                napping.naps.fetch_add(1, Relaxed);
            }
        });
        Self { sums, thread: Some(thread) }
    }

    /// Time overslept at a wake-up so far, on average.
    pub(crate) fn late_ns(&self) -> u64 {
        let naps = self.sums.naps.load(Relaxed).max(1);
        self.sums.late_ns.load(Relaxed) / naps
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.sums.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
