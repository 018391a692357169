//! Tenants that pause, under a daemon: who does not fill the device keeps what it has alone, whatever the others do; a
//! request waits for no more than what is in flight, and a pause gives what is left to the others.
//!
//! Programs that would use all they can get are `beside`'s.

mod table;

use divvy_searcher::case::{Actor, Case, Dev, Fault, Knobs, Site, TenantPlan};
use divvy_searcher::oracle::{self, Within};
use divvy_searcher::program::{Change, Op, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::world;
use divvy_searcher::{MS, SECOND, US};
use table::{natively, of, run_with, shares};

const RUN_NS: u64 = 6 * SECOND;

/// Three that fit beside each other have what they have alone: turns would take from each.
#[test]
fn who_fits_beside_others_loses_nothing() {
    let mut rows = Rows::default();
    for (what, programs) in [
        ("paced 1 ms each 5", vec![named::paced(MS, 5 * MS); 3]),
        ("paced 100 us each 1 ms", vec![named::paced(100 * US, MS); 3]),
        ("1 ms, then 2 ms of sleep", vec![named::pausing(MS, 2 * MS); 2]),
        ("requests of 10 ms each 50", vec![named::requests(10, MS, 50 * MS); 3]),
    ] {
        let alone: f64 = programs.iter().map(|ops| natively(ops, SECOND)).sum();
        let tenants = programs.into_iter().map(|ops| of(vec![ops])).collect();
        let sum: f64 = shares(tenants, true, RUN_NS).iter().sum();
        rows.row(what, 1, oracle::of_native(), sum / alone);
    }
    rows.judge();
}

/// One that works half of the time has half of that beside a queue, which has the rest; one whose requests fit has all it
/// has alone.
#[test]
fn a_pause_is_the_others() {
    let mut rows = Rows::default();
    for (what, of_all, ops) in [
        ("half of each 100 ms", 2, named::half(MS, 100 * MS)),
        ("20 ms each 100", 1, named::requests(20, MS, 100 * MS)),
    ] {
        let alone = natively(&ops, SECOND);
        let had = shares(vec![of(vec![ops]), of(vec![named::flood(MS)])], true, RUN_NS);
        let handed_over = oracle::handed_over().or_more();
        let mine = if of_all == 1 { handed_over } else { oracle::nothing().or_more() };
        let mut row = |who: &str, due: f64, within: Within, had| {
            rows.row(&format!("{what}, {who}"), due, within.of(due), had);
        };
        row("beside a queue", alone / f64::from(of_all), mine, had[0]);
        row("beside it", 100.0 - alone, handed_over, had[1]);
        row("all", 100.0, handed_over, had.iter().sum());
    }
    rows.judge();
}

/// One of the latency class, or of a higher priority, with little to do has all it has alone, however full the device is;
/// a queue beside it loses some switches, and what a short horizon leaves idle, kernels of a millisecond the most. At a horizon shorter than a kernel the queue had half of the
/// device: each launch was waited for as long as it would take itself.
#[test]
fn who_goes_first_waits_for_nobody() {
    let mut rows = Rows::default();
    for (what, is_latency, priority) in [("latency", true, 0), ("high", false, 1)] {
        for us in [100, 1_000, 5_000] {
            for pause_ms in [20, 2_000] {
                let ops = named::pausing(MS, pause_ms * MS);
                let alone = natively(&ops, 4 * SECOND);
                let first = TenantPlan { is_latency, priority, ..of(vec![ops]) };
                let flood = of(vec![named::flood(us * US)]);
                let had = shares(vec![first, flood], true, 4 * SECOND);
                let what = format!("{what}, 1 ms each {pause_ms}, beside {us} us");
                let within = oracle::handed_over().or_more();
                rows.row(&what, 1, within, had[0] / alone);
                let queue = had[1] / (100.0 - alone);
                rows.row(&format!("{what}: the queue"), 1, within, queue);
            }
        }
    }
    rows.judge();
}

/// One of the latency class with as much to do as is due to it waits for turns of 2 ms, where one of no class waits for
/// whole ones.
#[test]
fn a_request_waits_for_short_turns() {
    let mut rows = Rows::default();
    let had = |is_latency| {
        let first = TenantPlan { is_latency, ..of(vec![named::pausing(MS, 3 * MS)]) };
        let flood = || of(vec![named::flood(MS)]);
        shares(vec![first, flood(), flood()], true, 4 * SECOND)[0]
    };
    let due = oracle::request(MS, 3 * MS);
    rows.row("1 ms, 3 ms of sleep, beside two queues", due, oracle::nothing().or_more(), had(true));
    rows.row("of no class", 13, oracle::together(), had(false));
    rows.judge();
}

/// One of a higher priority that its cap keeps closed cannot come before that opens: until then a queue beside it has as
/// much in flight as any. At a short horizon throughout, both had 93 together (an H200, 92.7).
#[test]
fn a_cap_of_who_goes_first_leaves_the_rest_to_others() {
    let mut rows = Rows::default();
    for (what, ops, us) in [
        ("queue of 1 ms", named::flood(MS), 100),
        ("queue of 1 ms", named::flood(MS), 1_000),
        ("queue of 1 ms", named::flood(MS), 5_000),
        ("queue of 1 ms", named::flood(MS), 20_000),
        // Its length is learnt as half as much again where the other is not known to be at work: 26.3 then.
        ("queue of 1 ms", named::flood(MS), 22_000),
        ("loop of 100 us", named::sync(100 * US), 1_000),
    ] {
        let first = TenantPlan { share_ppm: 300_000, priority: 1, ..of(vec![ops]) };
        let had = shares(vec![first, of(vec![named::flood(us * US)])], true, 4 * SECOND);
        let what = format!("{what}, 30 % at high priority, beside {us} us");
        rows.row(&what, 30, oracle::cap_within(4 * SECOND, MS), had[0]);
        let (both, within) = (oracle::by_turns(100.0), oracle::together().or_more());
        rows.row(&format!("{what}: both"), both, within, had.iter().sum());
    }
    rows.judge();
}

/// A paused tenant has nothing for as long as it is, also when that outlasts its gate's lease.
#[test]
fn a_pause_outlasts_a_lease() {
    let mut rows = Rows::default();
    let set = |change| Op::Set { tenant: 0, change };
    let operator = vec![Op::Pause { ns: SECOND }, set(Change::Pause(true))];
    let operator = TenantPlan { is_stranger: true, ..TenantPlan::of(operator) };
    for has_daemon in [false, true] {
        let tenants = vec![of(vec![named::flood(MS)]), of(vec![named::sync(MS)]), operator.clone()];
        let knobs = Knobs { run_ns: RUN_NS, has_daemon, ..Knobs::default() };
        let report = run_with(tenants, Vec::new(), knobs);
        // A sixth of the time it shared the device, as the driver gives it; what was in flight then ends.
        let programs = [named::flood(MS), named::sync(MS)];
        let native = world::run(&Case::beside(&programs, SECOND), &world::native());
        let due = native.busy_percent(0) / (RUN_NS / SECOND) as f64;
        let what = format!("paused after a second, daemon {has_daemon}");
        rows.row(&what, due, oracle::paused(RUN_NS), report.busy_percent(0));
    }
    rows.judge();
}

/// A daemon that is stopped for three seconds keeps nobody out for longer than a lease, and charges nobody for them: one of
/// two had nothing for as long as it had been stopped.
#[test]
fn a_stopped_daemon_closes_nobody_for_good() {
    const STOP_NS: u64 = 3 * SECOND;
    let tenants = || vec![of(vec![named::flood(MS)]), of(vec![named::flood(MS)])];
    let knobs = Knobs { run_ns: RUN_NS, has_daemon: true, ..Knobs::default() };
    let plain = run_with(tenants(), Vec::new(), knobs.clone());
    let daemon =
        plain.visits.keys().find(|(_, site)| *site == Site::DaemonStep).map(|(who, _)| *who);
    let who: Actor = daemon.expect("it makes steps");
    let stop = Dev { who, site: Site::DaemonStep, nth: 300, what: Fault::Stop(STOP_NS) };
    let report = run_with(tenants(), vec![stop], knobs);
    assert_eq!(report.met.len(), 1);
    let mut rows = Rows::default();
    for tenant in 0..2 {
        let what = format!("{tenant} of two whose daemon is stopped");
        rows.row(&what, 50, oracle::stopped_daemon(STOP_NS, RUN_NS), report.busy_percent(tenant));
    }
    rows.judge();
}
