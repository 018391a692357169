//! Memory shared by legacy IPC or by descriptor, as a process of the tenant exports, opens and closes it.
//!
//! A process counts what it refers to, in words that a forked child finds zero, and its bit in the entry
//! stands while it counts any: letting go of what was opened never takes away what was exported.
//!
//! Does not know how an entry is kept: that is [`crate::shared_table`].

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::{MAX_SHARED, MemoryKind, SHARED_SLOT};
use divvy_policy::ledger::{Slots as _, held_bytes};

use crate::shared_table::{self, Handle};
use crate::tenant::{DeviceRow, Tenant};

/// An entry that this process refers to; it stays what it is until [`Tenant::close_shared`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedEntry(u16);

impl SharedEntry {
    /// Its number, below [`MAX_SHARED`].
    pub fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// The entry that had this number.
    pub fn of(number: u64) -> Self {
        Self((number % MAX_SHARED as u64) as u16)
    }
}

impl Tenant {
    /// Moves the charge of memory that this process exports to where all who refer to it share it.
    /// `None` when the handle is known already or there is no room: the charge then stays.
    pub fn export_shared(
        &self,
        handle: &[u8; 64],
        row: DeviceRow,
        bytes: u64,
        kind: MemoryKind,
    ) -> Option<SharedEntry> {
        let handle = words(handle);
        self.with_lock(|usage, fork, me| {
            shared_table::settle(usage, fork, me);
            if shared_table::find(usage, &handle).is_some() {
                return None;
            }
            let entry = shared_table::first_free(usage)?;
            fork.references(entry).store(1, SeqCst);
            shared_table::export(usage, entry, &handle, (row.index(), me), bytes, kind);
            Some(SharedEntry::of(entry as u64))
        })
        .ok()
        .flatten()
    }

    /// Refers to memory that a process of this tenant exported; `None` when none did. Call it before
    /// the driver opens the handle, so that the charge cannot go meanwhile.
    pub fn open_shared(&self, handle: &[u8; 64]) -> Option<SharedEntry> {
        let handle = words(handle);
        self.with_lock(|usage, fork, me| {
            let entry = shared_table::find(usage, &handle)?;
            fork.references(entry).fetch_add(1, SeqCst);
            let (word, bit) = usage.shared_user(entry, me);
            word.fetch_or(bit, SeqCst);
            // The exporter may have died between its entry and the charge.
            shared_table::collect(usage);
            Some(SharedEntry::of(entry as u64))
        })
        .ok()
        .flatten()
    }

    /// Refers to an entry once more that this process refers to already.
    pub fn refer_again(&self, entry: SharedEntry) {
        self.references(usize::from(entry.0)).fetch_add(1, SeqCst);
    }

    /// Takes back one [`Tenant::export_shared`] or [`Tenant::open_shared`]. Without the lock the charge
    /// goes a moment late, with this process's next one.
    pub fn close_shared(&self, entry: SharedEntry) {
        let less = |count: u32| count.checked_sub(1);
        let references = self.references(usize::from(entry.0));
        let before = references.fetch_update(SeqCst, SeqCst, less);
        if before == Ok(1) {
            let _ = self.with_lock(shared_table::settle);
        }
    }

    /// Bytes of exported memory that is still referred to or kept by a descriptor.
    pub fn shared_bytes(&self, row: DeviceRow) -> u64 {
        held_bytes(self.usage().line(row.index()).held_word(SHARED_SLOT))
    }
}

fn words(bytes: &[u8; 64]) -> Handle {
    zerocopy::transmute!(*bytes)
}
