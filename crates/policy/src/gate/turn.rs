//! A launch's view of its process's turn inside the tenant: the time since which the process has it, or the place at
//! which it waits.
//!
//! Promises: plain data, which a lane keeps and [`Inside::ask`](super::Inside::ask) goes by. Does not name the turn's
//! holder: that is in the tenant's words, and read in `inside`.

/// A place among a tenant's processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// The turn as it was seen.
    pub turn: u64,
    /// Time to ask again, if no other process wakes this one before.
    pub until_ns: u64,
}

/// The turn in which a process may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turned {
    /// The turn that it had.
    GoesOn,
    /// A turn of its own that has just begun.
    Begun,
    /// Another's turn, beside its holder: the process asks for each launch, so that it goes no further once the holder
    /// is to be alone.
    Beside,
}

/// Times since which a process has had the turn.
#[derive(Clone, Copy, Default, Debug)]
pub struct Had {
    /// Beginning of its turn.
    pub began_ns: u64,
    /// End of its last wait for something else; 0 for never.
    pub since_ns: u64,
}

/// A launch's patience with the work of a turn that is handed on.
#[derive(Clone, Copy, Default, Debug)]
pub struct Patience {
    pub(super) turn: u64,
    pub(super) deadline_ns: u64,
}
