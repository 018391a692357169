//! Input of a step: the device's room, and what is known of each tenant on it.
//!
//! Promises: plain values; no combination of them is invalid. Does not say how they are read. Two duties lie with the
//! reader: samples are read after the orders of the last step were written, and a process raises its resident bytes
//! *before* it creates memory and reads its order again after that, taking the raise back where it is above the ceiling.

/// Bytes of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRoom {
    /// Bytes of the device that memory which can move may take. May change at any step.
    pub capacity_bytes: u64,
    /// Bytes that the device has for such memory. The capacity may be less, as an operator wishes: of what is made, not
    /// of what is there.
    pub room_bytes: u64,
}

/// Whether a user sent a tenant's memory away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freeze {
    /// Not frozen.
    #[default]
    No,
    /// Everything leaves and stays away until this changes.
    Held,
    /// Everything leaves and stays away until the tenant wants.
    UntilWanted,
}

/// Sample of one tenant on the device. `default()` is an empty row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Number of the tenant; 0 in an empty row. Another number is another tenant.
    pub tenant: u64,
    /// Movable bytes it holds, resident or away, and those it asks for now.
    pub size_bytes: u64,
    /// The part of `size_bytes` that it asks for and that does not exist yet.
    pub asked_bytes: u64,
    /// Bytes that may be missing of what the device holds of it, where it can run with a part away; 0 where it cannot. Such a
    /// one is as large as the device at most, and what is missing is the piece of its memory that finds no room whole.
    pub spare_bytes: u64,
    /// Bytes on the device: raised before they are created, lowered after they are released.
    pub resident_bytes: u64,
    /// The part of `resident_bytes` that is on its way back: it takes room, and is of no use yet.
    pub returning_bytes: u64,
    /// Bytes of copies on the host that it has yet to make before it can leave at the rate of the link.
    pub copies_due_bytes: u64,
    /// Highest ceiling that the process may still go by. In a mapped file it is the one that stands there; over messages
    /// the highest that was sent and not yet superseded by an answer.
    pub ceiling_bytes: u64,
    /// Times that it was to evict, had no work under way, and found no room on the host, ever: one that is stopped, or whose work
    /// does not end, says nothing.
    pub stayed: u64,
    /// Time since when it waits at its gate or for memory; 0 when it does not.
    pub wants_since_ns: u64,
    /// Its calls need another device's memory beside this one's, and wait for that: its turn begins later.
    pub waits_elsewhere: bool,
    /// Time of its last submission.
    pub submitted_ns: u64,
    /// Time by which its work is complete; `u64::MAX` while that is not known.
    pub busy_until_ns: u64,
    /// Its part of the time under pressure, against others'; 0 counts as 1.
    pub weight: u32,
    /// Length of its turns, as a user set it; 0 for what movement costs. None is shorter than the shortest turn.
    pub quantum_ns: u64,
    /// Whether a user sent it away.
    pub freeze: Freeze,
}
