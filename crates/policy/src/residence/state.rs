//! State of one device in the planner, and its counters.
//!
//! Promises: losing it, as a daemon does that starts again, costs fairness for a turn and nothing else. Does not keep
//! what belongs to one tenant.

/// Counts of events on a device since its state was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidenceCounters {
    /// Turns granted under pressure.
    pub grants: u64,
    /// Grants for which another tenant's turn ended.
    pub hand_overs: u64,
    /// Bytes ordered off the device.
    pub out_bytes: u64,
    /// Bytes that were away and were allowed back.
    pub in_bytes: u64,
    /// Turns that ended for a waiter before their quantum, the holder being idle.
    pub early_releases: u64,
    /// Tenants whose bytes came to count as pinned because they did not leave.
    pub bypassed: u64,
    /// Turns lost by tenants that did not restore.
    pub lost_turns: u64,
    /// Tenants that began to wait for a turn.
    pub waits: u64,
    /// Longest wait from then to a grant.
    pub longest_wait_ns: u64,
}

/// State of one device in the planner. Starts as `default()`.
#[derive(Clone, Debug, Default)]
pub struct ResidenceState {
    pub(super) counters: ResidenceCounters,
    pub(super) last_ns: u64,
    /// Ceilings rise from here on: bytes that were released before the first step are not known.
    pub(super) raises_from_ns: u64,
    /// A tenant waited at the last step: running is charged.
    pub(super) contended: bool,
    /// Virtual time of the active tenant furthest behind; never falls.
    pub(super) floor_ns: u64,
    /// Moving mean of the time from a grant to residence.
    pub(super) cost_ns: u64,
    /// Moving mean of the rate at which newcomers restore; 0 until measured.
    pub(super) rate_bytes_per_s: u64,
    /// Time by which ended turns were too short for their movement.
    pub(super) unpaid_ns: u64,
}

impl ResidenceState {
    /// The counts so far.
    pub fn counters(&self) -> ResidenceCounters {
        self.counters
    }

    /// Moving mean of the time from a grant to wholly resident.
    pub fn cost_ns(&self) -> u64 {
        self.cost_ns
    }
}
