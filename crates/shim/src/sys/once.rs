//! A cell that is filled once, by whichever thread comes first.
//!
//! Unlike `std`'s it needs no allocation, lets a nested call on the same thread fail instead of
//! hanging, and forgets an attempt that a fork cut off. What an attempt does not yield is not
//! remembered: the next caller tries again.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::{fork, kernel};

const EMPTY: u64 = 0;
const FULL: u64 = 1;
/// Set while a thread fills the cell; below it its generation and its number.
const BUSY: u64 = 1 << 63;

/// Longest wait for another thread's attempt.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The cell.
pub(crate) struct Once<T> {
    state: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by the one thread that moved the state from EMPTY to BUSY, and read
// only after it has moved it to FULL; it is never written again.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// An empty cell.
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU64::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The value, if there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        if self.state.load(SeqCst) != FULL {
            return None;
        }
        let value = self.value.get().cast_const();
        // SAFETY: FULL is stored after the value was written, and nothing writes it again.
        Some(unsafe { &*value.cast::<T>() })
    }

    /// The value, made by `make` if there is none. None if `make` gives none, if this thread is
    /// inside `make` already, or if another thread has been for a second.
    #[inline]
    pub(crate) fn get_or_try_init(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        match self.get() {
            Some(value) => Some(value),
            None => self.fill(make),
        }
    }

    #[cold]
    #[inline(never)]
    fn fill(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        let generation = fork::generation() & 0x3fff_ffff;
        let own = BUSY | generation << 32 | u64::from(kernel::thread());
        let deadline_ns = kernel::now_ns().saturating_add(PATIENCE_NS);
        loop {
            let state = self.state.load(SeqCst);
            let abandoned = state & BUSY != 0 && (state ^ own) >> 32 != 0;
            if state == FULL {
                return self.get();
            }
            if state == own {
                return None;
            }
            if state == EMPTY || abandoned {
                if self.state.compare_exchange(state, own, SeqCst, SeqCst).is_ok() {
                    break;
                }
            } else if kernel::now_ns() >= deadline_ns {
                return None;
            } else {
                kernel::sleep_ns(50_000);
            }
        }
        let Some(value) = make() else {
            self.state.store(EMPTY, SeqCst);
            return None;
        };
        // SAFETY: the state is `own`, so no other thread writes and none reads.
        unsafe { self.value.get().cast::<T>().write(value) };
        self.state.store(FULL, SeqCst);
        self.get()
    }
}

impl<T> core::fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.state.load(SeqCst) == FULL { "Once(full)" } else { "Once(empty)" })
    }
}
