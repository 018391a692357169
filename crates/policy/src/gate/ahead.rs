//! Work that a lane has let go through its closed gate for another of the tenant's devices, and the state of those
//! devices as it was seen.
//!
//! Promises: a launch that is let go counts for no less than a tenth of a millisecond, so that many small launches are
//! no way around the limit. Does not decide to let a launch go: that is done in `linked`.

use core::sync::atomic::Ordering::Relaxed;

use super::world::World;
use crate::atomic::{AtomicU32, AtomicU64};

/// Least device time that a launch counts for.
const LEAST_NS: u64 = 100_000;
/// Margin around the end of a launch that was let go: a device that gets on within it, and not before, has waited for
/// that launch.
const SHOWS_NS: u64 = 500_000;

/// State of a lane at its closed gate: other devices as they were seen, and launches let go for them.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Time at which the gate was first seen closed since it was open; 0 for not yet.
    pub(super) from_ns: AtomicU64,
    /// [`Elsewhere::overdue`](super::Elsewhere::overdue) as it was seen last, its devices, and the time since which it
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

    /// Notes that a launch of `ns` was let go.
    pub(super) fn went<W: World>(&self, world: &W, ns: u64, now_ns: u64) {
        world.add_ahead(ns.max(LEAST_NS), now_ns);
        let shows_until_ns = now_ns.saturating_add(ns).saturating_add(SHOWS_NS);
        self.shows_until_ns.store(shows_until_ns, Relaxed);
    }
}
