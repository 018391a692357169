//! The words of a usage file in plain memory, where each access can be checked: Miri runs these.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::thread;
use std::vec::Vec;

use super::*;
use crate::shared_table;

/// The bytes of one usage file, in the place of a mapping.
struct Plain {
    base: NonNull<u8>,
}

const LAYOUT: Layout = match Layout::from_size_align(usage::USAGE_BYTES, 4_096) {
    Ok(layout) => layout,
    Err(_) => panic!("a file has a size"),
};

impl Plain {
    fn new() -> Self {
        // SAFETY: the layout has a size.
        let base = unsafe { alloc_zeroed(LAYOUT) };
        Self { base: NonNull::new(base).unwrap_or_else(|| handle_alloc_error(LAYOUT)) }
    }

    /// Used for no longer than this lives.
    fn usage(&self) -> Usage {
        // SAFETY: so many bytes, which outlive what the tests do with them.
        unsafe { Usage::new(self.base.as_ptr()) }
    }

    /// With so many devices and slots.
    fn with(devices: usize, slots: usize) -> Self {
        let plain = Self::new();
        for row in 0..devices {
            plain.usage().u32_at(usage::device_at(row) + device::STATE).store(1, SeqCst);
        }
        plain.usage().raise_slots_high(slots - 1);
        plain
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and nothing refers to it any more.
        unsafe { dealloc(self.base.as_ptr(), LAYOUT) };
    }
}

fn held(usage: &Usage, row: usize, slot: usize) -> u64 {
    ledger::held_bytes(usage.line(row).held_word(slot))
}

#[test]
fn no_offset_leaves_the_file() {
    let plain = Plain::new();
    let usage = plain.usage();
    let last = usage::USAGE_BYTES - 8;
    for offset in [0, 1, 7, last - 1, last, last + 1, last + 8, usize::MAX - 7, usize::MAX] {
        usage.u64_at(offset).fetch_add(1, SeqCst);
        usage.u32_at(offset).fetch_add(1, SeqCst);
    }
    // A slot and a row that no process has: a number of a hostile neighbour's.
    usage.add_kind(usize::MAX >> 40, usize::MAX >> 40, MemoryKind::Shared, 5);
    let (word, bit) = usage.shared_user(usize::MAX >> 40, 1_023);
    assert_eq!((word.fetch_or(bit, SeqCst) & bit, bit), (0, 1 << 63));
}

#[test]
fn threads_ask_and_give_back_and_nothing_is_left() {
    // A sum may see what is granted just then twice.
    const LIMIT: u64 = 600;
    let plain = Plain::with(1, 4);
    let usage = plain.usage();
    let ask = |slot: usize| {
        let mut granted = 0;
        for _ in 0..20 {
            if let Some(total) = ledger::ask(&usage.line(0), slot, 100, LIMIT) {
                assert!(total <= LIMIT);
                usage.add_kind(0, slot, MemoryKind::Shared, 100);
                granted += 1;
                usage.take_kind(0, slot, MemoryKind::Shared, 100);
                ledger::give_back(&usage.line(0), slot, 100);
            }
        }
        granted
    };
    let granted: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (1..4).map(|slot| scope.spawn(move || ask(slot))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(granted, 60, "there is room for all");
    assert!((1..4).all(|slot| held(&usage, 0, slot) == 0));
}

#[test]
fn who_died_holds_nothing_and_what_it_used_stays_counted() {
    let plain = Plain::with(2, 3);
    let usage = plain.usage();
    ledger::hold(&usage.line(1), 2, 4_096);
    usage.u64_at(usage::line_at(1, 2) + line::PEAK).store(8_192, SeqCst);
    usage.u64_at(usage::line_at(1, 2) + line::REFUSALS).store(3, SeqCst);
    let total = gate::TOTALS[0];
    usage.u64_at(usage::gate_at(1, 2) + total).store(70, SeqCst);
    usage.u64_at(usage::gate_at(1, SHARED_SLOT) + total).store(7, SeqCst);
    usage.u32_at(usage::device_at(1) + device::MAY_LEAVE).store(1, SeqCst);
    let memory = |slot: usize, word: usize| usage.u64_at(usage::residence_at(1, slot) + word);
    memory(2, residence::AWAY_BYTES).store(9, SeqCst);
    memory(2, residence::OUT_BYTES).store(50, SeqCst);
    memory(SHARED_SLOT, residence::OUT_BYTES).store(5, SeqCst);
    usage.clear_slot(2);
    assert_eq!(held(&usage, 1, 2), 0);
    let kept = |word: usize| usage.u64_at(usage::line_at(1, SHARED_SLOT) + word).load(SeqCst);
    assert_eq!((kept(line::PEAK), kept(line::REFUSALS)), (8_192, 3));
    assert_eq!(usage.u64_at(usage::gate_at(1, SHARED_SLOT) + total).load(SeqCst), 77);
    assert_eq!(usage.u64_at(usage::gate_at(1, 2) + total).load(SeqCst), 0);
    let moved = |slot: usize, word: usize| memory(slot, word).load(SeqCst);
    let out = residence::OUT_BYTES;
    assert_eq!((moved(SHARED_SLOT, out), moved(2, out)), (55, 0));
    let away = residence::AWAY_BYTES;
    assert_eq!((moved(SHARED_SLOT, away), moved(2, away)), (0, 0), "what was away is gone");
}

#[test]
fn shared_memory_is_charged_until_the_last_lets_go() {
    let plain = Plain::with(1, 3);
    let usage = plain.usage();
    let handle = [9, 8, 7, 6, 5, 4, 3, 2];
    ledger::hold(&usage.line(0), 1, 1_000);
    let entry = shared_table::first_free(&usage).expect("none is in use");
    shared_table::export(&usage, entry, &handle, (0, 1), 1_000, MemoryKind::Shared);
    assert_eq!(shared_table::find(&usage, &handle), Some(entry));
    assert_eq!((held(&usage, 0, 1), held(&usage, 0, SHARED_SLOT)), (0, 1_000));
    let (word, bit) = usage.shared_user(entry, 2);
    word.fetch_or(bit, SeqCst);
    shared_table::forget_user(&usage, 1);
    shared_table::collect(&usage);
    assert_eq!(held(&usage, 0, SHARED_SLOT), 1_000, "the other refers to it");
    // Its bit is in the second of the words.
    let (word, bit) = usage.shared_user(entry, 70);
    word.fetch_or(bit, SeqCst);
    let second = usage.u64_at(usage::shared_at(entry) + shared::USERS + 8);
    assert_eq!(second.load(SeqCst), 1 << 6);
    shared_table::forget_user(&usage, 2);
    shared_table::collect(&usage);
    assert_eq!(held(&usage, 0, SHARED_SLOT), 1_000, "the third refers to it");
    shared_table::forget_user(&usage, 70);
    shared_table::collect(&usage);
    assert_eq!((held(&usage, 0, SHARED_SLOT), shared_table::find(&usage, &handle)), (0, None));
}
