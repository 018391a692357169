//! Weights hold from fresh starts: whenever who begins, each has its part from a second after the last has launched, and
//! nearly so before.
//!
//! Two or three queues of weights 1:3, 1:9 or 2:1:1 begin within a third of a second, drawn. Judged is each one's part of what
//! all had: over five seconds, and over the second before those, in which what was queued before the last came ends. Once
//! "everybody open" was kept although it breaks the weights: 46 and 46 on an H200, in a quarter of all starts of 1:3.
//!
//! `FROM` and `SEEDS` choose others; of a thousand (`SEEDS=1000`) the worst is 3.15 points off in the first second, and 0.47
//! in the five behind it. The worst of each kind are printed.

mod workers;

use divvy_searcher::case::{Case, Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::choice::Choices;
use divvy_searcher::oracle;
use divvy_searcher::program::{named, unit_ns};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, gated, world};

const SEEDS: u64 = 120;
const WEIGHTS: [&[u32]; 3] = [&[100, 300], &[100, 900], &[200, 100, 100]];
/// When the last begins at the latest.
const LATEST_NS: u64 = 300 * MS;

/// What came of a start.
struct Start {
    seed: u64,
    weights: &'static [u32],
    unit_ns: u64,
    /// Percent that each had of what all had in the first second, and in the five behind it.
    parts: [Vec<f64>; 2],
    /// Percent of the device that all had in those.
    all: [f64; 2],
}

fn start(seed: u64) -> Start {
    let choices = Choices::new(seed).named("start");
    let weights = WEIGHTS[(seed % WEIGHTS.len() as u64) as usize];
    let mut longest_ns = 0;
    let mut plan = |(nth, weight): (u64, u32)| {
        let of = |name: &str| choices.named(name).of(nth);
        let ops = named::flood(*of("length").one_of(&[MS, 5 * MS]).unwrap_or(&MS));
        longest_ns = unit_ns(&ops).max(longest_ns);
        let start_ns = of("start").below(LATEST_NS);
        let process = ProcessPlan { start_ns, ops, ..ProcessPlan::default() };
        TenantPlan { weight, processes: vec![process], ..TenantPlan::default() }
    };
    let tenants: Vec<_> = (0..).zip(weights.iter().copied()).map(&mut plan).collect();
    let begun_ns = tenants.iter().map(|tenant| tenant.processes[0].start_ns).max().unwrap_or(0);
    let ends_ns = [0, SECOND, 6 * SECOND].map(|ns| begun_ns + ns);
    let (seed_of_knobs, run_ns) = (choices.named("environment").word(), ends_ns[2] + MS);
    let knobs = Knobs { seed: seed_of_knobs, run_ns, heal_ns: run_ns, ..Knobs::default() };
    let knobs = Knobs { has_daemon: true, ..knobs };
    let case = Case { knobs, tenants, devs: Vec::new() };
    let mut looks: Vec<(u64, Vec<u64>)> = Vec::new();
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        if ends_ns.get(looks.len()).is_some_and(|end_ns| now_ns >= *end_ns) {
            let tenants = 0..weights.len() as u32;
            looks.push((now_ns, tenants.map(|tenant| world.had(tenant, 0).busy_ns).collect()));
        }
    });
    assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
    let had = |at: usize| -> Vec<f64> {
        let (from, to) = (&looks[at].1, &looks[at + 1].1);
        from.iter().zip(to).map(|(from, to)| (to - from) as f64).collect()
    };
    let sum = |at| had(at).iter().sum::<f64>();
    let parts = [0, 1].map(|at| had(at).iter().map(|had| 100.0 * had / sum(at)).collect());
    let all = [0, 1].map(|at| 100.0 * sum(at) / (looks[at + 1].0 - looks[at].0) as f64);
    Start { seed, weights, unit_ns: longest_ns, parts, all }
}

#[test]
fn weights_hold_from_any_start() {
    let mut rows = Rows::default();
    let mut worst = std::collections::BTreeMap::new();
    for start in workers::of_seeds(workers::chosen(SEEDS), start) {
        let Start { seed, weights, unit_ns, parts, all } = start;
        let of_all = weights.iter().sum::<u32>();
        for (at, when) in ["first second", "five seconds"].into_iter().enumerate() {
            let within = if at == 0 { oracle::first_second(unit_ns) } else { oracle::together() };
            for (nth, (weight, part)) in weights.iter().zip(&parts[at]).enumerate() {
                let due = 100.0 * f64::from(*weight) / f64::from(of_all);
                let what = format!("{weights:?}, seed {seed}, {nth} in the {when}");
                rows.row(&what, due, within, *part);
                let off = worst.entry(format!("{weights:?} in the {when}")).or_insert((0.0, seed));
                if (part - due).abs() > off.0 {
                    *off = ((part - due).abs(), seed);
                }
            }
            let within = oracle::handed_over().or_more().of(100);
            rows.row(&format!("{weights:?}, seed {seed}, all in the {when}"), 100, within, all[at]);
        }
    }
    for (what, (points, seed)) in worst {
        println!("{what}: {points:.2} points off at most, seed {seed}");
    }
    rows.judge();
}
