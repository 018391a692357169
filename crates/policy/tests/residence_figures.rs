//! Figures of the hand-over on a simulated H200; printed as a table and held to their bounds.
#![cfg(not(loom))]

mod residence_sim;

use residence_sim::process::Program;
use residence_sim::{GIB, MS, Node, SEC};

/// Prints one row and keeps what missed its bound.
struct Table {
    missed: Vec<String>,
}

impl Table {
    fn new() -> Self {
        println!("{:<62} {:>10} {:>12}", "figure", "reached", "bound");
        Self { missed: Vec::new() }
    }
    fn at_least(&mut self, name: &str, value: f64, bound: f64) {
        println!("{name:<62} {value:>10.4} {:>12}", format!(">= {bound}"));
        if value < bound {
            self.missed.push(format!("{name}: {value:.4} < {bound}"));
        }
    }
    fn at_most(&mut self, name: &str, value: f64, bound: f64) {
        println!("{name:<62} {value:>10.4} {:>12}", format!("<= {bound}"));
        if value > bound {
            self.missed.push(format!("{name}: {value:.4} > {bound}"));
        }
    }
    fn end(self) {
        assert!(self.missed.is_empty(), "missed:\n{}", self.missed.join("\n"));
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Four busy tenants of 48 GiB on 137 GiB, after a minute of settling.
fn four(together: bool) -> (f64, f64, f64, f64) {
    let mut node = Node::new(137 * GIB, 4);
    node.tuning.together = together;
    if !together {
        // Turns that are twice as long leave more of the next tenant's bytes to be moved within one.
        node.tuning.overhead_ppm = 50_000;
    }
    for row in 0..4 {
        node.start(row, 48 * GIB, Program::Busy);
        node.run_for(SEC);
    }
    node.run_for(60 * SEC);
    let before = node.state.counters();
    let (moved, wanted, ran) = (node.moved_in_bytes, node.wanted_ns, node.ran_ns);
    let each: Vec<u64> = (0..4).map(|row| node.proc(row).ran_ns).collect();
    node.run_for(480 * SEC);
    let after = node.state.counters();
    let turns = after.grants - before.grants;
    let per_turn = (node.moved_in_bytes - moved) as f64 / GIB as f64 / turns as f64;
    let running = (node.ran_ns - ran) as f64 / (node.wanted_ns - wanted) as f64;
    let longest = (0..4).map(|row| node.proc(row).longest_wait_ns).max().unwrap_or(0);
    let parts: Vec<f64> = (0..4).map(|row| (node.proc(row).ran_ns - each[row]) as f64).collect();
    let least = parts.iter().copied().fold(f64::MAX, f64::min);
    (per_turn, running, seconds(longest), least / parts.iter().sum::<f64>())
}

/// Time in which all jobs are done.
fn makespan(node: &mut Node, rows: usize) -> f64 {
    let start_ns = node.now_ns;
    while (0..rows).any(|row| node.proc(row).done_ns.is_none()) {
        node.run_for(MS);
        assert!(node.now_ns - start_ns < 1_000 * SEC, "jobs do not end");
    }
    seconds(node.now_ns - start_ns)
}

#[test]
fn figures() {
    let mut table = Table::new();

    let (per_turn, running, longest, part) = four(true);
    table.at_most("4 x 48 GiB on 137, together: GiB in per turn", per_turn, 27.5 * 1.1);
    table.at_least("4 x 48 GiB on 137, together: part of the time in use", running, 0.97);
    table.at_most("4 x 48 GiB on 137, together: longest wait, s", longest, 30.0);
    table.at_least("4 x 48 GiB on 137, together: least part", part, 0.235);

    let (per_turn, running, longest, part) = four(false);
    table.at_most("4 x 48 GiB on 137, one at a time: GiB in per turn", per_turn, 18.6 * 1.1);
    table.at_least("4 x 48 GiB on 137, one at a time: time in use", running, 0.95);
    table.at_most("4 x 48 GiB on 137, one at a time: longest wait, s", longest, 32.0);
    table.at_least("4 x 48 GiB on 137, one at a time: least part", part, 0.24);

    let mut node = Node::new(139 * GIB, 2);
    for row in 0..2 {
        node.start(row, 90 * GIB, Program::Job { work_ns: 120 * SEC });
    }
    let took = makespan(&mut node, 2) / 240.0;
    table.at_most("2 x 90 GiB on 139, busy: makespan / serial", took, 1.10);

    let mut node = Node::new(139 * GIB, 2);
    for row in 0..2 {
        node.start(row, 90 * GIB, Program::Job { work_ns: 60 * SEC }).copies_bytes = 0;
        node.run_for(SEC);
    }
    let took = makespan(&mut node, 2) / 119.0;
    table.at_most("2 x 90 GiB on 139, no copies made: makespan / serial", took, 1.10);

    let mut node = Node::new(139 * GIB, 2);
    let half = Program::PhasedJob { work_ns: 120 * SEC, on_ns: 15 * SEC, off_ns: 15 * SEC };
    for row in 0..2 {
        node.start(row, 90 * GIB, half);
    }
    // One after the other each takes its work and its pauses.
    let took = makespan(&mut node, 2) / (2.0 * 225.0);
    table.at_most("2 x 90 GiB on 139, busy half the time: makespan / serial", took, 0.80);

    // 12 GiB out and 12 GiB in, on a device that has room for one.
    let mut node = Node::new(12 * GIB, 2);
    node.start(0, 12 * GIB, Program::Phases { on_ns: 200 * MS, off_ns: 100 * SEC });
    node.run_for(SEC);
    node.start(1, 12 * GIB, Program::Phases { on_ns: 200 * MS, off_ns: 100 * SEC });
    node.run_for(SEC);
    node.proc_mut(0).program = Program::Busy;
    node.run_for(5 * SEC);
    table.at_most(
        "12 GiB out and in: grant to resident, s",
        seconds(node.proc(0).longest_wait_ns),
        0.28,
    );

    let mut node = Node::new(72 * GIB, 2);
    node.start(0, 60 * GIB, Program::Idle);
    node.run_for(SEC);
    node.start(1, 60 * GIB, Program::Idle);
    node.run_for(3 * SEC);
    node.proc_mut(0).program = Program::Busy;
    node.run_for(3 * SEC);
    node.proc_mut(0).program = Program::Idle;
    node.proc_mut(1).program = Program::Busy;
    node.run_for(3 * SEC);
    let waits = (0..2).map(|row| node.proc(row).longest_wait_ns).max().unwrap_or(0);
    table.at_most("2 x 60 GiB on 72, by turns: request to resident, s", seconds(waits), 1.4);
    table.end();
}
