//! `divvy bench share --family varied` and `threads`: programs whose kernels take now this long, now that,
//! under one name and one grid, and programs of several threads.
//!
//! One program at a time under a cap (see [`super::cell`]). Promises: what it did is what its kernels counted,
//! each length for itself, at what a kernel of that length takes alone; a run has at least ten rounds of the
//! program, so that where it is cut is no part of the figure. A round that is longer than a window of a second
//! may be in one and not in the next: windows are judged less one round.

use std::time::Duration;

use anyhow::Result;

use super::busy::{RunLength, Work};
use super::cell::{Cell, Full};
use super::kernel::{Kernels, text};
use super::running::Bench;
use super::timing::{SECOND_NS, Timing};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Seconds of a run, unless the command line says otherwise.
const SECONDS: f64 = 10.0;
/// Rounds that a run has at the least, and one that only shows that everything works.
const LEAST_ROUNDS: f64 = 10.0;
const QUICK_ROUNDS: f64 = 2.0;
/// Points that a window may be off by, beside a round.
const WINDOW_POINTS: f64 = 5.0;
/// Lengths that a program has whose kernels grow.
const STEPS: u32 = 24;

/// A program.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    /// The mode of bench/clients/varied.c.
    mode: &'static str,
    /// Lengths of its kernels, and how often each is in a round.
    round: Vec<(u64, u64)>,
    full: Full,
    mean_points: f64,
    caps: &'static [u32],
}

/// Lengths of kernels, and how often each is in a round.
type Round = &'static [(u64, u64)];

/// Name, mode and round.
const VARIED: [(&str, &str, Round); 10] = [
    ("mix2: 50 us and 2 ms by turns", "each", &[(50 * US, 1), (2 * MS, 1)]),
    ("liar: 200 of 5 us then 4 of 40 ms", "burst", &[(5 * US, 200), (40 * MS, 4)]),
    ("mixq: 19 of 50 us then one of 20 ms", "burst", &[(50 * US, 19), (20 * MS, 1)]),
    ("graphupd: one graph of 5 us and 20 ms by turns", "graph", &[(5 * US, 1), (20 * MS, 1)]),
    ("newproc: a process for each two of 300 ms", "process", &[(300 * MS, 2)]),
    ("grow: 20 us to 2 ms over the run", GROW, &[(20 * US, 1), (2 * MS, 1)]),
    ("poll: 100 and 700 us by turns and polled", "poll", &[(100 * US, 1), (700 * US, 1)]),
    ("alternate: 50 and 150 us by turns", "each", &[(50 * US, 1), (150 * US, 1)]),
    ("hand: 20 us to 2 ms over the run, two streams by turns", HAND, &[(20 * US, 1), (2 * MS, 1)]),
    ("two: 60 and 200 us on two streams", STREAMS, &[(60 * US, 1), (200 * US, 1)]),
];
const GROW: &str = "grow";
const HAND: &str = "hand";
const STREAMS: &str = "streams";
/// Those that show that everything works: each way to do without an estimate once.
const QUICK: [&str; 4] = ["liar", "graphupd", "newproc", "poll"];

const THREADS: [u64; 3] = [2, 4, 16];
const THREADS_NS: [u64; 3] = [20 * US, 200 * US, 5 * MS];
/// Of one stream so many.
const SHARING: u64 = 4;
/// Those that wait otherwise, and of how short kernels: number, length, mode and what is said of them.
const WAITING: [(u64, u64, &str, &str); 9] = [
    (2, 8 * US, "threads", ""),
    (4, 8 * US, "threads", ""),
    (2, 8 * US, "context", ", for all of the context"),
    (4, 8 * US, "context", ", for all of the context"),
    (2, 20 * US, "sleepers", ", that sleep"),
    (4, 20 * US, "sleepers", ", that sleep"),
    (16, 20 * US, "sleepers", ", that sleep"),
    (16, 20 * US, "context-sleepers", ", that sleep for all of the context"),
    (16, 200 * US, "context-sleepers", ", that sleep for all of the context"),
];

/// Programs whose kernels differ.
pub(super) fn measure(bench: &mut Bench, timing: &Timing) -> Result<()> {
    let is_asked = |name: &str| !timing.quick || QUICK.iter().any(|quick| name.starts_with(quick));
    let programs =
        VARIED.iter().filter(|(name, ..)| is_asked(name)).map(|(name, mode, round)| Program {
            name: (*name).to_owned(),
            mode,
            round: round.to_vec(),
            // Kernels of several streams overlap where one of them ends.
            full: if *mode == STREAMS { Full::More } else { Full::Wall },
            mean_points: 1.5,
            caps: if timing.quick { &[30] } else { &[10, 30, 70] },
        });
    measure_all(bench, timing, &programs.collect::<Vec<_>>());
    Ok(())
}

/// Programs of several threads, each with a stream of its own, and some whose threads share one; which spin for their
/// stream, but for a few.
pub(super) fn measure_threads(bench: &mut Bench, timing: &Timing) -> Result<()> {
    let lengths = if timing.quick { &THREADS_NS[1..2] } else { &THREADS_NS };
    let counts = if timing.quick { &THREADS[1..2] } else { &THREADS };
    let program = |(threads, ns, mode, what): (u64, u64, _, &str)| Program {
        name: format!("{threads} threads of {}{what}", text(ns)),
        mode,
        // A thread counts for itself.
        round: (0..threads).map(|_| (ns, 1)).collect(),
        full: Full::More,
        mean_points: 1.0,
        caps: &[30],
    };
    let of_length = |ns: &u64| {
        let own = counts.iter().map(|threads| (*threads, *ns, "threads", ""));
        own.chain([(SHARING, *ns, "shared", " on one stream")]).collect::<Vec<_>>()
    };
    let waiting = if timing.quick { &WAITING[..0] } else { &WAITING };
    let programs = lengths.iter().flat_map(of_length).chain(waiting.iter().copied()).map(program);
    measure_all(bench, timing, &programs.collect::<Vec<_>>());
    Ok(())
}

impl Program {
    fn name_at(&self, cap: u32) -> String {
        format!("{} at {cap} %", self.name)
    }

    fn cells(&self, bench: &Bench, timing: &Timing, kernels: &mut Kernels) -> Result<Vec<Cell>> {
        let mut round = Vec::new();
        for (ns, times) in &self.round {
            round.push((kernels.get(bench, *ns)?, *times));
        }
        let caps = self.caps.iter().filter(|cap| bench.wants(&self.name_at(**cap)));
        let cells = caps.map(|cap| {
            let work = Work::varied(self.mode, &round);
            let rounds = if timing.quick { QUICK_ROUNDS } else { LEAST_ROUNDS };
            let least = rounds * work.unit_ns() / SECOND_NS as f64;
            let seconds = timing.seconds_or(SECONDS);
            let mut length = RunLength::seconds(seconds.max(least * 100.0 / f64::from(*cap)));
            // A long kernel is charged when it has ended; the share holds from then on.
            length.warm_up = length.warm_up.max(Duration::from_nanos(work.unit_ns() as u64 * 2));
            let mut alone = RunLength::seconds(seconds.min(1.5).max(least));
            let work = match round.as_slice() {
                [(from, _), (to, _)] if [GROW, HAND].contains(&self.mode) => {
                    let over = length.warm_up + length.measured;
                    // All of its lengths are in a run of this length alone.
                    alone = length;
                    Work::growing(self.mode, [*from, *to], STEPS, over.as_nanos() as u64)
                }
                _ => work,
            };
            Cell {
                name: self.name_at(*cap),
                cap: *cap,
                length,
                alone,
                full: self.full,
                compared: true,
                mean_points: self.mean_points,
                window_points: Some(WINDOW_POINTS + work.unit_ns() / SECOND_NS as f64 * 100.0),
                work,
            }
        });
        Ok(cells.collect())
    }
}

fn measure_all(bench: &mut Bench, timing: &Timing, programs: &[Program]) {
    let sides = bench.sides.iter().filter(|side| !side.is_native()).count();
    let names = |program: &Program| -> usize {
        program.caps.iter().filter(|cap| bench.wants(&program.name_at(**cap))).count()
    };
    let asked: Vec<&Program> = programs.iter().filter(|program| names(program) > 0).collect();
    bench.expect(asked.iter().map(|program| names(program)).sum::<usize>() * sides);
    let mut kernels = Kernels::default();
    for program in asked {
        if let Err(error) = measure_program(bench, timing, program, &mut kernels) {
            bench.fails(&format!("share, {}", program.name), error);
        }
    }
    kernels.check(bench);
}

fn measure_program(
    bench: &mut Bench,
    timing: &Timing,
    program: &Program,
    kernels: &mut Kernels,
) -> Result<()> {
    let cells = program.cells(bench, timing, kernels)?;
    let mut alone = None;
    for cell in cells {
        let alone = match alone {
            Some(alone) => alone,
            None => *alone.insert(cell.measure_alone(bench)?),
        };
        let found = cell.measure(bench, alone);
        kernels.keep(bench, cell.work.lengths_ns(), [found.reached, found.worst]);
    }
    Ok(())
}
