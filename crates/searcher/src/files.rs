//! A tenant's words, in place of what the two mapped files hold, and where they come from.
//!
//! Promises: the words live as long as the host's thread, so that what is left on the stacks of killed
//! fibers may still name them; runs use them again, cleared. No look here is a site.
//!
//! Does not know what the words mean, nor who looks: that is [`crate::world::words`].

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use divvy_abi::config::GateLine;
use divvy_abi::usage::{SHARED_SLOT, gate};

/// Slots of a tenant: slot 0 is the tenant's own.
pub const SLOTS: usize = 64;
/// Slots of the dead that a process which joins frees, as `divvy_page` has it.
const REAPED_BY_A_CLAIM: usize = 8;
/// Words of a line.
pub(crate) const LINE: usize = 16;
/// Words of the owner's line that are in use.
pub(crate) const LINE_USED: usize = 8;

/// A tenant's words on one device.
#[derive(Debug)]
pub struct Row {
    lines: [[AtomicU64; LINE]; SLOTS],
    /// The owner's line, in the order of [`GateLine`].
    pub(crate) gate: [AtomicU64; LINE],
}

/// A tenant's files.
#[derive(Debug)]
pub struct SimFiles {
    rows: Vec<Row>,
    /// Owner of each slot: a process's number and 1; 0 for none.
    owners: [AtomicU64; SLOTS],
    /// One more than the highest slot that was ever taken.
    slots_high: AtomicU64,
}

impl SimFiles {
    fn new(devices: usize) -> Self {
        let line = || [const { AtomicU64::new(0) }; LINE];
        let row =
            || Row { lines: [const { [const { AtomicU64::new(0) }; LINE] }; SLOTS], gate: line() };
        let owners = [const { AtomicU64::new(0) }; SLOTS];
        Self { rows: (0..devices).map(|_| row()).collect(), owners, slots_high: AtomicU64::new(1) }
    }

    fn clear(&self) {
        for row in &self.rows {
            row.lines.iter().flatten().chain(&row.gate).for_each(|word| word.store(0, Relaxed));
        }
        self.owners.iter().for_each(|owner| owner.store(0, Relaxed));
        self.slots_high.store(1, Relaxed);
    }

    /// A device's words.
    pub fn row(&self, device: usize) -> Option<&Row> {
        self.rows.get(device)
    }

    /// A process takes a slot when it joins the tenant: the lowest free one, else the lowest of the dead; and it
    /// frees some of theirs. A process that comes when all are taken has none.
    pub fn take_slot(&self, process: u32, lives: impl Fn(u32) -> bool, now_ns: u64) {
        let is_free = |slot: &usize| self.owner(*slot).is_none();
        let is_dead = |slot: &usize| self.owner(*slot).is_some_and(|owner| !lives(owner));
        let slot = (1..SLOTS).find(is_free).or_else(|| (1..SLOTS).find(is_dead));
        let Some(slot) = slot else { return };
        self.free_slot(slot);
        if let Some(owner) = self.owners.get(slot) {
            owner.store(u64::from(process) + 1, Relaxed);
        }
        self.slots_high.fetch_max(slot as u64 + 1, AcqRel);
        let high = self.slots_high();
        let start = usize::try_from(now_ns).unwrap_or(0).checked_rem(high).unwrap_or(0);
        let taken = (start..high).chain(0..start).filter(|slot| !is_free(slot));
        let looked_at = taken.filter(|other| *other != slot).take(REAPED_BY_A_CLAIM);
        looked_at.filter(is_dead).for_each(|slot| self.free_slot(slot));
    }

    /// A slot is nobody's; what it used goes on in the tenant's own line.
    fn free_slot(&self, slot: usize) {
        if let Some(owner) = self.owners.get(slot) {
            owner.store(0, Relaxed);
        }
        for row in &self.rows {
            row.clear_slot(slot);
        }
    }

    /// The process that has a slot.
    pub fn owner(&self, slot: usize) -> Option<u32> {
        u32::try_from(self.owners.get(slot)?.load(Relaxed)).ok()?.checked_sub(1)
    }

    /// The slot that a process has.
    pub fn slot_of(&self, process: u32) -> Option<usize> {
        let is_its = |slot: &usize| self.owner(*slot) == Some(process);
        // Where none has died yet the n-th has slot n + 1.
        Some(process as usize + 1).filter(is_its).or_else(|| (1..SLOTS).find(is_its))
    }

    /// One more than the highest slot that was ever taken.
    pub fn slots_high(&self) -> usize {
        usize::try_from(self.slots_high.load(Acquire)).unwrap_or(SLOTS).min(SLOTS)
    }
}

impl Row {
    /// A word of a slot's line, by the offset that `divvy_abi::usage` names it by.
    pub fn word(&self, slot: usize, offset: usize) -> &AtomicU64 {
        let [first, ..] = &self.lines;
        let line = self.lines.get(slot).unwrap_or(first);
        let [word, ..] = line;
        line.get(offset / 8).unwrap_or(word)
    }

    /// A slot's line, as it is; no site.
    pub fn line(&self, slot: usize) -> [u64; LINE] {
        let [first, ..] = &self.lines;
        let line = self.lines.get(slot).unwrap_or(first);
        std::array::from_fn(|at| line.get(at).map_or(0, |word| word.load(Relaxed)))
    }

    /// Ends a slot's part in the compute share, as `divvy_page` does.
    fn clear_slot(&self, slot: usize) {
        for total in gate::TOTALS {
            let ended = self.word(slot, total).swap(0, Relaxed);
            self.word(SHARED_SLOT, total).fetch_add(ended, Relaxed);
        }
        let longest_ns = self.word(slot, gate::LONGEST_NS).swap(0, Relaxed);
        self.word(SHARED_SLOT, gate::LONGEST_NS).fetch_max(longest_ns, Relaxed);
        (0..LINE).for_each(|at| self.word(slot, at * 8).store(0, Relaxed));
    }

    /// Device time charged to all of the tenant's processes, living and ended; no site.
    pub fn charged_ns(&self) -> u64 {
        let all = (0..SLOTS).map(|slot| self.word(slot, gate::USED_NS).load(Relaxed));
        all.fold(0, u64::wrapping_add)
    }

    /// The owner's line, as it is; no site.
    pub fn gate_line(&self) -> GateLine {
        line_of(std::array::from_fn(|at| self.gate.get(at).map_or(0, |word| word.load(Acquire))))
    }

    /// Writes the owner's line, a word at a time, the gate's own last; no site.
    pub fn put_gate(&self, line: &GateLine) {
        let first = u64::from(line.active) << 32 | u64::from(line.gate);
        let words = [
            first,
            line.epoch,
            line.lease_ns,
            line.turn_end_ns,
            line.t_open_ns,
            line.quantum_ns,
            line.horizon_ns,
            line.strangers,
        ];
        for (at, word) in self.gate.iter().zip(words).skip(1) {
            at.store(word, Relaxed);
        }
        self.gate[0].store(first, Relaxed);
    }

    /// The gate's word.
    pub fn state(&self) -> u32 {
        (self.gate[0].load(Acquire) & 0xffff_ffff) as u32
    }
}

/// The owner's line of its words.
pub(crate) fn line_of(words: [u64; LINE]) -> GateLine {
    let [first, epoch, lease_ns, turn_end_ns, t_open_ns, quantum_ns, horizon_ns, strangers, ..] =
        words;
    GateLine {
        gate: (first & 0xffff_ffff) as u32,
        active: (first >> 32) as u32,
        epoch,
        lease_ns,
        turn_end_ns,
        t_open_ns,
        quantum_ns,
        horizon_ns,
        strangers,
        reserved: [0; 8],
    }
}

thread_local! {
    /// Files of runs that have ended.
    static FREE: RefCell<Vec<&'static SimFiles>> = const { RefCell::new(Vec::new()) };
}

/// Cleared files for so many devices.
pub(crate) fn take_files(devices: usize) -> &'static SimFiles {
    let free = FREE.with_borrow_mut(|free| {
        let at = free.iter().position(|files| files.rows.len() == devices)?;
        Some(free.swap_remove(at))
    });
    let files = free.unwrap_or_else(|| Box::leak(Box::new(SimFiles::new(devices))));
    files.clear();
    files
}

/// Gives them to the next run. Nothing of this one uses them any more.
pub(crate) fn give_back_files(files: &'static SimFiles) {
    FREE.with_borrow_mut(|free| free.push(files));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `divvy_page` hands them out: the lowest that is free, the dead's where none is, and each that joins frees some.
    #[test]
    fn slots_of_the_dead_are_handed_out_again_and_what_they_used_is_kept() {
        let files = take_files(1);
        let row = files.row(0).expect("one");
        (0..3).for_each(|process| files.take_slot(process, |_| true, 0));
        assert_eq!([0, 1, 2].map(|process| files.slot_of(process)), [Some(1), Some(2), Some(3)]);
        row.word(2, gate::USED_NS).store(7, Relaxed);
        row.word(2, gate::TURN).store(9, Relaxed);
        // The second has died: whoever comes takes the next that is free, and frees the dead one's.
        files.take_slot(3, |process| process != 1, 0);
        assert_eq!((files.slot_of(3), files.owner(2)), (Some(4), None));
        assert_eq!((row.word(2, gate::TURN).load(Relaxed), row.charged_ns()), (0, 7));
        files.take_slot(4, |_| true, 0);
        assert_eq!((files.slot_of(4), files.slots_high()), (Some(2), 5));
        // All are taken, by the living: there is none.
        (5..SLOTS as u32 + 5).for_each(|process| files.take_slot(process, |_| true, 0));
        assert_eq!((files.slots_high(), files.slot_of(SLOTS as u32 + 4)), (SLOTS, None));
        files.take_slot(100, |process| process != 2, 0);
        assert_eq!((files.slot_of(100), files.slot_of(2)), (Some(3), None));
        give_back_files(files);
    }
}
