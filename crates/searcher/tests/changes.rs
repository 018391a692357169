//! A change of priority, weight, cap or pause, there and back: from a tenth of a second after it each second's share is
//! what it was asked to be, no half second is less than half of it, and nobody pays for what was right while it held.

mod table;

use divvy_searcher::case::{Case, Knobs, TenantPlan};
use divvy_searcher::due::{self, Claim};
use divvy_searcher::program::{Change, Op, Ops, named};
use divvy_searcher::{MS, SECOND, US, gated, oracle, world};
use table::natively;

/// When the change comes, and when it is taken back.
const THERE_NS: u64 = 2 * SECOND;
const BACK_NS: u64 = 5 * SECOND;
const END_NS: u64 = 8 * SECOND;
/// What is not judged behind a change: the daemon sees it within 50 ms, and a turn ends.
const SOON_NS: u64 = 100 * MS;

/// What each of two had of each stretch of half a second, with one who changes the first's limits.
fn halves(ops: &[Ops; 2], there: Change, back: Change) -> Vec<[f64; 2]> {
    let set = |change| Op::Set { tenant: 0, change };
    let wait = |ns| Op::Pause { ns };
    let operator = vec![wait(THERE_NS), set(there), wait(BACK_NS - THERE_NS), set(back)];
    let operator = TenantPlan { is_stranger: true, ..TenantPlan::of(operator) };
    let mut tenants: Vec<_> = ops.iter().map(|ops| TenantPlan::of(ops.clone())).collect();
    tenants.push(operator);
    let knobs = Knobs { run_ns: END_NS, heal_ns: END_NS, has_daemon: true, ..Knobs::default() };
    let (mut looks, mut next_ns) = (Vec::new(), SOON_NS);
    let case = Case { knobs, tenants, devs: Vec::new() };
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        if now_ns >= next_ns {
            looks.push((now_ns, [0, 1].map(|tenant| world.had(tenant, 0).busy_ns)));
            next_ns += SECOND / 2;
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let parts = looks.windows(2).map(|pair| {
        let [(from_ns, before), (to_ns, after)] = [pair[0], pair[1]];
        let of = |at: usize| 100.0 * (after[at] - before[at]) as f64 / (to_ns - from_ns) as f64;
        [of(0), of(1)]
    });
    parts.collect()
}

/// What the first is due of all that both have while the change holds, and before and after it.
#[track_caller]
fn judge(what: &str, ops: &[Ops; 2], there: Change, back: Change, (due, even): (f64, f64)) {
    let parts = halves(ops, there, back);
    println!("{what}: {parts:.1?}");
    let at = |ns: u64| usize::try_from(ns / (SECOND / 2)).expect("a few");
    let (there, back) = (at(THERE_NS), at(BACK_NS));
    let due = |nth: usize| match nth {
        // The stretch in which a change comes, but for its last tenth, is of neither.
        _ if nth < 2 || nth + 1 == there || nth + 1 == back => None,
        _ if (there..back).contains(&nth) => Some(due),
        _ => Some(even),
    };
    let mut wrong = Vec::new();
    for (nth, [first, second]) in parts.iter().enumerate() {
        let Some(due) = due(nth) else { continue };
        let is_had = |due: f64, had| oracle::changed_soon().of(due).holds(due, had);
        let is_all_had = oracle::all_of_half_a_second().holds(100.0, first + second);
        if !is_had(due, *first) || !is_had(100.0 - due, *second) || !is_all_had {
            wrong.push(format!("from {} ms on {first:.1} and {second:.1}", nth * 500 + 100));
        }
    }
    for (nth, pair) in parts.windows(2).enumerate() {
        let (Some(due), true) = (due(nth), due(nth) == due(nth + 1)) else { continue };
        let [first, second] = [0, 1].map(|at| pair[0][at] + pair[1][at]);
        let reached = 100.0 * first / (first + second);
        if !oracle::changed().holds(due, reached) {
            wrong.push(format!("second from {} ms on {reached:.1} of {due}", nth * 500 + 100));
        }
    }
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
}

/// The first's part of what both have at such weights: a loop of 100 us leaves a twentieth of its turns idle.
fn part(ops: &[Ops; 2], weights: [u32; 2]) -> f64 {
    let claim = |(ops, weight): (&Ops, u32)| Claim {
        weight: Some(weight.into()),
        cap: None,
        alone: natively(ops, SECOND),
    };
    let due = due::of(&ops.iter().zip(weights).map(claim).collect::<Vec<_>>());
    100.0 * due[0] / (due[0] + due[1])
}

#[test]
fn changes_hold_there_and_back() {
    let floods = || [named::flood(MS), named::flood(MS)];
    let mixed = || [named::flood(5 * MS), named::sync(100 * US)];
    for (how, ops) in [("floods", floods()), ("flood and sync", mixed())] {
        let (even, nine) = (part(&ops, [100, 100]), part(&ops, [900, 100]));
        let (normal, weight) = (Change::Priority(0), Change::Weight(100));
        judge(
            &format!("high, {how}"),
            &ops,
            Change::Priority(1),
            normal,
            (100.0 - oracle::FLOOR, even),
        );
        judge(&format!("low, {how}"), &ops, Change::Priority(-1), normal, (oracle::FLOOR, even));
        let paused = Change::Pause(true);
        judge(&format!("paused, {how}"), &ops, paused, Change::Pause(false), (0.0, even));
        judge(&format!("weight, {how}"), &ops, Change::Weight(900), weight, (nine, even));
    }
    // What the cap leaves is the other's.
    let due = (part(&floods(), [20, 80]), part(&floods(), [100, 100]));
    judge("a cap", &floods(), Change::Cap(200_000), Change::Cap(0), due);
}
