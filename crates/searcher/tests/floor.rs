//! The floor of low priority: progress of tenants beside one of higher priority that always works,
//! and what that costs the higher one.

mod workers;

use divvy_searcher::case::{Case, Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::choice::Choices;
use divvy_searcher::program::{Length, Op, Ops, named};
use divvy_searcher::steps::{self, Reached, Who, Work};
use divvy_searcher::{MS, SECOND, US, gated, oracle, world};

const DECODE: Work = Work::Steps(4_150 * US, 150 * US);
const FLOOD: Work = Work::Flood(400 * US);

/// Judges tenants beside each other as they are without a floor; the faults that they have.
fn judge(what: &str, tenants: &[Who]) -> Vec<String> {
    let (reached, without) = (steps::run(tenants, &[]), steps::run_without_floor(tenants));
    let highest = tenants.iter().map(|who| who.priority).max();
    let is_high = |at: &usize| Some(tenants[*at].priority) == highest;
    let (high, lower): (Vec<_>, Vec<_>) = (0..tenants.len()).partition(is_high);
    for (at, who) in tenants.iter().enumerate() {
        let has = format!("{}\n  without {}", reached[at].text(), without[at].text());
        println!("{what}, {}: {has}", who.priority);
    }
    let sum =
        |of: &[Reached], these: &[usize]| -> f64 { these.iter().map(|at| of[*at].progress).sum() };
    let mut faults = Vec::new();
    let (low, had) = (sum(&reached, &lower), sum(&without, &lower));
    if low < oracle::least_floor() || low > oracle::most_floor(had) {
        faults.push(format!("{what}: the lower ones have {low:.2}"));
    }
    let taken: f64 = lower.iter().map(|at| reached[*at].part).sum();
    let (due, has) = (sum(&without, &high), sum(&reached, &high));
    let due = due.min(100.0);
    let is_steps = high.iter().all(|at| tenants[*at].step_ns().is_some());
    if is_steps && !oracle::above_floor(taken).holds(due, has) {
        faults.push(format!("{what}: the higher ones have {has:.2} of {due:.2}"));
    }
    // Of several that are alike one is passed over now and then.
    let passed_ns = if high.len() > 1 { tenants[high[0]].unit_ns() } else { 0 };
    let kernel_ns = lower.iter().map(|at| tenants[*at].unit_ns()).max().unwrap_or(0);
    for at in high {
        for (percent, more_ns) in
            [(99, oracle::piece_ns(kernel_ns)), (100, oracle::two_pieces_ns(kernel_ns))]
        {
            let has_ns = [&reached, &without].map(|all| all[at].percentile_ns(percent));
            if has_ns[0] > has_ns[1] + more_ns + passed_ns {
                faults.push(format!("{what}, {at}: {percent} % take {has_ns:?}"));
            }
        }
    }
    faults
}

#[test]
fn lower_ones_have_the_floor() {
    let high = |work| Who::of(work).goes(1);
    let low = Who::of;
    let mut faults = Vec::new();
    let mut row = |what: &str, tenants: &[Who]| faults.extend(judge(what, tenants));
    row("decode, flood", &[high(DECODE), low(FLOOD)]);
    row("decode, eager", &[high(DECODE), low(Work::Eager(60 * MS))]);
    row("decode, decode", &[high(DECODE), low(DECODE)]);
    row("flood, flood", &[high(FLOOD), low(FLOOD)]);
    row("flood of 20 us, flood", &[high(Work::Flood(20 * US)), low(FLOOD)]);
    row("flood, decode", &[high(FLOOD), low(DECODE)]);
    row("eager, flood", &[high(Work::Eager(30 * MS)), low(FLOOD)]);
    row("two decodes, flood", &[high(DECODE), high(DECODE), low(FLOOD)]);
    row("decode, two floods", &[high(DECODE), low(FLOOD), low(FLOOD)]);
    row("three levels", &[high(DECODE), low(FLOOD), low(FLOOD).goes(-1)]);
    for us in [10, 50, 100, 200, 1_000, 3_000, 10_000] {
        row(&format!("decode, {us} us"), &[high(DECODE), low(Work::Flood(us * US))]);
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// One or two of higher priority, and one to three others, by seed.
fn drawn(seed: u64) -> Vec<Who> {
    let choices = Choices::new(seed).named("floor");
    let of = |name: &str, at: u64| choices.named(name).of(at);
    let stepper = |ns: u64, gap: Choices| Work::Steps(ns, gap.spread(20 * US, ns / 10));
    let ns = choices.named("step").spread(500 * US, 15 * MS);
    let high = (0..choices.named("high").between(1, 2)).map(|at| {
        let work = match choices.named("flood").is(300_000) {
            true => Work::Flood(of("length", at).spread(20 * US, MS)),
            false => stepper(ns, choices.named("gap")),
        };
        Who::of(work).goes(1)
    });
    let low = (0..choices.named("low").between(1, 3)).map(|at| {
        let length_ns = of("low length", at).spread(10 * US, 3 * MS);
        let work = match of("low work", at).below(4) {
            0 => stepper(length_ns.max(200 * US), of("low gap", at)),
            1 => Work::Eager(60 * MS),
            _ => Work::Flood(length_ns),
        };
        Who::of(work).goes(-(of("low level", at).below(2) as i32))
    });
    high.chain(low).collect()
}

#[test]
fn drawn_ones_have_it_too() {
    let verdicts = workers::of_seeds(workers::chosen(30), |seed| {
        let tenants = drawn(seed);
        let faults = judge(&format!("seed {seed}"), &tenants);
        (!faults.is_empty()).then(|| format!("{faults:?} {tenants:?}"))
    });
    let faults: Vec<_> = verdicts.iter().flatten().collect();
    assert!(faults.is_empty(), "{} of {}: {faults:#?}", faults.len(), verdicts.len());
}

/// The longest time between two ends of the first tenant's kernels, of which the second's priority is lower.
fn longest_ns(high: Ops, low: Ops, floor_ppm: u64) -> u64 {
    let plan = |ops, priority| {
        let processes = vec![ProcessPlan { ops, ..ProcessPlan::default() }];
        TenantPlan { priority, processes, ..TenantPlan::default() }
    };
    let run_ns = 12 * SECOND;
    let knobs = Knobs { run_ns, heal_ns: run_ns, has_daemon: true, floor_ppm, ..Knobs::default() };
    let case = Case { knobs, tenants: vec![plan(high, 1), plan(low, 0)], devs: Vec::new() };
    let (mut kernels, mut ended_ns, mut longest_ns) = (0, 0, 0);
    world::run_with(&case, &gated::shipped(), |world, now_ns| {
        let seen = world.had(0, 0).kernels;
        if seen == kernels {
            return;
        }
        if ended_ns > 2 * SECOND {
            longest_ns = longest_ns.max(now_ns - ended_ns);
        }
        (kernels, ended_ns) = (seen, now_ns);
    });
    longest_ns
}

/// A decode server that rests for a moment after some steps: what a lower one is owed by then is no turn to its end. It
/// waited for 5.4 ms more than without a floor.
#[test]
fn a_pause_of_a_higher_one_makes_no_piece_longer() {
    let mut faults = Vec::new();
    for (steps, pause_us, low_ns) in
        [(12, 1_500, 20 * US), (19, 1_500, 400 * US), (21, 3_000, 20 * US), (25, 600, 400 * US)]
    {
        let step = vec![
            Op::Graph { key: 1, length: Length::Fixed(4_150 * US), stream: 0, call_ns: None },
            Op::Sync,
            Op::Compute { ns: 150 * US },
        ];
        let rounds = Op::Repeat { times: steps, ops: step };
        let high = named::forever(vec![rounds, Op::Pause { ns: pause_us * US }]);
        let of = |floor_ppm| longest_ns(high.clone(), named::flood(low_ns), floor_ppm);
        let (has_ns, had_ns) = (of(Knobs::default().floor_ppm), of(0));
        let row = format!("{steps} steps, {pause_us} us, {low_ns} ns: {has_ns} and {had_ns}");
        println!("{row}");
        if has_ns > had_ns + oracle::piece_ns(low_ns) {
            faults.push(row);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
