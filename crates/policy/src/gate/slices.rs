//! A lane's account of spans in which other contexts of the device had slices.
//!
//! Promises: the corrections by such spans are in sum our parts of them beyond the charges, as far back as
//! [`MOST_OVER_NS`] reaches. Does not say how large a part is: that is done in `settle`.

use core::sync::atomic::Ordering::Relaxed;

use super::credit::signed;
use crate::atomic::AtomicU64;

/// Most that is remembered of spans in which more was charged than our part.
const MOST_OVER_NS: i64 = 10_000_000;

/// Account of spans with others' slices in them.
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

    /// Correction by a span in which others had slices: the sum of our parts of such spans beyond the charges. Slices of
    /// another context lie in few of the spans, and fill most of those.
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
