//! The past buys nothing and costs nothing. From when several tenants want the device each has its part, less a round and
//! a unit of each other, in any stretch of time, whatever each of them did before.
//!
//! Each case has a past, in which tenants work little, idle, or contend, and a present that begins at one time for
//! all. The worst stretch of the present is judged: what was due in it less what was had.

mod workers;

use divvy_searcher::case::{Case, Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::choice::Choices;
use divvy_searcher::program::{self, Length, Op, Ops, named};
use divvy_searcher::{MS, SECOND, US, due, gated, oracle, world};

/// How long each present is.
const PRESENT_NS: u64 = 4 * SECOND;
const LOOK_NS: u64 = 10 * MS;

/// The worst stretch of a tenant: how far it fell behind, and how far it may.
#[derive(Debug)]
struct Stretch {
    behind_ns: u64,
    most_ns: u64,
}

fn graph(ns: u64) -> Op {
    Op::Graph { key: 1, length: Length::Fixed(ns), stream: 0, call_ns: None }
}

/// Tenants that each do something until `from_ns`, then something else; the worst stretch of each that wants
/// the device then.
fn worst(
    tenants: &[(Ops, Ops, TenantPlan)],
    wants: &[bool],
    from_ns: u64,
    devices: u32,
) -> Vec<Stretch> {
    let plans = tenants.iter().map(|(past, present, plan)| {
        let past = Op::For { ns: from_ns, ops: past.clone() };
        let ops = [vec![past, Op::Sync], present.clone()].concat();
        let device = plan.processes.first().map_or(0, |one| one.device);
        let mut processes = vec![ProcessPlan { ops, device, ..ProcessPlan::default() }];
        processes.extend(plan.processes.iter().skip(1).cloned());
        TenantPlan { processes, ..plan.clone() }
    });
    let run_ns = from_ns + PRESENT_NS;
    let knobs = Knobs { run_ns, heal_ns: run_ns, has_daemon: true, devices, ..Knobs::default() };
    let case = Case { knobs, tenants: plans.collect(), devs: Vec::new() };
    let device_of = |at: usize| case.tenants[at].processes[0].device as usize;
    let mut looks: Vec<(u64, Vec<u64>)> = Vec::new();
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        if now_ns >= from_ns + looks.len() as u64 * LOOK_NS {
            let had = (0..tenants.len()).map(|at| world.had(at as u32, device_of(at)).busy_ns);
            looks.push((now_ns, had.collect()));
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let weight = |at: usize| match tenants[at].2.weight {
        0 => 100.0,
        weight => f64::from(weight),
    };
    let unit_ns =
        |at: usize| program::unit_ns(&tenants[at].1).max(program::longest_ns(&tenants[at].0));
    let of = |at: usize| {
        let is_beside = |other: &usize| wants[*other] && device_of(*other) == device_of(at);
        let beside: Vec<usize> = (0..tenants.len()).filter(is_beside).collect();
        let all: f64 = beside.iter().map(|other| weight(*other)).sum();
        let units_ns = beside.iter().map(|other| unit_ns(*other)).sum();
        let had = looks.iter().map(|(now_ns, had)| (*now_ns, had[at]));
        Stretch {
            behind_ns: due::most_behind_ns(had, weight(at) / all),
            most_ns: oracle::stretch_ns(beside.len(), units_ns),
        }
    };
    (0..tenants.len()).filter(|at| wants[*at]).map(of).collect()
}

fn weighted(weight: u32) -> TenantPlan {
    TenantPlan { weight, ..TenantPlan::default() }
}

fn idle() -> Ops {
    vec![Op::Pause { ns: 5 * MS }]
}

fn queue() -> Ops {
    vec![Op::Repeat { times: 0, ops: vec![named::repeat(8, named::launch(1, 170 * US)), Op::Sync] }]
}

fn steps() -> Ops {
    vec![Op::Repeat { times: 0, ops: vec![graph(4_150 * US), Op::Sync] }]
}

fn seldom(ns: u64, pause_ns: u64) -> Ops {
    vec![graph(ns), Op::Sync, Op::Pause { ns: pause_ns }]
}

fn judge(what: &str, worst: &[Stretch]) -> bool {
    let holds = worst.iter().all(|one| one.behind_ns <= one.most_ns);
    let ms: Vec<_> = worst.iter().map(|one| (one.behind_ns / MS, one.most_ns / MS)).collect();
    println!("{} {what}: {ms:?}", if holds { "    " } else { "FAIL" });
    holds
}

/// On an H200 a decode server that had made a step each 24 ms, alone, had two steps in 3.4 s beside a flood that came.
#[test]
fn who_worked_alone_owes_nothing() {
    let mut holds = true;
    let past = || seldom(4_150 * US, 20 * MS);
    for (what, d, f) in [
        ("no weights", weighted(0), weighted(0)),
        ("3 and none", weighted(3), weighted(0)),
        ("300 and 100", weighted(300), weighted(100)),
        ("100 and 300", weighted(100), weighted(300)),
        ("latency", TenantPlan { is_latency: true, ..weighted(0) }, weighted(0)),
        ("caps of 95", TenantPlan { share_ppm: 950_000, ..weighted(0) }, weighted(0)),
    ] {
        let tenants = [(past(), steps(), d), (idle(), queue(), f)];
        holds &= judge(what, &worst(&tenants, &[true; 2], 10 * SECOND, 1));
    }
    for (what, ns, pause_ns) in [
        ("200 us each 6 ms", 200 * US, 6 * MS),
        ("1 ms each 8 ms", MS, 7 * MS),
        ("1 ms each 20 ms", MS, 19 * MS),
        ("9 ms each 18 ms", 9 * MS, 9 * MS),
        ("20 ms each 100 ms", 20 * MS, 80 * MS),
        ("30 ms each 200 ms", 30 * MS, 170 * MS),
        ("always", 4 * MS, 0),
    ] {
        let tenants =
            [(seldom(ns, pause_ns), steps(), weighted(0)), (idle(), queue(), weighted(0))];
        holds &= judge(what, &worst(&tenants, &[true; 2], 10 * SECOND, 1));
    }
    assert!(holds);
}

/// Two that meet at times, and a third that comes.
#[test]
fn who_met_at_times_owes_the_third_nothing() {
    let mut holds = true;
    for (what, a, b) in [
        ("4 ms each 24 and each 31", seldom(4 * MS, 20 * MS), seldom(4 * MS, 27 * MS)),
        ("200 us each 6 and each 7 ms", seldom(200 * US, 6 * MS), seldom(200 * US, 7 * MS)),
        (
            "a queue and 4 ms each 24",
            vec![named::repeat(8, named::launch(1, MS)), Op::Sync],
            seldom(4 * MS, 20 * MS),
        ),
    ] {
        for weights in [[0, 0, 0], [100, 300, 100], [300, 100, 300]] {
            let tenants = [
                (a.clone(), steps(), weighted(weights[0])),
                (b.clone(), queue(), weighted(weights[1])),
                (idle(), queue(), weighted(weights[2])),
            ];
            holds &= judge(
                &format!("{what}, {weights:?}"),
                &worst(&tenants, &[true; 3], 10 * SECOND, 1),
            );
        }
    }
    assert!(holds);
}

/// One of lower priority that always waits does not keep the others' past.
#[test]
fn a_lower_one_keeps_no_past() {
    let mut holds = true;
    let high = || TenantPlan { priority: 1, ..weighted(0) };
    for (what, past) in [
        ("4 ms each 24", seldom(4 * MS, 20 * MS)),
        ("always", vec![named::repeat(8, named::launch(1, MS)), Op::Sync]),
    ] {
        let tenants =
            [(past, steps(), high()), (idle(), queue(), high()), (queue(), queue(), weighted(0))];
        holds &= judge(what, &worst(&tenants, &[true, true, false], 10 * SECOND, 1));
    }
    assert!(holds);
}

/// Two devices that a third tenant joins: who had more of the one owes nothing on the other.
#[test]
fn another_device_keeps_no_past() {
    let mut holds = true;
    let on = |device: u32, weight: u32| TenantPlan {
        processes: vec![ProcessPlan { device, ..ProcessPlan::default() }],
        ..weighted(weight)
    };
    // A job with a rank on each device, that works at times.
    let rank = |device| ProcessPlan {
        device,
        ops: named::forever(vec![graph(MS), Op::Sync, Op::Pause { ns: 400 * MS }]),
        ..ProcessPlan::default()
    };
    let job = TenantPlan { processes: vec![rank(0), rank(0), rank(1)], ..weighted(0) };
    for (what, a, b) in [("equal", 100, 100), ("100 and 300", 100, 300), ("300 and 100", 300, 100)]
    {
        let flood = || vec![named::repeat(8, named::launch(1, MS)), Op::Sync];
        let tenants = [
            (flood(), queue(), on(0, a)),
            (flood(), queue(), on(1, b)),
            (idle(), queue(), on(0, 100)),
            (idle(), queue(), on(1, 100)),
            (idle(), idle(), job.clone()),
        ];
        let wants = [true, true, true, true, false];
        holds &= judge(what, &worst(&tenants, &wants, 10 * SECOND, 2));
    }
    assert!(holds);
}

/// Pasts and presents by seed.
#[test]
fn no_past_appears() {
    let verdicts = workers::of_seeds(workers::chosen(60), |seed| {
        let choices = Choices::new(seed).named("stepper");
        let count = choices.named("tenants").between(2, 3);
        let from_ns = choices.named("from").between(2, 8) * SECOND;
        let drawn = |at| {
            let of = |name: &str| choices.named(name).of(at);
            let ns = of("ns").spread(50 * US, 20 * MS);
            let past = match of("past").below(4) {
                0 => idle(),
                1 | 2 => seldom(ns, of("pause").spread(MS, 150 * MS)),
                _ => vec![named::repeat(4, named::launch(1, ns.min(5 * MS))), Op::Sync],
            };
            let present = match of("present").below(3) {
                0 => steps(),
                1 => queue(),
                _ => named::flood(of("length").spread(100 * US, 5 * MS)),
            };
            let weight = of("weight").one_of(&[100, 100, 300, 30]).copied().unwrap_or(100);
            (past, present, weighted(weight))
        };
        let tenants: Vec<_> = (0..count).map(drawn).collect();
        let worst = worst(&tenants, &vec![true; tenants.len()], from_ns, 1);
        let pasts: Vec<_> =
            tenants.iter().map(|(past, _, plan)| format!("{} {past:?}", plan.weight)).collect();
        (format!("seed {seed} {pasts:?}"), worst)
    });
    let fail: Vec<_> =
        verdicts.iter().filter(|(what, worst)| !judge(what, worst)).map(|(what, _)| what).collect();
    assert!(fail.is_empty(), "{} of {} fail: {fail:#?}", fail.len(), verdicts.len());
}
