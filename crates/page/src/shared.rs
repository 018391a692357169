//! Memory shared by legacy IPC: charged once, while any living process refers to it.
//!
//! An exporter's charge moves to the pseudo slot, with an entry keyed by the 64-byte handle and one
//! bit for each slot that refers to it. When the last one lets go or dies, the charge goes. All of it
//! under the admission lock, since none of it is hot.

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::{self, Kind, MAX_SHARED, SHARED_SLOT, shared};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};
use divvy_policy::ledger;

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
        usage.u32_at(at + shared::STATE).load(SeqCst) != 0
            && usage.read_words::<8>(at + shared::HANDLE) == *handle
    })
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
    if find(usage, handle).is_some() {
        return false;
    }
    let free =
        |entry: &usize| usage.u32_at(usage::shared_at(*entry) + shared::STATE).load(SeqCst) == 0;
    let Some(entry) = (0..MAX_SHARED).find(free) else { return false };
    let at = usage::shared_at(entry);
    usage.u32_at(at + shared::ROW).store(u32::try_from(row).unwrap_or(0), SeqCst);
    usage.u64_at(at + shared::BYTES).store(bytes, SeqCst);
    usage.write_words(at + shared::HANDLE, handle);
    usage.write_words(at + shared::USERS, &[0; MAX_SLOTS / 64]);
    let (word, bit) = usage.shared_user(entry, user);
    word.store(bit, SeqCst);
    usage.u32_at(at + shared::STATE).store(1, SeqCst);
    // Held by the pseudo slot before it is given back: a sum may see it twice, never not at all.
    let line = usage.line(row);
    ledger::hold(&line, SHARED_SLOT, bytes);
    usage.add_kind(row, SHARED_SLOT, Kind::Shared, bytes);
    ledger::give_back(&line, user, bytes);
    usage.take_kind(row, user, kind, bytes);
    true
}

/// Adds `user` to the referrers of `handle`; false when nobody of this tenant exported it.
pub(crate) fn open(usage: &Usage, handle: &Handle, user: usize) -> bool {
    let Some(entry) = find(usage, handle) else { return false };
    let (word, bit) = usage.shared_user(entry, user);
    word.fetch_or(bit, SeqCst);
    true
}

/// Takes `user` from the referrers of `handle`, and the charge with the last one.
pub(crate) fn close(usage: &Usage, handle: &Handle, user: usize) {
    if let Some(entry) = find(usage, handle) {
        drop_user(usage, entry, user);
    }
}

/// Takes a dead process's slot from every entry. The caller holds the slot's lock; entries change
/// under it too, because a claim does not hold the admission lock.
pub(crate) fn forget_user(usage: &Usage, user: usize) {
    for entry in 0..MAX_SHARED {
        if usage.u32_at(usage::shared_at(entry) + shared::STATE).load(SeqCst) != 0 {
            drop_user(usage, entry, user);
        }
    }
}

fn drop_user(usage: &Usage, entry: usize, user: usize) {
    let (word, bit) = usage.shared_user(entry, user);
    if word.fetch_and(!bit, SeqCst) & bit == 0 {
        return;
    }
    let at = usage::shared_at(entry);
    let users = usage.read_words::<{ MAX_SLOTS / 64 }>(at + shared::USERS);
    if users.iter().any(|word| *word != 0) {
        return;
    }
    // Two of the last ones may arrive here together; the one who takes the state takes the charge.
    let state = usage.u32_at(at + shared::STATE);
    if state.compare_exchange(1, 0, SeqCst, SeqCst).is_err() {
        return;
    }
    let row = (usage.u32_at(at + shared::ROW).load(SeqCst) as usize).min(MAX_DEVICES - 1);
    let bytes = usage.u64_at(at + shared::BYTES).load(SeqCst);
    ledger::give_back(&usage.line(row), SHARED_SLOT, bytes);
    usage.take_kind(row, SHARED_SLOT, Kind::Shared, bytes);
}
