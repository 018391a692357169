//! Memory shared by legacy IPC or by descriptor: charged once, while any living process refers to it.
//!
//! An exporter's charge moves to the pseudo slot, with an entry keyed by 64 bytes (legacy IPC's handle)
//! and one bit for each slot that refers to it. When the last one lets go or dies, the charge goes.
//!
//! Entries and the pseudo slot change under the admission lock only, but for one thing: who clears a
//! dead slot takes its bits away at once. The table alone is the truth; [`collect`] frees what nobody
//! refers to and sets the pseudo slot to the sum of the rest, so a process killed between two steps
//! leaves nothing that the next one does not mend.

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::{self, Kind, MAX_SHARED, SHARED_SLOT, shared};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};
use divvy_policy::ledger::{self, Slots as _, held_bytes};

use crate::fault;
use crate::usage::Usage;

/// The 64 bytes of a `CUipcMemHandle`, as words.
pub(crate) type Handle = [u64; 8];

pub(crate) fn handle(bytes: &[u8; 64]) -> Handle {
    core::array::from_fn(|index| {
        let part = bytes.get(8 * index..8 * index + 8).and_then(|part| part.first_chunk());
        u64::from_ne_bytes(part.copied().unwrap_or_default())
    })
}

fn find(usage: &Usage, handle: &Handle) -> Option<usize> {
    (0..MAX_SHARED).find(|entry| {
        let at = usage::shared_at(*entry);
        is_in_use(usage, *entry) && usage.read_words::<8>(at + shared::HANDLE) == *handle
    })
}

fn is_in_use(usage: &Usage, entry: usize) -> bool {
    usage.u32_at(usage::shared_at(entry) + shared::STATE).load(SeqCst) != 0
}

/// Enters `handle` with `user` as its first referrer and moves `bytes` from the user's charge to the
/// pseudo slot. False when it was there already or the table is full: the charge then stays.
pub(crate) fn export(
    usage: &Usage,
    handle: &Handle,
    row: usize,
    user: usize,
    bytes: u64,
    kind: Kind,
) -> bool {
    collect(usage);
    if find(usage, handle).is_some() {
        return false;
    }
    let Some(entry) = (0..MAX_SHARED).find(|entry| !is_in_use(usage, *entry)) else {
        return false;
    };
    let at = usage::shared_at(entry);
    usage.u32_at(at + shared::ROW).store(u32::try_from(row).unwrap_or(0), SeqCst);
    usage.u64_at(at + shared::BYTES).store(bytes, SeqCst);
    usage.write_words(at + shared::HANDLE, handle);
    usage.write_words(at + shared::USERS, &[0; MAX_SLOTS / 64]);
    let (word, bit) = usage.shared_user(entry, user);
    word.store(bit, SeqCst);
    fault::point();
    usage.u32_at(at + shared::STATE).store(1, SeqCst);
    // Held by the pseudo slot before it is given back: a sum may see it twice, never not at all.
    collect(usage);
    ledger::give_back(&usage.line(row), user, bytes);
    usage.take_kind(row, user, kind, bytes);
    true
}

/// Adds `user` to the referrers of `handle`; false when nobody of this tenant exported it.
pub(crate) fn open(usage: &Usage, handle: &Handle, user: usize) -> bool {
    let Some(entry) = find(usage, handle) else { return false };
    let (word, bit) = usage.shared_user(entry, user);
    word.fetch_or(bit, SeqCst);
    // The exporter may have died between its entry and the charge.
    collect(usage);
    true
}

/// Takes `user` from the referrers of `handle`; [`collect`] takes the charge with the last one.
pub(crate) fn close(usage: &Usage, handle: &Handle, user: usize) {
    if let Some(entry) = find(usage, handle) {
        drop_user(usage, entry, user);
    }
}

/// Takes a dead process's slot from every entry. The caller holds the slot's lock.
pub(crate) fn forget_user(usage: &Usage, user: usize) {
    (0..MAX_SHARED)
        .filter(|entry| is_in_use(usage, *entry))
        .for_each(|entry| drop_user(usage, entry, user));
}

fn drop_user(usage: &Usage, entry: usize, user: usize) {
    fault::point();
    let (word, bit) = usage.shared_user(entry, user);
    word.fetch_and(!bit, SeqCst);
}

/// Frees the entries nobody refers to and sets what the pseudo slot holds to the sum of the others.
/// The caller holds the admission lock.
pub(crate) fn collect(usage: &Usage) {
    let mut sums = [0_u64; MAX_DEVICES];
    for entry in (0..MAX_SHARED).filter(|entry| is_in_use(usage, *entry)) {
        let at = usage::shared_at(entry);
        let users = usage.read_words::<{ MAX_SLOTS / 64 }>(at + shared::USERS);
        if users.iter().all(|word| *word == 0) {
            fault::point();
            usage.u32_at(at + shared::STATE).store(0, SeqCst);
            continue;
        }
        let row = usage.u32_at(at + shared::ROW).load(SeqCst) as usize;
        if let Some(sum) = sums.get_mut(row) {
            *sum = sum.saturating_add(usage.u64_at(at + shared::BYTES).load(SeqCst));
        }
    }
    for (row, sum) in sums.into_iter().enumerate().filter(|(row, _)| usage.has_device(*row)) {
        let line = usage.line(row);
        let held = held_bytes(line.held_word(SHARED_SLOT));
        if held < sum {
            ledger::hold(&line, SHARED_SLOT, sum - held);
        } else if held > sum {
            ledger::give_back(&line, SHARED_SLOT, held - sum);
        }
        usage.set_kind(row, SHARED_SLOT, Kind::Shared, sum);
    }
}
