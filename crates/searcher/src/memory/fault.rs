//! Faults of the modelled library and owner: a rule of theirs that is left out, to see that the judge finds it.
//!
//! Promises: each is one that stood in the code once, or a rule that it promises. None by default. Does not say where it
//! is looked at: the part whose rule it is does.

/// A rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// T1. A device has memory and no context: the service gives up and opens the door, though bytes of another device are
    /// away.
    OpensOverAway,
    /// T2. Memory was to leave while no context lived: the service ends, and a context that comes later changes nothing.
    EndsWithContext,
    /// T3. Behind the closed door work of green contexts is waited for without a deadline.
    WaitsWithoutEnd,
    /// T4. A tenant that has no room is not told.
    Untold,
    /// T4b. The owner takes a capacity for all that the device has: what was made before there was one cannot run.
    BoundKeepsOut,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::OpensOverAway,
        Self::EndsWithContext,
        Self::WaitsWithoutEnd,
        Self::Untold,
        Self::BoundKeepsOut,
    ];
}
