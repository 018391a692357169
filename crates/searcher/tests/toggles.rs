//! Nobody gains by changing its weight, priority, cap or pause 100 times a second for ten seconds: it has no more than it would
//! have, the mean of what it has with either of the two held, and another no less than the mean of what it has beside them.
//!
//! Both are measured with the same programs. What one loses by its changes is its own loss, down to what it has with the worse.
//! Rows are printed; those in which something is gained are among the known misses (`oracle`).

mod table;

use std::collections::BTreeMap;

use divvy_searcher::case::{Knobs, TenantPlan};
use divvy_searcher::oracle;
use divvy_searcher::program::{Change, Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US};
use table::{of, run_with};

const RUN_NS: u64 = 10 * SECOND;
/// Between two changes.
const EVERY_NS: u64 = 10 * MS;

fn set(change: Change) -> Op {
    Op::Set { tenant: 0, change }
}

/// A tenant whose own thread changes it, or its operator, without end.
fn toggling(ops: &Ops, [there, back]: [Change; 2], is_own: bool) -> Vec<TenantPlan> {
    let wait = Op::Pause { ns: EVERY_NS };
    let toggle = named::forever(vec![set(there), wait.clone(), set(back), wait]);
    if is_own {
        return vec![of(vec![[vec![Op::Thread { ops: toggle }], ops.clone()].concat()])];
    }
    vec![of(vec![ops.clone()]), TenantPlan { is_stranger: true, ..TenantPlan::of(toggle) }]
}

/// One that is changed once, when it begins.
fn held(ops: &Ops, change: Change) -> Vec<TenantPlan> {
    vec![of(vec![[vec![set(change)], ops.clone()].concat()])]
}

/// What the first and another had, where there is one.
fn shares(mut first: Vec<TenantPlan>, other: Option<&Ops>, has_daemon: bool) -> [f64; 2] {
    first.splice(1..1, other.map(|ops| of(vec![ops.clone()])));
    let knobs = Knobs { run_ns: RUN_NS, has_daemon, ..Knobs::default() };
    let report = run_with(first, Vec::new(), knobs);
    [0, 1].map(|at| if at == 0 || other.is_some() { report.busy_percent(at) } else { 0.0 })
}

#[test]
fn nobody_gains_by_toggling() {
    let (queue, sync, varied) = (named::flood(MS), named::sync(100 * US), named::mix2());
    let caps = |one, other| [Change::Cap(one), Change::Cap(other)];
    let changes = [
        ("weights", [Change::Weight(100), Change::Weight(900)]),
        ("close weights", [Change::Weight(100), Change::Weight(110)]),
        ("up", [Change::Priority(0), Change::Priority(1)]),
        ("down", [Change::Priority(0), Change::Priority(-1)]),
        ("pause", [Change::Pause(false), Change::Pause(true)]),
        ("cap and none", caps(300_000, 0)),
        ("caps", caps(300_000, 600_000)),
        ("close caps", caps(300_000, 310_000)),
    ];
    let (mut rows, mut known) = (Rows::default(), BTreeMap::new());
    for (program, ops, other, has_daemon) in [
        ("queue", &queue, Some(&queue), true),
        ("loop", &sync, Some(&queue), true),
        ("mix2", &varied, Some(&sync), true),
        ("queue alone", &queue, None, true),
        ("queue alone, no daemon", &queue, None, false),
        ("mix2 alone", &varied, None, true),
        ("mix2 alone, no daemon", &varied, None, false),
    ] {
        let changes =
            changes.iter().filter(|(_, [one, _])| other.is_some() || matches!(one, Change::Cap(_)));
        for (change, both) in changes {
            let each = both.map(|change| {
                let name = match change {
                    Change::Weight(100) | Change::Cap(0) => "as it begins".to_owned(),
                    Change::Priority(0) | Change::Pause(false) => "as it begins".to_owned(),
                    _ => format!("{change:?}"),
                };
                let measure = || shares(held(ops, change), other, has_daemon);
                *known.entry((program, name)).or_insert_with(measure)
            });
            let (least, most) = (each[0][0].min(each[1][0]), each[0][0].max(each[1][0]));
            let mean = |of: usize| (each[0][of] + each[1][of]) / f64::from(2);
            // Its operator's changes are the same to it.
            for is_own in if program == "queue" { vec![true, false] } else { vec![true] } {
                let [had, others] = shares(toggling(ops, *both, is_own), other, has_daemon);
                let who = if is_own { "" } else { ", its operator's" };
                let what = format!("{program}, {change}{who}");
                println!(
                    "{least:.2} with the worse, {most:.2} with the better, {had:.2}, {others:.2} beside it"
                );
                // What a change loses is the loss of who makes it.
                rows.row(&what, had.clamp(least, mean(0)), oracle::toggled(), had);
                if other.is_some() {
                    let within = oracle::toggled().or_more();
                    rows.row(&format!("{what}: the other"), mean(1), within, others);
                }
            }
        }
    }
    rows.judge();
}
