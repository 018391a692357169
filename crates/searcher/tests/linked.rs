//! Jobs with a rank on each of two devices: what they get of what they have alone, under a cap and beside each other.

mod table;

use divvy_searcher::case::{Case, Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::oracle;
use divvy_searcher::program::{Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::world::{self, Code};
use divvy_searcher::{MS, SECOND, US, gated};
use table::run_with;

const RUN_NS: u64 = 12 * SECOND;
const FROM_NS: u64 = 2 * SECOND;

/// A rank of tests/gpu/programs/allreduce.py, on an H100: two matrix products, a fill, the sum on a stream of its own; two
/// steps ahead. One may have more to do than the others.
fn rank(ranks: u32, more_ns: u64) -> Ops {
    let joins = |event, from, to| {
        vec![Op::Record { event, stream: from }, Op::StreamWait { event, stream: to }]
    };
    let step = |event| {
        let product = || named::launch(1, 1_500 * US);
        let begin = vec![Op::EventSync { event }, product(), product(), named::launch(2, 30 * US)];
        let more = if more_ns == 0 { Vec::new() } else { vec![named::launch(3, more_ns)] };
        let sum = Op::Collective { key: 4, length_ns: 500 * US, group: 0, ranks, stream: 1 };
        let end = Op::Record { event, stream: 0 };
        [begin, more, joins(10, 0, 1), vec![sum], joins(11, 1, 0), vec![end]].concat()
    };
    named::forever([step(0), step(1)].concat())
}

/// A tenant with these ranks, each on a device of its own.
fn job_of(percent: u64, ranks: Vec<Ops>) -> TenantPlan {
    let ranks = ranks.into_iter().zip(0..);
    let processes =
        ranks.map(|(ops, device)| ProcessPlan { device, ops, ..ProcessPlan::default() });
    TenantPlan {
        share_ppm: percent * 10_000,
        processes: processes.collect(),
        ..TenantPlan::default()
    }
}

fn job(percent: u64) -> TenantPlan {
    job_of(percent, vec![rank(2, 0), rank(2, 0)])
}

fn knobs(has_daemon: bool, devices: u32) -> Knobs {
    Knobs { run_ns: RUN_NS, has_daemon, devices, ..Knobs::default() }
}

/// Device time that each tenant's first rank has completed from [`FROM_NS`] on: by then all knows each other.
fn done_ns(jobs: &[TenantPlan], knobs: &Knobs, code: &Code) -> Vec<f64> {
    let case = Case { knobs: knobs.clone(), tenants: jobs.to_vec(), devs: Vec::new() };
    let mut before = None;
    let report = world::run_with(&case, code, |world, now_ns| {
        let all = (0..jobs.len()).map(|tenant| world.had(tenant as u32, 0).work_ns);
        if now_ns >= FROM_NS && before.is_none() {
            before = Some(all.collect::<Vec<_>>());
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let before = before.expect("it ran for longer");
    report.had.iter().zip(before).map(|(had, before)| (had[0].work_ns - before) as f64).collect()
}

/// What each of the jobs gets, in percent of what it has alone.
fn shares(jobs: &[TenantPlan], has_daemon: bool) -> Vec<f64> {
    let devices = jobs.iter().map(|job| job.processes.len()).max().unwrap_or(1);
    let knobs = knobs(has_daemon, u32::try_from(devices).expect("few"));
    let got = done_ns(jobs, &knobs, &gated::shipped());
    let alone = |job: &TenantPlan| done_ns(std::slice::from_ref(job), &knobs, &world::native())[0];
    got.iter().zip(jobs).map(|(got, job)| 100.0 * got / alone(job)).collect()
}

#[test]
fn under_a_cap_no_rank_waits_for_one_that_is_closed() {
    let mut rows = Rows::default();
    for cap in [10, 40, 80] {
        for has_daemon in [false, true] {
            let got = shares(&[job(cap)], has_daemon)[0];
            let what = format!("cap {cap}, daemon {has_daemon}");
            rows.row(&what, cap as f64, oracle::together(), got);
        }
    }
    let four = job_of(30, vec![rank(4, 0); 4]);
    rows.row("four ranks under 30", 30, oracle::together(), shares(&[four], true)[0]);
    let mut late = job(40);
    for (nth, process) in late.processes.iter_mut().enumerate() {
        // What the first sum waits for is no part of the others.
        process.start_ns = nth as u64 * 5 * MS;
    }
    rows.row(
        "one rank that comes late, under 40",
        40,
        oracle::together(),
        shares(&[late], true)[0],
    );
    // The second works for three tenths more; the first spins for as long, and is charged for that as it is natively, and
    // for what it spins longer where they begin again.
    let uneven = job_of(40, vec![rank(2, 0), rank(2, MS)]);
    rows.row("uneven ranks under 40", 40, oracle::together(), shares(&[uneven], true)[0]);
    rows.judge();
}

#[test]
fn two_jobs_have_their_parts() {
    let mut rows = Rows::default();
    let got = shares(&[job(30), job(70)], true);
    rows.row("30 of 30 and 70", 30, oracle::jobs(), got[0]);
    rows.row("70 of 30 and 70", 70, oracle::jobs(), got[1]);
    rows.row("both", 100, oracle::jobs_in_sum(), got[0] + got[1]);
    let got = shares(&[job(0), job(0)], true);
    rows.row("first of two alike", 50, oracle::jobs_alike(), got[0]);
    rows.row("second of two alike", 50, oracle::jobs_alike(), got[1]);
    rows.judge();
}

/// Work of two devices that only looks as if it waited: kernels on one are longer than was expected now and then, and
/// the other launches whenever it may. Each has its cap and no more.
#[test]
fn who_shares_nothing_but_the_cap_has_it_on_each_device() {
    let mut rows = Rows::default();
    let programs = [named::mix2(), named::mixq(), named::flood(MS), named::sync(100 * US)];
    for (first, ops) in programs.iter().enumerate() {
        for (other, with) in programs.iter().enumerate().skip(first) {
            let plan = job_of(30, vec![ops.clone(), with.clone()]);
            let report = run_with(vec![plan], Vec::new(), knobs(true, 2));
            for (device, had) in report.had[0].iter().enumerate() {
                let had = 100.0 * had.busy_ns as f64 / report.wall_ns as f64;
                let what = format!("{first} beside {other}, device {device}");
                rows.row(&what, 30, oracle::share(), had);
            }
        }
    }
    rows.judge();
}

/// A rank that waits for ever for one that is not there, or a thread that sleeps for a function of the host's: what the
/// tenant launches on its other device may be what is waited for, and is let go sooner than its turn, but it has no more
/// for that.
#[test]
fn who_waits_for_nobody_gives_nothing_away() {
    let mut rows = Rows::default();
    let lost = Op::Collective { key: 4, length_ns: MS, group: 0, ranks: 3, stream: 0 };
    let waits = vec![lost, Op::Sync];
    let function = Op::HostFunction { length_ns: 900 * MS, stream: 0 };
    let tiny = Op::Repeat { times: 100, ops: vec![named::launch(5, 5 * US)] };
    let sleeps = named::forever(vec![tiny, function, Op::Sync]);
    let had = |tenants: Vec<TenantPlan>, of: usize| {
        let report = run_with(tenants, Vec::new(), knobs(true, 2));
        100.0 * report.had[of][1].busy_ns as f64 / report.wall_ns as f64
    };
    let other = |weight| TenantPlan {
        processes: vec![ProcessPlan { device: 1, ops: named::flood(MS), ..ProcessPlan::default() }],
        weight,
        ..TenantPlan::default()
    };
    for (what, rank) in [("waits", waits), ("sleeps", sleeps)] {
        for (cap, ms) in [(30, 1), (10, 1), (10, 19), (10, 200)] {
            let capped = job_of(cap, vec![rank.clone(), named::flood(ms * MS)]);
            let within = oracle::share_of_units(ms * MS, RUN_NS);
            let within = if ms < 100 { oracle::together() } else { within };
            let row = format!("{what}, {ms} ms under {cap}");
            rows.row(&row, cap as f64, within, had(vec![capped], 0));
        }
        let mine =
            |weight| TenantPlan { weight, ..job_of(0, vec![rank.clone(), named::flood(MS)]) };
        for (weights, of, part) in [([100, 100], 0, 50), ([100, 100], 1, 50), ([100, 900], 0, 10)] {
            let due = oracle::by_turns(part.into());
            let tenants = vec![mine(weights[0]), other(weights[1])];
            let row = format!("{what}, {of} of {weights:?}");
            rows.row(&row, due, oracle::together(), had(tenants, of));
        }
    }
    rows.judge();
}
