//! The draw of short launches to be measured, and the charges that a drawn one stands for.
//!
//! A launch is drawn before anything is known of how long it takes, by its charge: launches of a kernel are charged
//! alike, so each is as likely to be drawn. It stands for all that was charged since the draw before, and its deviation
//! is charged that many times over: errors of estimates are corrected in sum, for any pattern of lengths.
//!
//! Draws are as rare as the observed deviations allow: their spacing is such that by chance a second of device time is
//! wrong by no more than 15 ms, one standard deviation. Kernels of which each takes as long as the one before are
//! measured each 10 ms.
//!
//! Promises: no launch stands for more than was charged since the last draw; the charge for it is no more than 100 ms
//! beyond its length. Launches that are measured anyway (unknown, long, uneven) are neither drawn nor stood for, nor
//! are those that came while several streams were used (`among`). Does not measure.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::credit::signed;
use super::tuning;
use crate::scaled::scaled;

/// One, in the steps of [`LaunchSample::spread`].
const ONE: u64 = 1 << 32;

/// Draws of one lane. Only the thread that holds the lane's claim draws and learns.
#[derive(Debug)]
pub(super) struct LaunchSample {
    /// Charges for launches that are not drawn from.
    apart_ns: AtomicU64,
    /// Charges without those at the last draw, and at the next.
    last_ns: AtomicU64,
    next_ns: AtomicU64,
    /// Mean square of the deviation of lengths from the expected ones, relative to these; less the initial value, so
    /// that a lane may begin as zeros.
    spread: AtomicU64,
}

/// Spread that is assumed before any observation.
const SPREAD_AT_FIRST: u64 = tuning::VARIANCE_NS * ONE / tuning::DRAWS_APART_AT_FIRST_NS;

impl LaunchSample {
    pub(super) const fn new() -> Self {
        const fn word() -> AtomicU64 {
            AtomicU64::new(0)
        }
        Self { apart_ns: word(), last_ns: word(), next_ns: word(), spread: word() }
    }

    /// Notes the charge of a launch that is measured anyway.
    pub(super) fn set_apart(&self, charged_ns: u64) {
        self.apart_ns.fetch_add(charged_ns, Relaxed);
    }

    fn clock_ns(&self, submitted_ns: u64) -> u64 {
        submitted_ns.saturating_sub(self.apart_ns.load(Relaxed))
    }

    /// Returns how much may be charged before the next draw.
    pub(super) fn due_in_ns(&self, submitted_ns: u64) -> u64 {
        self.next_ns.load(Relaxed).saturating_sub(self.clock_ns(submitted_ns))
    }

    /// True if the launch that comes next, charged so much, is the one to be drawn. Were it the one behind it, a look
    /// at this one, whose end is marked, would always come before a draw: in the midst of a burst none would stand for
    /// others.
    pub(super) fn is_due(&self, submitted_ns: u64, charged_ns: u64) -> bool {
        self.due_in_ns(submitted_ns) < charged_ns.max(1)
    }

    /// Begins anew: the launches to come are the first of one stream's.
    pub(super) fn restart(&self, submitted_ns: u64) {
        self.last_ns.store(self.clock_ns(submitted_ns), Relaxed);
    }

    /// Draws the launch that comes next; returns the charges it stands for. `random` spreads the draw after it. Where
    /// it cannot be measured, those charges stay uncorrected.
    pub(super) fn draw(&self, submitted_ns: u64, random: u64) -> u64 {
        let now_ns = self.clock_ns(submitted_ns);
        let stands_ns = now_ns.saturating_sub(self.last_ns.swap(now_ns, Relaxed));
        let apart_ns = self.apart_by_ns();
        let next_ns = apart_ns / 2 + random.checked_rem(apart_ns).unwrap_or(0);
        self.next_ns.store(now_ns.saturating_add(next_ns), Relaxed);
        stands_ns
    }

    /// Returns the time between draws, on average.
    fn apart_by_ns(&self) -> u64 {
        let spread = self.spread.load(Relaxed) ^ SPREAD_AT_FIRST;
        (tuning::VARIANCE_NS * ONE / spread.max(1)).min(tuning::DRAWS_APART_NS)
    }

    /// Learns the deviation of a launch that stands for `stands_ns` from its expected length.
    pub(super) fn learn(&self, expected_ns: u64, took_ns: u64, stands_ns: u64) {
        let off = took_ns.abs_diff(expected_ns).saturating_mul(1 << 16) / expected_ns.max(1);
        let off = off.min(tuning::MOST_OFF << 16);
        let before = self.spread.load(Relaxed) ^ SPREAD_AT_FIRST;
        let part = stands_ns.min(tuning::SPREAD_FADES_NS);
        let [before, more] =
            [(before, tuning::SPREAD_FADES_NS - part), (off.saturating_mul(off), part)]
                .map(|(square, part)| scaled(square, part, tuning::SPREAD_FADES_NS));
        let after = before.saturating_add(more);
        self.spread.store(after ^ SPREAD_AT_FIRST, Relaxed);
    }
}

/// Returns the correction of the charges, where a launch that was charged `charged_ns` took `took_ns` and stands for
/// `stands_ns` of the charges.
pub(super) fn correction_ns(charged_ns: u64, took_ns: u64, stands_ns: u64) -> i64 {
    let off_ns = took_ns.abs_diff(charged_ns);
    let all_ns = match stands_ns <= charged_ns {
        true => off_ns,
        false => scaled(off_ns, stands_ns, charged_ns.max(1)),
    };
    match took_ns < charged_ns {
        true => -signed(all_ns),
        false => signed(all_ns.min(off_ns.saturating_add(tuning::DRAW_MOST_NS))),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// Returns the sum of charges for so many launches of lengths `of`, and the time that they took. The prediction is
    /// a moving mean of the drawn ones, which is wrong most of the time.
    fn charged(launches: u64, of: impl Fn(u64) -> u64) -> (u64, u64) {
        let sample = LaunchSample::new();
        let (mut submitted_ns, mut predicted_ns) = (0_u64, of(0));
        let (mut all_ns, mut took_ns, mut random) = (0_i64, 0_u64, 0x2545_f491_4f6c_dd1d_u64);
        for n in 0..launches {
            let length_ns = of(n);
            took_ns += length_ns;
            all_ns += i64::try_from(predicted_ns).unwrap();
            if sample.is_due(submitted_ns, predicted_ns) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let stands_ns = sample.draw(submitted_ns, random).max(predicted_ns);
                all_ns += correction_ns(predicted_ns, length_ns, stands_ns);
                sample.learn(predicted_ns, length_ns, stands_ns);
                submitted_ns += predicted_ns;
                predicted_ns = (predicted_ns * 7 + length_ns) / 8;
            } else {
                submitted_ns += predicted_ns;
            }
        }
        (u64::try_from(all_ns).unwrap(), took_ns)
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn whatever_pattern_lengths_have_the_sum_is_right() {
        let runs = |n: u64| if n % 340 < 40 { 5_600 } else { 28_400 };
        let alternately = |n: u64| if n.is_multiple_of(2) { 50 * US } else { 150 * US };
        let rarely = |n: u64| if n.wrapping_mul(0x9e37_79b9) % 100 < 5 { 95 * US } else { 5 * US };
        let growing = |n: u64| 20 * US + n / 4;
        let patterns: [&dyn Fn(u64) -> u64; 5] =
            [&runs, &alternately, &rarely, &growing, &|n| 5 * US + n % 3 * 8 * US];
        for (at, of) in patterns.into_iter().enumerate() {
            let (charged_ns, took_ns) = charged(400_000, of);
            let off = charged_ns as f64 / took_ns as f64 - 1.0;
            assert!(off.abs() < 0.02, "pattern {at}: {off:+.4}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn what_is_alike_is_measured_rarely_and_what_is_not_often() {
        let apart_ns = |off_ns: u64| {
            let sample = LaunchSample::new();
            let mut took_ns = 0;
            for _ in 0..4_000 {
                took_ns = if took_ns == 100 * US - off_ns {
                    100 * US + off_ns
                } else {
                    100 * US - off_ns
                };
                sample.learn(100 * US, took_ns, tuning::DRAWS_APART_NS / 10);
            }
            sample.apart_by_ns()
        };
        assert_eq!(apart_ns(0), tuning::DRAWS_APART_NS);
        assert_eq!(apart_ns(US), tuning::DRAWS_APART_NS);
        // A deviation of half the length: 225 us over a quarter.
        assert!((850 * US..950 * US).contains(&apart_ns(50 * US)), "{}", apart_ns(50 * US));
        assert!((240 * US..320 * US).contains(&apart_ns(90 * US)), "{}", apart_ns(90 * US));
    }

    #[test]
    fn what_is_measured_anyway_is_not_stood_for() {
        let sample = LaunchSample::new();
        assert_eq!(sample.due_in_ns(0), 0);
        assert_eq!(sample.draw(0, 0), 0);
        // 5 ms of a long kernel, each of which is measured, and 300 us of a short one.
        sample.set_apart(5_000 * US);
        let left_ns = sample.due_in_ns(5_300 * US);
        assert_eq!(left_ns, tuning::DRAWS_APART_AT_FIRST_NS / 2 - 300 * US);
        assert_eq!(sample.draw(5_500 * US, 0), 500 * US);
    }

    #[test]
    fn one_launch_is_charged_for_others_within_bounds() {
        assert_eq!(correction_ns(10 * US, 12 * US, 10 * US), 2_000, "itself");
        assert_eq!(correction_ns(10 * US, 12 * US, 1_000 * US), 200_000, "and 99 others");
        assert_eq!(correction_ns(10 * US, 5 * US, 1_000 * US), -500_000);
        let most = i64::try_from(tuning::DRAW_MOST_NS).unwrap();
        assert_eq!(correction_ns(10 * US, 10_010 * US, 10_000 * US), 10_000_000 + most);
        assert_eq!(correction_ns(10 * US, 0, 10_000 * US), -10_000_000, "what was charged");
    }
}
