//! Credit in hand: what a lane's threads may launch before the next look.
//!
//! Each launch takes its cost from the stripe of the thread that makes it, so that threads that launch
//! at once do not wait for one cache line. A stripe is filled when its own credit is spent; what lies in
//! the others counts as not submitted.
//!
//! Promises: what was taken is the sum of what was spent and what is left, but for the instants in
//! which a thread is at it; then less counts as submitted, never more. A launch is counted by the same
//! addition that pays for it, and handed on when the stripe is looked at.

use core::sync::atomic::Ordering::Relaxed;

use crate::atomic::{AtomicI64, AtomicU64};

/// Stripes of a lane; a thread's number is taken around.
pub(super) const STRIPES: usize = 64;

/// Credit in nanoseconds above so many bits of launches. A chunk pays for less than a million.
const LAUNCH_BITS: u32 = 20;
const LAUNCHES: i64 = (1 << LAUNCH_BITS) - 1;
/// Credit that a word holds: two hours and a half of the device's time.
const MOST_NS: i64 = i64::MAX >> LAUNCH_BITS;

/// A pair of cache lines, which processors fetch together.
#[repr(align(128))]
#[derive(Debug)]
struct Stripe {
    word: AtomicI64,
}

impl Stripe {
    const fn new() -> Self {
        Self { word: AtomicI64::new(0) }
    }

    fn add(&self, ns: i64) {
        self.word.fetch_add(ns.clamp(-MOST_NS, MOST_NS) << LAUNCH_BITS, Relaxed);
    }
}

/// The credit of one lane.
#[derive(Debug)]
pub(super) struct Credit {
    stripes: [Stripe; STRIPES],
    /// A bit for each stripe that was ever filled: the others are not looked at.
    filled: AtomicU64,
    /// Credit ever taken.
    taken_ns: AtomicU64,
}

impl Credit {
    pub(super) const fn new() -> Self {
        Self {
            stripes: [const { Stripe::new() }; STRIPES],
            filled: AtomicU64::new(0),
            taken_ns: AtomicU64::new(0),
        }
    }

    fn stripe(&self, stripe: usize) -> &Stripe {
        let [first, ..] = &self.stripes;
        self.stripes.get(stripe % STRIPES).unwrap_or(first)
    }

    /// Spends `cost_ns` of the stripe's credit and counts a launch; false where there is less.
    #[inline(always)]
    pub(super) fn spend(&self, stripe: usize, cost_ns: i64) -> bool {
        let word = &self.stripe(stripe).word;
        let spent = (cost_ns.min(MOST_NS) << LAUNCH_BITS) - 1;
        if word.fetch_sub(spent, Relaxed) >> LAUNCH_BITS < cost_ns {
            word.fetch_add(spent, Relaxed);
            return false;
        }
        true
    }

    /// What is left in a stripe; nothing where it is overdrawn for an instant.
    pub(super) fn left_ns(&self, stripe: usize) -> u64 {
        let left_ns = self.stripe(stripe).word.load(Relaxed) >> LAUNCH_BITS;
        u64::try_from(left_ns).unwrap_or(0)
    }

    /// What is left in all of them.
    #[inline(never)]
    pub(super) fn all_left_ns(&self) -> u64 {
        let mut filled = self.filled.load(Relaxed);
        let mut sum_ns = 0_u64;
        while filled != 0 {
            sum_ns = sum_ns.saturating_add(self.left_ns(filled.trailing_zeros() as usize));
            filled &= filled.wrapping_sub(1);
        }
        sum_ns
    }

    /// Takes `taken_ns` more, of which `spent_ns` is spent at once.
    #[inline(never)]
    pub(super) fn take(&self, stripe: usize, taken_ns: u64, spent_ns: u64) {
        let bit = 1_u64 << (stripe % STRIPES);
        if self.filled.load(Relaxed) & bit == 0 {
            self.filled.fetch_or(bit, Relaxed);
        }
        let net_ns = signed(taken_ns).saturating_sub(signed(spent_ns));
        self.stripe(stripe).add(net_ns);
        self.taken_ns.fetch_add(taken_ns, Relaxed);
    }

    /// Gives back what a launch was charged that the driver refused.
    pub(super) fn give_back(&self, stripe: usize, charged_ns: u64) {
        self.stripe(stripe).add(signed(charged_ns));
    }

    /// Estimate of all that was submitted, in nanoseconds.
    pub(super) fn submitted_ns(&self) -> u64 {
        // In this order: what is taken meanwhile counts as left.
        let taken_ns = self.taken_ns.load(Relaxed);
        taken_ns.saturating_sub(self.all_left_ns())
    }

    /// The launches counted in a stripe since this was asked last.
    pub(super) fn take_launches(&self, stripe: usize) -> u64 {
        let none = |word: i64| (word & LAUNCHES != 0).then_some(word & !LAUNCHES);
        let word = self.stripe(stripe).word.fetch_update(Relaxed, Relaxed, none).unwrap_or(0);
        (word & LAUNCHES).unsigned_abs()
    }
}

pub(super) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
