//! A copy engine: one copy after the other, at the link's rate, whatever context it comes from.
//!
//! Each direction has its own; while both work, each is slower, as measured.

use super::report::{Busy, Ending, Job, Report};
use crate::calibration::{COPY_BOTH_BYTES_PER_S, COPY_IN_BYTES_PER_S, COPY_OUT_BYTES_PER_S};
use crate::wire::Engine;
use std::collections::VecDeque;

#[derive(Debug)]
struct Copy {
    lane: u64,
    finished_ns: u64,
}

/// One direction's engine.
#[derive(Debug, Default)]
pub struct Copies {
    free_at_ns: u64,
    queue: VecDeque<Copy>,
}

impl Copies {
    /// Whether the engine has a copy under way at this time.
    pub(super) fn busy_at(&self, at_ns: u64) -> bool {
        self.free_at_ns > at_ns
    }

    /// Takes a copy in: it begins when those before it are done, and its end is certain at once.
    pub(super) fn submit(
        &mut self,
        lane: u64,
        job: &Job,
        at_ns: u64,
        other_busy: bool,
        report: &mut Report,
    ) {
        let bytes_per_s = match job.engine {
            _ if other_busy => COPY_BOTH_BYTES_PER_S,
            Engine::CopyOut => COPY_OUT_BYTES_PER_S,
            _ => COPY_IN_BYTES_PER_S,
        };
        let duration_ns = u128::from(job.amount) * 1_000_000_000 / u128::from(bytes_per_s);
        let started_ns = self.free_at_ns.max(at_ns);
        let finished_ns =
            started_ns.saturating_add(u64::try_from(duration_ns).unwrap_or(u64::MAX / 2));
        self.free_at_ns = finished_ns;
        self.queue.push_back(Copy { lane, finished_ns });
        let sequence = job.sequence;
        report.endings.push(Ending { lane, sequence, started_ns, finished_ns });
        let context = job.context;
        report.busy.push(Busy { context, compute: false, from_ns: started_ns, to_ns: finished_ns });
    }

    pub(super) fn next_event_ns(&self) -> Option<u64> {
        self.queue.front().map(|copy| copy.finished_ns)
    }

    pub(super) fn step(&mut self, report: &mut Report) {
        if let Some(copy) = self.queue.pop_front() {
            report.ended.push(copy.lane);
        }
    }

    /// Drops the copies of the lanes `dropped` names; the engine's time for them stays spent.
    pub(super) fn forget(&mut self, dropped: impl Fn(u64) -> bool) {
        self.queue.retain(|copy| !dropped(copy.lane));
    }
}
