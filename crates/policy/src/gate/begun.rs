//! The event before a launch of several streams', from which the work behind it is measured.
//!
//! Promises: one at a time, set and taken only by a thread that holds the lane's claim. Does not record: that is done
//! in `measure`, where `among` asks for it.

use core::sync::atomic::Ordering::Relaxed;

use super::marks::{Probe, Probed};
use super::tuning;
use crate::atomic::{AtomicU32, AtomicU64};

/// Value of [`Begun::first_ns`]: the launch follows other work at once.
const FOLLOWS: u64 = u64::MAX;
/// Value of [`Begun::first_ns`]: the device may have been drained between two launches, or before the mark.
const APART: u64 = u64::MAX - 1;

/// The event before a launch that may find the device drained, until a mark behind it is recorded.
#[derive(Debug)]
pub(super) struct Begun {
    /// One more than the event; 0 for none.
    event: AtomicU32,
    at_ns: AtomicU64,
    key: AtomicU64,
    charged_ns: AtomicU64,
    /// Work submitted before the event.
    since_ns: AtomicU64,
    is_behind: AtomicU32,
    /// Not 0 where another thread's launch may lie before the event.
    is_unsure: AtomicU32,
    /// Time at which the driver had the first launch behind the event, of any thread; 0 while it has none.
    first_ns: AtomicU64,
    /// Time of the last such launch.
    last_ns: AtomicU64,
}

impl Begun {
    pub(super) const fn new() -> Self {
        const fn word() -> AtomicU64 {
            AtomicU64::new(0)
        }
        let event = AtomicU32::new(0);
        let is_behind = AtomicU32::new(0);
        let is_unsure = AtomicU32::new(0);
        Self {
            event,
            at_ns: word(),
            key: word(),
            charged_ns: word(),
            since_ns: word(),
            is_behind,
            is_unsure,
            first_ns: word(),
            last_ns: word(),
        }
    }

    pub(super) fn event(&self) -> Option<u32> {
        self.event.load(Relaxed).checked_sub(1)
    }

    /// Enters an event that was recorded before a launch of `key`; some of the work submitted before it may be in
    /// flight.
    pub(super) fn set(
        &self,
        probed: Probed,
        (key, charged_ns): (u64, u64),
        is_behind: bool,
        is_unsure: bool,
    ) {
        let words = [
            (&self.at_ns, probed.at_ns),
            (&self.key, key),
            (&self.charged_ns, charged_ns),
            (&self.since_ns, probed.since_ns),
            (&self.first_ns, 0),
            (&self.last_ns, probed.at_ns),
        ];
        for (word, value) in words {
            word.store(value, Relaxed);
        }
        self.is_behind.store(is_behind.into(), Relaxed);
        self.is_unsure.store(is_unsure.into(), Relaxed);
        self.event.store(probed.event.saturating_add(1), Relaxed);
    }

    /// Notes that the driver has a launch behind `event`. True if it is the first, and the event is to be queried:
    /// still incomplete, it lies behind other work.
    pub(super) fn went(&self, event: u32, now_ns: u64) -> bool {
        if self.event() != Some(event) {
            return false;
        }
        let last_ns = self.last_ns.swap(now_ns, Relaxed);
        if self.first_ns.load(Relaxed) != 0 {
            // The launch before has no mark, and may have ended since.
            if self.is_apart(last_ns, now_ns) {
                self.first_ns.store(APART, Relaxed);
            }
            return false;
        }
        let is_first = self.first_ns.compare_exchange(0, now_ns, Relaxed, Relaxed).is_ok();
        is_first && self.is_unsure.load(Relaxed) != 0
    }

    /// Notes that its first launch follows other work: no gap lies between.
    pub(super) fn follow(&self) {
        self.first_ns.store(FOLLOWS, Relaxed);
    }

    fn is_apart(&self, last_ns: u64, now_ns: u64) -> bool {
        let least_ns = self.charged_ns.load(Relaxed).saturating_add(tuning::BEGUN_APART_NS);
        now_ns.saturating_sub(last_ns) > least_ns
    }

    pub(super) fn forget(&self) {
        self.event.store(0, Relaxed);
    }

    /// Takes the event for a mark that is recorded behind `submitted_ns`, if any work lies between the two.
    pub(super) fn take(
        &self,
        now_ns: impl Fn() -> u64,
        submitted_ns: u64,
        is_whole: bool,
    ) -> Option<Probe> {
        let event = self.event()?;
        let [at_ns, key, charged_ns, since_ns] =
            [&self.at_ns, &self.key, &self.charged_ns, &self.since_ns]
                .map(|word| word.load(Relaxed));
        let stands_ns = submitted_ns.saturating_sub(since_ns);
        if stands_ns == 0 {
            return None;
        }
        self.forget();
        // The device waits for the record of a launch's mark as well, but not for other threads' launches that the
        // driver has before that.
        let now_ns = now_ns();
        let begins_ns = if is_whole { tuning::BEGINS_NS } else { tuning::BEGINS_NS / 4 };
        let first_ns = match self.is_apart(self.last_ns.load(Relaxed), now_ns) {
            true => APART,
            false => self.first_ns.load(Relaxed),
        };
        let until_ns = match first_ns {
            FOLLOWS => at_ns,
            0 | APART => now_ns,
            first_ns => now_ns.min(first_ns.saturating_add(begins_ns)),
        };
        // A gap of 0 says that there is none.
        let gap_ns = until_ns.saturating_sub(at_ns).max(u64::from(first_ns != FOLLOWS));
        Some(Probe {
            key,
            charged_ns,
            stands_ns,
            at_ns,
            event,
            gap_ns,
            is_behind: self.is_behind.load(Relaxed) != 0,
        })
    }
}
