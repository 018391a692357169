//! Sums over a device's chunks, and why there are no more.
//!
//! Promises: plain values. Does not count anything: chunks do.

use divvy_driver_api::types::CUresult;
use zerocopy::FromZeros;

/// Sums over a device's chunks.
#[derive(FromZeros)]
pub(super) struct Sums {
    pub(super) movable_bytes: u64,
    pub(super) away_bytes: u64,
    pub(super) pinned_bytes: u64,
    /// Of memory whose bytes are being copied to the host.
    pub(super) leaving_bytes: u64,
    /// Of memory that is about to be taken.
    pub(super) coming_bytes: u64,
    /// Of the host, for copies.
    pub(super) copies_bytes: u64,
    /// Of managed memory, wherever it is.
    pub(super) managed_bytes: u64,
}

impl Sums {
    /// Bytes on the card, and those that are about to be, without what must stay.
    pub(super) fn resident_bytes(&self) -> u64 {
        let gone = self.away_bytes.saturating_add(self.pinned_bytes);
        self.movable_bytes.saturating_sub(gone).saturating_add(self.coming_bytes)
    }
}

/// Reason why memory of the card cannot be had.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The owner has not ordered that it may be there.
    Ceiling,
    /// Nor that so many bytes more of managed memory are anywhere.
    Managed(u64),
    /// The driver's.
    Driver(CUresult),
}

impl Denied {
    /// The driver's answer where there is no more.
    pub(crate) const OUT_OF_MEMORY: Self = Self::Driver(CUresult::CUDA_ERROR_OUT_OF_MEMORY);

    /// Whether less might be had.
    pub(crate) fn is_shortage(self) -> bool {
        matches!(self, Self::Ceiling | Self::Managed(_)) || self == Self::OUT_OF_MEMORY
    }
}

impl From<CUresult> for Denied {
    fn from(code: CUresult) -> Self {
        Self::Driver(code)
    }
}
