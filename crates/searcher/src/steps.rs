//! Tenants that make steps beside each other: how long each step takes, what each has of the
//! device, and what all get done.
//!
//! A stepper launches one graph, waits for it, and computes on the host for a moment, as a decode
//! server does. The time of a step is that from the end of the one before to its own end.
//!
//! Promises: steps are read off the card, not off what anybody says. Does not judge: the bounds are
//! in [`crate::oracle`].

use crate::case::{Case, Dev, Knobs, ProcessPlan, TenantPlan};
use crate::choice::Choices;
use crate::oracle::{self, Within};
use crate::program::{Length, Op, Ops, named};
use crate::world::{self, World};
use crate::{MS, SECOND, US, gated};

/// Length of a run, and its start that is not looked at.
const RUN_NS: u64 = 8 * SECOND;
const FIRST_NS: u64 = 2 * SECOND;

/// Kernels of an eager training.
const KERNEL_NS: u64 = 30 * US;

/// How a tenant works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Steps of so long, and the host's time between them.
    Steps(u64, u64),
    /// Kernels of so long, 10 ms of them queued.
    Flood(u64),
    /// Short kernels for so long, then a wait for all of them: an eager training.
    Eager(u64),
}

/// A tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// Its program.
    pub work: Work,
    /// Its weight; 0 for none.
    pub weight: u32,
    /// The higher one goes first.
    pub priority: i32,
    /// Its cap in percent; 0 for none.
    pub cap: u32,
}

/// Results of a tenant.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// Times of its steps, the shortest first; none of who makes no steps.
    pub steps_ns: Vec<u64>,
    /// Its part of all device time that was used, in percent.
    pub part: f64,
    /// Its progress, in percent of that alone and under no cap.
    pub progress: f64,
    /// Its kernels each second.
    pub rate: f64,
}

impl Who {
    /// One of the default weight and priority.
    pub fn of(work: Work) -> Self {
        Self { work, weight: 0, priority: 0, cap: 0 }
    }

    /// Of so much weight.
    #[must_use]
    pub fn weighs(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// Under a cap of so many percent.
    #[must_use]
    pub fn under(self, cap: u32) -> Self {
        Self { cap, ..self }
    }

    /// Of so high a priority.
    #[must_use]
    pub fn goes(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// The length of its step with the host's time, where it makes steps.
    pub fn step_ns(&self) -> Option<u64> {
        match self.work {
            Work::Steps(step_ns, gap_ns) => Some(step_ns + gap_ns),
            Work::Flood(_) | Work::Eager(_) => None,
        }
    }

    /// The longest that is not interrupted: a step, or a kernel.
    pub fn unit_ns(&self) -> u64 {
        match self.work {
            Work::Steps(ns, gap_ns) => ns + gap_ns,
            Work::Flood(ns) => ns,
            Work::Eager(_) => KERNEL_NS,
        }
    }

    fn ops(&self) -> Ops {
        let graph = |ns| Op::Graph { key: 1, length: Length::Fixed(ns), stream: 0, call_ns: None };
        match self.work {
            Work::Steps(ns, gap_ns) => {
                named::forever(vec![graph(ns), Op::Sync, Op::Compute { ns: gap_ns }])
            }
            Work::Flood(ns) => named::flood(ns),
            Work::Eager(ns) => {
                let times = u32::try_from(ns / KERNEL_NS).unwrap_or(u32::MAX);
                let ops = vec![named::launch(1, KERNEL_NS), Op::Compute { ns: KERNEL_NS / 2 }];
                let one = Op::Repeat { times, ops };
                named::forever(vec![one, Op::Sync])
            }
        }
    }

    fn plan(&self) -> TenantPlan {
        let processes = vec![ProcessPlan { ops: self.ops(), ..ProcessPlan::default() }];
        TenantPlan {
            weight: self.weight,
            priority: self.priority,
            share_ppm: u64::from(self.cap) * 10_000,
            processes,
            ..TenantPlan::default()
        }
    }
}

/// Device time and kernels of each when the look began, and the end of each step since.
#[derive(Default)]
struct Seen {
    first: Vec<(u64, u64)>,
    last: Vec<(u64, u64)>,
    ended_ns: Vec<Vec<u64>>,
}

impl Seen {
    fn look(&mut self, world: &World, now_ns: u64, count: usize) {
        if now_ns < FIRST_NS {
            return;
        }
        let had = (0..count).map(|at| world.had(u32::try_from(at).unwrap_or(0), 0));
        let had: Vec<_> = had.map(|had| (had.busy_ns, had.kernels)).collect();
        if self.first.is_empty() {
            self.first.clone_from(&had);
            self.ended_ns = vec![Vec::new(); count];
        }
        for (at, (_, kernels)) in had.iter().enumerate() {
            let is_new = self.last.get(at).is_some_and(|(_, before)| kernels != before);
            if is_new {
                self.ended_ns[at].push(now_ns);
            }
        }
        self.last = had;
    }
}

/// A run of these side by side, or of one of them alone: device time, kernels and the times of
/// steps of each.
fn seen(tenants: &[Who], knobs: Knobs, devs: &[Dev]) -> Seen {
    let plans = tenants.iter().map(Who::plan).collect();
    let case = Case { knobs, tenants: plans, devs: devs.to_vec() };
    let mut seen = Seen::default();
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        seen.look(world, now_ns, tenants.len());
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    seen
}

/// Results of these side by side.
///
/// # Panics
/// Where a promise is broken that is not this module's.
pub fn run(tenants: &[Who], devs: &[Dev]) -> Vec<Reached> {
    run_under(tenants, knobs(RUN_NS), devs)
}

/// The same, where the daemon gives lower priorities no floor.
///
/// # Panics
/// The same.
pub fn run_without_floor(tenants: &[Who]) -> Vec<Reached> {
    run_under(tenants, Knobs { floor_ppm: 0, ..knobs(RUN_NS) }, &[])
}

fn knobs(run_ns: u64) -> Knobs {
    Knobs { run_ns, heal_ns: run_ns, has_daemon: true, ..Knobs::default() }
}

fn run_under(tenants: &[Who], under: Knobs, devs: &[Dev]) -> Vec<Reached> {
    let beside = seen(tenants, under, devs);
    let had = |seen: &Seen, at: usize| {
        let (first, last) = (seen.first[at], seen.last[at]);
        (last.0 - first.0, last.1 - first.1)
    };
    let all_ns: u64 = (0..tenants.len()).map(|at| had(&beside, at).0).sum();
    let wall_ns = (RUN_NS - FIRST_NS) as f64;
    let alone_ns = FIRST_NS + SECOND;
    let of = |(at, who): (usize, &Who)| {
        let alone = had(&seen(&[who.under(0)], knobs(alone_ns), &[]), 0).1 as f64 / SECOND as f64;
        let (busy_ns, kernels) = had(&beside, at);
        let times = beside.ended_ns[at].windows(2).map(|ends| ends[1] - ends[0]);
        let mut steps_ns: Vec<_> = times.filter(|_| who.step_ns().is_some()).collect();
        steps_ns.sort_unstable();
        Reached {
            steps_ns,
            part: 100.0 * busy_ns as f64 / all_ns.max(1) as f64,
            progress: 100.0 * kernels as f64 / wall_ns / alone,
            rate: kernels as f64 / wall_ns * SECOND as f64,
        }
    };
    tenants.iter().enumerate().map(of).collect()
}

impl Reached {
    /// The step that is longer than so many of a hundred.
    pub fn percentile_ns(&self, percent: usize) -> u64 {
        let at = self.steps_ns.len() * percent / 100;
        self.steps_ns.get(at).or(self.steps_ns.last()).copied().unwrap_or(0)
    }

    /// For a reader, in milliseconds.
    pub fn text(&self) -> String {
        let ms = |ns: u64| ns as f64 / MS as f64;
        let of = |percent| ms(self.percentile_ns(percent));
        format!(
            "part {:5.2} progress {:5.2} rate {:6.0} p50 {:5.2} p99 {:5.2} most {:5.2}",
            self.part,
            self.progress,
            self.rate,
            of(50),
            of(99),
            of(100)
        )
    }
}

/// Two to eight by seed, one of which may be a flood or an eager training.
pub fn drawn(seed: u64) -> Vec<Who> {
    let choices = Choices::new(seed).named("steps");
    let count = choices.named("tenants").between(2, 8);
    let is_equal = choices.named("equal").is(500_000);
    let longest_ns = choices.named("longest").spread(MS, 20 * MS);
    let stepper = |at| {
        let of = |name: &str| choices.named(name).of(at);
        let ns = of("ns").spread(longest_ns / 10, longest_ns);
        let gap_ns = of("gap").spread(20 * US, ns / 4);
        let weight = if is_equal { 0 } else { of("weight").between(30, 100) };
        Who::of(Work::Steps(ns, gap_ns)).weighs(u32::try_from(weight).unwrap_or(0))
    };
    let mut all: Vec<_> = (0..count).map(stepper).collect();
    let length_ns = choices.named("length").spread(50 * US, 500 * US);
    let other = match choices.named("other").below(4) {
        0 => Some(Work::Flood(length_ns)),
        1 => Some(Work::Eager(60 * MS)),
        _ => None,
    };
    if let (Some(work), Some(last)) = (other, all.last_mut()) {
        last.work = work;
    }
    all
}

/// The part of the device that each is due, in percent: by weight, or by caps that all of them have.
pub fn parts(tenants: &[Who]) -> Vec<f64> {
    let weight = |who: &Who| match (who.cap, who.weight) {
        (0, 0) => 100.0,
        (0, weight) => f64::from(weight),
        (cap, _) => f64::from(cap),
    };
    let all: f64 = tenants.iter().map(weight).sum();
    tenants.iter().map(|who| 100.0 * weight(who) / all).collect()
}

/// How far each may be off its part: by the gaps of all.
pub fn within(tenants: &[Who]) -> Within {
    let gap_part = |who: &Who| match who.work {
        Work::Steps(step_ns, gap_ns) => gap_ns * 1_000 / (step_ns + gap_ns),
        Work::Flood(_) | Work::Eager(_) => 0,
    };
    oracle::steps_part(tenants.iter().map(gap_part).max().unwrap_or(0), 1_000)
}

/// The length of their cycle.
pub fn cycle_ns(tenants: &[Who]) -> u64 {
    let steps: Vec<_> = tenants.iter().filter_map(Who::step_ns).collect();
    let mean_ns = steps.iter().sum::<u64>() / (steps.len() as u64).max(1);
    let gaps_ns = tenants.iter().map(|who| match who.work {
        Work::Steps(_, gap_ns) => gap_ns,
        Work::Flood(_) | Work::Eager(_) => 0,
    });
    oracle::cycle_ns(tenants.len(), mean_ns, gaps_ns.sum())
}

/// The bound of each one's steps beside the others, of one step in a hundred; where they are alike
/// the others end with theirs.
pub fn bounds_ns(tenants: &[Who], is_alike: bool) -> Vec<u64> {
    let (cycle_ns, parts) = (cycle_ns(tenants), parts(tenants));
    let of = |(at, who): (usize, &Who)| {
        let others = tenants.iter().enumerate().filter(|(other, _)| *other != at);
        let longest_ns = others.map(|(_, who)| who.unit_ns()).max();
        let own_ns = who.step_ns().unwrap_or(0);
        let bound_ns =
            oracle::step_ns(cycle_ns, own_ns, parts[at], longest_ns.filter(|_| !is_alike));
        // Of four and more that are alike one is passed over now and then.
        bound_ns + if is_alike && tenants.len() > 3 { own_ns } else { 0 }
    };
    tenants.iter().enumerate().map(of).collect()
}
