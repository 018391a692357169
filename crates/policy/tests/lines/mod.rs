//! The lines of a tenant in memory, for tests of its turns: those of a usage file, with a wait that returns at once.

#[cfg(not(shuttle))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use divvy_abi::config::GateLine;
use divvy_policy::gate::Words;
use divvy_policy::pace::Clock;
#[cfg(shuttle)]
use shuttle::sync::atomic::AtomicU64;

/// All of them, of which the first is the tenant's own, and what a test keeps beside them.
#[derive(Debug)]
#[allow(dead_code, reason = "each of the tests uses a part")]
pub(crate) struct Table<T> {
    pub(crate) lines: Vec<[AtomicU64; 16]>,
    /// The slot that was woken last.
    pub(crate) woken: AtomicUsize,
    pub(crate) beside: T,
}

impl<T> Table<T> {
    /// That of so many processes. It is never freed: words are borrowed for ever.
    pub(crate) fn new(processes: usize, beside: T) -> &'static Self {
        let line = || std::array::from_fn(|_| AtomicU64::new(0));
        let lines = (0..=processes).map(|_| line()).collect();
        Box::leak(Box::new(Self { lines, woken: AtomicUsize::new(0), beside }))
    }
}

/// One process's words.
#[derive(Debug)]
pub(crate) struct One<T: 'static>(pub(crate) &'static Table<T>, pub(crate) usize);

impl<T> Clone for One<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for One<T> {}

impl<T: std::fmt::Debug> Words for One<T> {
    fn slot(&self) -> usize {
        self.1
    }
    fn slots_high(&self) -> usize {
        self.0.lines.len()
    }
    fn word(&self, slot: usize, word: usize) -> &'static AtomicU64 {
        &self.0.lines[slot][word / 8]
    }
    fn gate_line(&self) -> GateLine {
        GateLine::default()
    }
    fn wait(&self, _: u32, _: u64) {}
    fn wait_for_turn(&self, _: u64, _: u64) {}
    fn wake_for_turn(&self, slot: usize) {
        self.0.woken.store(slot, SeqCst);
    }
}

/// Turns know nothing of the cap.
impl<T> Clock for One<T> {
    fn paid_at_ns(&self) -> u64 {
        0
    }
    fn replace_paid_at_ns(&self, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }
    fn share_ppm(&self) -> u64 {
        0
    }
    fn replace_share_ppm(&self, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }
    fn closed_until_ns(&self) -> u64 {
        0
    }
    fn set_closed_until_ns(&self, _: u64) {}
    fn saves(&self) -> u64 {
        0
    }
    fn set_saves(&self, _: u64) {}
}
