//! The searcher: simulated programs, threads, processes and a card, on one thread and in virtual time.
//!
//! The gates' promises are between threads of a process, processes of a tenant, tenants and a device.
//! Here all of them run in one thread of the host, each simulated thread as a fiber with a clock of its
//! own ([`fiber`], [`sched`]), against a card whose true device time is known to the nanosecond
//! ([`card`]). Programs are data ([`program`]); a run is data too ([`case`]), drawn from a seed
//! ([`draw`]), made smaller by [`shrink`], and replayed to the same [`trace`].
//!
//! Promises: the same case gives the same trace, on any machine: no address, no wall clock and no order
//! of a hash map enters. Integer nanoseconds everywhere; a card's books add up.
//!
//! Does not hold a copy of the gate: the shipped code runs over the simulated driver and files ([`gated`],
//! [`daemon`]).

pub mod beside;
pub mod card;
pub mod case;
pub mod choice;
pub mod daemon;
pub mod draw;
pub mod due;
pub mod fiber;
pub mod files;
pub mod gated;
pub mod judge;
pub mod kept;
pub mod lone;
pub mod memory;
pub mod mixed;
pub mod oracle;
pub mod program;
pub mod rows;
pub mod sched;
pub mod shrink;
pub mod site;
pub mod steps;
pub mod trace;
pub mod verdict;
pub mod world;

/// A microsecond in nanoseconds.
pub const US: u64 = 1_000;
/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
