//! Tenants' memory: what is drawn holds, and so does what was found once.
//!
//! `FROM=S SEEDS=1` plays one seed; one that breaks is made small and printed as JSON, to be kept in `cases/memory`.

mod workers;

use divvy_searcher::memory::case::{self, KeptMemory};
use divvy_searcher::memory::{run, smaller, verdict};

/// Cases of a run of CI.
const SEEDS: u64 = 200;
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
