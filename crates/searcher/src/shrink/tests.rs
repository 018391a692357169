//! Planted reasons to fail, and what is left of a case that has one.

use super::*;
use crate::SECOND;
use crate::case::{Actor, Dev, Site, TenantPlan};
use crate::program::{count, named};

/// Four tenants, each of several programs, and a hundred deviations.
fn large() -> Case {
    let programs = [named::mix2(), named::liar(), named::threads(4, 200 * US), named::mixq()];
    let mut case = Case::beside(&programs, 8 * SECOND);
    case.tenants.iter_mut().for_each(|tenant| {
        let more = TenantPlan::of(named::flood(100 * US)).processes;
        tenant.processes.extend(more);
        tenant.share_ppm = 300_000;
    });
    case.knobs.card.slice_ns = 700_000;
    for nth in 0..100 {
        let who = Actor { tenant: nth % 4, process: 0, thread: nth % 3 };
        let site = Site::ALL[nth as usize % Site::ALL.len()];
        case.devs.push(Dev { who, site, nth, what: Fault::Delay(u64::from(nth) * 977 * US) });
    }
    case
}

fn has(case: &Case, wanted: &dyn Fn(&Op) -> bool) -> bool {
    fn any(ops: &[Op], wanted: &dyn Fn(&Op) -> bool) -> bool {
        ops.iter().any(|op| wanted(op) || op.inner().is_some_and(|inner| any(inner, wanted)))
    }
    let mut processes = case.tenants.iter().flat_map(|tenant| &tenant.processes);
    processes.any(|process| any(&process.ops, wanted))
}

#[test]
fn two_deviations_of_a_hundred_are_found() {
    let fails = |case: &Case| {
        let long = |dev: &&Dev| matches!(dev.what, Fault::Delay(ns) if ns > 20 * MS);
        let of = |thread| case.devs.iter().filter(long).any(|dev| dev.who.thread == thread);
        of(1) && of(2)
    };
    let small = shrink(large(), 5_000, &fails);
    assert!(fails(&small));
    assert_eq!((small.tenants.len(), small.devs.len()), (0, 2), "{small:#?}");
    assert!(small.devs.iter().all(|dev| dev.nth == 0), "{small:#?}");
    let lengths = small.devs.iter().map(|dev| dev.what);
    assert!(lengths.clone().all(|what| what < Fault::Delay(45 * MS)), "{small:#?}");
    assert_eq!(small.knobs.card, CardModel::default());
    assert!(small.knobs.run_ns < 3 * MS);
}

#[test]
fn an_operation_deep_inside_is_left_alone_in_its_list() {
    let wanted =
        |op: &Op| matches!(op, Op::Launch { length, .. } if length.range_ns().1 >= 15 * MS);
    let fails = |case: &Case| has(case, &wanted) && case.tenants.iter().any(|t| t.share_ppm > 0);
    let small = shrink(large(), 5_000, &fails);
    assert!(fails(&small));
    assert_eq!((small.tenants.len(), small.devs.len()), (1, 0), "{small:#?}");
    let processes = &small.tenants[0].processes;
    assert_eq!((processes.len(), count(&processes[0].ops)), (1, 1), "{small:#?}");
}

#[test]
fn loops_are_cut_to_what_is_needed() {
    let launches = |ops: &[Op]| -> u64 {
        fn of(ops: &[Op]) -> u64 {
            let one = |op: &Op| match op {
                Op::Launch { .. } => 1,
                Op::Repeat { times, ops } => u64::from((*times).max(1)) * of(ops),
                _ => op.inner().map_or(0, |inner| of(inner)),
            };
            ops.iter().map(one).sum()
        }
        of(ops)
    };
    let fails = |case: &Case| {
        let mut processes = case.tenants.iter().flat_map(|tenant| &tenant.processes);
        processes.any(|process| launches(&process.ops) >= 37)
    };
    let small = shrink(large(), 5_000, &fails);
    assert!(fails(&small));
    let ops = &small.tenants[0].processes[0].ops;
    assert_eq!((launches(ops), small.tenants.len()), (37, 1), "{small:#?}");
}

#[test]
fn what_does_not_fail_smaller_stays_and_tries_are_bounded() {
    let case = large();
    assert_eq!(shrink(case.clone(), 300, &|other| *other == case), case);
    let tries = std::cell::Cell::new(0);
    let count = |_: &Case| {
        tries.set(tries.get() + 1);
        true
    };
    let small = shrink(large(), 7, &count);
    assert_eq!(tries.get(), 7);
    assert!(small.tenants.is_empty());
}
