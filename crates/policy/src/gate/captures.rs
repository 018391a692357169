//! Captures of a process, and what must not happen beside them.
//!
//! While a stream captures, an event that is recorded behind a whole context invalidates the capture,
//! and in its global mode so does a query by any thread (an H200's driver, whatever mode the thread is
//! in for the first, unless it is in relaxed mode for the second). So whoever is about to make such a
//! call says so first and looks for captures then; a capture that is about to begin is counted first
//! and then waits for those who have not seen it. Of two that meet, one sees the other.
//!
//! Promises: no call that was made without a capture in sight is under way when a capture begins, unless
//! it takes longer than the beginner's patience. Does not wait: the beginner does, by [`Captures::quiet`].

use core::sync::atomic::Ordering::SeqCst;

use crate::atomic::AtomicU32;

/// The counts.
#[derive(Debug)]
pub struct Captures {
    /// Captures that have begun or are about to.
    begun: AtomicU32,
    /// Threads whose calls no capture may meet.
    acting: Acting,
}

/// Apart from what every launch looks at.
#[derive(Debug)]
#[repr(align(128))]
struct Acting(AtomicU32);

/// A thread that has seen no capture: none begins until this is dropped.
#[derive(Debug)]
#[must_use = "captures may begin when this is dropped"]
pub struct Undisturbed<'a>(&'a AtomicU32);

impl Drop for Undisturbed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Default for Captures {
    fn default() -> Self {
        Self::new()
    }
}

impl Captures {
    /// None under way.
    pub const fn new() -> Self {
        Self { begun: AtomicU32::new(0), acting: Acting(AtomicU32::new(0)) }
    }

    /// Whether a capture is under way.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.begun.load(SeqCst) != 0
    }

    /// Keeps captures from beginning while the answer lives; `None` where one is under way.
    pub fn keep_out(&self) -> Option<Undisturbed<'_>> {
        self.acting.0.fetch_add(1, SeqCst);
        let undisturbed = Undisturbed(&self.acting.0);
        (!self.any()).then_some(undisturbed)
    }

    /// Counts a capture that is about to begin. It may when [`Captures::quiet`] says so.
    pub fn begin(&self) {
        self.begun.fetch_add(1, SeqCst);
    }

    /// Whether nobody is at a call that a capture must not meet.
    pub fn quiet(&self) -> bool {
        self.acting.0.load(SeqCst) == 0
    }

    /// Counts captures that have ended, or did not begin.
    pub fn end(&self, captures: u32) {
        let less = |begun: u32| Some(begun.saturating_sub(captures));
        let _ = self.begun.fetch_update(SeqCst, SeqCst, less);
    }
}
