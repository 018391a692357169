//! The host of a simulated process: its clock, and what is left to chance, from a seed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const US: u64 = 1_000;

/// A number that one thread changes.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Relaxed);
    }
}

/// A host's clock and generator.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) now_ns: Word,
    random: Word,
}

impl Host {
    pub(crate) fn new(now_ns: u64, seed: u64) -> Self {
        Self { now_ns: Word(AtomicU64::new(now_ns)), random: Word(AtomicU64::new(seed)) }
    }

    pub(crate) fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }

    /// Computes for so long.
    pub(crate) fn spend(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    /// How late a timer is.
    pub(crate) fn late_ns(&self) -> u64 {
        30 * US + self.random() % (90 * US)
    }

    /// Takes the time of a launch call.
    pub(crate) fn launch(&self) {
        self.spend(2_400 + self.random() % 800);
    }

    /// Goes on at `ns`, or now where that has passed.
    pub(crate) fn go_to(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get().max(ns));
    }
}
