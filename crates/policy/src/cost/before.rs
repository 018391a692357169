//! The longest run of each kernel that was seen some seconds ago, while no other context used the device.
//!
//! A newcomer to the device makes kernels look longer until it is noticed: half a second later as a rule, and up to
//! three where NVML was asked a moment before or the kernel does not count the driver's users. So the oldest of the
//! remembered seconds counts.
//!
//! Promises: a look-up is two loads; two threads that learn at once lose a sample, and a kernel that another
//! pushes out of the table is unknown again. Does not estimate a kernel's length: that is the costs' own.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Kernels in the table.
const PLACES: usize = 256;
/// Length of a stretch, and how many are remembered beside the running one: as long as others may go unnoticed, and the two
/// that count.
const STRETCH_NS: u64 = 1_000_000_000;
const STRETCHES: usize = 7;
/// Of what differs in length the longest may be rare: so many of them show it, where none is missing.
const FIRST: usize = 2;

#[derive(Debug)]
struct Place {
    key: AtomicU64,
    /// When the running stretch began.
    at_ns: AtomicU64,
    /// The longest in it, and in those before, the last of them first; 0 for none.
    most_ns: AtomicU64,
    before_ns: [AtomicU64; STRETCHES],
}

/// The table. Zeros at first.
#[derive(Debug)]
pub(super) struct Before([Place; PLACES]);

impl Before {
    pub(super) const fn new() -> Self {
        Self(
            [const {
                Place {
                    key: AtomicU64::new(0),
                    at_ns: AtomicU64::new(0),
                    most_ns: AtomicU64::new(0),
                    before_ns: [const { AtomicU64::new(0) }; STRETCHES],
                }
            }; PLACES],
        )
    }

    fn place(&self, key: u64) -> Option<&Place> {
        self.0.get((key >> 32) as usize % PLACES)
    }

    /// The longest that is known of a key.
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        let place = self.place(key).filter(|place| place.key.load(Relaxed) == key)?;
        let before_ns = || place.before_ns.iter().rev().map(|word| word.load(Relaxed));
        let known_ns = || before_ns().filter(|ns| *ns != 0);
        let so_many = if known_ns().count() < STRETCHES { 1 } else { FIRST };
        let first_ns = known_ns().take(so_many).max();
        Some(first_ns.unwrap_or_else(|| place.most_ns.load(Relaxed)))
    }

    /// Work of this key took so long, alone on the device.
    pub(super) fn learn(&self, key: u64, ns: u64, now_ns: u64) {
        let Some(place) = self.place(key) else { return };
        let is_other = place.key.swap(key, Relaxed) != key;
        let most_ns = place.most_ns.load(Relaxed);
        if !is_other && now_ns.saturating_sub(place.at_ns.load(Relaxed)) < STRETCH_NS {
            place.most_ns.store(most_ns.max(ns), Relaxed);
            return;
        }
        place.at_ns.store(now_ns, Relaxed);
        // Each takes what stood in the one after it.
        let mut moved_ns = if is_other { 0 } else { most_ns };
        for word in &place.before_ns {
            let next_ns = if is_other { 0 } else { word.load(Relaxed) };
            word.store(moved_ns, Relaxed);
            moved_ns = next_ns;
        }
        place.most_ns.store(ns, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;

    #[test]
    fn what_was_seen_of_late_does_not_count() {
        let before = Before::new();
        assert_eq!(before.get(7), None);
        before.learn(7, 1_000, SEC);
        before.learn(7, 1_010, SEC + 1);
        assert_eq!(before.get(7), Some(1_010), "all that is known");
        before.learn(7, 900, 2 * SEC);
        // A stretch begins in the midst of what nobody has noticed yet.
        before.learn(7, 5_000, 3 * SEC - 1);
        for at in 3..8 {
            assert_eq!(before.get(7), Some(1_010), "{at}");
            before.learn(7, 5_000, at * SEC);
        }
        (8..12).for_each(|at| before.learn(7, 5_000, at * SEC));
        assert_eq!(before.get(7), Some(5_000), "it has lasted");
        before.learn(9, 3, 20 * SEC);
        assert_eq!((before.get(7), before.get(9)), (None, Some(3)), "another has the place");
    }
}
