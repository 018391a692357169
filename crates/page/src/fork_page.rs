//! A page that the kernel wipes in a forked child: this process's slot, its lock among the process's
//! threads, and what it refers to of shared memory.
//!
//! Promises: a child, however it was made, finds every word zero.
//!
//! Does not claim a slot: that is [`crate::slot`].

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use divvy_abi::usage::MAX_SHARED;

use crate::admission::PATIENCE_NS;
use crate::error::AttachError;
use crate::sys::{self, InChild};

/// Bytes of the page, and of the one that keeps a slot's lock.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Longest wait for another thread of this process to claim: it may wait twice for a lock.
const ALONE_PATIENCE_NS: u64 = 3 * PATIENCE_NS;

/// Words that a forked child finds zero. One owner has the page: what refers to its words borrows from it, so that
/// [`ForkPage::discard`] leaves nothing behind that could be read.
#[derive(Debug)]
pub(crate) struct ForkPage(*mut u8);

// SAFETY: the pointer is to a mapping that lives as long as the one value that has it, and all access is atomic.
unsafe impl Send for ForkPage {}
// SAFETY: as above.
unsafe impl Sync for ForkPage {}

impl ForkPage {
    pub(crate) fn new() -> Result<Self, AttachError> {
        let page = sys::map_private(PAGE_BYTES).map_err(AttachError::System)?;
        // SAFETY: 1. the page was mapped a moment ago, whole. 2. What refers to it are atomic words, of which 0 is a value:
        // that of a process that has nothing.
        unsafe { sys::advise(page, PAGE_BYTES, InChild::Zeroes) }.map_err(AttachError::System)?;
        Ok(Self(page))
    }

    /// Takes the page down, for an attachment that failed. One that is dropped stays mapped.
    pub(crate) fn discard(self) {
        // SAFETY: 1. mapped by `new`, whole. 2. It is this value's alone, which ends here, and all references into it
        // borrow from it.
        unsafe { sys::unmap(self.0, PAGE_BYTES) };
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the word is one of the page's 1,024, so inside it and aligned; the page is there as long as
        // `self` is and only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.0.wrapping_add(4 * (index % 1024)).cast()) }
    }

    /// How often this process refers to an entry of the table of shared memory.
    pub(crate) fn references(&self, entry: usize) -> &AtomicU32 {
        self.word(2 + entry % MAX_SHARED)
    }

    /// This process's slot; 0 when it has none yet.
    pub(crate) fn slot(&self) -> usize {
        self.word(0).load(SeqCst) as usize
    }

    pub(crate) fn set_slot(&self, slot: usize) {
        self.word(0).store(u32::try_from(slot).unwrap_or(0), SeqCst);
    }

    /// Runs `act` while no other thread of this process does.
    pub(crate) fn alone<T>(
        &self,
        act: impl FnOnce() -> Result<T, AttachError>,
    ) -> Result<T, AttachError> {
        let lock = self.word(1);
        let deadline_ns = sys::now_ns().saturating_add(ALONE_PATIENCE_NS);
        while lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
            if sys::now_ns() >= deadline_ns {
                return Err(AttachError::LockTimeout);
            }
            sys::sleep_ns(20_000);
        }
        let result = act();
        lock.store(0, SeqCst);
        result
    }
}
