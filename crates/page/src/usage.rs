//! The mapped usage file as atomic words.
//!
//! Offsets come from `divvy-abi`; every access is an atomic of the right size inside the mapping, so
//! nothing here can be torn, and a hostile neighbour in the same tenant can change values but never
//! make an access leave the mapping. No reference to the bytes themselves is ever made.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use divvy_abi::usage::{
    self, MemoryKind, SHARED_SLOT, device, gate, line, residence, shared, slot,
};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS, Uuid};
use divvy_policy::ledger::{self, Slots};

use crate::fault;

/// The mapping of one usage file. Never unmapped.
///
/// Any offset leads into the mapping, but the size of an access is its caller's to choose, and Rust's model has no
/// race of two sizes. So the words keep a contract of this crate's, which no type holds:
/// 1. An offset is one of `divvy_abi::usage`, whose tables give each word one size: it is accessed in that one.
/// 2. The lower half of a turn's word, of which `share` makes a reference, is named to the kernel and not accessed.
/// 3. Accesses of another process, in whatever size, are not Rust's: its stores leave values like any other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    base: *mut u8,
}

// SAFETY: the pointer is to a mapping that is never taken down, and all access is atomic.
unsafe impl Send for Usage {}
// SAFETY: as above.
unsafe impl Sync for Usage {}

impl Usage {
    /// # Safety
    /// 1. `base` is a mapping of at least [`usage::USAGE_BYTES`] readable and writable bytes.
    /// 2. It stays for as long as a copy of this value or one of its words is used.
    pub(crate) const unsafe fn new(base: *mut u8) -> Self {
        Self { base }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// The word at `offset`; offsets beyond the file are taken as the last word of the header, which
    /// nothing uses.
    pub(crate) fn u64_at(&self, offset: usize) -> &'static AtomicU64 {
        let safe = if offset <= usage::USAGE_BYTES - 8 { offset & !7 } else { SPARE_AT };
        // SAFETY: `safe` is 8-aligned and 8 bytes from it lie inside the mapping (`new`), which
        // lives for ever and is only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.base.wrapping_add(safe).cast()) }
    }

    pub(crate) fn u32_at(&self, offset: usize) -> &'static AtomicU32 {
        let safe = if offset <= usage::USAGE_BYTES - 4 { offset & !3 } else { SPARE_AT };
        // SAFETY: `safe` is 4-aligned and 4 bytes from it lie inside the mapping (`new`), which
        // lives for ever and is only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.base.wrapping_add(safe).cast()) }
    }

    /// Copies `words` 8-byte words out.
    pub(crate) fn read_words<const N: usize>(&self, offset: usize) -> [u64; N] {
        core::array::from_fn(|index| self.u64_at(offset + 8 * index).load(SeqCst))
    }

    /// Copies words in.
    pub(crate) fn write_words(&self, offset: usize, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            fault::point();
            self.u64_at(offset + 8 * index).store(*word, SeqCst);
        }
    }

    pub(crate) fn slots_high(&self) -> usize {
        (self.u32_at(usage::SLOTS_HIGH_AT).load(SeqCst) as usize).clamp(1, MAX_SLOTS)
    }

    pub(crate) fn raise_slots_high(&self, slot: usize) {
        fault::point();
        let high = u32::try_from(slot + 1).unwrap_or(u32::MAX);
        self.u32_at(usage::SLOTS_HIGH_AT).fetch_max(high, SeqCst);
    }

    pub(crate) fn slot_state(&self, index: usize) -> u32 {
        self.u32_at(usage::slot_at(index) + slot::STATE).load(SeqCst)
    }

    pub(crate) fn set_slot_state(&self, index: usize, state: u32) {
        fault::point();
        self.u32_at(usage::slot_at(index) + slot::STATE).store(state, SeqCst);
    }

    pub(crate) fn has_device(&self, row: usize) -> bool {
        self.u32_at(usage::device_at(row) + device::STATE).load(SeqCst) != 0
    }

    pub(crate) fn device_uuid(&self, row: usize) -> Option<Uuid> {
        let at = usage::device_at(row);
        if !self.has_device(row) {
            return None;
        }
        let words: [u64; 2] = self.read_words(at + device::UUID);
        let mut uuid = [0; 16];
        for (to, byte) in uuid.iter_mut().zip(words.iter().flat_map(|word| word.to_ne_bytes())) {
            *to = byte;
        }
        Some(uuid)
    }

    /// Takes everything from `slot`, on every device in use; the tenant's peak and refusals go on in
    /// the pseudo slot. The caller holds the slot's lock.
    pub(crate) fn clear_slot(&self, slot: usize) {
        for row in 0..MAX_DEVICES {
            if self.has_device(row) {
                ledger::clear(&self.line(row), slot);
                let at = usage::line_at(row, slot);
                let kept = usage::line_at(row, SHARED_SLOT);
                let peak_bytes = self.u64_at(at + line::PEAK).load(SeqCst);
                self.u64_at(kept + line::PEAK).fetch_max(peak_bytes, SeqCst);
                let refusals = self.u64_at(at + line::REFUSALS).load(SeqCst);
                self.u64_at(kept + line::REFUSALS).fetch_add(refusals, SeqCst);
                for word in (line::PEAK..usage::LINE_BYTES).step_by(8) {
                    self.u64_at(at + word).store(0, SeqCst);
                }
                self.clear_gate(row, slot);
            }
            if self.may_leave(row) {
                self.clear_residence(row, slot);
            }
        }
    }

    /// Whether memory may leave the device in `row`, and its lines may be touched.
    pub(crate) fn may_leave(&self, row: usize) -> bool {
        self.u32_at(usage::device_at(row) + device::MAY_LEAVE).load(SeqCst) == 1
    }

    /// Takes `slot`'s words about memory that may leave; what has moved goes on in slot 0's totals.
    fn clear_residence(&self, row: usize, slot: usize) {
        let at = usage::residence_at(row, slot);
        let kept = usage::residence_at(row, SHARED_SLOT);
        for word in residence::TOTALS {
            // Taken before it is added, as below.
            let total = self.u64_at(at + word).swap(0, SeqCst);
            fault::point();
            self.u64_at(kept + word).fetch_add(total, SeqCst);
        }
        for word in 0..residence::WORDS {
            self.u64_at(at + 8 * word).store(0, SeqCst);
        }
    }

    /// Ends `slot`'s part in the compute share; what it used goes on in slot 0's totals.
    fn clear_gate(&self, row: usize, slot: usize) {
        let at = usage::gate_at(row, slot);
        let kept = usage::gate_at(row, SHARED_SLOT);
        for word in gate::TOTALS {
            // Taken before it is added: killed in between, the totals are short and never double.
            let total = self.u64_at(at + word).swap(0, SeqCst);
            fault::point();
            self.u64_at(kept + word).fetch_add(total, SeqCst);
        }
        let longest_ns = self.u64_at(at + gate::LONGEST_NS).swap(0, SeqCst);
        self.u64_at(kept + gate::LONGEST_NS).fetch_max(longest_ns, SeqCst);
        let ended = [
            gate::BUSY_UNTIL_NS,
            gate::WANT_NS,
            gate::LAST_LAUNCH_NS,
            gate::SLEEPERS,
            gate::LEASE_NS,
            gate::TURN_FROM_NS,
            gate::SERVED_NS,
            gate::TURN,
            gate::UNSETTLED_NS,
            gate::JOINED,
        ];
        for word in ended {
            self.u64_at(at + word).store(0, SeqCst);
        }
    }

    pub(crate) fn add_kind(&self, row: usize, slot: usize, kind: MemoryKind, bytes: u64) {
        fault::point();
        let at = usage::line_at(row, slot) + line::KINDS + 8 * kind as usize;
        self.u64_at(at).fetch_add(bytes, SeqCst);
    }

    pub(crate) fn set_kind(&self, row: usize, slot: usize, kind: MemoryKind, bytes: u64) {
        let at = usage::line_at(row, slot) + line::KINDS + 8 * kind as usize;
        if self.u64_at(at).load(SeqCst) != bytes {
            self.u64_at(at).store(bytes, SeqCst);
        }
    }

    pub(crate) fn take_kind(&self, row: usize, slot: usize, kind: MemoryKind, bytes: u64) {
        fault::point();
        let at = usage::line_at(row, slot) + line::KINDS + 8 * kind as usize;
        let less = |held: u64| Some(held.saturating_sub(bytes));
        let _ = self.u64_at(at).fetch_update(SeqCst, SeqCst, less);
    }

    pub(crate) fn line(&self, row: usize) -> LedgerRow {
        LedgerRow { usage: *self, row }
    }

    pub(crate) fn shared_user(&self, entry: usize, user: usize) -> (&'static AtomicU64, u64) {
        let at = usage::shared_at(entry) + shared::USERS + 8 * (user / 64);
        (self.u64_at(at), 1 << (user % 64))
    }
}

/// Last word of the header; never read.
const SPARE_AT: usize = usage::HEADER_BYTES - 8;

/// One device's row, as the ledger sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerRow {
    usage: Usage,
    row: usize,
}

impl Slots for LedgerRow {
    fn high(&self) -> usize {
        self.usage.slots_high()
    }
    fn asking(&self, slot: usize) -> u64 {
        self.usage.u64_at(usage::line_at(self.row, slot) + line::ASKING).load(SeqCst)
    }
    fn held_word(&self, slot: usize) -> u64 {
        self.usage.u64_at(usage::line_at(self.row, slot) + line::HELD).load(SeqCst)
    }
    fn add_asking(&self, slot: usize, delta: u64) {
        fault::point();
        let word = self.usage.u64_at(usage::line_at(self.row, slot) + line::ASKING);
        word.fetch_add(delta, SeqCst);
    }
    fn add_held_word(&self, slot: usize, delta: u64) {
        fault::point();
        let word = self.usage.u64_at(usage::line_at(self.row, slot) + line::HELD);
        word.fetch_add(delta, SeqCst);
    }
    fn replace_held_word(&self, slot: usize, old: u64, new: u64) -> Result<(), u64> {
        fault::point();
        let word = self.usage.u64_at(usage::line_at(self.row, slot) + line::HELD);
        word.compare_exchange(old, new, SeqCst, SeqCst).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
