//! The word of a lane's claim: a flag for its holder, the number of threads that keep it closed, and the life of its
//! context.
//!
//! Promises: one word, so that a thread that changes it has seen all of it. Does not say what its parts mean for the
//! claim: `claim` does.

use core::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::atomic::AtomicU64;

/// A life that no lane has: its owner is given no claim.
pub const NO_LIFE: u64 = u64::MAX;

/// The claim's word: flags and closers below the number of the life.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) word: AtomicU64,
}

/// A thread has the claim.
pub(super) const HELD: u64 = 1;
/// The life is over as soon as the claim is let go.
pub(super) const ENDED: u64 = 1 << 1;
/// One thread that keeps the lane closed.
pub(super) const CLOSER: u64 = 1 << 2;
pub(super) const CLOSERS: u64 = LIFE - CLOSER;
/// One life.
pub(super) const LIFE: u64 = 1 << 16;

pub(super) const fn life_of(word: u64) -> u64 {
    word / LIFE
}

impl Claims {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    pub(super) fn change(&self, change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        self.word.fetch_update(AcqRel, Acquire, change)
    }
}
