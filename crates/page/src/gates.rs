//! The compute share's lines, as the owner's side reads them.
//!
//! Promises: the lines of a tenant with few processes cost one `pread`, its own words included; what
//! the file does not have reads as zero. A line's words may be of different instants.

use divvy_abi::usage::{self, GATE_BYTES, SHARED_SLOT, gate, gate_tenant};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};

use crate::reader::{Living, UsageFile};

/// Words of a line.
const LINE_WORDS: usize = GATE_BYTES / 8;

/// Lines that are read at once: most tenants have fewer processes.
const AT_ONCE: usize = 8;

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
    /// What is left of it when its process has ended: the totals.
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

impl GateEntry {
    /// Of the words of a line, in their order.
    fn of(words: &[u64; LINE_WORDS]) -> Self {
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
}

impl CapEntry {
    /// Of the words of slot 0's line.
    fn of(words: &[u64; LINE_WORDS]) -> Self {
        let [.., paid_at_ns, closed_until_ns, share_ppm, _, _, _] = *words;
        Self { paid_at_ns, closed_until_ns, share_ppm }
    }
}

impl UsageFile {
    /// The compute share of the device in `row`: all processes, living and ended, together.
    ///
    /// Of the dead the totals alone count.
    ///
    /// Cost: one `pread` for each eight slots below [`UsageFile::slots_high`], and a look at the lock of
    /// each process that has worked.
    pub fn gate_sum(&self, row: usize) -> GateEntry {
        let (mut sum, mut living) = (GateEntry::default(), Living::of(self));
        self.gates(row, 1..self.slots_high(), |slot, gate| {
            let is_ended = gate != gate.ended() && slot != SHARED_SLOT && !living.has(slot);
            sum = sum.with(if is_ended { gate.ended() } else { gate });
        });
        sum
    }

    /// Calls `each` with the lines of slot 0 and of `slots` on the device in `row`; the cap's clock.
    ///
    /// Cost: one `pread` for each eight slots in order, at most 1 KiB.
    pub fn gates(
        &self,
        row: usize,
        slots: impl IntoIterator<Item = usize>,
        mut each: impl FnMut(usize, GateEntry),
    ) -> CapEntry {
        let mut cap = None;
        let slots = slots.into_iter().filter(|slot| *slot < MAX_SLOTS);
        let mut slots = core::iter::once(SHARED_SLOT).chain(slots).peekable();
        while let Some(first) = slots.peek().copied() {
            let (mut wanted, mut last) = ([false; AT_ONCE], first);
            let block = first..first.saturating_add(AT_ONCE);
            while let Some(slot) = slots.next_if(|slot| block.contains(slot)) {
                if let Some(is_wanted) = wanted.get_mut(slot - first) {
                    *is_wanted = true;
                }
                last = last.max(slot);
            }
            let mut bytes = [[[0_u8; 8]; LINE_WORDS]; AT_ONCE];
            let at = usage::gate_at(row.min(MAX_DEVICES - 1), first);
            let into = bytes.get_mut(..=last - first).unwrap_or_default();
            self.read(into.as_flattened_mut().as_flattened_mut(), at);
            for ((line, slot), is_wanted) in bytes.iter().zip(first..).zip(wanted) {
                if is_wanted {
                    let words = line.map(u64::from_ne_bytes);
                    cap = cap.or_else(|| Some(CapEntry::of(&words)));
                    each(slot, GateEntry::of(&words));
                }
            }
        }
        cap.unwrap_or_default()
    }

    /// The part of `slot` in the compute share of the device in `row`.
    pub fn gate(&self, row: usize, slot: usize) -> GateEntry {
        let at = usage::gate_at(row.min(MAX_DEVICES - 1), slot.min(MAX_SLOTS - 1));
        GateEntry::of(&self.words(at))
    }

    /// The cap's clock of the device in `row`.
    pub fn cap(&self, row: usize) -> CapEntry {
        CapEntry::of(&self.words(usage::gate_at(row.min(MAX_DEVICES - 1), SHARED_SLOT)))
    }
}

const _: () = assert!(gate::BUSY_UNTIL_NS == 0 && gate::WANT_NS == 8 && gate::LAST_LAUNCH_NS == 16);
const _: () = assert!(gate::USED_NS == 24 && gate::LAUNCHES == 32 && gate::LONGEST_NS == 40);
const _: () = assert!(gate::THROTTLED_NS == 48 && gate::WAITED_NS == 56);
const _: () = assert!(gate::SLEEPERS == 72 && gate::WORDS == 10);
const _: () = assert!(gate_tenant::PAID_AT_NS == 80 && gate_tenant::CLOSED_UNTIL_NS == 88);
const _: () = assert!(gate_tenant::SHARE_PPM == 96 && gate_tenant::WORDS == 3);
const _: () = assert!(LINE_WORDS == 16);
