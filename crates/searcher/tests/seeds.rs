//! Drawn cases with what ships in them: programs, threads, deaths, stops, refusals, a daemon or none.
//!
//! Of each seed: nothing hangs, no call of the gates breaks a program's capture, the device's books add up, and
//! once more it is the same to the last event. Shares are other tests'.

mod workers;

use divvy_searcher::judge;
use divvy_searcher::{gated, world};

/// Seeds, and of how many each is run twice.
const SEEDS: u64 = 20_000;
const TWICE: u64 = 20;

#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    met: usize,
    kernels: u64,
}

fn look(seed: u64) -> Seen {
    let case = judge::short_case(seed);
    let report = world::run(&case, &gated::shipped());
    let mut wrong: Vec<_> =
        judge::broken(&report).map(|what| format!("seed {seed}: {what}")).into_iter().collect();
    if seed.is_multiple_of(TWICE) {
        let again = world::run(&case, &gated::shipped());
        if (again.hash, again.events) != (report.hash, report.events) {
            wrong.push(format!("seed {seed}: another run was another"));
        }
    }
    let kernels = report.had.iter().flatten().map(|had| had.kernels).sum();
    Seen { wrong, met: report.met.len(), kernels }
}

#[test]
fn nothing_hangs_and_no_capture_breaks() {
    let seeds = workers::chosen(SEEDS);
    let number = seeds.end - seeds.start;
    let seen = workers::of_seeds(seeds, look);
    let met: usize = seen.iter().map(|one| one.met).sum();
    let kernels: u64 = seen.iter().map(|one| one.kernels).sum();
    let wrong: Vec<_> = seen.into_iter().flat_map(|one| one.wrong).collect();
    println!("{number} seeds, {met} deviations, {kernels} kernels");
    assert!(
        wrong.is_empty(),
        "{} of {number} seeds: {:#?}",
        wrong.len(),
        wrong.iter().take(8).collect::<Vec<_>>()
    );
    assert!(
        3 * met as u64 > 2 * number && kernels > 50 * number,
        "{met} deviations, {kernels} kernels: too little happened"
    );
}
