//! Layouts that cross a process border: the two files of a tenant, and the file where tenants meet.
//!
//! `config` says what a tenant may have; only its owner writes it. `usage` says what its processes
//! hold; they write it, each in lines of its own. Both start with a magic, a version and a size, so
//! that random bytes, another version and a short file are told apart.
//!
//! Promises: every size and offset is asserted at compile time and is the same on x86-64 and
//! aarch64; no two processes write into one cache line of the ledger. Holds no code that reads or
//! maps anything: that is `page`'s.

#![no_std]
#![forbid(unsafe_code)]

pub mod config;
pub mod layout;
pub mod meet;
pub mod usage;

/// Version of both layouts. A process knows files of this one alone; see [`layout`] for who knows others,
/// and for what to do when one changes.
///
/// 6: the owner orders how much of that memory is on the card.
pub const ABI_VERSION: u32 = 6;

/// GPUs one tenant can be limited on.
pub const MAX_DEVICES: usize = 16;

/// Process slots of a tenant, the pseudo slot of shared memory included.
pub const MAX_SLOTS: usize = 1024;

/// A device's UUID, as `cuDeviceGetUuid` gives it.
pub type Uuid = [u8; 16];
