//! State that a forked child must not inherit.
//!
//! One page that the kernel gives a child zeroed (MADV_WIPEONFORK, Linux 4.14): the process's
//! generation and the locks of all maps live there, so that a lock held by another thread at the
//! fork is free in the child. No handler is registered and no call is made per use. Older kernels
//! keep what they copy: a child there behaves as HAMi-core's does.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};

use super::kernel;

const PAGE_BYTES: usize = 4096;
/// Words of the page before the locks; the first two are the generation.
const HEAD_WORDS: usize = 16;
/// Locks that fit.
pub(super) const LOCKS: usize = PAGE_BYTES / 4 - HEAD_WORDS;

// Aligned as what the kernel maps is; and so zeroed data starts a page of its own, which the loader
// has no reason to write to.
#[repr(C, align(4096))]
struct Page {
    generation: AtomicU64,
    _head: [AtomicU32; HEAD_WORDS - 2],
    locks: [AtomicU32; LOCKS],
}
const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

static PAGE: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());
static LAST: AtomicU64 = AtomicU64::new(0);

/// Stands in where no page can be had.
static FALLBACK: Page = Page {
    generation: AtomicU64::new(0),
    _head: [const { AtomicU32::new(0) }; HEAD_WORDS - 2],
    locks: [const { AtomicU32::new(0) }; LOCKS],
};

#[inline]
fn page() -> &'static Page {
    let page = PAGE.load(SeqCst);
    if page.is_null() {
        return make();
    }
    // SAFETY: a mapping of `PAGE_BYTES` that is never taken down; zeroes are valid atomics.
    unsafe { &*page }
}

#[cold]
#[inline(never)]
fn make() -> &'static Page {
    let Ok(new) = kernel::map_private(PAGE_BYTES) else { return &FALLBACK };
    // SAFETY: mapped a moment ago; a generation of 0 is made anew, and a lock of 0 is free.
    let _ = unsafe { kernel::advise(new, PAGE_BYTES, kernel::InChild::Zeroes) };
    let new = new.cast::<Page>();
    match PAGE.compare_exchange(core::ptr::null_mut(), new, SeqCst, SeqCst) {
        // SAFETY: as in `page`.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: nobody has seen the page that lost.
            unsafe { kernel::unmap(new.cast(), PAGE_BYTES) };
            // SAFETY: as in `page`.
            unsafe { &*other }
        }
    }
}

/// The same number throughout a process, another one in each child it forks; never 0.
#[inline]
pub(crate) fn generation() -> u64 {
    let word = &page().generation;
    match word.load(SeqCst) {
        0 => {
            let new = LAST.fetch_add(1, SeqCst).wrapping_add(1);
            match word.compare_exchange(0, new, SeqCst, SeqCst) {
                Ok(_) => new,
                Err(other) => other,
            }
        }
        generation => generation,
    }
}

/// Lock `index` of the page, counted around.
#[inline]
pub(super) fn lock(index: usize) -> &'static AtomicU32 {
    &page().locks[index % LOCKS]
}
