//! Doubt: wall time between two looks beyond the charges. All of it may be work that nothing has shown.
//!
//! A program may compute while its device stands still, or have kernels of unexpected lengths: the host cannot tell.
//! So the time that is not accounted for is summed as draws sum theirs ([`super::sample`]), squared, over a second.
//! Once the sum is as large as what draws may add by chance, each launch is measured until it has faded: no program
//! hides work and keeps its doubt low.
//!
//! Promises: time inside a gate's wait is no doubt, nor is time in which others may have had the device, or without a
//! launch. Nor is a wait of the program's for a context or a stream, which `drain` judges; one for an event shows no
//! end of work, and counts. Does not measure.

use core::sync::atomic::Ordering::Relaxed;

use super::tuning;
use crate::atomic::AtomicU64;

/// Doubt of one lane. Threads that look at once may lose one look's.
#[derive(Debug)]
pub(super) struct Doubt {
    /// Time of the last look, and work submitted by then.
    at_ns: AtomicU64,
    submitted_ns: AtomicU64,
    /// Sum of squares, in microseconds.
    squares: AtomicU64,
}

impl Doubt {
    pub(super) const fn new() -> Self {
        Self {
            at_ns: AtomicU64::new(0),
            submitted_ns: AtomicU64::new(0),
            squares: AtomicU64::new(0),
        }
    }

    /// Returns the time of the last look; 0 before the first.
    pub(super) fn since_ns(&self) -> u64 {
        self.at_ns.load(Relaxed)
    }

    /// Returns the time since the last look beyond the charges; 0 where nothing was submitted, or there is little.
    #[inline(never)]
    pub(super) fn unseen_ns(&self, now_ns: u64, submitted_ns: u64) -> u64 {
        let charged_ns = submitted_ns.saturating_sub(self.submitted_ns.load(Relaxed));
        let wall_ns = now_ns.saturating_sub(self.at_ns.load(Relaxed));
        let unseen_ns = wall_ns.saturating_sub(charged_ns);
        if charged_ns == 0 || unseen_ns < tuning::DOUBT_LITTLE_NS { 0 } else { unseen_ns }
    }

    /// Begins another stretch. The time since the last look was seen, or was no work, but for `unseen_ns`.
    #[inline(never)]
    pub(super) fn look(&self, now_ns: u64, submitted_ns: u64, unseen_ns: u64) {
        let before_ns = self.at_ns.swap(now_ns, Relaxed);
        self.submitted_ns.store(submitted_ns, Relaxed);
        let squares = self.squares.load(Relaxed);
        if before_ns == 0 || (squares | unseen_ns) == 0 {
            return;
        }
        let left_us =
            tuning::DOUBT_FADES_US.saturating_sub(now_ns.saturating_sub(before_ns) / 1_000);
        let unseen_us = (unseen_ns / 1_000).min(tuning::DOUBT_FADES_US);
        let faded = squares.saturating_mul(left_us) / tuning::DOUBT_FADES_US;
        self.squares
            .store(faded.saturating_add(unseen_us * unseen_us).min(tuning::DOUBT_MOST), Relaxed);
    }

    /// True if so much was unseen of late that each launch is measured.
    #[inline(always)]
    pub(super) fn is_high(&self) -> bool {
        self.squares.load(Relaxed) >= tuning::DOUBT_HIGH
    }
}
