//! Words of a tenant's processes about their memory: on a device, on the host, and the work that needs it.
//!
//! Promises: read only, and from memory but for what a process has of the host, of which [`MOST_COPIERS`] are looked at. All of
//! it is what processes claim. Does not judge it: that is [`super::memory`]'s.

use divvy_abi::config::FLAG_OVERSUBSCRIBE;
use divvy_abi::usage::SHARED_SLOT;
use divvy_page::ResidenceEntry;
use divvy_policy::turns::GateEntry;

use super::adopted::{Adopted, ReadDepth};
use super::memory_row::row_bit;
use crate::machine::host_memory;

/// Processes of a tenant whose copies are looked at.
const MOST_COPIERS: usize = 64;

impl Adopted {
    /// Whether its processes follow orders about their memory.
    pub(super) fn oversubscribes(&self) -> bool {
        let files = &self.served;
        files.config().flags & FLAG_OVERSUBSCRIBE != 0
            && self.hand().owner.version() == divvy_abi::ABI_VERSION
    }

    /// Processes of it that were alive, by pids of this daemon's own.
    pub(super) fn pids_here(&self) -> impl Iterator<Item = u32> {
        let ours = divvy_page::pid_namespace();
        self.living().filter(move |(namespace, _)| Some(*namespace) == ours).map(|(_, pid)| pid)
    }

    /// Bytes of the host that its processes say their copies take, as far as those have so much memory.
    pub(super) fn copies_bytes(&self) -> u64 {
        let Some(usage) = self.usage() else { return 0 };
        let ours = divvy_page::pid_namespace();
        let mut sum_bytes = 0_u64;
        for (slot, (namespace, pid)) in self.living_slots().zip(self.living()).take(MOST_COPIERS) {
            let rows = 0..self.served.lines().len();
            let said = rows.map(|row| usage.residence(row, slot));
            let (copies_bytes, all_bytes) = said.fold((0_u64, 0_u64), |(copies, all), entry| {
                let all = all.saturating_add(entry.movable_bytes);
                (copies.saturating_add(entry.copies_bytes), all)
            });
            if copies_bytes == 0 {
                continue;
            }
            // Of a process of another namespace it is not known which it is.
            let held_bytes = match Some(namespace) == ours {
                true => host_memory::held_by(pid).unwrap_or(0),
                false => all_bytes,
            };
            sum_bytes = sum_bytes.saturating_add(copies_bytes.min(held_bytes));
        }
        sum_bytes
    }

    /// Calls `each` with what living processes say of the memory that may leave device `row`; those of which a line is
    /// not empty are looked for anew if they are not known.
    pub(super) fn memory(&mut self, row: usize, mut each: impl FnMut(usize, ResidenceEntry)) {
        if self.has_unknown(row) {
            // Where this fails, the next round of all tenants tells.
            let _ = self.refresh(ReadDepth::Whole);
        }
        let Some(usage) = self.usage() else { return };
        for slot in self.living_slots() {
            each(slot, usage.residence(row, slot));
        }
    }

    /// Those of its rows of devices in `rows`, a bit each, on which the process in `slot` has memory that can leave.
    pub(super) fn has_memory(&self, slot: usize, rows: u32) -> u32 {
        let Some(usage) = self.usage() else { return 0 };
        let there = (0..self.served.lines().len())
            .filter(|row| rows & row_bit(*row) != 0 && usage.residence(*row, slot).movers != 0);
        there.fold(0, |mask, row| mask | row_bit(row))
    }

    /// Whether a process that is not known says something of its memory on device `row`.
    fn has_unknown(&self, row: usize) -> bool {
        let Some(usage) = self.usage() else { return false };
        let most = usage.slots_high().min(self.most_slots);
        let mut known = self.all_slots().peekable();
        (1..most).any(|slot| {
            while known.next_if(|other| *other < slot).is_some() {}
            let is_known = known.peek() == Some(&slot);
            !is_known && usage.residence(row, slot) != ResidenceEntry::default()
        })
    }

    /// The work of its living processes on device `row`.
    pub(super) fn work(&self, row: usize) -> GateEntry {
        let mut sum = GateEntry::default();
        if let Some(usage) = self.usage() {
            usage.gates(row, self.living_slots(), |slot, gate| {
                if slot != SHARED_SLOT {
                    sum = sum.with(gate);
                }
            });
        }
        sum
    }
}
