//! A launch's view of its process's turn inside the tenant: the turn's start, or the reason of the wait.
//!
//! Promises: plain data, which a lane keeps and [`Inside::ask`](super::Inside::ask) goes by. Does not say whose turn it
//! is: that stands in the tenant's words, and is read in `inside`.

/// A place among a tenant's processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// The turn as it was seen.
    pub turn: u64,
    /// When to ask again, if nobody wakes before.
    pub until_ns: u64,
}

/// In which turn a process may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turned {
    /// The one that it had.
    GoesOn,
    /// One of its own that has just begun.
    Begun,
    /// Another's, beside its holder: it is to ask for each launch, so that it goes no further once its holder is to be alone.
    Beside,
}

/// Since when a process has had the turn.
#[derive(Clone, Copy, Default, Debug)]
pub struct Had {
    /// When it took it.
    pub began_ns: u64,
    /// When a wait for something else ended last; 0 for never.
    pub since_ns: u64,
}

/// Time that a launch has waited for the work of a turn that is handed on.
#[derive(Clone, Copy, Default, Debug)]
pub struct Patience {
    pub(super) turn: u64,
    pub(super) deadline_ns: u64,
}
