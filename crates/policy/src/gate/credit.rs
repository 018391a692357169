//! Credit in hand: what a lane's threads may launch before the next look.
//!
//! Each launch takes its cost from the stripe of the thread that makes it, so that threads that launch
//! at once do not wait for one cache line. A stripe is filled when its own credit is spent; what lies in
//! the others counts as not submitted.
//!
//! Promises: what was taken is the sum of what was spent and what is left, but for the instants in
//! which a thread is at it; then less counts as submitted, never more. Launches are counted in the
//! stripe and handed on when it is looked at.

use core::sync::atomic::Ordering::Relaxed;

use crate::atomic::{AtomicI64, AtomicU64};

/// Stripes of a lane; a thread's number is taken around.
pub(super) const STRIPES: usize = 64;

/// A pair of cache lines, which processors fetch together.
#[repr(align(128))]
#[derive(Debug)]
struct Stripe {
    left_ns: AtomicI64,
    launches: AtomicU64,
}

impl Stripe {
    const fn new() -> Self {
        Self { left_ns: AtomicI64::new(0), launches: AtomicU64::new(0) }
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
        let stripe = self.stripe(stripe);
        if stripe.left_ns.fetch_sub(cost_ns, Relaxed) < cost_ns {
            stripe.left_ns.fetch_add(cost_ns, Relaxed);
            return false;
        }
        stripe.launches.fetch_add(1, Relaxed);
        true
    }

    /// What is left in a stripe; nothing where it is overdrawn for an instant.
    pub(super) fn left_ns(&self, stripe: usize) -> u64 {
        u64::try_from(self.stripe(stripe).left_ns.load(Relaxed)).unwrap_or(0)
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
        self.stripe(stripe).left_ns.fetch_add(net_ns, Relaxed);
        self.taken_ns.fetch_add(taken_ns, Relaxed);
    }

    /// Gives back what a launch was charged that the driver refused.
    pub(super) fn give_back(&self, stripe: usize, charged_ns: u64) {
        self.stripe(stripe).left_ns.fetch_add(signed(charged_ns), Relaxed);
    }

    /// Estimate of all that was submitted, in nanoseconds.
    pub(super) fn submitted_ns(&self) -> u64 {
        // In this order: what is taken meanwhile counts as left.
        let taken_ns = self.taken_ns.load(Relaxed);
        taken_ns.saturating_sub(self.all_left_ns())
    }

    /// The launches counted in a stripe since this was asked last.
    pub(super) fn take_launches(&self, stripe: usize) -> u64 {
        let launches = &self.stripe(stripe).launches;
        if launches.load(Relaxed) == 0 { 0 } else { launches.swap(0, Relaxed) }
    }
}

pub(super) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
