//! The longest that was seen of each kernel while nobody else used the device, some seconds ago.
//!
//! Whoever comes to the device makes kernels look longer until it is noticed, which takes half a second as a rule. What
//! was seen in the stretch of a second before the last is older than that.
//!
//! Promises: a look-up is two loads; two threads that learn at once lose a sample, and what another kernel pushes out of
//! the table is not known any more. Does not say what a kernel takes: that is the costs' own.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Kernels in the table.
const PLACES: usize = 256;
/// Length of a stretch.
const STRETCH_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct Place {
    key: AtomicU64,
    /// When the running stretch began.
    at_ns: AtomicU64,
    /// The longest in it, and in the two before, the last of them first; 0 for none.
    most_ns: AtomicU64,
    before_ns: [AtomicU64; 2],
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
                    before_ns: [AtomicU64::new(0), AtomicU64::new(0)],
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
        let [last, older] = &place.before_ns;
        let before_ns =
            [last, older].map(|word| word.load(Relaxed)).into_iter().filter(|ns| *ns != 0);
        Some(before_ns.min().unwrap_or_else(|| place.most_ns.load(Relaxed)))
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
        let [last, older] = &place.before_ns;
        older.store(if is_other { 0 } else { last.load(Relaxed) }, Relaxed);
        last.store(if is_other { 0 } else { most_ns }, Relaxed);
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
        assert_eq!(before.get(7), Some(1_010));
        before.learn(7, 5_000, 3 * SEC);
        assert_eq!(before.get(7), Some(1_010));
        before.learn(7, 5_000, 4 * SEC);
        assert_eq!(before.get(7), Some(5_000), "it has lasted");
        before.learn(9, 3, 7 * SEC);
        assert_eq!((before.get(7), before.get(9)), (None, Some(3)), "another has the place");
    }
}
