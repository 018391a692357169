//! Some cases of each kind give the trace that is stored, whatever machine they run on.
//!
//! A hash is over every event of a run, so that any change of what the gates do, or of the simulated card, shows here
//! first, and which kinds of cases it touches. That says nothing of whether it is right: other tests judge. Where it is
//! meant, `DIVVY_ACCEPT=1 cargo test -p divvy-searcher --test traces` stores the new ones.

use divvy_searcher::case::Case;
use divvy_searcher::{SECOND, beside, gated, judge, lone, mixed, world};

const STORED: &str = include_str!("traces.txt");

/// The case of a seed, no longer than a second.
fn case(kind: &str, seed: u64) -> Case {
    let mut case = match kind {
        "short" => judge::short_case(seed),
        "lone" => lone::case(seed),
        "beside" => beside::case(seed, false),
        "caps" => beside::case(seed, true),
        _ => mixed::case(seed),
    };
    case.knobs.run_ns = case.knobs.run_ns.min(SECOND);
    case
}

#[test]
fn traces_are_what_is_stored() {
    let kinds = [("short", 40), ("lone", 8), ("beside", 8), ("caps", 8), ("mixed", 8)];
    let line = |kind: &str, seed: u64| {
        let report = world::run(&case(kind, seed), &gated::shipped());
        let had: Vec<_> = report
            .had
            .iter()
            .map(|had| had.iter().map(|on| on.busy_ns).sum::<u64>().to_string())
            .collect();
        format!("{kind} {seed} {:016x} {} ns\n", report.hash, had.join(" "))
    };
    let lines: String = kinds
        .iter()
        .flat_map(|(kind, seeds)| (0..*seeds).map(move |seed| line(kind, seed)))
        .collect();
    if std::env::var_os("DIVVY_ACCEPT").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces.txt");
        std::fs::write(path, &lines).expect("the file of this test can be written");
        return;
    }
    let others: Vec<_> =
        lines.lines().zip(STORED.lines()).filter(|(now, stored)| now != stored).collect();
    assert!(
        others.is_empty() && lines.lines().count() == STORED.lines().count(),
        "{} of {} traces are others: if that is meant, DIVVY_ACCEPT=1 stores them; the first: {:#?}",
        others.len(),
        STORED.lines().count(),
        others.iter().take(3).collect::<Vec<_>>()
    );
}
