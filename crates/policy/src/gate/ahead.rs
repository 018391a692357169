//! Launches that a lane has let go through its closed gate since another of the tenant's devices waits for it, and the
//! lane's view of those devices.
//!
//! Promises: a launch that is let go counts for no less than a tenth of a millisecond, so that many small ones are no way
//! around the limit. Does not decide which are let go: that is done in `linked`.

use core::sync::atomic::Ordering::Relaxed;

use super::world::World;
use crate::atomic::{AtomicU32, AtomicU64};

/// A launch counts as so much of it, at least.
const LEAST_NS: u64 = 100_000;
/// A device that gets on within this time after the launch that was let go should have ended, and not before, has waited
/// for that launch.
const SHOWS_NS: u64 = 500_000;

/// View of the other devices from a lane at its closed gate, and the launches let go for them.
#[derive(Debug)]
pub(super) struct Ahead {
    /// When the gate was first seen closed since it was open; 0 for not yet.
    pub(super) from_ns: AtomicU64,
    /// [`Elsewhere::overdue`](super::Elsewhere::overdue) as it was seen last, on which devices, and since when it is that.
    pub(super) overdue: AtomicU64,
    pub(super) devices: AtomicU32,
    pub(super) since_ns: AtomicU64,
    /// Until when that it gets on shows that it has waited for what was let go.
    pub(super) shows_until_ns: AtomicU64,
}

impl Ahead {
    pub(super) const fn new() -> Self {
        let [from_ns, overdue, since_ns, shows_until_ns] = [const { AtomicU64::new(0) }; 4];
        Self { from_ns, overdue, devices: AtomicU32::new(0), since_ns, shows_until_ns }
    }

    /// The gate is open.
    pub(super) fn is_over(&self) {
        if self.from_ns.load(Relaxed) != 0 {
            self.from_ns.store(0, Relaxed);
        }
    }

    /// A launch of so much was let go.
    pub(super) fn went<W: World>(&self, world: &W, ns: u64, now_ns: u64) {
        world.add_ahead(ns.max(LEAST_NS), now_ns);
        let shows_until_ns = now_ns.saturating_add(ns).saturating_add(SHOWS_NS);
        self.shows_until_ns.store(shows_until_ns, Relaxed);
    }
}
