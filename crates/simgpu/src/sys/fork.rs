//! A word that reads 1 in the process that made it and 0 in every forked child.
//!
//! Cost of a look: one load. Needs MADV_WIPEONFORK (Linux 4.14).

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// The word. It is never unmapped: it lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct ForkWord(&'static AtomicU32);

impl ForkWord {
    /// Makes the word.
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks an unused range.
        let page = unsafe {
            mmap_anonymous(null_mut(), 4096, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        // SAFETY: the page is ours, and nothing lies in it yet that a wipe could surprise.
        unsafe { madvise(page, 4096, Advice::LinuxWipeOnFork) }?;
        let page = NonNull::new(page.cast::<AtomicU32>()).ok_or(Errno::NOMEM)?;
        // SAFETY: a fresh page is zeroed, aligned and never unmapped, and an AtomicU32 of any bytes
        // is valid.
        let word: &'static AtomicU32 = unsafe { page.as_ref() };
        word.store(1, Ordering::Relaxed);
        Ok(Self(word))
    }

    /// Whether this process is a forked child of the one that made the word.
    pub fn forked(self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
