//! The compute engine as the driver shares it: one context at a time, 1,024 µs slices, and an idle gap
//! at every change of context.
//!
//! A context leaves when it has nothing left to run or when its slice is over, and only if another
//! context waits; the gap is longer when it has run dry. Kernels of the context that is in run side by side while they fit; a kernel that is
//! switched out keeps what it has done ([`Pace::Work`]) or finds the clock gone on ([`Pace::Wall`]).

use super::report::{Busy, Ending, Job, Report};
use crate::calibration::{SLICE_NS, SWITCH_DRY_NS, SWITCH_PREEMPT_NS};
use crate::wire::Pace;
use std::collections::VecDeque;

/// A kernel handed to the engine.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) lane: u64,
    pub(super) context: u64,
    sequence: u64,
    width_permille: u32,
    pace: Pace,
    remaining_ns: u64,
    started_ns: Option<u64>,
    announced: bool,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Phase {
    /// Nothing to run; the last context stays in.
    #[default]
    Idle,
    /// Between two contexts.
    Switching { until_ns: u64 },
    /// The current context runs.
    Running { slice_end_ns: u64 },
}

/// The compute engine of one device.
#[derive(Debug)]
pub struct Compute {
    /// How many times slower than the hardware it is.
    scale: u64,
    /// Time up to which everything has happened.
    clock_ns: u64,
    phase: Phase,
    current: Option<u64>,
    /// Other contexts with work, in turn.
    waiting: VecDeque<u64>,
    running: Vec<Run>,
    queued: VecDeque<Run>,
}

impl Compute {
    /// An engine with nothing to run.
    pub(super) fn new(scale: u64) -> Self {
        Self {
            scale,
            clock_ns: 0,
            phase: Phase::Idle,
            current: None,
            waiting: VecDeque::new(),
            running: Vec::new(),
            queued: VecDeque::new(),
        }
    }

    fn slice_ns(&self) -> u64 {
        SLICE_NS * self.scale
    }

    /// Takes a kernel in at `at_ns`, a time not before the last step.
    pub(super) fn submit(&mut self, lane: u64, job: &Job, at_ns: u64, report: &mut Report) {
        self.pass(at_ns.max(self.clock_ns), report);
        self.queued.push_back(Run {
            lane,
            context: job.context,
            sequence: job.sequence,
            width_permille: job.width_permille.min(1000),
            pace: job.pace,
            remaining_ns: job.amount,
            started_ns: None,
            announced: false,
        });
        if self.current != Some(job.context) && !self.waiting.contains(&job.context) {
            self.waiting.push_back(job.context);
            let slice_ns = self.slice_ns();
            if let Phase::Running { slice_end_ns } = &mut self.phase {
                // Slices go on while nobody waits; the newcomer's turn is at the next boundary.
                let over = (self.clock_ns + 1).saturating_sub(*slice_end_ns);
                *slice_end_ns += over.div_ceil(slice_ns) * slice_ns;
            }
        }
        self.settle(report);
    }

    /// The next time something happens by itself.
    pub(super) fn next_event_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Idle => None,
            Phase::Switching { until_ns } => Some(until_ns),
            Phase::Running { slice_end_ns } => {
                let finish = self.running.iter().map(|run| self.finish_ns(run)).min();
                let slice = (!self.waiting.is_empty()).then_some(slice_end_ns);
                // A kernel longer than its slice is looked at again at each boundary, when its end
                // may have become certain.
                let look = self.running.iter().any(|run| !run.announced).then_some(slice_end_ns);
                [finish, slice, look].into_iter().flatten().min()
            }
        }
    }

    /// Goes to the next event. The caller refills lanes that ended, then calls [`Compute::settle`].
    pub(super) fn step(&mut self, report: &mut Report) {
        let Some(event_ns) = self.next_event_ns() else { return };
        self.pass(event_ns.max(self.clock_ns), report);
        let clock_ns = self.clock_ns;
        match self.phase {
            Phase::Idle => {}
            Phase::Switching { .. } => {
                self.phase = Phase::Running { slice_end_ns: clock_ns + self.slice_ns() };
            }
            Phase::Running { slice_end_ns } => {
                let (ended, running) = std::mem::take(&mut self.running)
                    .into_iter()
                    .partition(|run| self.finish_ns(run) <= clock_ns);
                self.running = running;
                self.end(ended, report);
                if slice_end_ns <= clock_ns {
                    self.end_slice();
                }
            }
        }
    }

    /// Starts what can start and leaves what has nothing to run, then tells what is certain.
    pub(super) fn settle(&mut self, report: &mut Report) {
        loop {
            match self.phase {
                Phase::Running { .. } => {
                    self.fill();
                    if !self.running.is_empty() {
                        break;
                    }
                    self.phase = Phase::Idle;
                }
                Phase::Idle => {
                    if self.current.is_some_and(|current| self.has_work(current)) {
                        let slice_end_ns = self.clock_ns + self.slice_ns();
                        self.phase = Phase::Running { slice_end_ns };
                    } else if let Some(next) = self.waiting.pop_front() {
                        self.switch_to(next, SWITCH_DRY_NS);
                    } else {
                        break;
                    }
                }
                Phase::Switching { .. } => {
                    // The next start is known before it comes, and so is its end.
                    self.fill();
                    break;
                }
            }
        }
        self.announce(report);
    }

    /// Drops the kernels `dropped` names.
    pub(super) fn forget(&mut self, dropped: impl Fn(&Run) -> bool, report: &mut Report) {
        self.running.retain(|run| !dropped(run));
        self.queued.retain(|run| !dropped(run));
        let queued = &self.queued;
        self.waiting.retain(|context| queued.iter().any(|run| run.context == *context));
        self.settle(report);
    }

    /// Lets time pass without an event in it.
    fn pass(&mut self, to_ns: u64, report: &mut Report) {
        let passed_ns = to_ns - self.clock_ns;
        if let (Phase::Running { .. }, Some(context), true) =
            (self.phase, self.current, passed_ns > 0 && !self.running.is_empty())
        {
            report.busy.push(Busy { context, compute: true, from_ns: self.clock_ns, to_ns });
            for run in &mut self.running {
                run.remaining_ns = run.remaining_ns.saturating_sub(passed_ns);
            }
        }
        // A spin counts on while its context is out.
        for run in &mut self.queued {
            if run.started_ns.is_some() && run.pace == Pace::Wall {
                run.remaining_ns = run.remaining_ns.saturating_sub(passed_ns);
            }
        }
        self.clock_ns = to_ns;
    }

    fn finish_ns(&self, run: &Run) -> u64 {
        self.runs_from_ns() + run.remaining_ns
    }

    /// When the kernels of the current context run on: now, or at the end of the switch to it.
    fn runs_from_ns(&self) -> u64 {
        match self.phase {
            Phase::Switching { until_ns } => until_ns,
            _ => self.clock_ns,
        }
    }

    fn has_work(&self, context: u64) -> bool {
        self.queued.iter().any(|run| run.context == context)
            || (self.current == Some(context) && !self.running.is_empty())
    }

    fn end(&self, ended: Vec<Run>, report: &mut Report) {
        for run in ended {
            if !run.announced {
                report.endings.push(self.ending(&run));
            }
            report.ended.push(run.lane);
        }
    }

    fn ending(&self, run: &Run) -> Ending {
        Ending {
            lane: run.lane,
            sequence: run.sequence,
            started_ns: run.started_ns.unwrap_or(self.clock_ns),
            finished_ns: self.finish_ns(run),
        }
    }

    /// The slice of the current context is over.
    fn end_slice(&mut self) {
        let Some(next) = self.waiting.pop_front() else {
            self.phase = Phase::Running { slice_end_ns: self.clock_ns + self.slice_ns() };
            return;
        };
        // Kernels switched out come first when their context is in again.
        while let Some(run) = self.running.pop() {
            self.queued.push_front(run);
        }
        let mut switch_ns = SWITCH_DRY_NS;
        if let Some(current) = self.current.filter(|current| self.has_work(*current)) {
            self.waiting.push_back(current);
            switch_ns = SWITCH_PREEMPT_NS;
        }
        self.switch_to(next, switch_ns);
    }

    fn switch_to(&mut self, next: u64, switch_ns: u64) {
        self.current = Some(next);
        self.phase = Phase::Switching { until_ns: self.clock_ns + switch_ns * self.scale };
    }

    /// Starts kernels of the current context while they fit side by side.
    fn fill(&mut self) {
        let from_ns = self.runs_from_ns();
        let mut width: u32 = self.running.iter().map(|run| run.width_permille).sum();
        let mut index = 0;
        while let Some(run) = self.queued.get(index) {
            if Some(run.context) != self.current {
                index += 1;
                continue;
            }
            // A run that does not fit keeps out later ones, but for those that need no room.
            if run.width_permille > 0 && width + run.width_permille > 1000 {
                width = width.max(1000);
                index += 1;
                continue;
            }
            if let Some(mut run) = self.queued.remove(index) {
                width += run.width_permille;
                run.started_ns.get_or_insert(from_ns);
                self.running.push(run);
            }
        }
    }

    /// Tells the ends nothing can move any more: inside the slice, or with no boundary before them.
    fn announce(&mut self, report: &mut Report) {
        let slice_end_ns = match self.phase {
            Phase::Idle => return,
            Phase::Switching { until_ns } => until_ns + self.slice_ns(),
            Phase::Running { slice_end_ns } => slice_end_ns,
        };
        let certain: Vec<usize> = (0..self.running.len())
            .filter(|index| {
                let run = &self.running[*index];
                !run.announced && self.finish_ns(run) <= slice_end_ns
            })
            .collect();
        for index in certain {
            report.endings.push(self.ending(&self.running[index]));
            self.running[index].announced = true;
        }
    }
}
