//! The streams that a lane's work is on, and threads that launch at once.
//!
//! The end of a launch is the end of all before it while only one stream was launched on since the lane was last
//! empty. Measurement follows more slowly: work is measured as that of several streams until a stretch from empty to
//! empty had only one, and as that of several threads for a second after two were last seen to launch at once. So a
//! stream of a warm-up is forgotten with the first stretch without it.
//!
//! Promises: launches that credit pays for count as well, but for those on a thread's own default stream, which no wait
//! takes for all. Does not measure: that is done in `among`.

use core::sync::atomic::Ordering::Relaxed;

use super::tuning;
use crate::atomic::{AtomicU32, AtomicU64};

/// Word of no stream, and of more than one.
const NONE: u64 = 0;
const SEVERAL: u64 = u64::MAX;

/// How launches are measured, in bits of [`Streams::measured`].
pub(super) const STREAMS: u32 = 1;
pub(super) const THREADS: u32 = 1 << 1;

/// Streams and threads of one lane's launches.
#[derive(Debug)]
pub(super) struct Streams {
    /// The stream that was launched on since all work had ended.
    since_empty: AtomicU64,
    /// How launches are measured.
    measured: AtomicU32,
    /// Time at which two threads were last seen to launch at once.
    threads_ns: AtomicU64,
}

impl Streams {
    pub(super) const fn new() -> Self {
        Self {
            since_empty: AtomicU64::new(NONE),
            measured: AtomicU32::new(0),
            threads_ns: AtomicU64::new(0),
        }
    }

    /// True if all work since the lane was empty is on `stream`.
    pub(super) fn is_all_on(&self, stream: u64) -> bool {
        self.since_empty.load(Relaxed) == stream
    }

    /// True if a launch on `stream` tells nothing of the lane's streams.
    #[inline(always)]
    pub(super) fn knows(&self, stream: u64) -> bool {
        let known = self.since_empty.load(Relaxed);
        known == stream || known == SEVERAL
    }

    /// Notes that a launch on `stream` is to come; true if it is on another than those before.
    pub(super) fn note(&self, stream: u64) -> bool {
        let none = self.since_empty.compare_exchange(NONE, stream, Relaxed, Relaxed);
        let is_another = none.is_err_and(|known| known != stream);
        if is_another {
            self.since_empty.store(SEVERAL, Relaxed);
        }
        is_another
    }

    /// Notes that all work has ended; true if it was on one stream.
    pub(super) fn forget(&self) -> bool {
        self.since_empty.swap(NONE, Relaxed) != SEVERAL
    }

    /// Notes that several threads launch at once.
    pub(super) fn note_threads(&self, now_ns: u64) {
        self.threads_ns.store(now_ns, Relaxed);
    }

    /// True if no threads have launched at once for long.
    pub(super) fn are_threads_past(&self, now_ns: u64) -> bool {
        self.is_measured_as(THREADS)
            && now_ns.saturating_sub(self.threads_ns.load(Relaxed)) >= tuning::THREADS_FOR_NS
    }

    /// True if launches are measured so, or in one of these ways.
    pub(super) fn is_measured_as(&self, what: u32) -> bool {
        self.measured.load(Relaxed) & what != 0
    }

    /// Has launches measured so; true if they were measured as one stream's until now.
    pub(super) fn measure_as(&self, what: u32) -> bool {
        self.measured.fetch_or(what, Relaxed) == 0
    }

    /// Has launches measured so no more; true if they are measured as one stream's from now on.
    pub(super) fn measure_no_more_as(&self, what: u32) -> bool {
        self.is_measured_as(what) && self.measured.fetch_and(!what, Relaxed) == what
    }
}
