//! Programs of one thread from wide ranges, alone under a cap, from the first launch on: what was had beyond the charges
//! grows by no more than a bound over any stretch.
//!
//! Each program has runs of one to three kernels, 1 to 1,000 of each, of 2 us to 200 ms. It waits every 1 to 1,000
//! launches, by context, stream or queries. Some launch elsewhere once, or once in each round; some launch graphs of one
//! key whose lengths differ; some let the host compute for as long as their kernels run, so that a wait finds nothing.

mod table;

use divvy_searcher::card::FULL_PPM;
use divvy_searcher::case::{Case, Knobs};
use divvy_searcher::choice::Choices;
use divvy_searcher::program::{Length, Op, Ops};
use divvy_searcher::{MS, SECOND, US, gated, oracle, world};
use table::capped;

/// Seeds of a run: those that take longest to be seen are among them.
const SEEDS: u64 = 60;
/// Those of which are played beside a thread that waits.
const BESIDE_WAITS: u64 = 20;
const RUN_NS: u64 = 12 * SECOND;
/// Longest round of a program's kernels.
const ROUND_NS: u64 = 1_500 * MS;

/// A program, and what it submits at most between two waits.
struct Program {
    what: String,
    ops: Ops,
    period_ns: u64,
}

/// Draws runs: lengths, and how often each follows itself.
fn runs(c: Choices) -> Vec<(u64, u64)> {
    let kinds = c.named("kinds").between(1, 3);
    let run = |kind: u64, longest_ns: u64| {
        let ns = c.named("ns").of(kind).spread(2 * US, longest_ns);
        (ns, c.named("run").of(kind).spread(1, (ROUND_NS / kinds / ns).clamp(1, 1_000)))
    };
    let mut runs: Vec<_> = (0..kinds).map(|kind| run(kind, 200 * MS)).collect();
    if kinds == 1 {
        runs.push(run(9, 50 * US));
    }
    runs
}

fn program(seed: u64) -> Program {
    let c = Choices::new(seed).named("wide");
    let is_graph = c.named("graphs").is(300_000);
    let launch = |ns: u64, stream: u32| match is_graph {
        true => Op::Graph { key: 1, length: Length::Fixed(ns), stream, call_ns: Some(6 * US) },
        false => Op::Launch { key: 1, length: Length::Fixed(ns), stream, width_ppm: FULL_PPM },
    };
    let elsewhere = c.named("other").below(3);
    let (wait, every) = (c.named("wait").below(4), c.named("every").spread(1, 1_000));
    let hides = c.named("hides").is(200_000);
    let runs = runs(c);
    let wait_op = match wait {
        0 => Op::Sync,
        1 => Op::Poll { stream: 1 },
        _ => Op::StreamSync { stream: 1 },
    };
    let mut round = Vec::new();
    if elsewhere == 2 {
        round.push(launch(5 * US, 2));
    }
    let (mut launches, mut ahead_ns, mut period_ns) = (0, 0, 0);
    for (ns, times) in &runs {
        let mut left = *times;
        while left != 0 {
            let now = left.min(every - launches);
            let times = u32::try_from(now).expect("a thousand at most");
            round.push(Op::Repeat { times, ops: vec![launch(*ns, 1)] });
            left -= now;
            ahead_ns += now * ns;
            period_ns = period_ns.max(ahead_ns);
            launches += now;
            if launches == every {
                if hides {
                    round.push(Op::Compute { ns: now * ns + 50 * US });
                }
                round.push(wait_op.clone());
                (launches, ahead_ns) = (0, 0);
            }
        }
    }
    if hides && launches != 0 {
        let (ns, times) = runs.last().copied().expect("two at least");
        round.push(Op::Compute { ns: launches.min(times) * ns + 50 * US });
    }
    round.push(wait_op);
    let warm_up = if elsewhere >= 1 { vec![launch(10 * US, 0), Op::Sync] } else { Vec::new() };
    let ops = warm_up.into_iter().chain([Op::Repeat { times: 0, ops: round }]).collect();
    let what = format!(
        "runs {runs:?}, a wait ({wait}) every {every}, elsewhere {elsewhere}, graphs {is_graph}, hides {hides}"
    );
    Program { what, ops, period_ns }
}

/// Returns the most that was had and not charged over any stretch, and what was had in all.
fn uncharged_ns(seed: u64, cap: u64, ops: &Ops) -> (u64, u64) {
    let has_daemon = seed.is_multiple_of(2);
    let knobs = Knobs { seed, run_ns: RUN_NS, heal_ns: RUN_NS, has_daemon, ..Knobs::default() };
    let case = Case { knobs, tenants: vec![capped(cap, ops.clone())], devs: Vec::new() };
    let (mut looks, mut least, mut most, mut had_ns) = (0, i64::MAX, 0, 0);
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        if now_ns >= looks * 100 * MS {
            looks += 1;
            had_ns = world.had(0, 0).busy_ns;
            let debt_ns = had_ns.cast_signed() - world.charged_ns(0, 0).cast_signed();
            least = least.min(debt_ns);
            most = most.max(debt_ns - least);
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    (most.cast_unsigned(), had_ns)
}

#[test]
fn no_program_has_more_than_a_bound_uncharged() {
    judge(SEEDS, |program| program);
}

/// The same beside a thread of the program's that waits in the driver all the time, for a host function that does not end.
#[test]
fn no_program_hides_behind_a_thread_that_waits() {
    judge(BESIDE_WAITS, |mut program| {
        let (length_ns, stream) = (RUN_NS, 9);
        let ops = vec![Op::HostFunction { length_ns, stream }, Op::StreamSync { stream }];
        program.ops.insert(0, Op::Thread { ops });
        program
    });
}

/// Plays the programs of so many seeds, changed as asked, and fails with those beyond their bound.
fn judge(seeds: u64, changed: impl Fn(Program) -> Program) {
    let mut beyond = Vec::new();
    for seed in 0..seeds {
        let Program { what, ops, period_ns } = changed(program(seed));
        for cap in [30, 70] {
            let (uncharged_ns, had_ns) = uncharged_ns(seed, cap, &ops);
            let bound_ns = oracle::uncharged_ns(period_ns, RUN_NS);
            let percent = 100.0 * had_ns as f64 / RUN_NS as f64;
            let ms = [uncharged_ns, bound_ns].map(|ns| ns / MS);
            let line = format!(
                "{seed} at {cap}: had {percent:.1}, {ms:?} ms uncharged and its bound; {what}"
            );
            println!("{line}");
            if uncharged_ns > bound_ns {
                beyond.push(line);
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}
