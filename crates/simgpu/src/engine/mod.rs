//! The engines of one device: what runs when.
//!
//! A pure simulation: time comes in as an argument and only ever forward, work comes in by lane, and
//! what comes out is when each piece of work ends. Nothing here reads a clock or talks to anybody, so
//! the figures of the hardware are tested to the nanosecond.
//!
//! A lane's work runs in order, one piece at a time, over all engines. Kernels go through
//! [`compute`], copies through [`copy`].

pub mod compute;
pub mod copy;
mod report;

use crate::wire::{Engine, Pace};
use compute::Compute;
use copy::Copies;
pub use report::{Busy, Ending, Job, Report};
use std::collections::{BTreeMap, VecDeque};

/// The engines of one device and the lanes that feed them.
#[derive(Debug)]
pub struct Engines {
    scale: u64,
    compute: Compute,
    copies: [Copies; 2],
    lanes: BTreeMap<u64, Lane>,
}

/// The work of one lane; the first piece is with its engine.
#[derive(Debug, Default)]
struct Lane {
    jobs: VecDeque<Job>,
    /// The last piece whose end has been told.
    told: Option<u64>,
    /// When the first piece, which no engine has yet, is handed in.
    due_ns: Option<u64>,
}

impl Engines {
    /// Engines with nothing to do, `time_scale` times slower than the hardware's.
    pub fn new(time_scale: u32) -> Self {
        let scale = u64::from(time_scale.max(1));
        Self {
            scale,
            compute: Compute::new(scale),
            copies: Default::default(),
            lanes: BTreeMap::new(),
        }
    }

    /// Takes work in at `now_ns`; [`Engines::advance`] must have been called for that time.
    ///
    /// A lane that had nothing left begins at the time its client says it handed the work in: before
    /// `now_ns`, unless the engine has gone beyond it, since how late the packet came takes no
    /// simulated time; or behind it, when launching takes longer on the hardware than here.
    pub fn submit(&mut self, lane: u64, mut job: Job, now_ns: u64, report: &mut Report) {
        // A spin watches the clock, which no scale slows down.
        if job.pace == Pace::Work {
            // Not longer than sums of times can hold.
            job.amount = job.amount.saturating_mul(self.scale).min(u64::MAX / 4);
        }
        let jobs = &mut self.lanes.entry(lane).or_default().jobs;
        jobs.push_back(job);
        if jobs.len() == 1 {
            let before = report.endings.len();
            self.begin(lane, job.submitted_ns.min(now_ns), report);
            self.remember(report, before);
        }
    }

    /// Lets time pass up to `now_ns`.
    pub fn advance(&mut self, now_ns: u64, report: &mut Report) {
        let before = report.endings.len();
        while let Some(event_ns) = self.next_event_ns().filter(|event_ns| *event_ns <= now_ns) {
            if self.compute.next_event_ns() == Some(event_ns) {
                self.compute.step(report);
            }
            for copies in &mut self.copies {
                if copies.next_event_ns() == Some(event_ns) {
                    copies.step(report);
                }
            }
            for lane in std::mem::take(&mut report.ended) {
                if let Some(known) = self.lanes.get_mut(&lane) {
                    known.jobs.pop_front();
                    self.begin(lane, event_ns, report);
                }
            }
            while let Some(lane) = self.due(event_ns) {
                self.begin(lane, event_ns, report);
            }
            self.compute.settle(report);
        }
        self.remember(report, before);
    }

    /// The next time something happens by itself.
    pub fn next_event_ns(&self) -> Option<u64> {
        let copies = self.copies.iter().filter_map(Copies::next_event_ns).min();
        let due = self.lanes.values().filter_map(|lane| lane.due_ns).min();
        [self.compute.next_event_ns(), copies, due].into_iter().flatten().min()
    }

    /// A lane whose first piece is handed in by now.
    fn due(&self, now_ns: u64) -> Option<u64> {
        let is_due = |known: &Lane| known.due_ns.is_some_and(|due_ns| due_ns <= now_ns);
        self.lanes.iter().find(|(_, known)| is_due(known)).map(|(lane, _)| *lane)
    }

    /// Drops a lane and its work.
    pub fn forget_lane(&mut self, lane: u64, report: &mut Report) {
        let before = report.endings.len();
        self.lanes.remove(&lane);
        self.compute.forget(|run| run.lane == lane, report);
        self.copies.iter_mut().for_each(|copies| copies.forget(|of| of == lane));
        self.remember(report, before);
    }

    /// Drops a context's work: what is under way ends at `now_ns`, what is behind it ends in its turn,
    /// without taking time.
    pub fn forget_context(&mut self, context: u64, now_ns: u64, report: &mut Report) {
        let before = report.endings.len();
        let mut beheaded = Vec::new();
        for (lane, known) in &mut self.lanes {
            let under_way = known.jobs.pop_front_if(|job| job.context == context);
            for job in known.jobs.iter_mut().filter(|job| job.context == context) {
                *job = Job { engine: Engine::CopyIn, amount: 0, ..*job };
            }
            if let Some(job) = under_way {
                beheaded.push(*lane);
                if known.told != Some(job.sequence) {
                    report.endings.push(Ending {
                        lane: *lane,
                        sequence: job.sequence,
                        started_ns: now_ns,
                        finished_ns: now_ns,
                    });
                }
            }
        }
        self.compute.forget(|run| run.context == context, report);
        for copies in &mut self.copies {
            copies.forget(|lane| beheaded.contains(&lane));
        }
        for lane in beheaded {
            self.begin(lane, now_ns, report);
        }
        self.remember(report, before);
    }

    /// Notes which ends are told, so that none is told twice.
    fn remember(&mut self, report: &Report, from: usize) {
        for ending in report.endings.iter().skip(from) {
            if let Some(lane) = self.lanes.get_mut(&ending.lane) {
                lane.told = Some(ending.sequence);
            }
        }
    }

    /// Hands the first work of a lane to its engine, or keeps it until it is handed in.
    fn begin(&mut self, lane: u64, at_ns: u64, report: &mut Report) {
        let Some(known) = self.lanes.get_mut(&lane) else { return };
        known.due_ns = None;
        let Some(job) = known.jobs.front().copied() else { return };
        if job.submitted_ns > at_ns {
            known.due_ns = Some(job.submitted_ns);
            return;
        }
        match job.engine {
            Engine::Compute => self.compute.submit(lane, &job, at_ns, report),
            Engine::CopyIn => {
                let other_busy = self.copies[1].busy_at(at_ns);
                self.copies[0].submit(lane, &job, at_ns, other_busy, report);
            }
            Engine::CopyOut => {
                let other_busy = self.copies[0].busy_at(at_ns);
                self.copies[1].submit(lane, &job, at_ns, other_busy, report);
            }
        }
    }
}

#[cfg(test)]
mod tests;
