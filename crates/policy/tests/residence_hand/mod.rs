//! A planner whose samples a test writes by hand, step by step.
//!
//! Does not simulate processes: `residence_sim` does.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use divvy_policy::residence::{
    DeviceRoom, Holder, HolderOrder, HolderState, ResidencePlanner, ResidenceState, ResidenceTuning,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SEC: u64 = 1_000_000_000;
pub(crate) const GIB: u64 = 1 << 30;

/// A planner whose samples a test writes.
pub(crate) struct Hand {
    pub(crate) tuning: ResidenceTuning,
    pub(crate) rows: Vec<HolderState>,
    pub(crate) state: ResidenceState,
    pub(crate) orders: Vec<HolderOrder>,
    pub(crate) now_ns: u64,
    /// The room of the device, where that is more than the capacity.
    pub(crate) room_bytes: u64,
    pub(crate) begun: bool,
}

impl Hand {
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            // A turn counts as used from its first moment, and what leaves does so at once, but where a test is about that.
            tuning: ResidenceTuning {
                start_ns: 0,
                lead_bytes: u64::MAX,
                ..ResidenceTuning::default()
            },
            rows: vec![HolderState::default(); rows],
            state: ResidenceState::default(),
            orders: vec![HolderOrder::default(); rows],
            now_ns: SEC,
            room_bytes: 0,
            begun: false,
        }
    }

    pub(crate) fn step(
        &mut self,
        after_ns: u64,
        capacity_bytes: u64,
        holders: &[Holder],
    ) -> Vec<u64> {
        self.now_ns += after_ns;
        let first = !std::mem::replace(&mut self.begun, true);
        let mut holders = holders.to_vec();
        for (holder, order) in holders.iter_mut().zip(&self.orders) {
            // The orders of an earlier planner stand.
            holder.ceiling_bytes = if first { holder.resident_bytes } else { order.allowed_bytes };
        }
        let room = DeviceRoom { capacity_bytes, room_bytes: capacity_bytes.max(self.room_bytes) };
        let mut planner =
            ResidencePlanner { tuning: &self.tuning, rows: &mut self.rows, state: &mut self.state };
        let next_ns = planner.step(self.now_ns, room, &holders, &mut self.orders);
        assert!(next_ns > self.now_ns);
        self.orders.iter().map(|o| o.allowed_bytes / GIB).collect()
    }
}

/// A tenant whose memory is all on the device, and that has worked until `worked_ns`.
pub(crate) fn whole(tenant: u64, gib: u64, worked_ns: u64) -> Holder {
    Holder {
        tenant,
        size_bytes: gib * GIB,
        resident_bytes: gib * GIB,
        submitted_ns: worked_ns,
        busy_until_ns: worked_ns,
        weight: 1,
        ..Holder::default()
    }
}

/// A tenant that waits with its memory away but for `gib_here`.
pub(crate) fn away(tenant: u64, gib: u64, gib_here: u64, since_ns: u64) -> Holder {
    Holder { resident_bytes: gib_here * GIB, wants_since_ns: since_ns, ..whole(tenant, gib, 1) }
}
