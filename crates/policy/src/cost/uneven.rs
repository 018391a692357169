//! Kernels whose lengths differ by so much that samples of them would not do: each launch is measured.
//!
//! A small table beside that of costs, with two moments of each kernel: the mean, and the root of the mean of
//! squares. Both fade with time, not with the number of launches: a long run of short ones does not make a
//! kernel a short one.
//!
//! Promises: a look-up is a few loads; two threads that learn at once lose a sample. A kernel that
//! another pushes out of the table has its mean alone until it is learnt again.
//!
//! Does not say which kernels are uneven: that is a flag of the costs' own.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::scaled::scaled;

/// How long a kernel counts as uneven after a launch that showed it.
const LASTS_NS: u64 = 5_000_000_000;
/// The same after the first ones that did, within so short a time: before turns begin, slices of others that have just
/// come make any kernel look so.
const AT_FIRST_NS: u64 = 500_000_000;
const FIRST_NS: u64 = 200_000_000;
/// Time after which what was seen is forgotten, but for a part.
const FADES_NS: u64 = 2_000_000_000;
/// Of what was seen before a pause, however long, one part in so many stays: what comes first after it may all be short.
const KEPT: u64 = 8;
/// Kernels in the table.
const PLACES: usize = 64;
/// Weight of one sample.
const SAMPLE: u64 = 1 << 12;

/// Moments of a kernel whose lengths differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moments {
    /// The mean of what was seen of late.
    pub mean_ns: u64,
    /// The root of the mean of squares.
    pub rms_ns: u64,
}

#[derive(Debug)]
struct Place {
    key: AtomicU64,
    /// Until when it counts as uneven, and since when launches have shown it.
    until_ns: AtomicU64,
    since_ns: AtomicU64,
    /// Until when it counts as uneven whoever is there.
    sure_until_ns: AtomicU64,
    /// When it was learnt last.
    at_ns: AtomicU64,
    /// Samples, [`SAMPLE`] each as long as they are fresh; their sum, and that of squares of microseconds.
    samples: AtomicU64,
    sum_ns: AtomicU64,
    squares: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Uneven {
    places: [Place; PLACES],
}

impl Uneven {
    pub(super) const fn new() -> Self {
        let places = [const {
            Place {
                key: AtomicU64::new(0),
                until_ns: AtomicU64::new(0),
                since_ns: AtomicU64::new(0),
                sure_until_ns: AtomicU64::new(0),
                at_ns: AtomicU64::new(0),
                samples: AtomicU64::new(0),
                sum_ns: AtomicU64::new(0),
                squares: AtomicU64::new(0),
            }
        }; PLACES];
        Self { places }
    }

    fn place(&self, key: u64) -> Option<&Place> {
        self.places.get((key >> 32) as usize % PLACES)
    }

    /// The moments of a key; `None` if it does not count as uneven any more.
    pub(super) fn get(&self, key: u64, now_ns: u64) -> Option<Moments> {
        let place = self.place(key).filter(|place| place.key.load(Relaxed) == key)?;
        if now_ns >= place.until_ns.load(Relaxed) {
            return None;
        }
        let samples = place.samples.load(Relaxed).max(1);
        let (sum_ns, squares) = (place.sum_ns.load(Relaxed), place.squares.load(Relaxed));
        let mean_ns = sum_ns.saturating_mul(SAMPLE) / samples;
        let rms_us = root(squares.saturating_mul(SAMPLE) / samples);
        Some(Moments { mean_ns, rms_ns: rms_us.saturating_mul(1_000).max(mean_ns) })
    }

    /// It counts as uneven from now on, whoever is there.
    pub(super) fn make_sure(&self, key: u64, now_ns: u64) {
        if let Some(place) = self.place(key).filter(|place| place.key.load(Relaxed) == key) {
            let until_ns = now_ns.saturating_add(LASTS_NS);
            place.until_ns.store(until_ns, Relaxed);
            place.sure_until_ns.store(until_ns, Relaxed);
        }
    }

    /// Whether it does.
    pub(super) fn is_sure(&self, key: u64, now_ns: u64) -> bool {
        let place = self.place(key).filter(|place| place.key.load(Relaxed) == key);
        place.is_some_and(|place| now_ns < place.sure_until_ns.load(Relaxed))
    }

    /// Keeps the moments of a key as they are, for as long as after a launch.
    pub(super) fn keep(&self, key: u64, now_ns: u64) {
        let Some(place) = self.place(key).filter(|place| place.key.load(Relaxed) == key) else {
            return;
        };
        place.at_ns.store(now_ns, Relaxed);
        place.until_ns.store(now_ns.saturating_add(LASTS_NS), Relaxed);
    }

    /// Learns that work of this key took so long; `is_far` from what was expected, it counts as uneven from
    /// now on.
    #[inline(never)]
    pub(super) fn learn(&self, key: u64, ns: u64, is_far: bool, now_ns: u64) {
        let Some(place) = self.place(key) else { return };
        if place.key.load(Relaxed) != key {
            place.key.store(key, Relaxed);
            place.until_ns.store(0, Relaxed);
            place.sure_until_ns.store(0, Relaxed);
            place.at_ns.store(0, Relaxed);
        }
        let age_ns = now_ns.saturating_sub(place.at_ns.load(Relaxed));
        let left_ns = FADES_NS.saturating_sub(age_ns).max(FADES_NS / KEPT);
        let add = |word: &AtomicU64, more: u64| {
            let left = scaled(word.load(Relaxed), left_ns, FADES_NS);
            word.store(left.saturating_add(more), Relaxed);
        };
        let us = ns / 1_000;
        add(&place.samples, SAMPLE);
        add(&place.sum_ns, ns);
        add(&place.squares, us.saturating_mul(us));
        place.at_ns.store(now_ns, Relaxed);
        if is_far {
            let until_ns = place.until_ns.load(Relaxed);
            if until_ns == 0 || now_ns > until_ns.saturating_add(LASTS_NS) {
                place.since_ns.store(now_ns, Relaxed);
            }
            let is_first = now_ns.saturating_sub(place.since_ns.load(Relaxed)) < FIRST_NS;
            let lasts_ns = if is_first { AT_FIRST_NS } else { LASTS_NS };
            place.until_ns.store(until_ns.max(now_ns.saturating_add(lasts_ns)), Relaxed);
            if now_ns < place.sure_until_ns.load(Relaxed) {
                place.sure_until_ns.store(now_ns.saturating_add(LASTS_NS), Relaxed);
            }
        }
    }
}

/// The square root, rounded down or up: small, since the standard library's is as long as all the rest of a look-up.
fn root(square: u64) -> u64 {
    let mut root = 1 << (u64::BITS - square.leading_zeros()).div_ceil(2);
    // Each step about doubles the digits that are right.
    for _ in 0..5 {
        root = u64::midpoint(root, square / root.max(1));
    }
    root
}

/// Whether a length is so far from what was expected that samples do not do: where all were so, what they
/// make of a second would be wrong by more than 5 ms.
pub(crate) fn is_far(expected_ns: u64, took_ns: u64) -> bool {
    let off_ns = expected_ns.abs_diff(took_ns);
    off_ns.saturating_mul(off_ns) > expected_ns.max(1_000).saturating_mul(400_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_long_run_of_short_ones_does_not_make_it_short() {
        let uneven = Uneven::new();
        let mut now_ns = 5_000 * MS;
        for _ in 0..20 {
            for _ in 0..200 {
                now_ns += 5_000;
                uneven.learn(7, 5_000, false, now_ns);
            }
            for _ in 0..4 {
                now_ns += 40 * MS;
                uneven.learn(7, 40 * MS, true, now_ns);
            }
        }
        for _ in 0..200 {
            now_ns += 5_000;
            uneven.learn(7, 5_000, false, now_ns);
        }
        let known = uneven.get(7, now_ns).expect("uneven");
        // 4 of 204 are 40 ms.
        assert!((700_000..900_000).contains(&known.mean_ns), "{known:?}");
        assert!((5_000_000..6_200_000).contains(&known.rms_ns), "{known:?}");
    }

    #[test]
    fn it_fades_with_time_and_another_kernel_has_the_place() {
        let uneven = Uneven::new();
        uneven.learn(7, 4_000, true, 100 * MS);
        assert_eq!(uneven.get(7, 100 * MS), Some(Moments { mean_ns: 4_000, rms_ns: 4_000 }));
        assert_eq!(uneven.get(7, 601 * MS), None, "only once");
        uneven.learn(7, 4_000, true, 700 * MS);
        assert!(uneven.get(7, 5_600 * MS).is_some(), "and again");
        assert_eq!(uneven.get(7, 5_701 * MS), None, "nothing has shown it for long");
        uneven.learn(7, 80_000, true, 5_800 * MS);
        // An eighth of two of 4 us, and one of 80.
        let known = uneven.get(7, 5_800 * MS).expect("uneven");
        assert_eq!(known, Moments { mean_ns: 66_685, rms_ns: 72_000 });
        uneven.learn(9, 1_000, true, 5_800 * MS);
        assert_eq!(uneven.get(7, 5_800 * MS), None);
        assert!(uneven.get(9, 5_800 * MS).is_some());
    }

    #[test]
    fn what_is_sure_stays_so_while_launches_show_it() {
        let uneven = Uneven::new();
        uneven.learn(7, 4_000, true, 100 * MS);
        uneven.make_sure(7, 100 * MS);
        assert!(uneven.is_sure(7, 5_099 * MS) && !uneven.is_sure(7, 5_101 * MS));
        uneven.learn(7, 4_000, false, 3_000 * MS);
        assert!(!uneven.is_sure(7, 5_101 * MS), "one that was as expected shows nothing");
        uneven.learn(7, 80_000, true, 5_000 * MS);
        assert!(uneven.is_sure(7, 9_999 * MS) && !uneven.is_sure(7, 10_001 * MS));
        uneven.make_sure(9, 9_000 * MS);
        assert!(!uneven.is_sure(9, 9_000 * MS), "nothing was seen of it");
        uneven.learn(9, 4_000, true, 9_000 * MS);
        assert!(!uneven.is_sure(7, 9_000 * MS), "another has its place");
    }

    #[test]
    fn roots_are_right_to_the_last_digit() {
        let squares = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, 3 << bit.min(62)]);
        for square in squares.chain([u64::MAX, 10_000_000_000]) {
            let (root, exact) = (root(square), square.isqrt());
            assert!(root.abs_diff(exact) <= 1 + exact / 1_000_000, "{square}: {root} for {exact}");
        }
    }

    #[test]
    fn far_is_what_would_make_a_second_wrong() {
        // Alternately 50 us and 2 ms; 5 us and rarely 530; 15 and 50 us; anything up to twice 100 us.
        for (expected_us, took_us, expected) in [
            (1_000, 2_000, true),
            (11, 530, true),
            (25, 50, false),
            (100, 200, false),
            (5, 1, false),
        ] {
            assert_eq!(is_far(expected_us * 1_000, took_us * 1_000), expected, "{took_us}");
        }
    }
}
