//! Rules of the hand-over, one by one, on the simulated device or by hand.
#![cfg(not(loom))]

mod residence_hand;
mod residence_sim;

use divvy_policy::residence::{Freeze, Holder, HolderStatus, PINNED_OUT_NS};
use residence_hand::{Hand, away, whole};
use residence_sim::process::{CHUNK, Program};
use residence_sim::{GIB, MIB, MS, Node, SEC};

#[test]
fn a_grant_with_nothing_to_move_is_in_the_same_step() {
    let mut hand = Hand::new(3);
    // Two of 40 on 100 run; the third is 50, and 20 of it are here.
    let two = [whole(1, 40, SEC), whole(2, 40, SEC), away(3, 50, 20, 0)];
    assert_eq!(hand.step(MS, 100 * GIB, &two), [40, 40, 20]);
    assert!(hand.orders[0].run && hand.orders[1].run && !hand.orders[2].run);
    // The second is idle and gives way: the first has nothing to do with it.
    let now_ns = hand.now_ns;
    let busy = |tenant, gib| whole(tenant, gib, now_ns + SEC);
    let third = away(3, 50, 20, now_ns);
    assert_eq!(
        hand.step(10 * MS, 100 * GIB, &[busy(1, 40), whole(2, 40, SEC), third]),
        [40, 10, 20]
    );
    assert!(hand.orders[0].run && !hand.orders[1].run);
    assert_eq!(hand.orders[2].status, HolderStatus::Restores);

    // One at a time, a resident one waits for nothing but the turn.
    let mut hand = Hand::new(3);
    hand.tuning.together = false;
    let third = away(3, 2, 1, 0);
    let now_ns = hand.now_ns;
    hand.step(MS, 80 * GIB, &[whole(1, 40, now_ns + MS), whole(2, 39, 0), third]);
    assert!(hand.orders[0].run && !hand.orders[1].run);
    let wants = Holder { wants_since_ns: hand.now_ns, ..whole(2, 39, 0) };
    hand.step(5 * MS, 80 * GIB, &[whole(1, 40, now_ns), wants, third]);
    assert!(!hand.orders[0].run && hand.orders[1].run, "{:?}", hand.orders);
    assert_eq!(hand.state.counters().out_bytes, 0);
}

#[test]
fn a_turn_is_not_over_before_its_tenant_could_begin() {
    let mut hand = Hand::new(2);
    hand.tuning.start_ns = 50 * MS;
    hand.step(MS, 10 * GIB, &[whole(1, 8, SEC), away(2, 8, 0, 0)]);
    let begun_ns = hand.now_ns;
    let waits = away(2, 8, 0, begun_ns);
    let runs = |hand: &mut Hand, worked_ns| {
        hand.step(MS, 10 * GIB, &[whole(1, 8, worked_ns), waits]);
        hand.orders[0].run
    };
    while hand.now_ns + 2 * MS < begun_ns + 50 * MS {
        assert!(runs(&mut hand, SEC), "{} ms", (hand.now_ns - begun_ns) / MS);
    }
    hand.step(5 * MS, 10 * GIB, &[whole(1, 8, SEC), waits]);
    assert!(!hand.orders[0].run, "it never began");
    // One that has begun is idle as soon as it is.
    let mut hand = Hand::new(2);
    hand.tuning.start_ns = 50 * MS;
    hand.step(MS, 10 * GIB, &[whole(1, 8, SEC), away(2, 8, 0, 0)]);
    let worked_ns = hand.now_ns + MS;
    assert!(runs(&mut hand, worked_ns));
    hand.step(4 * MS, 10 * GIB, &[whole(1, 8, worked_ns), waits]);
    assert!(!hand.orders[0].run);
}

#[test]
fn released_bytes_are_given_on_after_the_driver_has_cleared_them() {
    let mut hand = Hand::new(2);
    hand.step(MS, 10 * GIB, &[whole(1, 10, 1), away(2, 8, 0, 0)]);
    let waits = away(2, 8, 0, hand.now_ns);
    assert_eq!(hand.step(MS, 10 * GIB, &[whole(1, 10, 1), waits]), [2, 0]);
    let left = Holder { resident_bytes: 6 * GIB, ..whole(1, 10, 1) };
    let released_ns = hand.now_ns + MS;
    assert_eq!(hand.step(MS, 10 * GIB, &[left, waits]), [2, 0]);
    while hand.now_ns + MS <= released_ns + 8 * MS {
        assert_eq!(hand.step(MS, 10 * GIB, &[left, waits]), [2, 0]);
    }
    hand.step(MS, 10 * GIB, &[left, waits]);
    assert_eq!(hand.step(MS, 10 * GIB, &[left, waits]), [2, 4]);
}

#[test]
fn a_death_frees_its_room_at_once() {
    let mut hand = Hand::new(2);
    hand.step(MS, 10 * GIB, &[whole(1, 10, 2 * SEC), away(2, 8, 0, 0)]);
    let waits = away(2, 8, 0, hand.now_ns);
    hand.step(10 * MS, 10 * GIB, &[whole(1, 10, 2 * SEC), waits]);
    // Alone, it has the rest as headroom.
    assert_eq!(hand.step(MS, 10 * GIB, &[Holder::default(), waits]), [0, 10]);
}

#[test]
fn victims_are_those_with_the_furthest_turn_and_lose_only_what_is_short() {
    let mut hand = Hand::new(4);
    // One asks for 45 more; of three others of 30 two want, and one fits beside it.
    let here = |tenant, since_ns| Holder { wants_since_ns: since_ns, ..whole(tenant, 30, 1) };
    let grown =
        Holder { size_bytes: 75 * GIB, asked_bytes: 45 * GIB, ..whole(1, 30, hand.now_ns + SEC) };
    let all = [grown, here(2, 5), here(3, 9), here(4, 0)];
    assert_eq!(hand.step(MS, 121 * GIB, &all), [30, 30, 16, 0]);
    // The room that was free is given once it is sure to be.
    assert_eq!(hand.step(10 * MS, 121 * GIB, &all), [31, 30, 16, 0]);
    let status: Vec<HolderStatus> = hand.orders.iter().map(|o| o.status).collect();
    use HolderStatus::{Restores, Rests, Runs, Waits};
    assert_eq!(status, [Restores, Runs, Waits, Rests]);
}

#[test]
fn one_larger_than_the_card_says_so_and_stops_nobody() {
    let mut node = Node::new(40 * GIB, 3);
    node.start(0, 30 * GIB, Program::Busy);
    node.start(1, 41 * GIB, Program::Hostile).held_bytes = 41 * GIB;
    node.proc_mut(1).asked_bytes = 0;
    node.start(2, 20 * GIB, Program::Busy);
    node.run_for(60 * SEC);
    assert_eq!(node.status(1), HolderStatus::Larger);
    assert!(!node.orders[1].run);
    assert!(node.ran_ns * 10 > node.wanted_ns * 9);
    let parts = [node.proc(0).ran_ns, node.proc(2).ran_ns];
    assert!(parts.iter().all(|ns| *ns > 20 * SEC), "{parts:?}");
}

#[test]
fn room_that_the_next_cannot_use_yet_is_filled_until_it_can() {
    let mut node = Node::new(100 * GIB, 3);
    node.tuning.overhead_ppm = 50_000;
    node.start(0, 60 * GIB, Program::Busy);
    node.start(1, 90 * GIB, Program::Busy);
    node.start(2, 30 * GIB, Program::Idle);
    node.run_for(60 * SEC);
    // The first has just begun its turn, and the second waits for it.
    while !node.orders[1].run {
        node.run_for(MS);
    }
    while !node.orders[0].run {
        node.run_for(MS);
    }
    node.proc_mut(2).program = Program::Busy;
    node.run_for(2 * SEC);
    let runs: Vec<bool> = node.orders.iter().map(|o| o.run).collect();
    assert_eq!(runs, [true, false, true]);
}

#[test]
fn a_filler_goes_when_the_next_can_run() {
    let mut node = Node::new(100 * GIB, 3);
    node.tuning.overhead_ppm = 50_000;
    node.start(0, 60 * GIB, Program::Busy);
    node.start(1, 98 * GIB, Program::Busy);
    node.start(2, 4 * GIB, Program::Idle);
    let next_turn = |node: &mut Node, row: usize, runs: bool| {
        while node.orders[row].run != runs {
            node.run_for(MS);
        }
        node.now_ns
    };
    for _ in 0..3 {
        next_turn(&mut node, 0, false);
        next_turn(&mut node, 0, true);
    }
    let begun_ns = node.now_ns;
    let turn_ns = next_turn(&mut node, 0, false) - begun_ns;
    next_turn(&mut node, 0, true);
    // Late in a turn like the last one it begins to fill.
    node.run_for(turn_ns * 7 / 10);
    node.proc_mut(2).program = Program::Busy;
    node.run_for(SEC / 2);
    assert!(node.orders[0].run && node.orders[2].run, "{:?}", node.orders);
    node.run_for(turn_ns * 4 / 10);
    assert!(!node.orders[2].run && !node.orders[0].run, "{turn_ns} {:?}", node.orders);
}

#[test]
fn a_sole_tenant_keeps_the_card() {
    let mut node = Node::new(40 * GIB, 2);
    node.start(0, 30 * GIB, Program::Busy);
    node.start(1, 30 * GIB, Program::Idle);
    node.run_for(30 * SEC);
    let (moved, closed) = (node.moved_out_bytes, node.proc(0).longest_wait_ns);
    node.run_for(300 * SEC);
    assert_eq!((node.moved_out_bytes, node.proc(0).longest_wait_ns), (moved, closed));
}

#[test]
fn an_idle_holder_gives_way_after_two_milliseconds_and_a_busy_one_after_its_quantum() {
    let mut node = Node::new(40 * GIB, 2);
    node.start(0, 30 * GIB, Program::Busy);
    node.run_for(SEC);
    node.start(1, 30 * GIB, Program::Idle);
    node.run_for(5 * SEC);
    node.proc_mut(1).program = Program::Phases { on_ns: 50 * MS, off_ns: 1_000 * SEC };
    node.proc_mut(1).started_ns = node.now_ns;
    let early = node.state.counters().early_releases;
    node.run_for(20 * SEC);
    assert_eq!(node.state.counters().early_releases, early + 1);
    assert!(node.proc(1).ran_ns < 60 * MS);
    assert!(node.proc(0).waits_ns(node.now_ns) == 0);
}

#[test]
fn a_stopped_victim_is_bypassed_and_taken_back() {
    let mut node = Node::new(64 * GIB, 3);
    for row in 0..3 {
        node.start(row, 30 * GIB, Program::Busy);
    }
    node.run_for(20 * SEC);
    let stopped = (0..3).find(|row| node.orders[*row].run).expect("one that runs");
    node.proc_mut(stopped).stopped = true;
    let before: Vec<u64> = (0..3).map(|row| node.proc(row).ran_ns).collect();
    node.run_for(40 * SEC);
    assert_eq!(node.status(stopped), HolderStatus::Bypassed);
    assert_eq!(node.state.counters().bypassed, 1);
    for row in (0..3).filter(|row| *row != stopped) {
        assert!(node.proc(row).ran_ns > before[row] + 8 * SEC, "row {row}");
    }
    node.proc_mut(stopped).stopped = false;
    let before = node.proc(stopped).ran_ns;
    node.run_for(40 * SEC);
    assert_ne!(node.status(stopped), HolderStatus::Bypassed);
    assert!(node.proc(stopped).ran_ns > before + 2 * SEC);
}

/// Row 0 has 30 of 50 GiB and no room on the host; row 1 asks for as much, where 20 are left.
fn kept_memory(program: Program) -> Node {
    let mut node = Node::new(50 * GIB, 3);
    node.start(0, 30 * GIB, program);
    node.run_for(SEC);
    node.proc_mut(0).cannot_leave = true;
    node.start(1, 30 * GIB, Program::Busy);
    node
}

#[test]
fn whoever_cannot_let_go_runs_where_its_memory_is() {
    let mut node = kept_memory(Program::Job { work_ns: 40 * SEC });
    let mut pinned_out_ns = (0, 0);
    for _ in 0..60 * SEC / MS {
        node.run_for(MS);
        pinned_out_ns.0 = match node.status(1) {
            HolderStatus::PinnedOut => pinned_out_ns.0 + MS,
            _ => 0,
        };
        pinned_out_ns.1 = pinned_out_ns.1.max(pinned_out_ns.0);
    }
    // What is asked for is refused after a while of this.
    assert!(pinned_out_ns.1 >= PINNED_OUT_NS, "{pinned_out_ns:?}");
    let done_ns = node.proc(0).done_ns.expect("it ends");
    assert!(done_ns < 48 * SEC, "{} s", done_ns / SEC);
    node.kill(0);
    node.run_for(10 * SEC);
    assert!(node.proc(1).ran_ns > 9 * SEC, "and then the other runs");
}

#[test]
fn others_share_what_is_left_beside_it() {
    let mut node = kept_memory(Program::Busy);
    node.kill(1);
    node.start(1, 15 * GIB, Program::Busy);
    node.start(2, 15 * GIB, Program::Busy);
    node.run_for(120 * SEC);
    for row in 0..3 {
        assert!(
            node.proc(row).ran_ns > [90, 40, 40][row] * SEC,
            "{row}: {}",
            node.proc(row).ran_ns
        );
    }
    // Room on the host comes to be there: from the next time it is asked on all take turns.
    node.proc_mut(0).cannot_leave = false;
    node.run_for(120 * SEC);
    let before: Vec<u64> = (0..3).map(|row| node.proc(row).ran_ns).collect();
    node.run_for(120 * SEC);
    for (row, before) in before.iter().enumerate() {
        let ran_ns = node.proc(row).ran_ns - before;
        assert!((45 * SEC..100 * SEC).contains(&ran_ns), "{row}: {ran_ns}");
    }
}

#[test]
fn one_with_a_part_away_comes_back_where_nobody_else_could_run() {
    let mut node = Node::new(50 * GIB, 2);
    node.start(0, 30 * GIB, Program::Busy);
    node.run_for(SEC);
    node.start(1, 30 * GIB, Program::Busy);
    // It stops halfway on its way out.
    while node.proc(0).resident_bytes == node.proc(0).held_bytes {
        node.run_for(MS / 4);
        assert!(node.now_ns < 60 * SEC, "it has a turn");
    }
    node.proc_mut(0).cannot_leave = true;
    let before = node.proc(0).ran_ns;
    node.run_for(60 * SEC);
    assert!(node.proc(0).ran_ns > before + 40 * SEC, "{}", node.proc(0).ran_ns - before);
}

#[test]
fn a_newcomer_that_does_not_restore_loses_its_turn_and_not_its_life() {
    let mut node = Node::new(40 * GIB, 3);
    for row in 0..3 {
        node.start(row, 30 * GIB, Program::Busy);
        node.run_for(SEC);
    }
    node.run_for(10 * SEC);
    let stopped = (0..3).find(|row| !node.orders[*row].run).expect("one that waits");
    node.proc_mut(stopped).stopped = true;
    node.run_for(60 * SEC);
    let counters = node.state.counters();
    assert!(counters.lost_turns > 0, "{counters:?}");
    let ran = (0..3).filter(|row| *row != stopped).all(|row| node.proc(row).ran_ns > 10 * SEC);
    assert!(ran && node.ran_ns * 10 > node.wanted_ns * 7);
    node.proc_mut(stopped).stopped = false;
    let before = node.proc(stopped).ran_ns;
    node.run_for(40 * SEC);
    assert!(node.proc(stopped).ran_ns > before + 5 * SEC);
}

/// A device on which a victim stops half-way, a newcomer has less room than its next piece needs, and a third has just come
/// to wait; and the newcomer's row.
fn stuck_victim(max_wait_ns: u64) -> (Node, usize) {
    let mut node = Node::new(64 * GIB, 4);
    node.tuning.max_wait_ns = max_wait_ns;
    for row in 0..3 {
        node.start(row, 30 * GIB, Program::Busy).piece_bytes = 256 * MIB;
        node.run_for(SEC);
    }
    node.run_for(10 * SEC);
    let half_gone = |node: &Node| {
        (0..3).find(|row| {
            let there_bytes = node.proc(*row).resident_bytes;
            there_bytes < 29 * GIB && there_bytes > node.orders[*row].allowed_bytes
        })
    };
    let victim = loop {
        node.run_for(MS);
        if let Some(row) = half_gone(&node) {
            break row;
        }
    };
    let restores = |row: &usize| node.status(*row) == HolderStatus::Restores;
    let newcomer = (0..3).find(restores).expect("one that comes");
    node.proc_mut(victim).stopped = true;
    // Of those that have turns the one that has grown is the first to lose its own.
    node.proc_mut(newcomer).held_bytes += MIB;
    // A part of a piece is free, which nobody can use.
    node.room.capacity_bytes += 100 * MIB;
    node.room.room_bytes = node.room.capacity_bytes;
    node.run_for(SEC);
    node.start(3, 30 * GIB, Program::Busy);
    node.run_for(2 * SEC);
    (node, newcomer)
}

#[test]
fn a_newcomer_without_room_for_its_next_piece_is_not_late() {
    let (node, _) = stuck_victim(5 * SEC);
    assert_eq!(node.state.counters().lost_turns, 0, "{:?}", node.state.counters());
}

#[test]
fn a_newcomer_whose_room_does_not_come_keeps_its_place() {
    let (mut node, newcomer) = stuck_victim(30 * SEC);
    let counters = node.state.counters();
    assert_eq!((counters.bypassed, counters.lost_turns), (1, 0), "{counters:?}");
    assert_eq!(node.status(newcomer), HolderStatus::Waits);
    // Its age counts from here on.
    node.tuning.max_wait_ns = 5 * SEC;
    let (turns, since_ns) = (counters.grants, node.now_ns);
    while node.state.counters().grants == turns {
        node.run_for(MS);
        assert!(node.now_ns < since_ns + 30 * SEC, "nobody has a turn");
    }
    assert_eq!(node.status(newcomer), HolderStatus::Restores);
}

#[test]
fn a_frozen_tenant_leaves_and_stays_away() {
    let mut node = Node::new(64 * GIB, 2);
    node.start(0, 30 * GIB, Program::Busy);
    node.start(1, 30 * GIB, Program::Idle);
    node.run_for(SEC);
    node.freeze(0, Freeze::Held);
    node.freeze(1, Freeze::UntilWanted);
    node.run_for(3 * SEC);
    for row in 0..2 {
        assert_eq!((node.proc(row).resident_bytes, node.status(row)), (0, HolderStatus::Frozen));
    }
    node.proc_mut(1).program = Program::Busy;
    node.run_for(2 * SEC);
    assert_eq!(node.status(1), HolderStatus::Runs);
    assert_eq!(node.status(0), HolderStatus::Frozen);
    node.freeze(0, Freeze::No);
    node.run_for(2 * SEC);
    assert_eq!(node.status(0), HolderStatus::Runs);
}

#[test]
fn a_restarted_planner_interrupts_nobody() {
    let mut node = Node::new(64 * GIB, 4);
    for row in 0..4 {
        node.start(row, 30 * GIB, Program::Busy);
    }
    node.run_for(40 * SEC);
    // Not in the middle of a hand-over.
    while (0..4).filter(|row| node.orders[*row].run).count() < 2 {
        node.run_for(MS);
    }
    let runs: Vec<bool> = node.orders.iter().map(|o| o.run).collect();
    node.restart();
    node.step_now();
    assert_eq!(node.orders.iter().map(|o| o.run).collect::<Vec<_>>(), runs);
    let before: Vec<u64> = (0..4).map(|row| node.proc(row).ran_ns).collect();
    node.run_for(60 * SEC);
    assert!((0..4).all(|row| node.proc(row).ran_ns > before[row] + 10 * SEC));
}

#[test]
fn a_capacity_that_falls_is_obeyed_and_comes_back() {
    let mut node = Node::new(64 * GIB, 2);
    node.start(0, 30 * GIB, Program::Busy);
    node.start(1, 30 * GIB, Program::Busy);
    node.run_for(SEC);
    node.resize(40 * GIB);
    node.run_for(2 * SEC);
    let here: u64 = (0..2).map(|row| node.proc(row).resident_bytes).sum();
    assert!(here <= 40 * GIB && here + 2 * CHUNK > 40 * GIB, "{} MiB", here / MIB);
    node.resize(64 * GIB);
    node.run_for(2 * SEC);
    assert!((0..2).all(|row| node.orders[row].run));
}

#[test]
fn one_that_can_run_with_a_part_away_is_as_large_as_the_device() {
    let mut hand = Hand::new(2);
    let larger =
        |gib_here, since_ns| Holder { spare_bytes: GIB, ..away(1, 300, gib_here, since_ns) };
    // Alone it may have the whole device, and runs once it is there but for a piece.
    assert_eq!(hand.step(MS, 100 * GIB, &[larger(0, SEC)]), [100, 0]);
    assert!(!hand.orders[0].run);
    hand.step(10 * MS, 100 * GIB, &[larger(98, SEC)]);
    assert!(!hand.orders[0].run);
    hand.step(10 * MS, 100 * GIB, &[larger(99, SEC)]);
    assert!(hand.orders[0].run && hand.orders[0].status == HolderStatus::Runs);
    // Another one waits, has its turn when the first is over, and so has the first again.
    let mut ran = [false; 2];
    let mut here = [99, 0];
    for _ in 0..20_000 {
        let now_ns = hand.now_ns;
        let wants = |run: bool| if run { 0 } else { now_ns };
        let [first, second] = [hand.orders[0], hand.orders[1]];
        let busy =
            Holder { submitted_ns: now_ns, busy_until_ns: now_ns + SEC, ..Holder::default() };
        let one = Holder {
            submitted_ns: busy.submitted_ns,
            busy_until_ns: if first.run { busy.busy_until_ns } else { 0 },
            ..larger(here[0], wants(first.run))
        };
        let other = Holder {
            busy_until_ns: if second.run { busy.busy_until_ns } else { 0 },
            ..away(2, 40, here[1], wants(second.run))
        };
        let allowed = hand.step(20 * MS, 100 * GIB, &[one, other]);
        assert!(allowed.iter().sum::<u64>() <= 100);
        here = [allowed[0].min(99), allowed[1].min(40)];
        for (ran, order) in ran.iter_mut().zip(&hand.orders) {
            *ran |= order.run;
        }
        assert!(!(hand.orders[0].run && hand.orders[1].run), "they do not fit together");
        if ran[1] && hand.orders[0].run {
            return;
        }
    }
    panic!("each has its turn, and the first again: {ran:?}");
}

#[test]
fn one_that_cannot_is_larger() {
    let mut hand = Hand::new(1);
    hand.step(MS, 100 * GIB, &[away(1, 300, 0, SEC)]);
    assert_eq!(hand.orders[0].status, HolderStatus::Larger);
}
