//! Tenants that have no room for what they hold: who is told, when, and who is not.
#![cfg(not(loom))]

mod residence_hand;

use divvy_policy::residence::{Holder, HolderStatus, LOCKED_OUT_NS, LockedOut};
use residence_hand::{GIB, Hand, MS, SEC, away, whole};

/// Steps of 50 ms with these holders for so long; whether the first was told that it waits in vain, at any step.
fn told(hand: &mut Hand, ns: u64, capacity_gib: u64, holders: &[Holder]) -> bool {
    (0..ns / (50 * MS)).any(|_| {
        hand.step(50 * MS, capacity_gib * GIB, holders);
        hand.orders[0].locked_out.is_some()
    })
}

#[test]
fn one_larger_than_the_room_is_told_and_no_other() {
    for (gib, capacity_gib) in [(50, 49), (50, 50), (50, 10), (50, 0), (1, 80)] {
        let mut hand = Hand::new(1);
        let waits = [away(1, gib, 0, SEC)];
        assert!(!told(&mut hand, LOCKED_OUT_NS - 100 * MS, capacity_gib, &waits), "too early");
        let is_told = told(&mut hand, SEC, capacity_gib, &waits);
        assert_eq!(is_told, gib > capacity_gib, "{gib} GiB in {capacity_gib}");
        if is_told {
            let [needed_bytes, room_bytes] = [gib * GIB, capacity_gib * GIB];
            assert_eq!(hand.orders[0].locked_out, Some(LockedOut { needed_bytes, room_bytes }));
        }
    }
}

#[test]
fn a_wait_counts_while_there_is_no_room_and_from_the_last_run_on() {
    let mut hand = Hand::new(1);
    let waits = |hand: &Hand| [away(1, 50, 0, hand.now_ns)];
    let most_ns = LOCKED_OUT_NS - SEC;
    let holders = waits(&hand);
    assert!(!told(&mut hand, most_ns, 40, &holders));
    // One that rests does not wait.
    assert!(!told(&mut hand, 60 * SEC, 40, &[away(1, 50, 0, 0)]));
    let holders = waits(&hand);
    assert!(!told(&mut hand, most_ns, 40, &holders), "it begins again");
    // There is room, and it runs.
    assert!(!told(&mut hand, SEC, 60, &[whole(1, 50, u64::MAX)]));
    let holders = waits(&hand);
    assert!(!told(&mut hand, most_ns, 40, &holders));
    assert!(told(&mut hand, 2 * SEC, 40, &holders));
    // It is no longer told as soon as there is room.
    assert!(!told(&mut hand, 50 * MS, 60, &holders));
}

#[test]
fn only_what_is_held_counts_and_not_what_is_asked_for() {
    let mut hand = Hand::new(1);
    let asks = Holder { asked_bytes: 20 * GIB, ..away(1, 50, 0, SEC) };
    assert!(!told(&mut hand, 60 * SEC, 40, &[asks]), "30 GiB fit: the rest is refused by itself");
}

#[test]
fn memory_that_others_do_not_let_go_is_no_room() {
    let mut hand = Hand::new(2);
    let captures = whole(2, 60, u64::MAX);
    let waits = away(1, 50, 0, SEC);
    assert!(told(&mut hand, LOCKED_OUT_NS + 10 * SEC, 80, &[waits, captures]));
    let out = hand.orders[0].locked_out.expect("it is told");
    assert_eq!((out.needed_bytes, out.room_bytes), (50 * GIB, 20 * GIB));
}

#[test]
fn a_capacity_below_what_is_held_lets_a_tenant_run() {
    let mut hand = Hand::new(2);
    hand.room_bytes = 80 * GIB;
    assert_eq!(hand.step(SEC, 30 * GIB, &[whole(1, 50, u64::MAX), Holder::default()]), [50, 0]);
    assert!(hand.orders[0].run);
    // Beside another, both have turns of the larger one's size.
    let waits = away(2, 20, 0, hand.now_ns);
    hand.step(SEC, 30 * GIB, &[whole(1, 50, hand.now_ns), waits]);
    hand.step(SEC, 30 * GIB, &[whole(1, 50, hand.now_ns - SEC), waits]);
    let most_gib: u64 = hand.orders.iter().map(|order| order.allowed_bytes / GIB).sum();
    assert!(most_gib <= 50, "{:?}", hand.orders);
    // The device itself sets a bound.
    hand.room_bytes = 40 * GIB;
    let holders = [away(1, 50, 0, hand.now_ns), Holder::default()];
    assert!(told(&mut hand, LOCKED_OUT_NS + SEC, 30, &holders));
}

#[test]
fn a_capacity_keeps_no_tenant_from_running_beside_what_does_not_leave() {
    let mut hand = Hand::new(2);
    (hand.room_bytes, hand.tuning.lead_bytes) = (80 * GIB, 3 << 29);
    // The second captures: it was told to let 10 GiB go for the first, and does not.
    let holders = |hand: &Hand| [away(1, 20, 0, SEC), whole(2, 40, hand.now_ns)];
    for _ in 0..20 * SEC / (50 * MS) {
        let holders = holders(&hand);
        hand.step(50 * MS, 50 * GIB, &holders);
    }
    assert_eq!(hand.orders[1].status, HolderStatus::Bypassed);
    assert_eq!(hand.orders[0].allowed_bytes, 20 * GIB, "it has its room beside that");
    // It comes and stays: no step takes its turn, since the other is not asked to come back under the bound.
    let mut ran = 0;
    for _ in 0..20 * SEC / (50 * MS) {
        let holders = [whole(1, 20, hand.now_ns), whole(2, 40, hand.now_ns)];
        hand.step(50 * MS, 50 * GIB, &holders);
        ran += u32::from(hand.orders[0].run);
        assert!(hand.orders[1].allowed_bytes <= 40 * GIB);
        assert_eq!(hand.orders[0].allowed_bytes, 20 * GIB);
    }
    assert!(ran >= 399, "{ran} of 400 steps");
    // Once it lets go both are under the bound again, and have turns.
    let mut turns = [0, 0];
    for _ in 0..90 * SEC / (50 * MS) {
        let holder = |row: usize, gib: u64| {
            let order = hand.orders[row];
            let (resident_bytes, now_ns) = (order.allowed_bytes.min(gib * GIB), hand.now_ns);
            let wants_since_ns = if order.run { 0 } else { now_ns };
            Holder { resident_bytes, wants_since_ns, ..whole(1 + row as u64, gib, now_ns) }
        };
        let holders = [holder(0, 20), holder(1, 40)];
        hand.step(50 * MS, 50 * GIB, &holders);
        let sum: u64 = hand.orders.iter().map(|order| order.allowed_bytes).sum();
        assert!(sum <= 50 * GIB, "{:?}", hand.orders);
        turns = [0, 1].map(|row| turns[row] + u32::from(hand.orders[row].run));
    }
    assert!(turns[0] > 300 && turns[1] > 300, "{turns:?}");
}

#[test]
fn the_device_sets_a_bound_beside_what_does_not_leave() {
    let mut hand = Hand::new(2);
    (hand.room_bytes, hand.tuning.lead_bytes) = (55 * GIB, 3 << 29);
    let is_told = (0..(LOCKED_OUT_NS + 10 * SEC) / (50 * MS)).any(|_| {
        let holders = [away(1, 20, 0, SEC), whole(2, 40, hand.now_ns)];
        hand.step(50 * MS, 50 * GIB, &holders);
        let sum: u64 = hand.orders.iter().map(|order| order.allowed_bytes).sum();
        assert!(sum <= 55 * GIB, "{:?}", hand.orders);
        hand.orders[0].locked_out.is_some()
    });
    assert!(is_told, "55 GiB have no room for 60");
}
