//! The event before a launch of several streams', from which what follows is measured.
//!
//! Promises: one at a time, which only a thread that holds the lane's claim sets and takes. Does not record: that is done
//! in `measure`, where `among` asks for it.

use core::sync::atomic::Ordering::Relaxed;

use super::marks::{Probe, Probed};
use crate::atomic::{AtomicU32, AtomicU64};

/// The event before a launch that may find the device drained, until a mark behind it is recorded.
#[derive(Debug)]
pub(super) struct Begun {
    /// One more than the event; 0 for none.
    event: AtomicU32,
    at_ns: AtomicU64,
    key: AtomicU64,
    charged_ns: AtomicU64,
    /// What had been submitted.
    since_ns: AtomicU64,
    is_behind: AtomicU32,
    /// When the driver had the first launch behind it, of whatever thread; 0 while it has none.
    first_ns: AtomicU64,
}

impl Begun {
    pub(super) const fn new() -> Self {
        const fn word() -> AtomicU64 {
            AtomicU64::new(0)
        }
        let event = AtomicU32::new(0);
        let is_behind = AtomicU32::new(0);
        Self {
            event,
            at_ns: word(),
            key: word(),
            charged_ns: word(),
            since_ns: word(),
            is_behind,
            first_ns: word(),
        }
    }

    pub(super) fn event(&self) -> Option<u32> {
        self.event.load(Relaxed).checked_sub(1)
    }

    /// An event was recorded before a launch of `key`; so much had been submitted, some of which may be in flight.
    pub(super) fn set(
        &self,
        probed: Probed,
        (key, charged_ns): (u64, u64),
        submitted_ns: u64,
        is_behind: bool,
    ) {
        let words = [
            (&self.at_ns, probed.at_ns),
            (&self.key, key),
            (&self.charged_ns, charged_ns),
            (&self.since_ns, submitted_ns),
            (&self.first_ns, 0),
        ];
        for (word, value) in words {
            word.store(value, Relaxed);
        }
        self.is_behind.store(is_behind.into(), Relaxed);
        self.event.store(probed.event.saturating_add(1), Relaxed);
    }

    /// The driver has a launch.
    pub(super) fn went(&self, now_ns: impl Fn() -> u64) {
        if self.event.load(Relaxed) != 0 && self.first_ns.load(Relaxed) == 0 {
            let _ = self.first_ns.compare_exchange(0, now_ns(), Relaxed, Relaxed);
        }
    }

    pub(super) fn forget(&self) {
        self.event.store(0, Relaxed);
    }

    /// What lies behind it, for a mark that is recorded behind what was submitted, if that is anything.
    pub(super) fn take(
        &self,
        now_ns: impl Fn() -> u64,
        submitted_ns: u64,
        is_one_stream: bool,
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
        // As measured on an H200 the device waits until a launch's mark has been recorded as well, but on one stream, behind
        // which another thread's launch has come by then.
        let first_ns = match self.first_ns.load(Relaxed) {
            first_ns if first_ns != 0 && is_one_stream && stands_ns > charged_ns => first_ns,
            _ => now_ns(),
        };
        Some(Probe {
            key,
            charged_ns,
            stands_ns,
            at_ns,
            event,
            gap_ns: first_ns.saturating_sub(at_ns),
            is_behind: self.is_behind.load(Relaxed) != 0,
        })
    }
}
