//! The word of a lane's claim: a flag for the thread that has it, the number of threads that keep it closed, and the
//! life of its context.
//!
//! Promises: one word, so that every change of it is made with all of it in view. Does not say when a claim is given:
//! that, with the meaning of the parts, is in `claim`.

use core::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::atomic::AtomicU64;

/// A life that no lane has: a thread that carries it is given no claim.
pub(super) const NO_LIFE: u64 = u64::MAX;

/// The claim's word: flags and closers below the number of the life.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) word: AtomicU64,
}

/// Flag of a claim that a thread has.
pub(super) const HELD: u64 = 1;
/// Flag of a life that is over as soon as the claim is let go.
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
