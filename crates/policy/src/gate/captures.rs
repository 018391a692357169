//! Captures of a process, and the driver calls that must not happen beside them.
//!
//! While a stream captures, an event that is recorded behind a whole context invalidates the capture, and in its global
//! mode so does a query by any thread (an H200's driver; the first in any mode of the thread, the second unless the
//! thread is in relaxed mode). So a thread that is about to make such a call says so first and looks for captures then;
//! a capture that is about to begin is counted first and then waits for the threads that have not seen it. Of two that
//! meet, one sees the other.
//!
//! Promises: no call that was made without a capture in sight is under way when a capture begins, unless it takes
//! longer than the beginner's patience. Does not wait: the beginner does, by [`Captures::quiet`].

use core::sync::atomic::Ordering::SeqCst;

use crate::atomic::AtomicU32;

/// Counts of captures and of calls.
#[derive(Debug)]
pub(super) struct Captures {
    /// Captures that are about to begin, and above [`BEGUN`] those that have begun.
    counts: AtomicU32,
    /// Threads whose calls no capture may meet.
    acting: Acting,
}

/// One capture that has begun.
const BEGUN: u32 = 1 << 16;

/// A count apart from the line that every launch reads.
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

impl Captures {
    /// Counts no capture.
    pub(super) const fn new() -> Self {
        Self { counts: AtomicU32::new(0), acting: Acting(AtomicU32::new(0)) }
    }

    /// True if a capture is under way, or about to be.
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        self.counts.load(SeqCst) != 0
    }

    /// True if a capture is about to begin: its stream is not known yet.
    pub(super) fn is_any_about_to_begin(&self) -> bool {
        !self.counts.load(SeqCst).is_multiple_of(BEGUN)
    }

    /// Keeps captures from beginning while the answer lives; `None` where one is under way.
    pub(super) fn keep_out(&self) -> Option<Undisturbed<'_>> {
        let undisturbed = self.hold();
        (!self.any()).then_some(undisturbed)
    }

    /// Keeps captures from beginning while the answer lives, but for those that are about to: where none is, a stream
    /// that is not captured now is not captured before that.
    pub(super) fn hold(&self) -> Undisturbed<'_> {
        self.acting.0.fetch_add(1, SeqCst);
        Undisturbed(&self.acting.0)
    }

    /// Counts a capture that is about to begin. It may begin when [`Captures::quiet`] is true, and [`Captures::begun`]
    /// takes the outcome.
    pub(super) fn begin(&self) {
        self.counts.fetch_add(1, SeqCst);
    }

    /// Notes that a capture that was about to begin has begun, or has not.
    pub(super) fn begun(&self, has_begun: bool) {
        let more = if has_begun { BEGUN } else { 0 };
        let _ = self.counts.fetch_update(SeqCst, SeqCst, |counts| match counts % BEGUN {
            0 => None,
            _ => Some(counts.wrapping_add(more).wrapping_sub(1)),
        });
    }

    /// True if no thread is at a call that a capture must not meet.
    pub(super) fn quiet(&self) -> bool {
        self.acting.0.load(SeqCst) == 0
    }

    /// Counts captures that have ended.
    pub(super) fn end(&self, captures: u32) {
        let less = |counts: u32| {
            let ended = captures.min(counts / BEGUN);
            Some(counts.wrapping_sub(ended.wrapping_mul(BEGUN)))
        };
        let _ = self.counts.fetch_update(SeqCst, SeqCst, less);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_capture_counts_from_before_it_begins_until_it_has_ended() {
        let captures = Captures::new();
        let held = captures.keep_out().expect("none is under way");
        captures.begin();
        assert!(captures.any() && captures.is_any_about_to_begin() && !captures.quiet());
        drop(held);
        assert!(captures.quiet() && captures.keep_out().is_none() && captures.quiet());
        captures.begun(true);
        assert!(captures.any() && !captures.is_any_about_to_begin());
        captures.begin();
        captures.begun(false);
        captures.begun(true);
        captures.end(7);
        assert!(!captures.any(), "what never began is not counted, nor what ended twice");
    }
}
