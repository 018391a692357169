//! The searcher: simulated programs, threads, processes and a card, on one thread and in virtual time.
//!
//! Each simulated thread is a fiber with a clock of its own ([`fiber`], [`sched`]), beside a card whose true
//! device time is known to the nanosecond ([`card`]). A run replays to the same [`trace`].
//!
//! Promises: no address, no wall clock and no order of a hash map enters. Integer nanoseconds everywhere;
//! a card's books add up.
//!
//! Does not hold a copy of the gate.

pub mod card;
pub mod choice;
pub mod fiber;
pub mod sched;
pub mod site;
pub mod trace;

/// A microsecond in nanoseconds.
pub const US: u64 = 1_000;
/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
