//! The compute share's lines, as the owner's side reads them.
//!
//! Promises: the lines of a tenant with few processes cost one `pread`, its own words included; what
//! the file does not have reads as zero. A line's words may be of different instants.

use divvy_abi::usage::{self, SHARED_SLOT};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};
use divvy_policy::turns::{CapEntry, GateEntry, LINE_WORDS};

use crate::reader::{Living, UsageFile};

/// Lines that are read at once: most tenants have fewer processes.
const AT_ONCE: usize = 8;

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
                    each(slot, GateEntry::of_slot(slot, &words));
                }
            }
        }
        cap.unwrap_or_default()
    }

    /// The part of `slot` in the compute share of the device in `row`.
    pub fn gate(&self, row: usize, slot: usize) -> GateEntry {
        let at = usage::gate_at(row.min(MAX_DEVICES - 1), slot.min(MAX_SLOTS - 1));
        GateEntry::of_slot(slot, &self.words(at))
    }

    /// The cap's clock of the device in `row`.
    pub fn cap(&self, row: usize) -> CapEntry {
        CapEntry::of(&self.words(usage::gate_at(row.min(MAX_DEVICES - 1), SHARED_SLOT)))
    }
}
