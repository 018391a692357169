//! The meeting file: who works on a device where no daemon makes turns.
//!
//! One file per device in a directory that tenants share. It is a board of places, one for each
//! process, read and written by `pread` and `pwrite` and never mapped: whatever lies in it, and however
//! short it is, is only numbers. What is missing reads as zeros.
//!
//! It has no head and no version, since tenants of several versions meet in it: a board of another
//! layout lies in a directory of another name.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Places of a board. Who finds none goes on without.
pub const PLACES: usize = 32;

/// One process's place. All times are CLOCK_MONOTONIC.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct BoardPlace {
    /// Drawn by the process; 0 for a place nobody had.
    pub id: u64,
    /// Until when the device is its own, unless it says so again.
    pub until_ns: u64,
    /// Since when it is; 0 while nothing but work that was submitted before still runs.
    pub since_ns: u64,
    /// When it last waited for the device.
    pub want_ns: u64,
    /// Since when it has been waiting.
    pub waits_from_ns: u64,
    /// Identity of its tenant, the same in all processes of it and no others; 0 if it is unknown.
    pub tenant: u64,
    /// Zero, to a cache line.
    pub reserved: [u64; 2],
}

/// All places.
pub type Board = [BoardPlace; PLACES];

const _: () = assert!(size_of::<BoardPlace>() == 64 && size_of::<Board>() == 2048);
