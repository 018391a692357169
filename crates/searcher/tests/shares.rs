//! Acceptance zero: what ships gets on the simulated card what it got on a real one, where it is right and
//! where it is not.
//!
//! The right ones are cells of `divvy bench share` and `fairness`, and programs whose kernels vary
//! (bench/results), within 1.5 points. What is still wrong is here to fail when a cure comes, and be written anew.

mod table;

use divvy_searcher::card::Direction;
use divvy_searcher::case::{Actor, Case, Dev, Fault, Knobs, Site};
use divvy_searcher::oracle;
use divvy_searcher::program::{Length, Op, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::world;
use divvy_searcher::{MS, SECOND, US, gated};
use table::{capped, of, shares};

#[test]
fn caps_of_alike_kernels_hold() {
    let mut rows = Rows::default();
    for cap in [10, 30, 50, 70] {
        for us in [20, 100, 1_000, 5_000] {
            for (how, ops) in [("sync", named::sync(us * US)), ("queue", named::flood(us * US))] {
                let reached = shares(vec![capped(cap, ops)], false, 3 * SECOND)[0];
                rows.row(
                    &format!("{how} {us} us, cap {cap} %"),
                    cap as f64,
                    oracle::share(),
                    reached,
                );
            }
        }
        // Half as much again with an event behind each: 9.3, 27.7 and 67.3 of 10, 30 and 70 on an H200 while 1.3 us were
        // taken off for one that takes 2 (h200-2026-11-25/events-in-a-queue.txt).
        let shortest = shares(vec![capped(cap, named::flood(5 * US))], false, 3 * SECOND)[0];
        rows.row(&format!("queue 5 us, cap {cap} %"), cap as f64, oracle::share(), shortest);
        let graph = shares(vec![capped(cap, named::graph(20, 100 * US))], false, 3 * SECOND)[0];
        rows.row(&format!("graphs of 100 us, cap {cap} %"), cap as f64, oracle::share(), graph);
    }
    rows.judge();
}

#[test]
fn caps_against_each_other_hold() {
    let mut rows = Rows::default();
    for (what, ops) in
        [("queues of 5 ms", named::flood(5 * MS)), ("queues of 1 ms", named::flood(MS))]
    {
        let pair = vec![capped(30, ops.clone()), capped(70, ops)];
        let reached = shares(pair, true, 40 * SECOND);
        rows.row(&format!("{what}, the 30"), 30, oracle::share(), reached[0]);
        let both = oracle::by_turns(100.0);
        rows.row(
            &format!("{what}, the 30 and the 70"),
            both,
            oracle::together(),
            reached.iter().sum(),
        );
    }
    rows.judge();
}

/// A copy before each kernel of a queue, whose length changes at once or every thousand: no mark measures behind a copy,
/// and as long as the device has work nothing else measured a long kernel. A cap of 50 % had 99.8, charged a third; with
/// such kernels measured on a drained device alone 30 and 70 % have 33.5 and 73.0 of lengths that change later.
#[test]
fn long_kernels_behind_copies_are_measured() {
    let mut rows = Rows::default();
    let at_once = Length::List([vec![496 * US; 2], vec![1_409 * US; 82]].concat());
    let longer = Length::List([vec![MS; 1_000], vec![5 * MS; 1_000]].concat());
    let shorter = Length::List([vec![5 * MS; 500], vec![MS; 500]].concat());
    let cells = [
        (10, &at_once, false),
        (30, &at_once, false),
        (50, &at_once, false),
        (70, &at_once, false),
        (30, &shorter, true),
        (70, &longer, true),
    ];
    for (cap, length, has_daemon) in cells {
        let copy =
            |bytes| Op::Copy { bytes, direction: Direction::In, stream: 0, is_blocking: false };
        let length = length.clone();
        let kernel = Op::Launch { key: 2, length, stream: 0, width_ppm: 1_000_000 };
        let batch = Op::Repeat { times: 199, ops: vec![copy(19_000), kernel] };
        let ops = named::forever(vec![copy(10_000), named::launch(1, 81 * US), batch, Op::Sync]);
        let reached = shares(vec![capped(cap, ops)], has_daemon, 20 * SECOND)[0];
        rows.row(&format!("a copy before each, cap {cap} %"), cap as f64, oracle::share(), reached);
    }
    rows.judge();
}

/// A kernel that grows to 8 ms behind four short ones, each time a cap lets them go: the short ones are not marked, so that the
/// mark behind the long one is linked to nothing, and nothing else measured it. A cap of 30 % had 39.6.
#[test]
fn long_kernels_behind_short_ones_are_measured() {
    let mut rows = Rows::default();
    for cap in [10, 30, 70] {
        let length = Length::Grow(6_625, 8_261_393, 12_682_506_768);
        let short = Op::Repeat { times: 4, ops: vec![named::launch(2, 44_151)] };
        let long = Op::Launch { key: 1, length, stream: 0, width_ppm: 1_000_000 };
        let ops = named::forever(vec![short, long]);
        let reached = shares(vec![capped(cap, ops)], false, 20 * SECOND)[0];
        rows.row(
            &format!("a long one behind short ones, cap {cap} %"),
            cap as f64,
            oracle::share(),
            reached,
        );
    }
    rows.judge();
}

/// One kernel of many that is short until it has been measured, behind a copy or a host function: what a synchronisation
/// takes longer may be the copy's, so it was not charged, and a kernel that is taken for 8 us is hardly ever drawn. 10 and 30 %
/// had up to 44 and 75.
#[test]
fn what_was_short_when_it_was_measured_hides_behind_no_copy() {
    let mut rows = Rows::default();
    let copy = Op::Copy { bytes: 12_000, direction: Direction::In, stream: 0, is_blocking: false };
    let function = Op::HostFunction { length_ns: 10_000, stream: 0 };
    let lengths = [
        Length::List([vec![8 * US; 200], vec![46 * MS; 2_000]].concat()),
        Length::Grow(8 * US, 46 * MS, 8 * SECOND),
    ];
    for ((what, before), length) in [("a copy", copy), ("a host function", function)]
        .iter()
        .flat_map(|one| lengths.iter().map(move |length| (one.clone(), length)))
    {
        for (times, ns) in [(1, MS), (5, 2 * MS), (39, 1_300 * US)] {
            for (cap, is_graph) in [(10, false), (30, false), (10, true), (30, true)] {
                let work = |key, length| match is_graph {
                    true => Op::Graph { key, length, stream: 0, call_ns: None },
                    false => Op::Launch { key, length, stream: 0, width_ppm: 1_000_000 },
                };
                let shown = vec![before.clone(), work(2, Length::Fixed(ns))];
                let hidden = vec![before.clone(), work(1, length.clone())];
                let rounds = [(times, shown), (2, hidden)];
                let ops = rounds
                    .into_iter()
                    .flat_map(|(times, ops)| [Op::Repeat { times, ops }, Op::Sync]);
                let ops = named::forever(ops.collect());
                let reached = shares(vec![capped(cap, ops)], false, 20 * SECOND)[0];
                let row = format!("{times} of {} us, two behind {what}, cap {cap} %", ns / US);
                rows.row(&row, cap as f64, oracle::share(), reached);
            }
        }
    }
    rows.judge();
}

/// Caps that sum to a device, of programs that leave a tenth of their turns idle and none: 17.7, 29.3 and 49.2 on an
/// H200 while what a tenant held was what it paid for.
#[test]
fn caps_that_sum_to_a_device_lose_alike() {
    let mut rows = Rows::default();
    for start_ns in [0, 13, 40, 90].map(|ms| ms * MS) {
        let ops = [named::sync(100 * US), named::flood(MS), named::flood(5 * MS)];
        let mut tenants: Vec<_> =
            [20, 30, 50].into_iter().zip(ops).map(|(cap, ops)| capped(cap, ops)).collect();
        tenants[1].processes[0].start_ns = start_ns;
        tenants[2].processes[0].start_ns = 2 * start_ns;
        let reached = shares(tenants, true, 20 * SECOND);
        for (cap, reached) in [20, 30, 50].map(f64::from).into_iter().zip(reached) {
            let what = format!("{cap} of 20/30/50, {} ms apart", start_ns / MS);
            rows.row(&what, cap, oracle::handed_over().of(cap), reached);
        }
    }
    rows.judge();
}

/// Kernels whose lengths differ under one key: at 4b21155 they had 38 to 100 of a cap of 30 on an H200, with the
/// gate that this one replaces 48 to 98.
#[test]
fn caps_of_uneven_kernels_hold() {
    let mut rows = Rows::default();
    for cap in [10_u32, 30, 70] {
        for (what, unit_ns, ops) in [
            ("mix2", 2 * MS, named::mix2()),
            ("liar", 160 * MS, named::liar()),
            ("mixq", 20 * MS, named::mixq()),
            ("graphupd", 20 * MS, named::graphupd()),
            ("newproc", 600 * MS, named::newproc()),
            ("grow", 2 * MS, named::grow(20 * SECOND)),
        ] {
            // A process for each two kernels cannot have more.
            let wanted = if what == "newproc" { f64::from(cap.min(66)) } else { f64::from(cap) };
            let within = oracle::share_of_units(unit_ns, 20 * SECOND);
            for has_daemon in [false, true] {
                let reached =
                    shares(vec![capped(cap.into(), ops.clone())], has_daemon, 20 * SECOND)[0];
                let with = if has_daemon { ", daemon" } else { "" };
                rows.row(&format!("{what}, cap {cap} %{with}"), wanted, within, reached);
            }
        }
    }
    rows.judge();
}

/// A process that is stopped while it waits for its work is not charged for it as if it had worked.
#[test]
fn a_process_that_is_stopped_in_a_wait_keeps_its_cap_of_what_is_left() {
    let mut rows = Rows::default();
    for (what, ops) in [("sync 100 us", named::sync(100 * US)), ("mix2", named::mix2())] {
        for cap in [30_u32, 70] {
            let plan = capped(cap.into(), ops.clone());
            let knobs = Knobs { run_ns: 20 * SECOND, heal_ns: 20 * SECOND, ..Knobs::default() };
            let who = Actor { tenant: 0, process: 0, thread: 0 };
            let stopped = Fault::Stop(SECOND);
            let stop = |nth| Dev { who, site: Site::SynchroniseBack, nth, what: stopped };
            let devs: Vec<_> = (1..=5).map(|at| stop(at * 200)).collect();
            let report = world::run(&Case { knobs, tenants: vec![plan], devs }, &gated::shipped());
            assert_eq!(report.met.len(), 5);
            // It gets behind nothing that it is paid for: 15 s of 20.
            let reached = report.busy_percent(0);
            let due = f64::from(cap * (20 - 5)) / f64::from(20);
            rows.row(&format!("{what}, cap {cap} %, stopped"), due, oracle::share(), reached);
        }
    }
    rows.judge();
}

/// Whoever is stopped while it waits for its work does not count as at work: beside it a tenant had 26 of 69 % on the
/// simulated machine, since each turn of the stopped one ended by the drain's time-out.
#[test]
fn who_is_stopped_in_a_wait_is_given_no_turns() {
    let mut rows = Rows::default();
    for (what, ops) in [("sync 1 ms", named::sync(MS)), ("queue of 10", named::queue(10, MS))] {
        let tenants = vec![of(vec![ops]), of(vec![named::sync(2 * MS)])];
        let knobs =
            Knobs { run_ns: 5 * SECOND, heal_ns: 5 * SECOND, has_daemon: true, ..Knobs::default() };
        let who = Actor { tenant: 0, process: 0, thread: 0 };
        let what_happens = Fault::Stop(9 * SECOND);
        let stop = Dev { who, site: Site::SynchroniseBack, nth: 40, what: what_happens };
        let case = Case { knobs, tenants, devs: vec![stop] };
        let (mut first, mut last) = (None, 0);
        let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
            last = world.had(1, 0).busy_ns;
            if now_ns > 2 * SECOND && first.is_none() {
                first = Some(last);
            }
        });
        assert_eq!(report.met.len(), 1);
        let had = 100.0 * (last - first.unwrap_or(last)) as f64 / (3 * SECOND) as f64;
        let alone = shares(vec![of(vec![named::sync(2 * MS)])], false, SECOND)[0];
        rows.row(&format!("{what} is stopped, the other"), alone, oracle::share(), had);
    }
    rows.judge();
}
