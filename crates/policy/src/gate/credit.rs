//! Credit in hand: device time that a lane's threads may launch before the next look.
//!
//! Each launch takes its cost from the stripe of the thread that makes it, so that threads that launch at once do not
//! wait for one cache line. A stripe is filled when its own credit is spent; the credit left in the others counts as
//! not submitted.
//!
//! Promises: the credit taken is the sum of the spent and the left, but for the instants in which a thread takes more;
//! then less counts as submitted, never more. A launch is counted by the same change that pays for it. The first after
//! a look is handed on at once, so that an observer sees that work has begun; the others when the stripe is looked at
//! again. A look that finds nothing to hand on changes no word that threads change together: it is most of the cost of
//! a loop that synchronises. Does not charge.

use core::sync::atomic::Ordering::Relaxed;

use crate::atomic::{AtomicI64, AtomicU64};

/// Stripes of a lane; a thread's number is taken around.
pub(super) const STRIPES: usize = 1 << STRIPE_BITS;
const STRIPE_BITS: u32 = 6;

/// Size of the smallest stacks that are told apart, in bits of an address: 128 KiB.
const STACK_BITS: u32 = 17;

/// Returns the stripe of a thread with the address of the end of its stack, or any place that is always the same: one
/// inside the stack may lie on either side of a border.
///
/// Stacks of a process lie one behind the other, as far apart as they are large. By this factor no two of sixteen that
/// are 128 KiB to 256 MiB large and no two of thirty-two of the usual sizes have one stripe; by the golden ratio, four
/// of sixteen of 2 MiB had. Found by search.
#[inline(always)]
pub const fn stripe_of(stack: usize) -> usize {
    let factor = 0xfbef_7be2_bf2e_fd75_usize;
    (stack >> STACK_BITS).wrapping_mul(factor) >> (usize::BITS - STRIPE_BITS)
}

/// Credit in nanoseconds above so many bits of launches. A chunk pays for less than a million.
const LAUNCH_BITS: u32 = 20;
const LAUNCHES: i64 = (1 << LAUNCH_BITS) - 1;
/// A word that no look left behind, as it counts no launch.
const NEVER: i64 = 0;
/// Credit that a word holds: two hours and a half of the device's time.
const MOST_NS: i64 = i64::MAX >> LAUNCH_BITS;

/// Outcome of paying for a launch from the credit in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paid {
    /// Not paid: there is less credit than it costs.
    Not,
    /// Paid, and the first since launches were handed on: the caller hands this one on.
    First,
    /// Paid, and handed on with those that follow.
    Next,
}

/// A pair of cache lines, which processors fetch together.
#[repr(align(128))]
#[derive(Debug)]
struct Stripe {
    word: AtomicI64,
    /// The word as left by a look that found one launch, which had been handed on, or [`NEVER`]. While the word is
    /// still that, the next launch is the first after a look, and replaces the one in the count.
    looked: AtomicI64,
}

impl Stripe {
    const fn new() -> Self {
        Self { word: AtomicI64::new(0), looked: AtomicI64::new(NEVER) }
    }

    /// True if the next launch is the first since launches were handed on. The word alone says whether a launch is to
    /// be counted, so a look by another thread meanwhile makes none be lost or counted twice: at most it is handed on
    /// at another time.
    #[inline(always)]
    fn is_fresh(&self, word: i64) -> bool {
        match word & LAUNCHES {
            0 => true,
            1 => word == self.looked.load(Relaxed),
            _ => false,
        }
    }

    fn add(&self, ns: i64) {
        let more = ns.clamp(-MOST_NS, MOST_NS) << LAUNCH_BITS;
        let before = self.word.fetch_add(more, Relaxed);
        // Added credit never restores the word as a look before the last launch left it.
        let is_looked = before == self.looked.load(Relaxed);
        self.looked.store(if is_looked { before.wrapping_add(more) } else { NEVER }, Relaxed);
    }

    #[inline(never)]
    fn take_launches(&self) -> u64 {
        let none = |word: i64| (word & LAUNCHES != 0).then_some(word & !LAUNCHES);
        let word = self.word.fetch_update(Relaxed, Relaxed, none).unwrap_or(0);
        (word & LAUNCHES).unsigned_abs().saturating_sub(1)
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

    /// Spends `cost_ns` of the stripe's credit and counts a launch, where there is as much.
    #[inline(always)]
    pub(super) fn spend(&self, stripe: usize, cost_ns: i64) -> Paid {
        let stripe = self.stripe(stripe);
        let mut is_first = false;
        let spend = |word: i64| {
            is_first = stripe.is_fresh(word);
            let counted = if is_first { word & !LAUNCHES } else { word };
            (word >> LAUNCH_BITS >= cost_ns).then(|| counted - (cost_ns << LAUNCH_BITS) + 1)
        };
        match stripe.word.fetch_update(Relaxed, Relaxed, spend) {
            Ok(_) if is_first => Paid::First,
            Ok(_) => Paid::Next,
            Err(_) => Paid::Not,
        }
    }

    /// Returns the credit left in a stripe; 0 where it is overdrawn for an instant.
    pub(super) fn left_ns(&self, stripe: usize) -> u64 {
        let left_ns = self.stripe(stripe).word.load(Relaxed) >> LAUNCH_BITS;
        u64::try_from(left_ns).unwrap_or(0)
    }

    /// Returns the credit left in all stripes.
    #[inline(never)]
    fn all_left_ns(&self) -> u64 {
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

    /// Gives back the charge of a launch that the driver refused.
    pub(super) fn give_back(&self, stripe: usize, charged_ns: u64) {
        self.stripe(stripe).add(signed(charged_ns));
    }

    /// Returns the estimate of all work that was submitted, in nanoseconds.
    pub(super) fn submitted_ns(&self) -> u64 {
        // The total is read first: credit that is taken meanwhile counts as left.
        let taken_ns = self.taken_ns.load(Relaxed);
        taken_ns.saturating_sub(self.all_left_ns())
    }

    /// Returns the credit left in the other stripes when so much had been submitted, plus the credit taken since.
    pub(super) fn others_left_ns(&self, stripe: usize, submitted_ns: u64) -> u64 {
        let in_hand_ns = self.taken_ns.load(Relaxed).saturating_sub(submitted_ns);
        in_hand_ns.saturating_sub(self.left_ns(stripe))
    }

    /// Takes the count of launches in a stripe since the last call, except the first, which was handed on.
    #[inline]
    pub(super) fn take_launches(&self, stripe: usize) -> u64 {
        let stripe = self.stripe(stripe);
        let word = stripe.word.load(Relaxed);
        let count = word & LAUNCHES;
        stripe.looked.store(if count == 1 { word } else { NEVER }, Relaxed);
        if count > 1 { stripe.take_launches() } else { 0 }
    }
}

pub(super) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stacks_of_one_size_have_stripes_of_their_own(
            first in 0x7_f000_0000_usize..0x7_ffff_ffff,
            doublings in 17..29_u32,
            guard in 0..2_usize,
        ) {
            let apart = (1 << doublings) + guard * 4096;
            let stripes = (0..16).map(|n| stripe_of(first * 4096 - n * apart));
            let used = stripes.fold(0_u64, |used, stripe| used | 1 << stripe);
            prop_assert_eq!(used.count_ones(), 16, "{:#x} bytes apart", apart);
        }
    }

    proptest! {
        #[test]
        fn launches_are_handed_on_as_by_a_count_that_each_look_sets_to_nothing(
            steps in proptest::collection::vec((0..6_u32, 1..4_i64), 0..60),
        ) {
            let credit = Credit::new();
            let (mut left_ns, mut count) = (0, 0);
            for (what, cost) in steps {
                let cost_ns = cost * 100;
                match what {
                    0 => {
                        credit.take(3, 300 * cost.unsigned_abs(), cost_ns.unsigned_abs());
                        left_ns += 2 * cost_ns;
                    }
                    1 | 2 => {
                        prop_assert_eq!(credit.take_launches(3), u64::saturating_sub(count, 1));
                        count = 0;
                    }
                    _ => {
                        let paid = match count {
                            _ if left_ns < cost_ns => Paid::Not,
                            0 => Paid::First,
                            _ => Paid::Next,
                        };
                        prop_assert_eq!(credit.spend(3, cost_ns), paid);
                        if paid != Paid::Not {
                            (left_ns, count) = (left_ns - cost_ns, count + 1);
                        }
                    }
                }
                prop_assert_eq!(credit.left_ns(3), left_ns.unsigned_abs());
            }
        }
    }

    #[test]
    fn the_first_launch_after_a_look_is_handed_on_at_once_and_only_once() {
        let credit = Credit::new();
        credit.take(3, 1_000, 200);
        assert_eq!(credit.spend(3, 100), Paid::First);
        assert_eq!(
            [100, 300, 701].map(|ns| credit.spend(3, ns)),
            [Paid::Next, Paid::Next, Paid::Not]
        );
        assert_eq!((credit.take_launches(3), credit.take_launches(3)), (2, 0));
        // The unpaid launch has left nothing behind, and another stripe has its own first.
        assert_eq!(credit.spend(3, 301), Paid::Not);
        assert_eq!((credit.left_ns(3), credit.take_launches(3)), (300, 0));
        credit.take(4, 1_000, 0);
        assert_eq!((credit.spend(4, 1), credit.spend(3, 300)), (Paid::First, Paid::First));
        assert_eq!((credit.take_launches(3), credit.take_launches(4)), (0, 0));
        assert_eq!(credit.submitted_ns(), 1_001);
    }

    #[test]
    fn each_launch_with_a_look_behind_it_is_handed_on_at_once() {
        let credit = Credit::new();
        credit.take(3, 1_000, 0);
        for _ in 0..3 {
            assert_eq!((credit.spend(3, 100), credit.take_launches(3)), (Paid::First, 0));
        }
        // Credit added between them makes no difference.
        credit.give_back(3, 100);
        assert_eq!(
            [100, 100, 100].map(|ns| credit.spend(3, ns)),
            [Paid::First, Paid::Next, Paid::Next]
        );
        assert_eq!((credit.take_launches(3), credit.take_launches(3)), (2, 0));
        assert_eq!((credit.left_ns(3), credit.submitted_ns()), (500, 500));
    }
}
