//! A tenant whose kernels outlast its turns by far, and another: each has its half, whatever the other can use of the
//! driver's slices. One that waits for each of its kernels finds a slice of the other's before each.
//!
//! An H200 gave 24, 28 and 0.8 % to kernels of 1 ms, 1 ms and 20 us waited for, beside kernels of
//! 0.3, 1.5 and 3 s that had been short once
//! (`bench/results/h200-2026-12-01/shares.txt`, `docs/notes/turns.md`); now it gives 46, 45 and 22.

mod table;

use divvy_searcher::case::TenantPlan;
use divvy_searcher::program::{Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US, oracle};

const RUN_NS: u64 = 30 * SECOND;

/// Launches of the queues before they wait: all are in flight before the first has shown its length.
const QUEUED: u32 = 4;

fn beside() -> [(&'static str, Ops); 8] {
    [
        ("a queue of 1 ms", named::queue(8, MS)),
        ("1 ms waited for", named::sync(MS)),
        ("20 us waited for", named::sync(20 * US)),
        ("a queue of 20 us", named::queue(64, 20 * US)),
        ("5 ms waited for", named::sync(5 * MS)),
        ("100 ms waited for", named::sync(100 * MS)),
        ("1 ms waited for, once 100 ms", behind_a_long_one(named::sync(MS))),
        ("20 us waited for, once 100 ms", behind_a_long_one(named::sync(20 * US))),
    ]
}

/// A program whose first kernel was long: the longest that it ever had says nothing of what it does now.
fn behind_a_long_one(then: Ops) -> Ops {
    [vec![named::launch(9, 100 * MS), Op::Sync], then].concat()
}

fn judge(long_ns: u64, how: &str, long: &Ops, (launches, most_trials): (u64, u64)) {
    let mut rows = Rows::default();
    for (name, other) in beside() {
        let half = f64::midpoint(0.0, table::natively(&other, SECOND));
        let tenants = vec![TenantPlan::of(long.clone()), TenantPlan::of(other)];
        let report = table::run(tenants, true, RUN_NS);
        let had = [0, 1].map(|tenant| report.busy_percent(tenant));
        let within = oracle::beside_overruns(launches * long_ns, RUN_NS);
        let what = format!("{} ms {how} beside {name}", long_ns / MS);
        rows.row(&format!("{what}: the long one"), 50, within, had[0]);
        rows.row(&format!("{what}: the other"), half, within, had[1]);
        // They may come before a turn has shown that the work outlasts it.
        assert!(report.trials <= most_trials, "{what}: {} trials of everybody open", report.trials);
    }
    rows.judge();
}

#[test]
fn both_have_their_halves_beside_one_that_waits() {
    for long_ns in [300 * MS, 1_500 * MS, 3_000 * MS] {
        judge(long_ns, "waited for", &named::sync(long_ns), (1, 1));
    }
}

#[test]
fn both_have_their_halves_beside_a_queue() {
    for long_ns in [300 * MS, 1_500 * MS] {
        judge(long_ns, "queued", &named::queue(QUEUED, long_ns), (QUEUED.into(), 1));
    }
}

/// The kernel was short when it was measured, so often that its length is known for sure: an H200
/// gave 69 and 24, 64 and 29, 88 and 0.8 %, since no launch that ended behind its turn was charged
/// more than that
/// (`bench/results/h200-2026-12-01/shares.txt`).
#[test]
fn both_have_their_halves_where_the_long_kernel_was_short_once() {
    for (long_ns, short_ns, times) in [
        (300 * MS, 10 * US, 20),
        (300 * MS, MS, 50),
        (1_500 * MS, 10 * US, 3),
        (3_000 * MS, US, 20),
    ] {
        let long = named::syncs(times, short_ns, named::sync(long_ns));
        judge(long_ns, &format!("once {short_ns} ns"), &long, (1, 2));
    }
}

/// So is its cap: one of 30 % had 60, 48 and 84.
#[test]
fn a_cap_holds_where_the_long_kernel_was_short_once() {
    let mut rows = Rows::default();
    for (long_ms, cap_percent) in [(100, 30_u32), (300, 30), (300, 50), (1_000, 30)] {
        let long = named::syncs(20, 10 * US, named::sync(long_ms * MS));
        for (name, other) in &beside()[..3] {
            let capped = TenantPlan {
                share_ppm: u64::from(cap_percent) * 10_000,
                ..TenantPlan::of(long.clone())
            };
            let tenants = vec![capped, TenantPlan::of(other.clone())];
            let had = table::run(tenants, true, RUN_NS).busy_percent(0);
            let what = format!("{long_ms} ms under {cap_percent} beside {name}");
            rows.row(&what, cap_percent, oracle::capped_overruns(), had);
        }
    }
    rows.judge();
}

/// Weights hold beside such work too.
#[test]
fn weights_hold_beside_one_that_waits() {
    let mut rows = Rows::default();
    for long_ns in [300 * MS, 1_500 * MS] {
        for (weights, due) in [([300, 100], [75, 25]), ([100, 300], [25, 75])] {
            for (name, other) in beside().into_iter().take(2) {
                let plan = |ops: Ops, weight| TenantPlan { weight, ..TenantPlan::of(ops) };
                let tenants = vec![plan(named::sync(long_ns), weights[0]), plan(other, weights[1])];
                let report = table::run(tenants, true, RUN_NS);
                let what = format!("{} ms beside {name} at {weights:?}", long_ns / MS);
                for tenant in [0, 1] {
                    let within = oracle::outlasting(due[tenant], long_ns, RUN_NS).or_more();
                    let had = report.busy_percent(tenant);
                    rows.row(
                        &format!("{what}: {}", ["the long one", "the other"][tenant]),
                        due[tenant],
                        within,
                        had,
                    );
                }
            }
        }
    }
    rows.judge();
}
