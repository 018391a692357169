//! Order of a context's threads when its cap opens: the one that has waited longest goes first.
//!
//! All threads that wait for a cap are awake when it opens, and it lets one go. While that was the first to come, one
//! of sixteen threads with kernels of 5 ms waited for 1.4 s under 30 %, in which each of the others went five times.
//!
//! Promises: a thread that does not come delays the others by [`tuning::YIELDS`] times [`tuning::YIELD_NS`] at most,
//! and is out of the order then. Does not order threads of several contexts or processes.

use core::sync::atomic::Ordering::Relaxed;

use super::tuning;
use crate::atomic::AtomicU64;

/// Arrival time of the thread that has waited longest, of those that looked since the last one went; 0 for none.
#[derive(Debug)]
pub(super) struct Oldest(AtomicU64);

/// One thread's place in the order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Time of the thread's first look; 0 before that.
    came_ns: u64,
    yielded: u32,
}

impl Place {
    fn came_ns(&mut self, now_ns: u64) -> u64 {
        if self.came_ns == 0 {
            self.came_ns = now_ns;
        }
        self.came_ns
    }
}

impl Oldest {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Enters a thread that finds its cap closed.
    pub(super) fn wait(&self, place: &mut Place, now_ns: u64) {
        place.yielded = 0;
        let came_ns = place.came_ns(now_ns);
        let is_older = |oldest_ns: u64| oldest_ns == 0 || came_ns < oldest_ns;
        let _ = self.0.fetch_update(Relaxed, Relaxed, |ns| is_older(ns).then_some(came_ns));
    }

    /// True if the thread goes, its cap being open; false if it is to let another go first.
    pub(super) fn goes(&self, place: &mut Place, now_ns: u64) -> bool {
        let oldest_ns = self.0.load(Relaxed);
        if oldest_ns == 0 {
            return true;
        }
        if oldest_ns < place.came_ns(now_ns) && place.yielded < tuning::YIELDS {
            place.yielded += 1;
            return false;
        }
        // Either the thread that has waited longest goes, or it does not come: the others enter again at their next
        // look.
        let _ = self.0.compare_exchange(oldest_ns, 0, Relaxed, Relaxed);
        true
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_goes_first() {
        let (oldest, [mut first, mut second, mut third]) = (Oldest::new(), [Place::default(); 3]);
        assert!(oldest.goes(&mut second, 20), "nobody waits");
        oldest.wait(&mut third, 30);
        oldest.wait(&mut first, 10);
        oldest.wait(&mut second, 40);
        assert!(!oldest.goes(&mut third, 50) && !oldest.goes(&mut second, 50));
        assert!(oldest.goes(&mut first, 50));
        oldest.wait(&mut second, 60);
        oldest.wait(&mut third, 60);
        assert!(!oldest.goes(&mut second, 70), "it came at 40");
        assert!(oldest.goes(&mut third, 70) && oldest.goes(&mut second, 70));
    }

    #[test]
    fn who_does_not_come_is_waited_for_a_few_times_only() {
        let (oldest, [mut gone, mut next, mut other]) = (Oldest::new(), [Place::default(); 3]);
        oldest.wait(&mut gone, 10);
        oldest.wait(&mut next, 20);
        assert_eq!([(); 5].map(|()| oldest.goes(&mut next, 30)), [false, false, false, true, true]);
        assert!(oldest.goes(&mut other, 40), "and nobody else waits for it");
    }
}
