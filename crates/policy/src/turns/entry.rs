//! The compute share's line of one process on one device, as whoever is not that process reads it.
//!
//! Promises: any words make an entry, and sums of entries never panic. Does not know where the words
//! came from, nor who lives.

use divvy_abi::usage::{GATE_BYTES, SHARED_SLOT, gate, gate_tenant};

/// Words of a line.
pub const LINE_WORDS: usize = GATE_BYTES / 8;

/// One process's part in the compute share of a device, or the totals of those that have ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct GateEntry {
    /// When its work in flight will have ended, as far as it can tell; CLOCK_MONOTONIC.
    pub busy_until_ns: u64,
    /// When a thread of it was last waiting for a turn.
    pub want_ns: u64,
    /// When it last submitted work.
    pub last_launch_ns: u64,
    /// Device time charged.
    pub used_ns: u64,
    /// Launches, copies and fills charged.
    pub launches: u64,
    /// Its longest kernel or graph.
    pub longest_ns: u64,
    /// Time its threads waited for the cap.
    pub throttled_ns: u64,
    /// Time its threads waited for turns.
    pub waited_ns: u64,
    /// Drains given up.
    pub drains_given_up: u64,
    /// Threads that sleep until work in flight has ended.
    pub sleepers: u64,
}

impl GateEntry {
    /// Of the words of a line, in their order.
    pub fn of(words: &[u64; LINE_WORDS]) -> Self {
        let [
            busy_until_ns,
            want_ns,
            last_launch_ns,
            used_ns,
            launches,
            longest_ns,
            throttled_ns,
            waited_ns,
            drains_given_up,
            sleepers,
            ..,
        ] = *words;
        Self {
            busy_until_ns,
            want_ns,
            last_launch_ns,
            used_ns,
            launches,
            longest_ns,
            throttled_ns,
            waited_ns,
            drains_given_up,
            sleepers,
        }
    }

    /// Of a slot's line: of slot 0's the totals alone, since its other words are the tenant's own.
    pub fn of_slot(slot: usize, words: &[u64; LINE_WORDS]) -> Self {
        let all = Self::of(words);
        if slot == SHARED_SLOT { all.ended() } else { all }
    }

    /// The rest of it when its process has ended: the totals.
    #[must_use]
    pub fn ended(self) -> Self {
        Self { busy_until_ns: 0, want_ns: 0, last_launch_ns: 0, sleepers: 0, ..self }
    }

    /// This and another process's part together: the later of times, the sum of totals.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            busy_until_ns: self.busy_until_ns.max(other.busy_until_ns),
            want_ns: self.want_ns.max(other.want_ns),
            last_launch_ns: self.last_launch_ns.max(other.last_launch_ns),
            used_ns: self.used_ns.wrapping_add(other.used_ns),
            launches: self.launches.wrapping_add(other.launches),
            longest_ns: self.longest_ns.max(other.longest_ns),
            throttled_ns: self.throttled_ns.wrapping_add(other.throttled_ns),
            waited_ns: self.waited_ns.wrapping_add(other.waited_ns),
            drains_given_up: self.drains_given_up.wrapping_add(other.drains_given_up),
            sleepers: self.sleepers.saturating_add(other.sleepers),
        }
    }
}

/// The cap's clock of a tenant on one device.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CapEntry {
    /// When all that was charged is paid; CLOCK_MONOTONIC.
    pub paid_at_ns: u64,
    /// Until when the cap keeps the gate closed; 0 while it is open.
    pub closed_until_ns: u64,
    /// The share in force, in millionths; 0 before anything was charged.
    pub share_ppm: u64,
}

impl CapEntry {
    /// Of the words of slot 0's line.
    pub fn of(words: &[u64; LINE_WORDS]) -> Self {
        let [.., paid_at_ns, closed_until_ns, share_ppm, _, _, _] = *words;
        Self { paid_at_ns, closed_until_ns, share_ppm }
    }
}

const _: () = assert!(gate::BUSY_UNTIL_NS == 0 && gate::WANT_NS == 8 && gate::LAST_LAUNCH_NS == 16);
const _: () = assert!(gate::USED_NS == 24 && gate::LAUNCHES == 32 && gate::LONGEST_NS == 40);
const _: () = assert!(gate::THROTTLED_NS == 48 && gate::WAITED_NS == 56);
const _: () = assert!(gate::SLEEPERS == 72 && gate::WORDS == 16);
const _: () = assert!(gate_tenant::PAID_AT_NS == 80 && gate_tenant::CLOSED_UNTIL_NS == 88);
const _: () = assert!(gate_tenant::SHARE_PPM == 96 && gate_tenant::WORDS == 9);
const _: () = assert!(gate_tenant::LINKED_NS == 16 && gate_tenant::LATE_NS == 8);
const _: () = assert!(gate_tenant::AHEAD_NS == 0);
const _: () = assert!(LINE_WORDS == 16);
