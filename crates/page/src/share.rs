//! A process's words of the compute share on one device, in the tenant's mapped files.
//!
//! Promises: a word is an atomic of the mapping, never a copy; the tenant's two words are changed by
//! compare-and-swap. No system call but a wait.
//!
//! Does not decide when to wait, nor what is charged or told: that is `divvy_policy`'s gate and pace.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use divvy_abi::MAX_DEVICES;
use divvy_abi::config::GateLine;
use divvy_abi::usage::{self, SHARED_SLOT, gate_tenant};
use divvy_policy::gate::Words;
use divvy_policy::pace::Clock;

use crate::fault;
use crate::live::Live;
use crate::sys;
use crate::usage::Usage;

/// The words of one device.
#[derive(Clone, Copy, Debug)]
pub struct ShareWords {
    pub(crate) usage: Usage,
    pub(crate) live: Live,
    pub(crate) row: usize,
    pub(crate) slot: usize,
}

impl ShareWords {
    fn tenant(&self, word: usize) -> &'static AtomicU64 {
        self.word(SHARED_SLOT, word)
    }

    /// The lower half of the turn's word, which holds all of it that a wait goes by.
    fn turn(&self) -> &'static AtomicU32 {
        self.usage.u32_at(usage::gate_at(self.row, SHARED_SLOT) + gate_tenant::TURN)
    }
}

/// By which a process's waiting threads are woken.
fn bit_of(slot: usize) -> u32 {
    1 << (slot % 32)
}

impl Words for ShareWords {
    fn slot(&self) -> usize {
        self.slot
    }
    fn slots_high(&self) -> usize {
        self.usage.slots_high()
    }
    fn word(&self, slot: usize, word: usize) -> &'static AtomicU64 {
        self.usage.u64_at(usage::gate_at(self.row, slot) + word)
    }
    /// Cost: eight loads of one cache line that is rarely written.
    fn gate_line(&self) -> GateLine {
        self.live.gate_line(self.row)
    }
    fn wait(&self, state: u32, deadline_ns: u64) {
        self.live.wait(self.row, state, deadline_ns);
    }
    fn wait_for_turn(&self, turn: u64, deadline_ns: u64) {
        sys::futex_wait(self.turn(), turn as u32, deadline_ns, bit_of(self.slot));
    }
    fn beside(&self, nth: usize) -> Option<Self> {
        (nth < MAX_DEVICES && self.usage.has_device(nth)).then_some(Self { row: nth, ..*self })
    }
    fn wake_for_turn(&self, slot: usize) {
        sys::futex_wake(self.turn().as_ptr().cast(), bit_of(slot));
    }
}

fn replace(word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    word.compare_exchange(old, new, Relaxed, Relaxed).map(|_| ())
}

impl Clock for ShareWords {
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
    fn saves(&self) -> u64 {
        self.tenant(gate_tenant::SAVES).load(Relaxed)
    }
    fn set_saves(&self, word: u64) {
        self.tenant(gate_tenant::SAVES).store(word, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_32_processes_has_a_bit_of_its_own_and_the_next_shares_the_first() {
        let all = (0..32).fold(0_u32, |all, slot| all | bit_of(slot));
        assert_eq!((all, bit_of(32), bit_of(70)), (u32::MAX, 1, 1 << 6));
    }
}
