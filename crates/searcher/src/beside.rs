//! Tenants beside each other on a device under a daemon, by seed: two or three that would each use all they can get.
//!
//! Queues that never drain, loops that synchronise each kernel or so many, kernels of one length or two by turns;
//! weights, and caps where they are asked for; they begin at different times.
//!
//! Promises: what each is due follows from what it reaches alone ([`crate::due::of`]); one that pauses, in [`pausing`]
//! alone, has its part of that.

use crate::case::{Case, Knobs, ProcessPlan, TenantPlan};
use crate::choice::Choices;
use crate::program::{Length, Op, Ops, named};
use crate::{MS, SECOND, US};

/// When the last of them has begun, at the latest.
pub const BEGUN_NS: u64 = 400 * MS;

/// The case of a seed; with caps for some of the tenants, or for none.
pub fn case(seed: u64, has_caps: bool) -> Case {
    let choices = Choices::new(seed).named("beside");
    let tenants = choices.named("tenants").between(2, 3);
    // Either no tenant has a weight, or all have.
    let is_usual = has_caps && choices.named("usual").is(400_000);
    let tenants = (0..tenants).map(|at| {
        let drawn = tenant(choices.named("tenant").of(at), at, has_caps);
        TenantPlan { weight: if is_usual { 0 } else { drawn.weight }, ..drawn }
    });
    let run_ns = 20 * SECOND;
    let seed = choices.named("environment").word();
    let knobs = Knobs { seed, run_ns, heal_ns: run_ns, has_daemon: true, ..Knobs::default() };
    Case { knobs, tenants: tenants.collect(), devs: Vec::new() }
}

/// The same with a first tenant of one to four processes whose kernels outlast its turns: all of them, or runs of them.
pub fn outlasting(seed: u64, has_caps: bool) -> Case {
    let choices = Choices::new(seed).named("outlasting");
    let of = |name: &str| choices.named(name);
    let ms = |name: &str, most| of(name).spread(4, most) * MS;
    let ops = match of("kind").below(3) {
        0 => named::sync(ms("ns", 60)),
        1 => named::queue(of("count").between(2, 6) as u32, ms("ns", 40)),
        _ => {
            let few = |name: &str, most| of(name).between(2, most) as usize;
            let short_ns = of("short").spread(20 * US, 500 * US);
            let long = vec![ms("ns", 12); few("long", 16)];
            named::queue_of([long, vec![short_ns; few("count", 24)]].concat())
        }
    };
    // The same kernel was short once, for so many launches.
    let ops = match of("was short").is(300_000) {
        true => named::syncs(of("times").spread(1, 100) as u32, of("once").spread(US, 5 * MS), ops),
        false => ops,
    };
    let mut case = case(seed, has_caps);
    if let Some(first) = case.tenants.first_mut() {
        let plan = ProcessPlan { ops, ..ProcessPlan::default() };
        first.processes = vec![plan; of("processes").between(1, 4) as usize];
    }
    case
}

/// The same with a first tenant that pauses between a few launches and the next: a host that computes or sleeps. One of
/// the others may have long kernels.
pub fn pausing(seed: u64, has_caps: bool) -> Case {
    let choices = Choices::new(seed).named("pausing");
    let of = |name: &str| choices.named(name);
    let launch = named::launch(1, of("ns").spread(20 * US, 5 * MS));
    let ns = of("pause").spread(100 * US, 30 * MS);
    let pause = if of("sleeps").is(500_000) { Op::Pause { ns } } else { Op::Compute { ns } };
    let launches = named::repeat(of("count").spread(1, 32) as u32, launch);
    let ops = named::forever(vec![launches, Op::Sync, pause]);
    let long = named::sync(of("long").spread(10 * MS, 200 * MS));
    let mut case = case(seed, has_caps);
    let mut processes = case.tenants.iter_mut().flat_map(|tenant| &mut tenant.processes);
    if let Some(first) = processes.next() {
        first.ops = ops;
    }
    if let Some(other) = processes.next().filter(|_| of("is long").is(250_000)) {
        other.ops = long;
    }
    case
}

/// The first begins at once.
fn tenant(choices: Choices, at: u64, has_caps: bool) -> TenantPlan {
    let of = |name: &str| choices.named(name);
    let late_ns = of("start").below(BEGUN_NS / MS) * MS;
    let plan = ProcessPlan {
        ops: load(choices),
        start_ns: if at == 0 { 0 } else { late_ns },
        is_blocking: of("blocking").is(300_000),
        ..ProcessPlan::default()
    };
    let caps = [0, 100_000, 300_000, 500_000, 700_000];
    let share_ppm = of("cap").one_of(&caps).copied().filter(|_| has_caps).unwrap_or(0);
    let weight = of("weight").one_of(&[100, 200, 300, 900]).copied().unwrap_or(100);
    TenantPlan { share_ppm, weight, processes: vec![plan], ..TenantPlan::default() }
}

fn load(choices: Choices) -> Ops {
    let of = |name: &str| choices.named(name);
    let ns = of("ns").spread(20 * US, 10 * MS);
    match of("kind").below(6) {
        0 | 1 => named::flood(ns),
        2 | 3 => named::sync(ns),
        4 => named::queue(of("count").spread(2, 200) as u32, ns),
        _ => {
            let lengths = ["a", "b"].map(|name| of(name).spread(20 * US, 5 * MS));
            let launch = named::launch_on(1, Length::List(lengths.to_vec()), 0);
            let times = of("count").spread(1, 50) as u32;
            named::forever(vec![Op::Repeat { times, ops: vec![launch] }, Op::Sync])
        }
    }
}
