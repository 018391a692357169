//! A lane's memory of spans in which others of the device's contexts had slices.
//!
//! Promises: such spans add in sum our parts of them beyond the charges, as far back as [`tuning::MOST_OVER_NS`]
//! reaches. Does not determine a part: that is done in `settle`.

use core::sync::atomic::Ordering::Relaxed;

use super::credit::signed;
use super::tuning;
use crate::atomic::AtomicU64;

/// Balance of a lane's spans with others' slices in them.
#[derive(Debug)]
pub(super) struct Beside {
    /// Excess of charges over our parts of spans, as a negative number; not above 0.
    over_ns: AtomicU64,
}

impl Beside {
    pub(super) const fn new() -> Self {
        Self { over_ns: AtomicU64::new(0) }
    }

    /// Forgets the balance, after a span of our own.
    pub(super) fn forget(&self) {
        self.over_ns.store(0, Relaxed);
    }

    /// Returns the correction for a span in which others had slices: the sum of our parts of such spans beyond the
    /// charges. Another's slice lies in few spans, and takes most of those.
    pub(super) fn part_ns(&self, span_ns: u64, part_ns: u64, charged_ns: u64) -> i64 {
        // A sharer that does not use its slices leaves more than our part to us.
        if charged_ns > span_ns {
            return signed(span_ns).saturating_sub(signed(charged_ns));
        }
        let before_ns = self.over_ns.load(Relaxed).cast_signed();
        let sum_ns = before_ns.saturating_add(signed(part_ns)).saturating_sub(signed(charged_ns));
        self.over_ns.store(sum_ns.clamp(-tuning::MOST_OVER_NS, 0).cast_unsigned(), Relaxed);
        sum_ns.max(0)
    }
}
