//! Pace of the hand-over, by hand: who keeps how much while memory moves, and when a turn that is over goes on.
#![cfg(not(loom))]

mod residence_hand;

use divvy_policy::residence::Holder;
use residence_hand::{GIB, Hand, MS, SEC, away, whole};

#[test]
fn those_that_wait_keep_their_parts_of_room_that_is_too_small() {
    let mut hand = Hand::new(4);
    hand.tuning.together = false;
    let waits = |tenant, gib_here| away(tenant, 48, gib_here, 1);
    let running = |hand: &Hand| whole(1, 48, hand.now_ns + SEC);
    let first = running(&hand);
    // The next one is nearly whole; 41 are left for two. The one that has run last has more than its part of them.
    hand.step(MS, 137 * GIB, &[first, waits(2, 48), waits(3, 30), waits(4, 11)]);
    let first = running(&hand);
    assert_eq!(
        hand.step(MS, 130 * GIB, &[first, waits(2, 48), waits(3, 30), waits(4, 11)])[2..],
        [23, 11],
        "what is short comes of the one that has more than its part"
    );
    let mut hand = Hand::new(4);
    hand.tuning.together = false;
    let first = running(&hand);
    hand.step(MS, 137 * GIB, &[first, waits(2, 48), waits(3, 11), waits(4, 30)]);
    let first = running(&hand);
    assert_eq!(
        hand.step(MS, 130 * GIB, &[first, waits(2, 48), waits(3, 11), waits(4, 30)])[2..],
        [11, 23]
    );
}

#[test]
fn a_turn_goes_on_until_its_copies_on_the_host_are_made() {
    let turn = |due_bytes: u64| {
        let mut hand = Hand::new(2);
        let begun_ns = hand.now_ns;
        let mut ended_ns = None;
        while ended_ns.is_none() {
            let made_bytes = (hand.now_ns - begun_ns) * 4;
            let first = Holder {
                copies_due_bytes: due_bytes.saturating_sub(made_bytes),
                ..whole(1, 60, hand.now_ns + SEC)
            };
            hand.step(10 * MS, 80 * GIB, &[first, away(2, 60, 0, begun_ns)]);
            ended_ns = (!hand.orders[0].run).then_some(hand.now_ns - begun_ns);
        }
        ended_ns.unwrap_or(0)
    };
    let short_ns = turn(0);
    assert!(short_ns < SEC, "{short_ns}");
    let long_ns = turn(20 * GIB);
    assert!((5 * SEC..6 * SEC).contains(&long_ns), "{long_ns}");
    // One that makes none is not waited for.
    let longest_ns = turn(u64::MAX);
    assert!(longest_ns < 9 * SEC, "{longest_ns}");
}

#[test]
fn the_only_one_that_works_goes_on_while_another_comes() {
    let mut hand = Hand::new(3);
    let (start_ns, mut here) = (hand.now_ns, 0);
    let mut stood_still = 0;
    // Two of three fit. The third has 10 GiB to bring, in 0.2 s; then the turn of the second is over as well.
    for _ in 0..400 {
        let busy = |tenant| whole(tenant, 40, hand.now_ns + SEC);
        let (mut one, mut two) = (busy(1), busy(2));
        for (holder, order) in [&mut one, &mut two].into_iter().zip(&hand.orders) {
            if hand.begun && !order.run {
                holder.resident_bytes = order.allowed_bytes;
                (holder.submitted_ns, holder.busy_until_ns) = (1, 1);
                holder.wants_since_ns = start_ns;
            }
        }
        let third = match hand.orders[2].run {
            true => busy(3),
            false => away(3, 40, here / GIB, start_ns),
        };
        hand.step(MS, 110 * GIB, &[one, two, third]);
        here = (here + GIB / 20).min(hand.orders[2].allowed_bytes);
        stood_still += u64::from(hand.orders.iter().all(|order| !order.run));
    }
    assert!(hand.state.counters().grants > 0, "{:?}", hand.orders);
    assert_eq!(stood_still, 0, "somebody runs at each step");
}

#[test]
fn those_that_leave_for_one_that_comes_have_no_turn_before_it_is_there() {
    let mut hand = Hand::new(3);
    let start_ns = hand.now_ns;
    let asks = Holder { asked_bytes: 50 * GIB, ..away(3, 50, 0, start_ns) };
    let (mut here, mut closed_ns) = ([40 * GIB, 30 * GIB], [0; 2]);
    // Two of three fit. A turn is over after 100 ms, and memory leaves once work of 200 ms has ended.
    while hand.orders[2].allowed_bytes < 50 * GIB {
        assert!(hand.now_ns < start_ns + SEC / 2, "{:?}", hand.orders);
        let mut holders = [whole(1, 40, 1), whole(2, 30, 1), asks];
        for row in 0..2 {
            let (holder, order) = (&mut holders[row], hand.orders[row]);
            let is_closed = hand.begun && !order.run;
            closed_ns[row] = if is_closed { closed_ns[row] + 10 * MS } else { 0 };
            let most_bytes = if is_closed { order.allowed_bytes } else { holder.size_bytes };
            if closed_ns[row] == 0 || closed_ns[row] > 200 * MS {
                here[row] = most_bytes;
            }
            holder.resident_bytes = here[row];
            holder.wants_since_ns = if is_closed { start_ns } else { 0 };
            holder.busy_until_ns = hand.now_ns + SEC;
        }
        hand.step(10 * MS, 100 * GIB, &holders);
    }
}

#[test]
fn a_newcomer_that_stops_while_its_last_piece_comes_loses_its_turn() {
    let mut hand = Hand::new(2);
    let (start_ns, mut coming_bytes) = (hand.now_ns, 0);
    while hand.state.counters().lost_turns == 0 {
        assert!(hand.now_ns < start_ns + 5 * SEC, "{:?}", hand.orders);
        let mut one = whole(1, 60, hand.now_ns + SEC);
        if hand.begun && !hand.orders[0].run {
            one.resident_bytes = hand.orders[0].allowed_bytes;
        }
        // Its last piece is on its way, and stays so.
        coming_bytes = hand.orders[1].allowed_bytes.max(coming_bytes);
        let returning_bytes = if coming_bytes == 60 * GIB { GIB / 4 } else { 0 };
        let two =
            Holder { resident_bytes: coming_bytes, returning_bytes, ..away(2, 60, 0, start_ns) };
        hand.step(10 * MS, 80 * GIB, &[one, two]);
    }
}

#[test]
fn what_leaves_is_ahead_of_what_comes_by_a_little() {
    let mut hand = Hand::new(2);
    hand.tuning.lead_bytes = 2 * GIB;
    hand.step(MS, 10 * GIB, &[whole(1, 10, 1), away(2, 8, 0, 0)]);
    let since_ns = hand.now_ns;
    let holder = |gib_here| Holder { resident_bytes: gib_here * GIB, ..whole(1, 10, 1) };
    let at = |hand: &mut Hand, here, back| {
        hand.step(20 * MS, 10 * GIB, &[holder(here), away(2, 8, back, since_ns)])
    };
    assert_eq!(at(&mut hand, 10, 0), [8, 0]);
    assert_eq!(at(&mut hand, 8, 0), [8, 0]);
    assert_eq!(at(&mut hand, 8, 0), [8, 2], "released bytes are there after a while");
    assert_eq!(at(&mut hand, 8, 1)[0], 7);
    // What is on its way is not there yet.
    let coming = Holder { returning_bytes: GIB, ..away(2, 8, 2, since_ns) };
    assert_eq!(hand.step(20 * MS, 10 * GIB, &[holder(8), coming])[0], 7);
    assert_eq!(at(&mut hand, 7, 2)[0], 6);
    // A block that is asked for needs all of its room at once.
    let asks = Holder { asked_bytes: 6 * GIB, ..away(2, 8, 0, since_ns) };
    let mut hand = Hand::new(2);
    hand.tuning.lead_bytes = GIB;
    hand.step(MS, 10 * GIB, &[whole(1, 10, 1), Holder::default()]);
    hand.step(20 * MS, 10 * GIB, &[whole(1, 10, 1), asks]);
    assert_eq!(hand.orders[0].allowed_bytes, 3 * GIB);
}
