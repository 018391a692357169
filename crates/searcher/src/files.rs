//! A tenant's words, in place of what the two mapped files hold, and where they come from.
//!
//! Promises: the words live as long as the host's thread, so that what is left on the stacks of killed
//! fibers may still name them; runs use them again, cleared. No look here is a site.
//!
//! Does not know what the words mean, nor who looks: that is [`crate::words`].

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use divvy_abi::config::GateLine;

/// Slots of a tenant: slot 0 is the tenant's own.
pub const SLOTS: usize = 64;
/// Words of a line.
pub(crate) const LINE: usize = 16;
/// Those of the owner's line that say something.
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
pub struct Files {
    rows: Vec<Row>,
    /// Processes that have a slot, by number: slot n + 1 is the n-th's.
    slots: AtomicU64,
}

impl Files {
    fn new(devices: usize) -> Self {
        let line = || [const { AtomicU64::new(0) }; LINE];
        let row =
            || Row { lines: [const { [const { AtomicU64::new(0) }; LINE] }; SLOTS], gate: line() };
        Self { rows: (0..devices).map(|_| row()).collect(), slots: AtomicU64::new(1) }
    }

    fn clear(&self) {
        for row in &self.rows {
            row.lines.iter().flatten().chain(&row.gate).for_each(|word| word.store(0, Relaxed));
        }
        self.slots.store(1, Relaxed);
    }

    /// A device's words.
    pub fn row(&self, device: usize) -> Option<&Row> {
        self.rows.get(device)
    }

    /// A process takes its slot, as it does when it joins the tenant: the n-th has slot n + 1; those that come
    /// when all are taken have none.
    pub fn take_slot(&self, process: u32) -> Option<usize> {
        let slot = process as usize + 1;
        if slot >= SLOTS {
            return None;
        }
        self.slots.fetch_max(slot as u64 + 1, AcqRel);
        Some(slot)
    }

    /// One more than the highest slot in use.
    pub fn slots_high(&self) -> usize {
        usize::try_from(self.slots.load(Acquire)).unwrap_or(SLOTS).min(SLOTS)
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

    /// What all of the tenant's processes were charged, in device time; no site.
    pub fn charged_ns(&self) -> u64 {
        let all =
            (1..SLOTS).map(|slot| self.word(slot, divvy_abi::usage::gate::USED_NS).load(Relaxed));
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
    static FREE: RefCell<Vec<&'static Files>> = const { RefCell::new(Vec::new()) };
}

/// Cleared files for so many devices.
pub(crate) fn take_files(devices: usize) -> &'static Files {
    let free = FREE.with_borrow_mut(|free| {
        let at = free.iter().position(|files| files.rows.len() == devices)?;
        Some(free.swap_remove(at))
    });
    let files = free.unwrap_or_else(|| Box::leak(Box::new(Files::new(devices))));
    files.clear();
    files
}

/// Gives them to the next run. Nothing of this one uses them any more.
pub(crate) fn give_back_files(files: &'static Files) {
    FREE.with_borrow_mut(|free| free.push(files));
}
