//! Tenants of several devices under a daemon: devices whose tenants meet take their turns together, others apart; who
//! comes and goes leaves the others where they were.

mod table;

use divvy_searcher::case::{Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::oracle;
use divvy_searcher::program::{Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::world::Report;
use divvy_searcher::{MS, SECOND};
use table::run_with;

const RUN_NS: u64 = 6 * SECOND;

fn on(device: u32, ops: Ops) -> ProcessPlan {
    ProcessPlan { device, ops, ..ProcessPlan::default() }
}

fn of(weight: u32, processes: Vec<ProcessPlan>) -> TenantPlan {
    TenantPlan { weight, processes, ..TenantPlan::default() }
}

fn run(tenants: Vec<TenantPlan>, devices: u32) -> Report {
    let knobs = Knobs { run_ns: RUN_NS, has_daemon: true, devices, ..Knobs::default() };
    run_with(tenants, Vec::new(), knobs)
}

fn had(report: &Report, tenant: usize, device: usize) -> f64 {
    100.0 * report.had[tenant][device].busy_ns as f64 / report.wall_ns as f64
}

/// What a tenant had of a device where it is due such a part of what turns leave.
fn judge(
    rows: &mut Rows,
    of: &str,
    report: &Report,
    (tenant, device): (usize, usize),
    part: impl Into<f64>,
) {
    let (what, due) = (format!("{of}: {tenant} on {device}"), oracle::by_turns(part.into()));
    rows.row(&what, due, oracle::together(), had(report, tenant, device));
}

/// Two pairs on two devices are apart: each has its weights there, and nobody waits for the other device.
#[test]
fn devices_of_their_own_are_apart() {
    let mut rows = Rows::default();
    let flood = || named::flood(MS);
    let tenants = vec![
        of(100, vec![on(0, flood())]),
        of(300, vec![on(0, flood())]),
        of(100, vec![on(1, flood())]),
        of(100, vec![on(1, flood())]),
    ];
    let report = run(tenants, 2);
    for (tenant, device, part) in [(0, 0, 25), (1, 0, 75), (2, 1, 50), (3, 1, 50)] {
        judge(&mut rows, "two pairs", &report, (tenant, device), part);
    }
    rows.judge();
}

/// One that works on both devices has its turn on both at once; it and those of one device each have their weights.
#[test]
fn who_is_on_two_devices_has_its_turn_on_both() {
    let mut rows = Rows::default();
    let flood = || named::flood(MS);
    let tenants = vec![
        of(100, vec![on(0, flood())]),
        of(100, vec![on(1, flood())]),
        of(300, vec![on(0, flood()), on(1, flood())]),
    ];
    let report = run(tenants, 2);
    for (tenant, device, part) in [(0, 0, 25), (1, 1, 25), (2, 1, 75), (2, 0, 75)] {
        judge(&mut rows, "one on both", &report, (tenant, device), part);
    }
    rows.judge();
}

/// One that comes to a second device and goes again: before and after it the others there have what they had, and
/// on the devices it is on everybody has its weight meanwhile.
#[test]
fn who_comes_and_goes_leaves_the_others_in_place() {
    let mut rows = Rows::default();
    let flood = || named::flood(MS);
    let for_a_while =
        |ns| vec![Op::For { ns, ops: vec![named::launch(9, MS), Op::Sync] }, Op::Exit];
    let late = ProcessPlan { start_ns: 2 * SECOND, ..on(1, for_a_while(2 * SECOND)) };
    let tenants = vec![
        of(100, vec![on(0, flood())]),
        of(100, vec![on(1, flood())]),
        of(100, vec![on(0, flood()), late]),
    ];
    let report = run(tenants, 2);
    // Of device 1 its tenant has all but half of two of six seconds.
    let (half, others) = (f64::from(50), 100.0 / f64::from(6));
    for (on, part) in [((0, 0), half), ((2, 0), half), ((1, 1), 100.0 - others), ((2, 1), others)] {
        judge(&mut rows, "comes and goes", &report, on, part);
    }
    rows.judge();
}

/// Whoever overruns its turns owes the others, and owes it still when it has come to a second device and gone again, a
/// dozen times: once each time made all owe nothing.
#[test]
fn who_owes_the_others_owes_it_after_each_change() {
    let mut rows = Rows::default();
    let long = named::sync(60 * MS);
    let visit = vec![Op::For { ns: 60 * MS, ops: vec![named::launch(9, MS), Op::Sync] }, Op::Exit];
    let visits = (0..36)
        .map(|nth| ProcessPlan { start_ns: SECOND + nth * 130 * MS, ..on(1, visit.clone()) });
    let debtor = std::iter::once(on(0, long)).chain(visits).collect();
    let tenants = vec![
        of(100, vec![on(0, named::flood(MS))]),
        of(100, debtor),
        of(100, vec![on(1, named::flood(MS))]),
    ];
    let report = run(tenants, 2);
    for tenant in [0, 1] {
        judge(&mut rows, "owes", &report, (tenant, 0), 50);
    }
    rows.judge();
}

/// A context that launches nothing takes nothing from who works on its device: neither where its tenant is the
/// only other one, nor where a third makes turns on the device that it does work on.
#[test]
fn a_context_without_work_takes_nothing() {
    let mut rows = Rows::default();
    let flood = || named::flood(MS);
    let idle = || vec![Op::Pause { ns: 10 * SECOND }];
    let pair = |others: Vec<TenantPlan>| {
        let of_two = of(100, vec![on(0, flood()), on(1, idle())]);
        run([vec![of_two, of(100, vec![on(1, flood())])], others].concat(), 2)
    };
    let alone = pair(Vec::new());
    let all = oracle::together().or_more();
    let by_turns = oracle::by_turns;
    rows.row("who works on the other", by_turns(100.0), all, had(&alone, 0, 0));
    rows.row("beside one without work", by_turns(100.0), all, had(&alone, 1, 1));
    let in_turns = pair(vec![of(100, vec![on(0, flood())])]);
    judge(&mut rows, "beside one without work", &in_turns, (0, 0), 50);
    judge(&mut rows, "beside one without work", &in_turns, (2, 0), 50);
    rows.row("beside one without work, in turns", by_turns(100.0), all, had(&in_turns, 1, 1));
    rows.judge();
}
