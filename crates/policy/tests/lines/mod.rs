//! The lines of a tenant in memory: those of a usage file, with what a test keeps beside them.

#[cfg(not(shuttle))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use divvy_abi::config::GateLine;
use divvy_abi::usage::{SHARED_SLOT, gate_tenant};
use divvy_policy::gate::Words;
use divvy_policy::pace::Clock;
#[cfg(shuttle)]
use shuttle::sync::atomic::AtomicU64;

/// The tenant's owner, and the waits for it and for the tenant's turn, of the process in a slot.
pub(crate) trait Owner: std::fmt::Debug {
    fn gate_line(&self, slot: usize) -> GateLine;
    fn wait(&self, slot: usize, state: u32, deadline_ns: u64);
    /// Waits while `is_closed`, at most until the deadline.
    fn wait_for_turn(&self, slot: usize, is_closed: &dyn Fn() -> bool, deadline_ns: u64);
}

/// Nobody owns it, and waits return at once.
impl Owner for () {
    fn gate_line(&self, _: usize) -> GateLine {
        GateLine::default()
    }
    fn wait(&self, _: usize, _: u32, _: u64) {}
    fn wait_for_turn(&self, _: usize, _: &dyn Fn() -> bool, _: u64) {}
}

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

impl<T> One<T> {
    fn tenant(&self, word: usize) -> &'static AtomicU64 {
        &self.0.lines[SHARED_SLOT][word / 8]
    }
}

impl<T: Owner> Words for One<T> {
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
        self.0.beside.gate_line(self.1)
    }
    fn wait(&self, state: u32, deadline_ns: u64) {
        self.0.beside.wait(self.1, state, deadline_ns);
    }
    fn wait_for_turn(&self, turn: u64, deadline_ns: u64) {
        let is_closed = || self.tenant(gate_tenant::TURN).load(Relaxed) as u32 == turn as u32;
        self.0.beside.wait_for_turn(self.1, &is_closed, deadline_ns);
    }
    fn wake_for_turn(&self, slot: usize) {
        self.0.woken.store(slot, SeqCst);
    }
    fn beside(&self, nth: usize) -> Option<Self> {
        (nth == 0).then_some(*self)
    }
}

fn replace(word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    word.compare_exchange(old, new, Relaxed, Relaxed).map(|_| ())
}

impl<T> Clock for One<T> {
    fn paid_at_ns(&self) -> u64 {
        self.tenant(gate_tenant::PAID_AT_NS).load(Relaxed)
    }
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64> {
        replace(self.tenant(gate_tenant::PAID_AT_NS), old, new)
    }
    fn share_ppm(&self) -> u64 {
        self.tenant(gate_tenant::SHARE_PPM).load(Relaxed)
    }
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64> {
        replace(self.tenant(gate_tenant::SHARE_PPM), old, new)
    }
    fn closed_until_ns(&self) -> u64 {
        self.tenant(gate_tenant::CLOSED_UNTIL_NS).load(Relaxed)
    }
    fn set_closed_until_ns(&self, until_ns: u64) {
        self.tenant(gate_tenant::CLOSED_UNTIL_NS).store(until_ns, Relaxed);
    }
    fn saves(&self) -> u64 {
        self.tenant(gate_tenant::SAVES).load(Relaxed)
    }
    fn set_saves(&self, word: u64) {
        self.tenant(gate_tenant::SAVES).store(word, Relaxed);
    }
}
