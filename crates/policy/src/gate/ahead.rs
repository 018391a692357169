//! Work that a lane has let go through its closed gate for another of the tenant's devices, and the state of those
//! devices as it was seen.
//!
//! Promises: words that any thread may read. Does not decide to let a launch go, nor note that: that is done in
//! `linked`.

use core::sync::atomic::Ordering::Relaxed;

use crate::atomic::{AtomicU32, AtomicU64};

/// State of a lane at its closed gate: other devices as they were seen, and launches let go for them.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Time at which the gate was first seen closed since it was open; 0 for not yet.
    pub(super) from_ns: AtomicU64,
    /// `overdue` of the other devices as it was seen last, its devices, and the time since which it
    /// is unchanged.
    pub(super) overdue: AtomicU64,
    pub(super) devices: AtomicU32,
    pub(super) since_ns: AtomicU64,
    /// Time until which progress of those devices shows that they have waited for a launch that was let go.
    pub(super) shows_until_ns: AtomicU64,
}

impl Ahead {
    pub(super) const fn new() -> Self {
        let [from_ns, overdue, since_ns, shows_until_ns] = [const { AtomicU64::new(0) }; 4];
        Self { from_ns, overdue, devices: AtomicU32::new(0), since_ns, shows_until_ns }
    }

    /// Notes that the gate is open.
    pub(super) fn is_over(&self) {
        if self.from_ns.load(Relaxed) != 0 {
            self.from_ns.store(0, Relaxed);
        }
    }
}
