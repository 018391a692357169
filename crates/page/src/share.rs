//! A process's words of the compute share on one device.
//!
//! Promises: its own line is written by this process alone, with plain loads and stores of atomic
//! words; the tenant's two words are changed by compare-and-swap. No system call but a wait.
//!
//! Does not decide when to wait, nor what is charged: that is `divvy_policy`'s gate and pace.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use divvy_abi::config::GateLine;
use divvy_abi::usage::{self, SHARED_SLOT, gate, gate_tenant};
use divvy_policy::pace::Clock;

use crate::fault;
use crate::live::Live;
use crate::usage::Usage;

/// Slots that are looked at for who is at work.
const LOOKED_AT: usize = 64;

/// A process that sleeps this long after its last launch may sleep for anything.
const OVERDUE_NS: u64 = 5_000_000;

/// The words of one device.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub(crate) usage: Usage,
    pub(crate) live: Live,
    pub(crate) row: usize,
    pub(crate) slot: usize,
}

impl Share {
    fn own(&self, word: usize) -> &'static AtomicU64 {
        self.usage.u64_at(usage::gate_at(self.row, self.slot) + word)
    }

    fn tenant(&self, word: usize) -> &'static AtomicU64 {
        self.usage.u64_at(usage::gate_at(self.row, SHARED_SLOT) + word)
    }

    /// The owner's line.
    ///
    /// Cost: eight loads of one cache line that is rarely written.
    pub fn gate_line(&self) -> GateLine {
        self.live.gate_line(self.row)
    }

    /// Waits while the gate's word is `state`, at most until `deadline_ns` on CLOCK_MONOTONIC.
    pub fn wait(&self, state: u32, deadline_ns: u64) {
        self.live.wait(self.row, state, deadline_ns);
    }

    /// [`gate::BUSY_UNTIL_NS`].
    pub fn busy_until_ns(&self) -> &'static AtomicU64 {
        self.own(gate::BUSY_UNTIL_NS)
    }

    /// Other living processes of the tenant that have work on the device at `now_ns`, as far as their
    /// lines tell: one that sleeps until its work has ended may have it for longer than was expected.
    ///
    /// Cost: a load or three for each slot that was ever in use, of the first 64: the lowest
    /// free slot is the next to be taken.
    pub fn others_at_work(&self, now_ns: u64) -> u32 {
        let word = |slot, word: usize| {
            self.usage.u64_at(usage::gate_at(self.row, slot) + word).load(Relaxed)
        };
        let is_at_work = |slot: &usize| {
            word(*slot, gate::BUSY_UNTIL_NS) > now_ns
                || (word(*slot, gate::SLEEPERS) != 0
                    && word(*slot, gate::LAST_LAUNCH_NS).saturating_add(OVERDUE_NS) > now_ns)
        };
        let others = (1..self.usage.slots_high().min(LOOKED_AT)).filter(|slot| *slot != self.slot);
        u32::try_from(others.filter(is_at_work).count()).unwrap_or(u32::MAX)
    }

    /// Notes that a thread waits for a turn at `now_ns`.
    pub fn note_want(&self, now_ns: u64) {
        self.own(gate::WANT_NS).store(now_ns, Relaxed);
    }

    /// Notes work submitted at `now_ns`.
    pub fn note_launch(&self, now_ns: u64) {
        self.own(gate::LAST_LAUNCH_NS).store(now_ns, Relaxed);
    }

    /// Adds to the device time charged; a correction may be negative.
    pub fn add_used(&self, ns: i64) {
        // Wrapping: a negative correction is added as its complement.
        self.own(gate::USED_NS).fetch_add(ns.cast_unsigned(), Relaxed);
    }

    /// Counts launches.
    pub fn count_launches(&self, launches: u64) {
        self.own(gate::LAUNCHES).fetch_add(launches, Relaxed);
    }

    /// Says, until the answer is dropped, that a thread sleeps until work in flight has ended.
    pub fn sleeper(&self) -> Sleeper {
        let word = self.own(gate::SLEEPERS);
        word.fetch_add(1, Relaxed);
        Sleeper(word)
    }

    /// Notes a kernel's or graph's length.
    pub fn note_length(&self, ns: u64) {
        self.own(gate::LONGEST_NS).fetch_max(ns, Relaxed);
    }

    /// Adds to the time threads waited for the cap.
    pub fn add_throttled(&self, ns: u64) {
        self.own(gate::THROTTLED_NS).fetch_add(ns, Relaxed);
    }

    /// Adds to the time threads waited for turns.
    pub fn add_waited(&self, ns: u64) {
        self.own(gate::WAITED_NS).fetch_add(ns, Relaxed);
    }

    /// Counts a drain that was given up.
    pub fn count_drain_given_up(&self) {
        self.own(gate::DRAINS_GIVEN_UP).fetch_add(1, Relaxed);
    }
}

/// A thread that sleeps until work in flight has ended; see [`Share::sleeper`].
#[derive(Debug)]
#[must_use = "the thread counts as awake when this is dropped"]
pub struct Sleeper(&'static AtomicU64);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn replace(word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    word.compare_exchange(old, new, Relaxed, Relaxed).map(|_| ())
}

impl Clock for Share {
    fn paid_at_ns(&self) -> u64 {
        self.tenant(gate_tenant::PAID_AT_NS).load(Relaxed)
    }
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64> {
        fault::point();
        replace(self.tenant(gate_tenant::PAID_AT_NS), old, new)
    }
    fn share_ppm(&self) -> u64 {
        self.tenant(gate_tenant::SHARE_PPM).load(Relaxed)
    }
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64> {
        fault::point();
        replace(self.tenant(gate_tenant::SHARE_PPM), old, new)
    }
    fn closed_until_ns(&self) -> u64 {
        self.tenant(gate_tenant::CLOSED_UNTIL_NS).load(Relaxed)
    }
    fn set_closed_until_ns(&self, until_ns: u64) {
        fault::point();
        self.tenant(gate_tenant::CLOSED_UNTIL_NS).store(until_ns, Relaxed);
    }
}
