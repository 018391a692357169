//! What a lane knows of spans in which others of the device's contexts had slices.
//!
//! Promises: what such spans add is in sum what our parts of them are beyond what was charged, as far back as
//! [`MOST_OVER_NS`] reaches. Does not say how large a part is: that is done in `settle`.

use core::sync::atomic::Ordering::Relaxed;

use super::credit::signed;
use crate::atomic::AtomicU64;

/// What is remembered of spans in which more was charged than our part.
const MOST_OVER_NS: i64 = 10_000_000;

/// What a lane knows of work with others' slices in it.
#[derive(Debug)]
pub(super) struct Beside {
    /// By how much our parts of spans are less than what was charged; not above 0.
    over_ns: AtomicU64,
}

impl Beside {
    pub(super) const fn new() -> Self {
        Self { over_ns: AtomicU64::new(0) }
    }

    /// A span was nobody else's.
    pub(super) fn forget(&self) {
        self.over_ns.store(0, Relaxed);
    }

    /// What a span adds in which others had slices: what our parts of such spans are in sum beyond what was charged.
    /// A slice of another lies in few of them, and is in those the most of it.
    pub(super) fn part_ns(&self, span_ns: u64, part_ns: u64, charged_ns: u64) -> i64 {
        // A sharer that does not use its slices leaves more than our part to us.
        if charged_ns > span_ns {
            return signed(span_ns).saturating_sub(signed(charged_ns));
        }
        let before_ns = self.over_ns.load(Relaxed).cast_signed();
        let sum_ns = before_ns.saturating_add(signed(part_ns)).saturating_sub(signed(charged_ns));
        self.over_ns.store(sum_ns.clamp(-MOST_OVER_NS, 0).cast_unsigned(), Relaxed);
        sum_ns.max(0)
    }
}
