//! Turns among the processes of a tenant without a cap: taken where they gain by it, which is found out by trial, and
//! beside other tenants where their kernels are long.
//!
//! Contexts that work at once are sliced by the driver. Four workers that synchronise after each kernel of 20 us have
//! 13 % of an H200 between them by that, where one alone has 65; four with deep queues have all of it. So where
//! processes of a tenant are at work beside each other, their progress is counted for a while, then they take turns
//! ([`crate::gate::Inside`]) for a while, and turns stay while they are worth it. Work is valued at its cost in turns,
//! which holds no slices of other processes.
//!
//! Beside other tenants nothing is tried: the last verdict holds. But every measurement of a long kernel has slices of
//! its siblings in it, so launches taken for short may be in flight by the dozen when the tenant's turn ends, which
//! others pay for: two workers with runs of 12 ms had 73 where 45 % were due. In turns each shows its length.
//!
//! Promises: turns that are tried stay only where all get a twentieth more done and none less; a trial that goes badly
//! ends at the next look; trials become rare where they fail; a verdict is renewed each half minute. The claims of a
//! process decide for its own tenant alone.
//!
//! Does not know the other tenants, but that the tenant was closed for one.

use super::entry::GateEntry;
use super::tuning;
use crate::cost::SLICED_FROM_NS;
use crate::scaled::scaled;

/// Stage of a tenant's processes: free, tried, in turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// The driver slices them, and nothing is counted.
    #[default]
    Rest,
    /// The driver slices them, and what they do is counted.
    Beside,
    /// They take turns, on trial.
    Trial,
    /// They take turns, which gains.
    Turns,
    /// They take turns beside other tenants, shared where little of them is used.
    Shared,
}

/// One process, as its line said last.
#[derive(Clone, Copy, Default, Debug)]
struct Worker {
    slot: usize,
    launches: u64,
    used_ns: u64,
    /// Its longest kernel, as far as it has seen.
    longest_ns: u64,
    /// The same when the window began.
    from: (u64, u64),
    /// Launches of a window beside the others.
    beside: u64,
}

impl Worker {
    fn launched(&self) -> u64 {
        self.launches.wrapping_sub(self.from.0)
    }

    /// Had long kernels, and its launches take long enough that they may be such still.
    fn is_long(&self) -> bool {
        self.longest_ns >= SLICED_FROM_NS
            && self.used_ns() >= self.launched().saturating_mul(tuning::SHORT_WORK_NS)
    }

    fn used_ns(&self) -> u64 {
        // Charges of before may be put right.
        u64::try_from(self.used_ns.wrapping_sub(self.from.1).cast_signed()).unwrap_or(0)
    }
}

/// The answer for a tenant's processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inner {
    /// Anything.
    Free,
    /// Anything, counted.
    Counted,
    /// Take turns.
    Turns,
    /// Take turns, and go beside one of them that uses little of its turn.
    Shared,
    /// Take turns on trial, which is looked at again within [`tuning::TRIAL_LOOK_NS`].
    Trial,
}

/// The processes of a tenant on one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Workers {
    stage: Stage,
    /// When the stage is over, and its window began.
    until_ns: u64,
    from_ns: u64,
    /// How long was rested after the last trial that failed.
    rested_ns: u64,
    workers: [Worker; tuning::MOST_WORKERS],
    count: usize,
    seen: usize,
    is_other: bool,
    /// When the tenant was closed last.
    closed_ns: u64,
}

/// Device time of work that was done in a window.
#[derive(Clone, Copy, Default)]
struct Compared {
    turns_ns: u64,
    beside_ns: u64,
    /// Sum of the launches' mean lengths, where no more is known.
    rough_ns: u64,
    one_loses: bool,
}

impl Workers {
    /// A reading of the tenant's lines begins.
    pub(super) fn begin(&mut self) {
        self.seen = 0;
    }

    /// A living process's line; in the order of slots.
    pub(super) fn see(&mut self, slot: usize, entry: &GateEntry) {
        let Some(worker) = self.workers.get_mut(self.seen) else { return };
        self.seen = self.seen.saturating_add(1);
        if worker.slot != slot {
            *worker = Worker { slot, ..Worker::default() };
            worker.from = (entry.launches, entry.used_ns);
            self.is_other = true;
        }
        (worker.launches, worker.used_ns) = (entry.launches, entry.used_ns);
        worker.longest_ns = entry.longest_ns;
    }

    /// Decides for the time from now on; `is_alone`: the tenant has the device to itself; `is_closed`: it is closed for
    /// others.
    pub(super) fn step(&mut self, now_ns: u64, is_alone: bool, is_closed: bool) -> Inner {
        let is_other = core::mem::take(&mut self.is_other) || self.seen != self.count;
        self.count = self.seen;
        if is_other {
            self.rested_ns = 0;
        }
        if is_closed {
            self.closed_ns = now_ns;
        }
        if self.count < 2 {
            self.rest(now_ns, 0);
        } else if is_alone {
            self.go_on(now_ns, is_other);
        } else if self.stage != Stage::Turns {
            self.go_on_beside(now_ns);
        }
        match self.stage {
            Stage::Rest => Inner::Free,
            Stage::Beside => Inner::Counted,
            Stage::Trial => Inner::Trial,
            Stage::Turns => Inner::Turns,
            Stage::Shared => Inner::Shared,
        }
    }

    /// One look beside other tenants.
    fn go_on_beside(&mut self, now_ns: u64) {
        let is_shared = self.stage == Stage::Shared;
        let is_over = now_ns.saturating_sub(self.from_ns) >= tuning::WORKERS_WINDOW_NS;
        if is_shared && !is_over {
            return;
        }
        // One that waits in its turns may launch nothing in a window.
        let is_seen = |w: &Worker| is_shared || w.launched() != 0;
        let long = self.known().filter(|w| w.is_long() && is_seen(w)).count();
        let is_contended = now_ns.saturating_sub(self.closed_ns) < tuning::CONTENDED_NS;
        let stage = if long > 1 && is_contended { Stage::Shared } else { Stage::Rest };
        if stage != self.stage {
            self.enter(stage, now_ns, tuning::WORKERS_LOOK_NS);
        } else if is_over {
            self.count_from(now_ns);
        }
    }

    fn go_on(&mut self, now_ns: u64, is_other: bool) {
        let is_over = now_ns >= self.until_ns;
        match self.stage {
            Stage::Rest | Stage::Turns | Stage::Shared if is_over => {
                self.enter(Stage::Beside, now_ns, tuning::WORKERS_WINDOW_NS);
            }
            Stage::Rest | Stage::Turns | Stage::Shared => {}
            // A process that has come or gone was there for a part of the window only.
            _ if is_other => self.rest(now_ns, 0),
            Stage::Beside if is_over => {
                let elapsed_ns = now_ns.saturating_sub(self.from_ns);
                if !self.are_in_the_way(elapsed_ns) {
                    return self.rest(now_ns, tuning::WORKERS_LOOK_NS);
                }
                self.known().for_each(|w| {
                    w.beside = scaled(w.launched(), tuning::WORKERS_WINDOW_NS, elapsed_ns);
                });
                self.enter(
                    Stage::Trial,
                    now_ns,
                    tuning::WORKERS_SETTLE_NS.saturating_add(tuning::WORKERS_WINDOW_NS),
                );
            }
            Stage::Beside => {}
            Stage::Trial => self.judge(now_ns, is_over),
        }
    }

    /// One look at a trial.
    fn judge(&mut self, now_ns: u64, is_over: bool) {
        let elapsed_ns = now_ns.saturating_sub(self.from_ns);
        if now_ns < self.until_ns.saturating_sub(tuning::WORKERS_WINDOW_NS) {
            // Counted from the last look before that on.
            return self.count_from(now_ns);
        }
        let Compared { turns_ns, beside_ns, rough_ns, one_loses } = self.compare(elapsed_ns);
        let least_ns = scaled(beside_ns, tuning::GAIN_PERCENT, 100).saturating_add(rough_ns);
        let hopeless_ns = scaled(beside_ns, tuning::HOPELESS_PERCENT, 100);
        if is_over && turns_ns > least_ns && !one_loses {
            self.rested_ns = 0;
            self.enter(Stage::Turns, now_ns, tuning::WORKERS_RENEW_NS);
        } else if is_over || turns_ns.saturating_add(rough_ns) < hopeless_ns {
            let (first_ns, most_ns) = tuning::WORKERS_RETRIAL_NS;
            self.rested_ns = self.rested_ns.saturating_mul(2).max(first_ns).min(most_ns);
            self.rest(now_ns, self.rested_ns);
        }
    }

    /// Whether two and more have used the device in the window, and much of it.
    fn are_in_the_way(&mut self, elapsed_ns: u64) -> bool {
        let at_work = self.known().filter(|w| w.launched() != 0).count();
        let used_ns = self.known().fold(0, |sum: u64, w| sum.saturating_add(w.used_ns()));
        at_work > 1 && used_ns > elapsed_ns / tuning::USED_PART
    }

    fn compare(&mut self, elapsed_ns: u64) -> Compared {
        let mut sum = Compared::default();
        for worker in self.known() {
            let (launched, used_ns) = (worker.launched(), worker.used_ns());
            let beside = scaled(worker.beside, elapsed_ns, tuning::WORKERS_WINDOW_NS);
            let each_ns = used_ns.checked_div(launched).unwrap_or(0);
            let worth_ns = each_ns.saturating_mul(beside);
            let least = scaled(beside, tuning::KEEPS_PERCENT, 100);
            sum.turns_ns = sum.turns_ns.saturating_add(used_ns);
            sum.beside_ns = sum.beside_ns.saturating_add(worth_ns);
            sum.rough_ns = sum.rough_ns.saturating_add(each_ns);
            sum.one_loses |= launched.saturating_add(1) < least;
        }
        sum
    }

    fn known(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.workers.iter_mut().take(self.count)
    }

    fn rest(&mut self, now_ns: u64, for_ns: u64) {
        if self.stage != Stage::Rest || for_ns == 0 {
            self.enter(Stage::Rest, now_ns, for_ns);
        }
    }

    fn enter(&mut self, stage: Stage, now_ns: u64, for_ns: u64) {
        self.stage = stage;
        self.until_ns = now_ns.saturating_add(for_ns);
        self.count_from(now_ns);
    }

    fn count_from(&mut self, now_ns: u64) {
        self.from_ns = now_ns;
        self.known().for_each(|w| w.from = (w.launches, w.used_ns));
    }
}
