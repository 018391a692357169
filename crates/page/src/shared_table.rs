//! The table of memory that processes share: charged once, while any living process refers to it or a
//! descriptor keeps it.
//!
//! An exporter's charge moves to the pseudo slot, with an entry keyed by 64 bytes (legacy IPC's handle,
//! or a [`mark`]'s) and one bit for each slot that refers to it. When the last one lets go or dies, the
//! charge goes, unless the entry has a mark that is held: then a descriptor keeps the memory, whoever has
//! it.
//!
//! Entries and the pseudo slot change under the admission lock only, but for one thing: who clears a
//! dead slot takes its bits away at once. The table alone is the truth; [`collect`] frees what nobody
//! refers to and sets the pseudo slot to the sum of the rest, so a process killed between two steps
//! leaves nothing that the next one does not mend.

use core::ffi::CStr;
use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::{self, MAX_SHARED, MemoryKind, SHARED_SLOT, shared};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};
use divvy_policy::ledger::{self, Slots as _, held_bytes};

use crate::admission::AdmissionGuard;
use crate::fork_page::ForkPage;
use crate::mark::{self, Asker, Named};
use crate::sys::Fd;
use crate::usage::Usage;
use crate::{fault, file, liveness};

/// The 64 bytes of a `CUipcMemHandle`, as words.
pub(crate) type Handle = [u64; 8];

fn handle_of(usage: &Usage, entry: usize) -> Handle {
    usage.read_words::<8>(usage::shared_at(entry) + shared::HANDLE)
}

/// The entry of `handle`.
pub(crate) fn find(usage: &Usage, handle: &Handle) -> Option<usize> {
    in_use(usage).find(|entry| handle_of(usage, *entry) == *handle)
}

fn is_in_use(usage: &Usage, entry: usize) -> bool {
    usage.u32_at(usage::shared_at(entry) + shared::STATE).load(SeqCst) != 0
}

/// An entry that is not in use.
pub(crate) fn first_free(usage: &Usage) -> Option<usize> {
    (0..MAX_SHARED).find(|entry| !is_in_use(usage, *entry))
}

fn in_use(usage: &Usage) -> impl Iterator<Item = usize> {
    (0..MAX_SHARED).filter(|entry| is_in_use(usage, *entry))
}

fn free(usage: &Usage, entry: usize) {
    fault::point();
    usage.u32_at(usage::shared_at(entry) + shared::STATE).store(0, SeqCst);
}

/// Enters `handle` with its user as the first referrer and moves `bytes` from the user's charge to the
/// pseudo slot.
pub(crate) fn export(
    usage: &Usage,
    entry: usize,
    handle: &Handle,
    (row, user): (usize, usize),
    bytes: u64,
    kind: MemoryKind,
) {
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
}

/// Lets go of what this process counts no reference to any more, and [`collect`]s. The caller holds the
/// admission lock.
pub(crate) fn settle(usage: &Usage, fork: &ForkPage, me: usize) {
    in_use(usage)
        .filter(|entry| fork.references(*entry).load(SeqCst) == 0)
        .for_each(|entry| drop_user(usage, entry, me));
    collect(usage);
}

/// Takes a dead process's slot from every entry. The caller holds the slot's lock.
pub(crate) fn forget_user(usage: &Usage, user: usize) {
    in_use(usage).for_each(|entry| drop_user(usage, entry, user));
}

fn drop_user(usage: &Usage, entry: usize, user: usize) {
    fault::point();
    let (word, bit) = usage.shared_user(entry, user);
    word.fetch_and(!bit, SeqCst);
}

/// A process has joined. Where nobody else lives, entries that no mark keeps are over, also those whose
/// mark this process can never ask for: of a container that is gone, with device files of its own.
pub(crate) fn begin(fd: &Fd, usage: &Usage, me: usize, path: &CStr, identity: (u64, u64)) {
    if in_use(usage).next().is_none() || liveness::others_live(fd, usage, me) {
        return;
    }
    // A description of its own: closing it must not end the slot's lock.
    let Ok(lock_fd) = file::reopen_usage(path, identity.0, identity.1) else { return };
    let Ok(_held) = AdmissionGuard::on(&lock_fd) else { return };
    if liveness::others_live(fd, usage, me) {
        return;
    }
    let is_kept = listed(usage).unwrap_or([false; MAX_SHARED]);
    in_use(usage)
        .filter(|entry| is_kept.get(*entry) == Some(&false))
        .for_each(|entry| free(usage, entry));
    collect(usage);
}

/// Which entries have marks that the kernel lists; none without such a list.
fn listed(usage: &Usage) -> Option<[bool; MAX_SHARED]> {
    let mut is_kept = [false; MAX_SHARED];
    let is_listed = mark::for_each_listed(|key| {
        let is_its = |entry: &usize| {
            mark::in_handle(&handle_of(usage, *entry)).is_some_and(|mark| mark.key() == key)
        };
        if let Some(kept) = in_use(usage).find(is_its).and_then(|it| is_kept.get_mut(it)) {
            *kept = true;
        }
    });
    is_listed.then_some(is_kept)
}

/// Frees the entries nobody refers to and sets what the pseudo slot holds to the sum of the others.
/// The caller holds the admission lock.
pub(crate) fn collect(usage: &Usage) {
    let mut sums = [0_u64; MAX_DEVICES];
    let mut asker = Asker::default();
    let mut in_list = None;
    // Where nobody can tell, the memory may live.
    let mut is_kept = |entry: usize| match mark::in_handle(&handle_of(usage, entry)) {
        None => false,
        Some(Named::OfFile(file, key)) => asker.is_held(file, key) != Some(false),
        Some(Named::Listed(_)) => {
            let list = in_list.get_or_insert_with(|| listed(usage));
            list.as_ref().is_none_or(|kept| kept.get(entry) != Some(&false))
        }
    };
    for entry in in_use(usage) {
        let at = usage::shared_at(entry);
        let users = usage.read_words::<{ MAX_SLOTS / 64 }>(at + shared::USERS);
        if users.iter().all(|word| *word == 0) && !is_kept(entry) {
            free(usage, entry);
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
        usage.set_kind(row, SHARED_SLOT, MemoryKind::Shared, sum);
    }
}
