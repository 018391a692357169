//! Tenants' memory: what is drawn holds, and so does what was found once.
//!
//! `FROM=S SEEDS=1` plays one seed; one that breaks is made small and printed as JSON, to be kept in `cases/memory`. Ten
//! thousand are played by hand: `cargo test --package divvy-searcher --test memory -- --ignored --nocapture`. What they saw is
//! written to the file that `DIVVY_RESULT` names, if any.

mod workers;

use divvy_searcher::memory::case::{self, KeptMemory, MemoryChange};
use divvy_searcher::memory::{Fault, MemoryCase, run, smaller, verdict};

/// Cases of a run of CI.
const SEEDS: u64 = 200;
/// Cases of a run by hand.
const MANY: u64 = 10_000;
/// Cases among which each fault is found.
const FAULTS: u64 = 800;
/// Tries to make a case small.
const TRIES: usize = 600;

#[test]
fn drawn_cases_hold() {
    let seeds = workers::chosen(SEEDS);
    let number = seeds.end - seeds.start;
    let seen = workers::of_seeds(seeds, |seed| (seed, run::run(&case::draw(seed))));
    let moved: u64 = seen.iter().map(|(_, report)| report.moved_bytes[0]).sum();
    let hand_overs: u64 = seen.iter().map(|(_, report)| report.hand_overs).sum();
    let refused: u64 = seen.iter().map(|(_, report)| report.refused).sum();
    println!(
        "{number} cases, {hand_overs} hand-overs, {} GiB left, {refused} blocks refused",
        moved >> 30
    );
    let mut wrong: Vec<_> = seen.iter().filter(|(_, report)| !report.broken.is_empty()).collect();
    wrong.sort_by_key(|(seed, _)| *seed);
    for (seed, report) in &wrong {
        println!("{seed}: {:?}", report.broken);
    }
    let Some((seed, report)) = wrong.first() else { return };
    let kind = |text: &str| {
        text.split_once(" ms: ").map_or("", |(_, what)| what).chars().take(12).collect::<String>()
    };
    let of_kind = report.broken.first().map(|what| kind(what));
    let fails =
        |case: &case::MemoryCase| run::run(case).broken.first().map(|what| kind(what)) == of_kind;
    let small = smaller::smaller(case::draw(*seed), TRIES, &fails);
    let kept = KeptMemory { found: run::run(&small).broken.join("; "), case: small };
    let text = serde_json::to_string_pretty(&kept).expect("plain data has a form");
    panic!("{} of {number} cases broke; seed {seed}, made small:\n{text}", wrong.len());
}

#[test]
fn a_case_is_the_same_run_again() {
    for seed in workers::chosen(8) {
        let case = case::draw(seed);
        assert_eq!(run::run(&case), run::run(&case), "seed {seed}");
    }
}

#[test]
fn every_kept_case_holds() {
    for path in KeptMemory::files().expect("the folder of cases") {
        let kept = KeptMemory::read(&path).expect("a kept case");
        let verdict = verdict(0, &kept.case);
        assert!(verdict.holds(), "{}: {}; it found: {}", path.display(), verdict.text, kept.found);
    }
}

/// Whether a case does what a rule is about. Another is the same run with the rule and without.
fn is_about(fault: Fault, case: &MemoryCase) -> bool {
    let happens = |is: fn(MemoryChange) -> bool| case.events.iter().any(|event| is(event.what));
    match fault {
        Fault::OpensOverAway => {
            happens(|what| matches!(what, MemoryChange::Elsewhere { is_bare: true, .. }))
        }
        Fault::EndsWithContext => happens(|what| {
            let is_bare = matches!(what, MemoryChange::Elsewhere { is_bare: true, .. });
            is_bare || matches!(what, MemoryChange::NoContext { .. })
        }),
        Fault::WaitsWithoutEnd => {
            happens(|what| matches!(what, MemoryChange::Waits { is_green: true, .. }))
        }
        Fault::Untold => true,
        Fault::BoundKeepsOut => case.capacity_mib > 0,
    }
}

#[test]
fn each_rule_that_is_left_out_is_found() {
    for fault in Fault::ALL {
        let broken = |seed: u64| {
            let case = case::draw(seed);
            let report = is_about(fault, &case).then(|| run::run_with(&case, Some(fault)))?;
            Some((seed, report.broken.first()?.clone()))
        };
        // The first that find it, a few at a time.
        let seeds = workers::chosen(FAULTS);
        let mut found: Vec<_> = Vec::new();
        for from in seeds.clone().step_by(40) {
            let until = seeds.end.min(from + 40);
            found.extend(workers::of_seeds(from..until, broken).into_iter().flatten());
            if !found.is_empty() && std::env::var_os("SEEDS").is_none() {
                break;
            }
        }
        found.sort();
        for (seed, what) in &found {
            println!("{fault:?}: seed {seed}: {}", what.chars().take(120).collect::<String>());
        }
        let (seed, _) = found.first().unwrap_or_else(|| panic!("{fault:?}: not in {FAULTS} cases"));
        let honest = run::run(&case::draw(*seed)).broken;
        assert!(honest.is_empty(), "seed {seed} breaks without {fault:?} too: {honest:?}");
    }
}

#[test]
#[ignore = "six minutes of one processor, by hand"]
fn many_drawn_cases_hold() {
    let (seeds, begun) = (workers::chosen(MANY), std::time::Instant::now());
    let run_of = |seed: u64| {
        // One that panics is named too, and the others are run.
        let report = std::panic::catch_unwind(|| run::run(&case::draw(seed)));
        let panics = || run::MemoryReport { broken: vec!["panics".to_owned()], ..<_>::default() };
        (seed, report.unwrap_or_else(|_| panics()))
    };
    let seen = workers::of_seeds(seeds.clone(), run_of);
    let sum = |of: fn(&run::MemoryReport) -> u64| seen.iter().map(|(_, r)| of(r)).sum::<u64>();
    let mut broken: Vec<_> = seen.iter().filter(|(_, report)| !report.broken.is_empty()).collect();
    broken.sort_by_key(|(seed, _)| *seed);
    let broken: Vec<_> = broken
        .iter()
        .map(|(seed, report)| serde_json::json!({ "seed": seed, "what": report.broken }))
        .collect();
    let result = serde_json::json!({
        "benchmark": "searcher, memory", "version": env!("CARGO_PKG_VERSION"),
        "from": seeds.start, "to": seeds.end, "seconds": begun.elapsed().as_secs(),
        "hand_overs": sum(|report| report.hand_overs),
        "gib_left": sum(|report| report.moved_bytes[0]) >> 30,
        "gib_came_back": sum(|report| report.moved_bytes[1]) >> 30,
        "blocks_refused": sum(|report| report.refused),
        "broken": broken,
    });
    let text = serde_json::to_string_pretty(&result).expect("plain data has a form");
    println!("{text}");
    if let Some(path) = std::env::var_os("DIVVY_RESULT") {
        std::fs::write(path, text + "\n").expect("the result can be written");
    }
    assert!(broken.is_empty(), "{} cases broke", broken.len());
}
