//! Input and output of the engines: work of lanes, its ends, and the clients that kept them busy.

use crate::wire::{Engine, Pace};

/// A piece of work of a lane.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The lane's own number for it.
    pub sequence: u64,
    /// The context it belongs to.
    pub context: u64,
    /// The engine it needs.
    pub engine: Engine,
    /// Nanoseconds, or bytes for copies.
    pub amount: u64,
    /// How much of the device it fills, in thousandths.
    pub width_permille: u32,
    /// How its duration is to be read.
    pub pace: Pace,
    /// When its client handed it in.
    pub submitted_ns: u64,
}

/// A piece of work whose end is certain, though perhaps still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The lane.
    pub lane: u64,
    /// The lane's number for the work.
    pub sequence: u64,
    /// When it began.
    pub started_ns: u64,
    /// When it ends.
    pub finished_ns: u64,
}

/// A stretch of time in which a context kept an engine busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The context.
    pub context: u64,
    /// Whether it was the compute engine.
    pub compute: bool,
    /// From.
    pub from_ns: u64,
    /// To.
    pub to_ns: u64,
}

/// Report of an engine.
#[derive(Debug, Default)]
pub struct Report {
    /// Ends that have become certain, each once.
    pub endings: Vec<Ending>,
    /// Stretches of work.
    pub busy: Vec<Busy>,
    /// Lanes whose work has ended at the time stepped to.
    pub(super) ended: Vec<u64>,
}
