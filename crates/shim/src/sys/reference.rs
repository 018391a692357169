//! A place for a reference that is learnt at run time: one load and one test to follow it.

use core::sync::atomic::{AtomicPtr, Ordering};

/// A reference, or none yet.
#[derive(Debug)]
pub(crate) struct Reference<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Reference<T> {
    /// None yet.
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The value stored last.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static T> {
        let target = self.0.load(Ordering::Acquire).cast_const();
        // SAFETY: null, or made by `set` from a reference that never ends, to what threads may share.
        unsafe { target.as_ref() }
    }

    /// Stores it.
    pub(crate) fn set(&self, target: &'static T) {
        self.0.store(core::ptr::from_ref(target).cast_mut(), Ordering::Release);
    }
}
