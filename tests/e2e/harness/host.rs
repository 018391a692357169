//! How late the host wakes who sleeps: what a test of shares must leave to the host.
//!
//! A thread sleeps for a millisecond again and again and adds up what it overslept. On an idle machine
//! that is some tens of microseconds, beside a compiler that has all processors it may be milliseconds,
//! and a program that waits for each of its kernels loses as much of the device at each of them. So a
//! lower bound is judged less the time that the host can have lost; an upper bound is not.
//!
//! One thread's luck is not another's: a process that is let wait for half a second need not be late on
//! average. How long processes were ready and had no processor the kernel counts, where it is built so.

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

/// Time for which the threads of a process were ready to run and had no processor, since they began.
fn starved_ns(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    waited.sum()
}

/// Measures from when it is made to when it is dropped.
#[derive(Debug)]
pub(crate) struct Host {
    sums: Arc<Sums>,
    thread: Option<JoinHandle<()>>,
    pids: Vec<u32>,
    starved_ns: u64,
}

impl Host {
    /// Begins to measure, and to watch these processes.
    pub(crate) fn watch(pids: &[u32]) -> Self {
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
        let starved_ns = pids.iter().copied().map(starved_ns).sum();
        Self { sums, thread: Some(thread), pids: pids.to_vec(), starved_ns }
    }

    /// Time for which the processes watched were ready and had no processor so far, all together.
    pub(crate) fn starved_ns(&self) -> u64 {
        let all: u64 = self.pids.iter().copied().map(starved_ns).sum();
        all.saturating_sub(self.starved_ns)
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
