//! The moving mean that what is measured of turns is kept as.
//!
//! Promises: it lies between the old value and the new one; sums that do not fit are the largest that do.

/// Moving mean: a quarter of the new value.
pub(super) fn mean(old: u64, new: u64) -> u64 {
    (old.saturating_mul(3).saturating_add(new)) / 4
}
