//! Drawn cases of several tenants with what ships in them, in which everything comes together, and that it does: each state
//! is reached beside each other one, and many in one run.
//!
//! Of each seed: nothing hangs, no capture breaks, books add up, and no tenant has more than its cap can have saved up. `FROM`
//! and `SEEDS` choose others.

mod workers;

use std::collections::{BTreeMap, BTreeSet};

use divvy_searcher::mixed::{self, State};
use divvy_searcher::{gated, judge, world};

const SEEDS: u64 = 160;
/// Of so many seeds each state is reached in one at least, and each pair of them at all.
const ONE_IN: u64 = 20;
/// Some run reaches so many states at once.
const TOGETHER: usize = 8;

fn look(seed: u64) -> (Option<String>, BTreeSet<State>) {
    let case = mixed::case(seed);
    let report = world::run(&case, &gated::shipped());
    let wrong = judge::broken(&report).or_else(|| mixed::above_cap(&case, &report));
    (wrong.map(|what| format!("seed {seed}: {what}")), mixed::reached(&case, &report))
}

#[test]
fn everything_comes_together_and_nothing_breaks() {
    let seeds = workers::chosen(SEEDS);
    let number = seeds.end - seeds.start;
    let (wrong, reached): (Vec<_>, Vec<_>) = workers::of_seeds(seeds, look).into_iter().unzip();
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let mut counts: BTreeMap<(State, State), u64> = BTreeMap::new();
    for states in &reached {
        for pair in states.iter().flat_map(|a| states.iter().map(move |b| (*a, *b))) {
            *counts.entry(pair).or_default() += 1;
        }
    }
    let pairs = State::ALL.iter().flat_map(|a| State::ALL.iter().map(move |b| (*a, *b)));
    for pair in pairs.filter(|(a, b)| a <= b) {
        let count = counts.get(&pair).copied().unwrap_or(0);
        println!("{pair:?} {count}");
        let least = if pair.0 == pair.1 { number / ONE_IN } else { number.min(SEEDS) / SEEDS };
        assert!(count >= least, "{pair:?} in {count} of {number} seeds");
    }
    let fullest = reached.iter().max_by_key(|states| states.len()).expect("a seed was run");
    println!("the fullest run: {fullest:?}");
    assert!(number < SEEDS || fullest.len() >= TOGETHER, "{fullest:?}");
}
