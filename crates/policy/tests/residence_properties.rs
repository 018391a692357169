//! Properties of the hand-over over generated tenants and events: never more than the device, nobody starves, nothing
//! moves without need, movement is paid for, and those that lie or stop harm themselves.
#![cfg(not(loom))]

mod residence_sim;

use divvy_policy::residence::{Freeze, HolderStatus};
use proptest::prelude::*;
use residence_sim::process::Program;
use residence_sim::{Draw, GIB, MIB, MS, Node, SEC, US};

const ROWS: usize = 6;

/// An event of a run.
#[derive(Clone, Copy, Debug)]
enum Event {
    Start { row: usize, gib: u64, program: Program, weight: u32, lag_ns: u64, kernel_ns: u64 },
    Kill { row: usize },
    Resize { percent: u64 },
    Stop { row: usize },
    Continue { row: usize },
    Ask { row: usize, mib: u64 },
    Free { row: usize, mib: u64 },
    Freeze { row: usize, freeze: Freeze },
    Restart,
}

fn program() -> impl Strategy<Value = Program> {
    let ms = prop::sample::select(vec![3, 20, 100, 700, 3_000]);
    prop_oneof![
        3 => Just(Program::Busy),
        1 => Just(Program::Idle),
        3 => (ms.clone(), ms).prop_map(|(on, off)| Program::Phases {
            on_ns: on * MS,
            off_ns: off * MS
        }),
    ]
}

fn start(largest_gib: u64) -> impl Strategy<Value = Event> {
    let lag_ns = prop::sample::select(vec![0, 100 * US, 5 * MS, 60 * MS]);
    let kernel_ns = prop::sample::select(vec![MS, 10 * MS, 200 * MS]);
    (0..ROWS, 1..=largest_gib, program(), 1_u32..8, lag_ns, kernel_ns).prop_map(
        |(row, gib, program, weight, lag_ns, kernel_ns)| Event::Start {
            row,
            gib,
            program,
            weight,
            lag_ns,
            kernel_ns,
        },
    )
}

/// Events of tenants that do as they are told.
fn gentle(largest_gib: u64) -> impl Strategy<Value = Event> {
    let row = 0..ROWS;
    prop_oneof![
        4 => start(largest_gib),
        2 => row.clone().prop_map(|row| Event::Kill { row }),
        2 => (row.clone(), 1_u64..4_000).prop_map(|(row, mib)| Event::Ask { row, mib }),
        1 => (row, 1_u64..8_000).prop_map(|(row, mib)| Event::Free { row, mib }),
    ]
}

/// Events of all kinds.
fn rough(largest_gib: u64) -> impl Strategy<Value = Event> {
    let row = 0..ROWS;
    let freeze = prop::sample::select(vec![Freeze::No, Freeze::Held, Freeze::UntilWanted]);
    prop_oneof![
        6 => gentle(largest_gib),
        1 => (20_u64..120).prop_map(|percent| Event::Resize { percent }),
        1 => row.clone().prop_map(|row| Event::Stop { row }),
        1 => row.clone().prop_map(|row| Event::Continue { row }),
        1 => (row.clone(), freeze).prop_map(|(row, freeze)| Event::Freeze { row, freeze }),
        1 => (row, 1_u64..40).prop_map(|(row, gib)| Event::Start {
            row, gib, program: Program::Hostile, weight: 1, lag_ns: 0, kernel_ns: MS,
        }),
        1 => Just(Event::Restart),
    ]
}

/// A run, and since when each row has been owed a turn.
struct Run {
    node: Node,
    whole_bytes: u64,
    owed_since_ns: [u64; ROWS],
    worst: f64,
}

impl Run {
    fn new(capacity_gib: u64, together: bool) -> Self {
        let mut node = Node::new(capacity_gib * GIB, ROWS);
        node.tick_ns = MS / 2;
        node.tuning.max_wait_ns = 3 * SEC;
        node.tuning.patience_ns = SEC / 2;
        node.tuning.together = together;
        Self { node, whole_bytes: capacity_gib * GIB, owed_since_ns: [0; ROWS], worst: 0.0 }
    }

    fn apply(&mut self, event: Event) {
        let node = &mut self.node;
        let now_ns = node.now_ns;
        let lives = |node: &Node, row: usize| node.procs[row].is_some();
        match event {
            Event::Start { row, gib, program, weight, lag_ns, kernel_ns } => {
                node.kill(row);
                let process = node.start(row, gib * GIB, program);
                process.weight = weight;
                process.lag_ns = lag_ns;
                process.kernel_ns = kernel_ns;
                if program == Program::Hostile {
                    process.held_bytes = gib * GIB;
                    process.asked_bytes = 0;
                }
            }
            Event::Kill { row } => node.kill(row),
            Event::Resize { percent } => node.resize(self.whole_bytes / 100 * percent),
            Event::Stop { row } if lives(node, row) => node.proc_mut(row).stopped = true,
            Event::Continue { row } if lives(node, row) => node.proc_mut(row).stopped = false,
            Event::Ask { row, mib } if lives(node, row) => {
                node.proc_mut(row).asked_bytes += mib * MIB;
            }
            Event::Free { row, mib } if lives(node, row) => {
                node.proc_mut(row).free(mib * MIB, now_ns);
            }
            Event::Freeze { row, freeze } if lives(node, row) => node.freeze(row, freeze),
            Event::Restart => node.restart(),
            _ => {}
        }
        // Such an event may cost everybody a turn, and their age.
        if matches!(event, Event::Resize { .. } | Event::Restart | Event::Continue { .. }) {
            self.owed_since_ns = [now_ns; ROWS];
        }
    }

    /// Runs on, and sees that nobody who could run waits too long.
    fn go(&mut self, ns: u64) {
        let end_ns = self.node.now_ns + ns;
        while self.node.now_ns < end_ns {
            let step_ns = (10 * MS).min(end_ns - self.node.now_ns);
            self.node.run_for(step_ns);
            self.check_waits();
        }
    }

    fn check_waits(&mut self) {
        let node = &self.node;
        let now_ns = node.now_ns;
        let adverse = |p: &residence_sim::process::Process| p.stopped || !p.is_honest();
        let all = || node.procs.iter().flatten();
        let pinned: u64 = all().filter(|p| adverse(p)).map(|p| p.held_bytes + p.asked_bytes).sum();
        let left = node.room.capacity_bytes.saturating_sub(pinned);
        let slowest_ns = all().map(|p| 3 * p.lag_ns + 2 * p.kernel_ns).max().unwrap_or(0);
        let largest_ns = node.room.capacity_bytes * 2 / (residence_sim::LINK / SEC);
        let adverse_count = all().filter(|p| adverse(p)).count() as u64;
        let move_ns = largest_ns + slowest_ns + 50 * MS;
        let count = ROWS as u64;
        // Each adverse tenant may take a turn, and be waited for as a newcomer and as a victim.
        let bound_ns = node.tuning.max_wait_ns
            + count * move_ns
            + adverse_count * (3 * node.tuning.patience_ns + count * node.tuning.patience_ns);
        for row in 0..ROWS {
            let Some(process) = &node.procs[row] else {
                self.owed_since_ns[row] = now_ns;
                continue;
            };
            let size = process.held_bytes + process.asked_bytes;
            let is_owed = !adverse(process) && process.freeze != Freeze::Held && size <= left;
            if !is_owed || process.waits_ns(now_ns) == 0 {
                self.owed_since_ns[row] = now_ns;
                continue;
            }
            // One that came in another's place has waited since then only.
            let waits_ns = process.waits_ns(now_ns).min(now_ns - self.owed_since_ns[row]);
            self.worst = self.worst.max(waits_ns as f64 / bound_ns as f64);
            assert!(
                waits_ns <= bound_ns,
                "row {row} of {} MiB in {} MiB waits {} ms of {} ms: {:?}, {:?}",
                size / MIB,
                left / MIB,
                waits_ns / MS,
                bound_ns / MS,
                node.orders,
                node.procs
                    .iter()
                    .flatten()
                    .map(|p| (
                        p.tenant,
                        p.resident_bytes / MIB,
                        p.held_bytes / MIB,
                        p.asked_bytes / MIB
                    ))
                    .collect::<Vec<_>>(),
            );
        }
    }
}

fn quick(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// One tenant that needs the device to itself, and small ones that come and go for 20 s.
fn newcomers(together: bool, gib: u64, lives_ms: u64, seed: u64) {
    let mut run = Run::new(64, together);
    let mut draw = Draw(seed);
    let busy = |row, gib, weight| Event::Start {
        row,
        gib,
        program: Program::Busy,
        weight,
        lag_ns: 0,
        kernel_ns: MS,
    };
    run.apply(busy(0, gib, 1));
    for _ in 0..(20_000 / lives_ms).min(150) {
        let (row, gib) = (1 + draw.below(5) as usize, 5 + draw.below(30));
        run.apply(busy(row, gib, 1 + draw.below(90) as u32));
        run.go(draw.below(2 * lives_ms) * MS);
    }
    assert!(run.node.proc(0).ran_ns > 0);
}

#[test]
fn newcomers_in_one_place_are_not_taken_for_one_that_waits() {
    newcomers(false, 49, 236, 9_952_038_183_745_282_145);
}

proptest! {
    #![proptest_config(quick(16))]

    /// Tenants that come, go, allocate and pause at any time: the device is never overfull, and who fits runs in time.
    #[test]
    fn who_fits_runs_in_time(
        capacity_gib in 12_u64..64,
        together: bool,
        events in prop::collection::vec((gentle(40), 0_u64..1_500), 4..30),
    ) {
        let mut run = Run::new(capacity_gib, together);
        for (event, wait_ms) in events {
            run.apply(event);
            run.go(wait_ms * MS);
        }
        run.go(10 * SEC);
    }

    /// The same beside tenants that stop, lie, are frozen; under a capacity that changes, and planners that restart.
    #[test]
    fn the_honest_run_beside_the_others(
        capacity_gib in 12_u64..64,
        together: bool,
        events in prop::collection::vec((rough(30), 0_u64..1_500), 4..40),
    ) {
        let mut run = Run::new(capacity_gib, together);
        for (event, wait_ms) in events {
            run.apply(event);
            run.go(wait_ms * MS);
        }
        run.go(20 * SEC);
    }

    /// Orders are lost and steps come late: nobody has more than the device all the same.
    #[test]
    fn lost_orders_and_late_steps_overfill_nothing(
        capacity_gib in 12_u64..64,
        lost_percent in 0_u64..60,
        late_ms in 0_u64..300,
        events in prop::collection::vec((rough(30), 0_u64..1_500), 4..30),
    ) {
        let mut run = Run::new(capacity_gib, true);
        run.node.lost_percent = lost_percent;
        run.node.late_ns = late_ms * MS;
        for (event, wait_ms) in events {
            // A capacity that falls is obeyed when its orders arrive.
            if !matches!(event, Event::Resize { .. }) {
                run.apply(event);
            }
            run.node.run_for(wait_ms * MS);
        }
    }

    /// Small tenants come and go without end; the one that needs the device to itself has it in time.
    #[test]
    fn a_stream_of_newcomers_starves_nobody(
        together: bool,
        gib in 45_u64..=64,
        lives_ms in 20_u64..900,
        seed: u64,
    ) {
        newcomers(together, gib, lives_ms, seed);
    }

    /// Programs that pause for less than their memory takes to move are not moved for each pause.
    #[test]
    fn short_pauses_do_not_thrash(
        phases in prop::collection::vec((10_u64..300, 5_u64..150), 2..4),
    ) {
        let mut node = Node::new(64 * GIB, ROWS);
        node.tick_ns = MS;
        for (row, (on, off)) in phases.iter().enumerate() {
            let program = Program::Phases { on_ns: on * MS, off_ns: off * MS };
            node.start(row, 50 * GIB, program);
        }
        node.run_for(20 * SEC);
        let (before, start_ns) = (node.moved_in_bytes, node.now_ns);
        node.run_for(60 * SEC);
        let rate = (node.moved_in_bytes - before) as f64 / ((node.now_ns - start_ns) as f64 / 1e9);
        prop_assert!(rate < 0.12 * residence_sim::LINK as f64, "{:.1} GB/s for {phases:?}", rate / 1e9);
    }

    /// Nothing moves where everybody fits, whatever they do; and nobody waits.
    #[test]
    fn nothing_moves_where_all_fit(
        programs in prop::collection::vec((program(), 1_u64..10), 1..=ROWS),
        seed: u64,
    ) {
        let (mut run, mut restarts) = (Run::new(64, true), 0);
        let mut draw = Draw(seed);
        for (row, (program, gib)) in programs.iter().enumerate() {
            run.node.start(row, gib * GIB, *program);
            run.go(draw.below(300) * MS);
        }
        for _ in 0..10 {
            let row = draw.below(programs.len() as u64) as usize;
            if draw.below(2) == 0 {
                run.node.restart();
                restarts += 1;
            } else if run.node.proc(row).held_bytes < 9 * GIB {
                run.node.proc_mut(row).asked_bytes = draw.below(GIB);
            }
            run.go(draw.below(500) * MS);
        }
        run.go(100 * MS);
        prop_assert_eq!(run.node.moved_in_bytes + run.node.moved_out_bytes, 0);
        let counters = run.node.state.counters();
        prop_assert_eq!((counters.in_bytes, counters.out_bytes, counters.hand_overs), (0, 0, 0));
        for row in 0..programs.len() {
            prop_assert_eq!(run.node.status(row), HolderStatus::Runs);
            // Each planner that takes over looks anew, for up to 50 ms.
            let most_ns = (60 + 50 * restarts) * MS;
            prop_assert!(run.node.proc(row).longest_wait_ns <= most_ns);
        }
    }
}

proptest! {
    #![proptest_config(quick(6))]

    /// Busy tenants of any sizes and weights: movement leaves the device to them, by weight where one runs at a time.
    #[test]
    fn movement_is_paid_for(
        tenants in prop::collection::vec((10_u64..60, 1_u32..4), 2..5),
        together: bool,
    ) {
        let mut node = Node::new(64 * GIB, ROWS);
        node.tick_ns = MS;
        node.tuning.together = together;
        for (row, (gib, weight)) in tenants.iter().enumerate() {
            node.start(row, gib * GIB, Program::Busy).weight = *weight;
        }
        node.run_for(60 * SEC);
        let (wanted, ran) = (node.wanted_ns, node.ran_ns);
        let before: Vec<u64> = (0..tenants.len()).map(|row| node.proc(row).ran_ns).collect();
        node.run_for(240 * SEC);
        let used = (node.ran_ns - ran) as f64 / (node.wanted_ns - wanted) as f64;
        // Movement takes a twentieth of the turns it serves, unless these are bounded by the longest wait.
        let weights: u32 = tenants.iter().map(|(_, weight)| weight).sum();
        let least = tenants.iter().map(|(_, weight)| *weight).min().unwrap_or(0);
        let mean_s = 30.0 * f64::from(weights) / tenants.len() as f64 / f64::from(weights - least);
        let move_s = 64.0 * GIB as f64 / residence_sim::LINK as f64 + 0.05;
        let due = (mean_s / (mean_s + move_s)).min(0.95) - 0.01;
        prop_assert!(used >= due, "{used:.4} of {due:.4} in use by {tenants:?}");
        let sum: u64 = tenants.iter().map(|(gib, _)| gib).sum();
        if !together && sum > 64 {
            for (row, (_, weight)) in tenants.iter().enumerate() {
                let got = (node.proc(row).ran_ns - before[row]) as f64 / (node.ran_ns - ran) as f64;
                let due = f64::from(*weight) / f64::from(weights);
                prop_assert!((got - due).abs() < 0.08, "row {row}: {got:.3} of {due:.3}, {tenants:?}");
            }
        }
    }
}
