//! Place of a tenant in the running set: its turn.
//!
//! Promises: plain values. Does not know the tenant.

/// Turn of a tenant that runs or is on its way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// It runs in room that a waiter before it cannot use yet, and goes as soon as that one can.
    pub(super) filler: bool,
    /// When it was admitted.
    pub(super) granted_ns: u64,
    /// Its size then.
    pub(super) granted_bytes: u64,
    /// Bytes that were away then.
    pub(super) away_bytes: u64,
    /// Since when it is wholly resident; 0 before. The quantum counts from here.
    pub(super) resident_since_ns: u64,
    /// Time from the grant until then.
    pub(super) cost_ns: u64,
    /// Time by which earlier turns were too short for their movement.
    pub(super) carried_ns: u64,
}

impl Member {
    /// Time that it has run at `now_ns`.
    pub(super) fn ran_ns(&self, now_ns: u64) -> u64 {
        match self.resident_since_ns {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        }
    }
}
