//! State that a forked child must not inherit.
//!
//! One page that the kernel gives a child zeroed (MADV_WIPEONFORK, Linux 4.14): the process's
//! generation and the locks of all maps live there, so that a lock held by another thread at the
//! fork is free in the child. No handler is registered and no call is made per use. Older kernels
//! keep what they copy: a child there behaves as HAMi-core's does.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

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

/// Stands in where no page can be had: for all threads then, and for good. Two pages would be two locks for a map.
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
    // SAFETY: `FALLBACK`, or a mapping of `PAGE_BYTES` that is never taken down; zeroes are valid atomics.
    unsafe { &*page }
}

#[cold]
#[inline(never)]
fn make() -> &'static Page {
    let mapped = kernel::map_private(PAGE_BYTES);
    if let Ok(new) = mapped {
        // SAFETY: 1. mapped a moment ago, whole. 2. A generation of 0 is made anew, and a lock of 0 is free.
        let _ = unsafe { kernel::advise(new, PAGE_BYTES, kernel::InChild::Zeroes) };
    }
    let new = mapped.map_or((&raw const FALLBACK).cast_mut(), <*mut u8>::cast);
    let first = PAGE.compare_exchange(core::ptr::null_mut(), new, SeqCst, SeqCst);
    if let (Err(_), Ok(lost)) = (first, mapped) {
        // SAFETY: 1. mapped above, whole. 2. No other thread has seen the page that lost.
        unsafe { kernel::unmap(lost, PAGE_BYTES) };
    }
    page()
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

/// Runs `act` while nobody else of the process holds lock `index` of the page, counted around. Neither `act` nor what
/// it calls asks for the same lock: it would wait for ever.
#[inline]
pub(super) fn locked<R>(index: usize, act: impl FnOnce() -> R) -> R {
    let lock = &page().locks[index % LOCKS];
    take(lock);
    let result = act();
    lock.store(0, Release);
    result
}

/// The same by a lock of the caller's own, which lies in memory that a child finds zeroed too, and is not taken as often as a
/// map's.
#[inline]
pub(super) fn locked_by<R>(lock: &AtomicU32, act: impl FnOnce() -> R) -> R {
    take_seldom(lock);
    let result = act();
    lock.store(0, Release);
    result
}

#[inline(always)]
fn take(lock: &AtomicU32) {
    if lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        wait_for(lock);
    }
}

#[inline(never)]
fn take_seldom(lock: &AtomicU32) {
    take(lock);
}

#[cold]
#[inline(never)]
fn wait_for(lock: &AtomicU32) {
    let mut tries = 0_u32;
    while lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
        tries = tries.wrapping_add(1);
        if tries.is_multiple_of(128) {
            // Its holder was interrupted; a spin would keep a real-time thread on its processor.
            kernel::sleep_ns(20_000);
        } else {
            core::hint::spin_loop();
        }
    }
}
