//! The streams that a lane's work is on, and threads that launch at once.
//!
//! The end of a launch is the end of all before it while only one stream was launched on since the lane was last
//! empty. Measurement follows more slowly: work is measured as that of several streams until a stretch from empty to
//! empty had only one, and as that of several threads for a second after two were last seen to launch at once. A stream
//! that is used once, for a warm-up, is forgotten when its work has ended.
//!
//! Promises: launches that credit pays for count as well, but for those on a thread's own default stream, which no wait
//! takes for all. Does not measure: that is done in `among`.

use core::sync::atomic::Ordering::Relaxed;

use super::lane::Lane;
use crate::atomic::{AtomicU32, AtomicU64};

/// Word of no stream, and of more than one.
const NONE: u64 = 0;
const SEVERAL: u64 = u64::MAX;

/// Bits of [`Streams::measured`]: several streams, several threads.
const STREAMS: u32 = 1;
const THREADS: u32 = 1 << 1;

/// Time for which threads that launched at once may do so again: that over which doubt fades.
const THREADS_FOR_NS: u64 = 1_000_000_000;

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
}

impl Lane {
    /// True if all work since the lane was empty is on `stream`.
    pub(super) fn is_all_on(&self, stream: u64) -> bool {
        self.streams.since_empty.load(Relaxed) == stream
    }

    /// True if a launch on `stream` tells nothing of the lane's streams.
    #[inline(always)]
    pub(super) fn knows(&self, stream: u64) -> bool {
        let known = self.streams.since_empty.load(Relaxed);
        known == stream || known == SEVERAL
    }

    /// Notes that a launch on `stream` is to come.
    #[cold]
    #[inline(never)]
    pub(super) fn note_stream(&self, stream: u64) {
        let none = self.streams.since_empty.compare_exchange(NONE, stream, Relaxed, Relaxed);
        if none.is_err_and(|known| known != stream) {
            self.streams.since_empty.store(SEVERAL, Relaxed);
            self.measure_as(STREAMS);
        }
    }

    /// True if launches are measured as several streams' or threads'. Notes that one on `stream` is to come.
    #[inline(never)]
    pub(super) fn is_mixed(&self, stream: u64, now_ns: u64) -> bool {
        if !self.knows(stream) {
            self.note_stream(stream);
        }
        let is_late = |at_ns: u64| now_ns.saturating_sub(at_ns) >= THREADS_FOR_NS;
        if self.coming_ns.load(Relaxed) != 0 {
            self.note_threads(now_ns);
        } else if self.streams.measured.load(Relaxed) & THREADS != 0
            && is_late(self.streams.threads_ns.load(Relaxed))
        {
            self.measure_no_more_as(THREADS);
        }
        !self.has_one_stream()
    }

    /// Notes that several threads launch at once: another's launch may lie between the two events of a probe.
    pub(super) fn note_threads(&self, now_ns: u64) {
        self.streams.threads_ns.store(now_ns, Relaxed);
        self.measure_as(THREADS);
    }

    /// Notes that all work has ended: what comes is the first of its stretch.
    #[inline(never)]
    pub(super) fn forget_streams(&self) {
        if self.streams.since_empty.swap(NONE, Relaxed) != SEVERAL {
            self.measure_no_more_as(STREAMS);
        }
    }

    fn measure_as(&self, what: u32) {
        if self.streams.measured.fetch_or(what, Relaxed) == 0 {
            self.window.restart(self.submitted_ns());
        }
    }

    fn measure_no_more_as(&self, what: u32) {
        let measured = &self.streams.measured;
        if measured.load(Relaxed) & what != 0 && measured.fetch_and(!what, Relaxed) == what {
            let submitted_ns = self.submitted_ns();
            self.window.restart(submitted_ns);
            self.sample.restart(submitted_ns);
        }
    }

    /// True if launches are measured as one stream's: the end of one is the end of all before it, and no other thread's
    /// lies between the events around it.
    pub fn has_one_stream(&self) -> bool {
        self.streams.measured.load(Relaxed) == 0
    }

    /// True if several threads were seen to launch at once of late.
    pub(super) fn has_threads(&self) -> bool {
        self.streams.measured.load(Relaxed) & THREADS != 0
    }

    /// True if marks are to stand behind all streams' work: behind that of one stream the stream's own are as good, and
    /// the time that they add is known better.
    pub(super) fn has_streams_apart(&self) -> bool {
        self.streams.measured.load(Relaxed) & STREAMS != 0
    }
}
