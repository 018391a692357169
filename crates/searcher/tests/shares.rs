//! Shares of the shipped gates on the simulated card, beside what was measured on the real one.

use divvy_searcher::case::{Case, Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::program::{Ops, named};
use divvy_searcher::world::{self, Report};
use divvy_searcher::{MS, SECOND, US, gated};

fn capped(percent: u64, processes: Vec<Ops>) -> TenantPlan {
    let processes = processes.into_iter().map(|ops| ProcessPlan { ops, ..ProcessPlan::default() });
    TenantPlan {
        share_ppm: percent * 10_000,
        processes: processes.collect(),
        ..TenantPlan::default()
    }
}

fn run(tenants: Vec<TenantPlan>, has_daemon: bool, run_ns: u64) -> Report {
    let knobs = Knobs { run_ns, heal_ns: run_ns, has_daemon, ..Knobs::default() };
    world::run(&Case { knobs, tenants, devs: Vec::new() }, &gated::shipped())
}

#[test]
fn table() {
    let alone = |what: &str, ops: Ops, seconds: u64| {
        let start = std::time::Instant::now();
        let report = run(vec![capped(30, vec![ops])], false, seconds * SECOND);
        println!(
            "{what:20} {:6.2} % of 30, {:?}, {} events, {:.1?}",
            report.busy_percent(0),
            report.end,
            report.events,
            start.elapsed()
        );
    };
    for us in [5, 20, 100, 1_000, 5_000] {
        alone(&format!("sync {us}"), named::sync(us * US), 5);
        alone(&format!("flood {us}"), named::flood(us * US), 5);
    }
    alone("mix2", named::mix2(), 10);
    alone("liar", named::liar(), 10);
    alone("mixq", named::mixq(), 10);
    alone("graphupd", named::graphupd(), 10);
    alone("newproc", named::newproc(), 10);
    alone("grow", named::grow(10 * SECOND), 10);
    alone("threads4", named::threads(4, 200 * US), 10);
    alone("threads16", named::threads(16, 200 * US), 10);
    for (daemon, count) in [(false, 2), (true, 2), (true, 4)] {
        let report =
            run(vec![capped(50, vec![named::queue(2, 5 * MS); count])], daemon, 5 * SECOND);
        println!(
            "{count} processes 50 % daemon {daemon}: {:.2} {:?}",
            report.busy_percent(0),
            report.end
        );
    }
    for (what, a, b) in [
        ("100us sync", named::sync(100 * US), named::sync(100 * US)),
        ("5 ms flood", named::flood(5 * MS), named::flood(5 * MS)),
    ] {
        let report = run(vec![capped(30, vec![a]), capped(70, vec![b])], true, 5 * SECOND);
        println!(
            "30/70 {what}: {:.2} {:.2} {:?}",
            report.busy_percent(0),
            report.busy_percent(1),
            report.end
        );
    }
    let weigh = |weight, ops| TenantPlan { weight, ..TenantPlan::of(ops) };
    let report = run(
        vec![weigh(100, named::flood(5 * MS)), weigh(300, named::flood(5 * MS))],
        true,
        10 * SECOND,
    );
    println!(
        "weights 1:3 floods of 5 ms: {:.2} {:.2}",
        report.busy_percent(0),
        report.busy_percent(1)
    );
}
