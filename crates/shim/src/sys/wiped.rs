//! State of this process that no forked child inherits: a child finds zeroes.
//!
//! A mapping made at the first use, which the kernel gives a child zeroed (MADV_WIPEONFORK, Linux 4.14), and never
//! taken down. What is behind a [`Locked`] in it is free in a child, whoever held it at the fork.
//!
//! Does not know what lies in it. Older kernels keep what they copy, as everywhere in this library.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};

use zerocopy::FromZeros;

use super::{fork, kernel};

/// The state, none before the first use.
#[derive(FromZeros)]
pub(crate) struct Wiped<T: 'static>(AtomicPtr<T>);

impl<T: FromZeros + Sync> Wiped<T> {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The state, where it was made, in this process or before it was forked.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or a mapping of a whole `T` that is never taken down; its bytes are zero, or what `T` has made
        // of them.
        unsafe { self.0.load(SeqCst).cast_const().as_ref() }
    }

    /// The state, made if there is none; `None` without memory for it.
    pub(crate) fn make(&self) -> Option<&'static T> {
        if let Some(made) = self.get() {
            return Some(made);
        }
        let new = kernel::map_private(size_of::<T>()).ok()?;
        // SAFETY: 1. mapped a moment ago, whole. 2. A child may find it zeroed: zeroes are a value, by `FromZeros`.
        let _ = unsafe { kernel::advise(new, size_of::<T>(), kernel::InChild::Zeroes) };
        let first = self.0.compare_exchange(core::ptr::null_mut(), new.cast(), SeqCst, SeqCst);
        if first.is_err() {
            // SAFETY: 1. mapped above, whole. 2. No other thread has seen it.
            unsafe { kernel::unmap(new, size_of::<T>()) };
        }
        self.get()
    }
}

/// A value for one thread at a time. The lock is held for moments: never across a call of the driver.
#[derive(FromZeros)]
pub(crate) struct Locked<T> {
    lock: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used under the lock alone.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Runs `act` with the value. `act` does not ask for the same one: it would wait for ever.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        fork::locked_by(&self.lock, || {
            // SAFETY: under the lock no other reference to the value exists.
            act(unsafe { &mut *self.value.get() })
        })
    }
}
