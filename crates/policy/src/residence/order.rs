//! Output of a step: one order for each tenant, and its status for people.
//!
//! Promises: an order is complete by itself; it supersedes all before it. Does not say in which sequence blocks move.

/// How long an order holds without a word of its owner's, and how long before its end it is renewed.
pub const ORDER_LEASE_NS: (u64, u64) = (1_000_000_000, 500_000_000);

/// Bytes of copies on the host beyond those that it may keep which a process does not give back: the part of each changes a
/// little while others come and go, and the driver holds up a program whose memory of the host it lets go of (by half, measured).
/// Its owner reckons with them.
pub const KEPT_BEYOND_BYTES: u64 = 2 << 30;

/// Time for which a tenant that is [`HolderStatus::PinnedOut`] is waited for before what it asks for is refused: half the longest
/// wait for a turn, so that one which is not told has a turn; and what a program needs that ends, to have given its room back.
pub const PINNED_OUT_NS: u64 = 15_000_000_000;

/// Time for which a tenant that has no room for what it holds waits before it is [`LockedOut`]. Its program ends by that, so it
/// is longer than what is only refused waits: with 15 s a tenant was told whose neighbour kept its memory for a moment.
pub const LOCKED_OUT_NS: u64 = 20_000_000_000;

/// Status of a tenant after a step, as `divvy ps` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HolderStatus {
    /// No tenant in this row.
    #[default]
    Empty,
    /// Its gate may be open.
    Runs,
    /// Its turn has come and its bytes are on their way.
    Restores,
    /// It waits for its turn.
    Waits,
    /// It neither runs nor wants to; it keeps what no other needs.
    Rests,
    /// A user sent it away.
    Frozen,
    /// It is larger than the card and cannot run.
    Larger,
    /// It is larger than pinned bytes of others leave.
    PinnedOut,
    /// It did not evict in time: its bytes count as pinned until it does.
    Bypassed,
}

/// Word to a tenant whose calls wait for memory that cannot be where they need it: it is larger than what can be had, and has
/// been for [`LOCKED_OUT_NS`] of its wait. Its calls are to fail instead of waiting on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockedOut {
    /// Bytes that it holds.
    pub needed_bytes: u64,
    /// Bytes of the device that it could have, were no other tenant to keep any that can leave.
    pub room_bytes: u64,
}

/// Order for one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HolderOrder {
    /// Ceiling of its resident bytes. Above it the process closes its gate, drains and evicts; below it, it may restore
    /// and allocate.
    pub allowed_bytes: u64,
    /// Its gate may be open. Its memory was wholly resident when this became true, and is not taken while it is.
    pub run: bool,
    /// Status for display.
    pub status: HolderStatus,
    /// Its calls wait in vain.
    pub locked_out: Option<LockedOut>,
}
