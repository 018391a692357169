//! Runs of small worlds: that they replay, end, and lose nothing.

use std::rc::Rc;

use super::*;
use crate::card::Direction;
use crate::case::Case;
use crate::program::{Length, Op, Ops, named};
use crate::site::{Actor, Dev, Fault, Site};
use crate::world::words;
use crate::{MS, US, sched};

fn native_run(programs: &[Ops], run_ns: u64) -> Report {
    run(&Case::beside(programs, run_ns), &native())
}

#[test]
fn the_same_case_gives_the_same_trace_and_another_seed_does_not() {
    let programs = [named::mix2(), named::threads(4, 200 * US), named::half(100 * US, 20 * MS)];
    let mut case = Case::beside(&programs, 100 * MS);
    let who = Actor { tenant: 1, process: 0, thread: 1 };
    case.devs.push(Dev { who, site: Site::Launch, nth: 5, what: Fault::Delay(MS) });
    let (one, two) = (run(&case, &native()), run(&case, &native()));
    assert_eq!((one.hash, one.events), (two.hash, two.events));
    assert!(one.events > 500 && one.violations.is_empty());
    assert_eq!((one.met.len(), &one.visits), (1, &two.visits));
    case.knobs.seed = 2;
    assert_ne!(run(&case, &native()).hash, one.hash);
    case.knobs.seed = 1;
    case.devs.clear();
    assert_ne!(run(&case, &native()).hash, one.hash);
}

#[test]
fn a_deviation_hits_its_thread_at_its_visit_and_books_add_up() {
    let programs = [named::sync(100 * US), named::sync(100 * US)];
    let mut case = Case::beside(&programs, 100 * MS);
    let who = Actor { tenant: 0, process: 0, thread: 0 };
    let plain = run(&case, &native());
    assert_eq!(plain.end, End::InTime);
    // A killed process leaves the device to the other, and nothing in the queues.
    case.devs = vec![Dev { who, site: Site::LaunchBack, nth: 20, what: Fault::Kill }];
    let killed = run(&case, &native());
    assert_eq!(killed.met, case.devs);
    assert!(killed.busy_percent(0) < 10.0 && killed.busy_percent(1) > 80.0, "{killed:?}");
    // A process that is stopped for half of the time has half.
    case.devs = vec![Dev { who, site: Site::Launch, nth: 3, what: Fault::Stop(50 * MS) }];
    let stopped = run(&case, &native());
    let (half, before) = (stopped.busy_percent(0), plain.busy_percent(0));
    assert!((0.4..0.6).contains(&(half / before)), "{half} of {before}");
    // A refused launch is not submitted, and a longer kernel takes longer.
    case.devs = vec![Dev { who, site: Site::Launch, nth: 3, what: Fault::Longer(400_000_000) }];
    assert!(run(&case, &native()).had[0][0].busy_ns > 40 * MS);
    case.knobs.run_ns = 10 * MS;
    case.devs =
        (0..9_999).map(|nth| Dev { who, site: Site::Launch, nth, what: Fault::Refuse }).collect();
    assert_eq!(run(&case, &native()).had[0][0].busy_ns, 0);
    for report in [plain, killed, stopped] {
        assert_eq!(report.books[0].wall_ns(), report.wall_ns);
    }
}

#[test]
fn programs_end_and_who_waits_for_nothing_is_found() {
    let once = vec![named::launch(1, 50 * US), Op::Sync];
    let report = native_run(&[once.clone(), named::newproc()], 2_500 * MS);
    assert_eq!(report.had[0][0].kernels, 1);
    assert_eq!(report.end, End::InTime);
    let report = native_run(&[once], 1_000 * MS);
    assert_eq!((report.end, report.had[0][0].busy_ns), (End::AllEnded, 50 * US));
    assert!(report.wall_ns < MS);
    // Threads end with their process.
    let thread = Op::Thread { ops: named::sync(10 * US) };
    let report = native_run(&[vec![thread, Op::Pause { ns: MS }]], 1_000 * MS);
    assert!(report.end == End::AllEnded && report.wall_ns < 2 * MS, "{report:?}");
}

#[test]
fn streams_events_and_the_legacy_stream_keep_their_order() {
    let small =
        |stream| Op::Launch { key: 1, length: Length::Fixed(100 * US), stream, width_ppm: 100_000 };
    // Beside each other, then one after the other by an event, then by the legacy stream.
    let beside = vec![small(1), small(2), Op::Sync];
    let behind = vec![
        small(1),
        Op::Record { event: 0, stream: 1 },
        Op::StreamWait { stream: 2, event: 0 },
        small(2),
        Op::Sync,
    ];
    let legacy = vec![small(1), small(0), small(2), Op::Sync];
    let busy_us = |ops: Ops| native_run(&[ops], 10 * MS).had[0][0].busy_ns / US;
    assert!((100..110).contains(&busy_us(beside)));
    assert_eq!(busy_us(behind), 200);
    assert_eq!(busy_us(legacy), 300);
}

#[test]
fn what_a_process_had_until_its_death_is_counted_to_the_nanosecond() {
    // Its only kernel runs when it exits, and nothing happens on the device meanwhile.
    let program = vec![named::launch(1, 50 * MS), Op::Compute { ns: 20 * MS }, Op::Exit];
    let report = native_run(&[program], 100 * MS);
    let had = report.had[0][0];
    assert_eq!((had.kernels, had.work_ns), (0, 0));
    let start_ns = crate::card::CardModel::default().start_ns;
    assert_eq!(had.busy_ns, 20 * MS - start_ns);
}

#[test]
fn a_full_queue_makes_the_call_wait() {
    let mut case = Case::beside(&[named::queue(100, 100 * US)], 100 * MS);
    case.knobs.card.queue = 4;
    let report = run(&case, &native());
    let launched = report.visits[&(Actor { tenant: 0, process: 0, thread: 0 }, Site::Launch)];
    assert!(u64::from(launched) < report.had[0][0].kernels + 6, "{launched}");
    assert!(report.busy_percent(0) > 98.0);
}

#[test]
fn contexts_come_and_go_and_captures_launch_nothing() {
    let program = named::forever(vec![
        named::launch(1, 50 * US),
        Op::Copy { bytes: 1 << 20, direction: Direction::Out, stream: 1, is_blocking: true },
        Op::HostFunction { length_ns: 5 * US, stream: 1 },
        Op::NewContext,
        named::launch(1, 50 * US),
        Op::Capture { stream: 3, launches: 5, is_global: true },
        Op::Poll { stream: 0 },
        Op::DestroyContext,
    ]);
    let mut case = Case::beside(&[program], 200 * MS);
    case.knobs.card.create_context_ns = MS;
    let report = run(&case, &native());
    let turns = report.visits[&(Actor { tenant: 0, process: 0, thread: 0 }, Site::DestroyContext)];
    assert!(turns > 100, "{turns}");
    let kernels = report.had[0][0].kernels;
    assert!(kernels.abs_diff(2 * u64::from(turns)) <= 2, "{kernels} in {turns}");
    assert_eq!(report.violations, []);
}

/// Waits at each launch while the gate is closed, as the least of a shim.
struct Waits(SimDriver, std::cell::Cell<u32>);

impl Shim for Waits {
    fn launch(&self, _: LaunchStream, _: u64, call: &mut dyn FnMut() -> bool) -> bool {
        let device = self.0.device().expect("it is counted");
        let words = device.words().expect("a slot");
        while words.gate_line().gate == 2 {
            words.wait(2, self.0.now_ns() + 50 * MS);
            self.1.set(self.1.get() + 1);
        }
        call()
    }
}

#[test]
fn a_daemon_closes_gates_and_wakes_who_waits() {
    let line = |gate| divvy_abi::config::GateLine { gate, ..Default::default() };
    // Open for 3 ms of each 10.
    let daemon: Daemon = Rc::new(move |driver| {
        for (gate, ns) in [(0, 3 * MS), (2, 7 * MS)].into_iter().cycle() {
            sched::point(Site::DaemonWrite);
            let now_ns = sched::now_ns();
            with(|world| words::open_or_close(world, 0, 0, &line(gate), now_ns));
            driver.sleep_until(driver.now_ns() + ns);
        }
    });
    let shims: Shims = Rc::new(|_, driver| Rc::new(Waits(driver, std::cell::Cell::new(0))));
    let code = Code { shims, daemon: Some(daemon) };
    let mut case = Case::beside(&[named::sync(50 * US), named::sync(50 * US)], 200 * MS);
    case.tenants[1].is_stranger = true;
    case.tenants[1].processes[0].start_ns = 190 * MS;
    case.knobs.has_daemon = true;
    let report = run(&case, &code);
    assert_eq!(report.hash, run(&case, &code).hash);
    assert!((22.0..32.0).contains(&report.busy_percent(0)), "{}", report.busy_percent(0));
    let waits = report.visits[&(Actor { tenant: 0, process: 0, thread: 0 }, Site::Wait)];
    assert!((15..30).contains(&waits), "{waits}");
    // A daemon that is killed leaves the gate as it was.
    let kill = |nth| Dev { who: Actor::DAEMON, site: Site::DaemonWrite, nth, what: Fault::Kill };
    case.devs = vec![kill(2)];
    assert!(run(&case, &code).busy_percent(0) < 3.0);
    case.devs = vec![kill(3)];
    assert!(run(&case, &code).busy_percent(0) > 75.0);
}

#[test]
fn an_unsafe_call_beside_a_global_capture_is_seen() {
    let capturing = named::forever(vec![Op::Capture { stream: 1, launches: 100, is_global: true }]);
    let querying = Op::Thread { ops: named::forever(vec![named::launch(1, 5 * US), Op::Sync]) };
    let report = native_run(&[[vec![querying], capturing].concat()], 10 * MS);
    assert!(report.faults != 0 && report.violations.is_empty(), "it is the program's own");
}
