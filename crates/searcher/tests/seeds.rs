//! Drawn cases with what ships in them: programs, threads, deaths, stops, refusals, a daemon or none.
//!
//! Of each seed: nothing hangs, no call of the gates breaks a program's capture, the device's books add up, and
//! once more it is the same to the last event. Shares are other tests'.

use divvy_searcher::case::Case;
use divvy_searcher::draw::{self, Size};
use divvy_searcher::gated;
use divvy_searcher::world::{self, End, Report};

/// Seeds, and of how many each is run twice.
const SEEDS: u64 = 6_000;
const TWICE: u64 = 20;
const WORKERS: u64 = 2;

/// A case with its deviations, which are drawn from what it does without any.
fn drawn(seed: u64) -> Case {
    let mut case = draw::case(seed, Size::Micro);
    let plain = world::run(&case, &gated::shipped());
    case.devs = draw::devs(&case, &plain.visits, seed);
    case
}

/// What is wrong with a run.
fn wrong(report: &Report) -> Option<String> {
    if report.end == End::Deadlock {
        return Some("threads are left that nothing wakes".to_owned());
    }
    if let Some(violation) = report.violations.first() {
        return Some(format!("{violation:?}"));
    }
    let unbalanced = report.books.iter().enumerate().find(|(device, books)| {
        let busy_ns: u64 = report.had.iter().map(|had| had[*device].busy_ns).sum();
        books.wall_ns() != report.wall_ns || books.busy_ns != busy_ns
    });
    unbalanced.map(|(device, books)| format!("device {device}: {books:?}"))
}

#[test]
fn nothing_hangs_and_no_capture_breaks() {
    let work = |worker: u64| {
        let (mut wrongs, mut met, mut kernels) = (Vec::new(), 0, 0);
        for seed in (worker..SEEDS).step_by(WORKERS as usize) {
            let case = drawn(seed);
            let report = world::run(&case, &gated::shipped());
            wrongs.extend(wrong(&report).map(|what| format!("seed {seed}: {what}")));
            if seed.is_multiple_of(TWICE) {
                let again = world::run(&case, &gated::shipped());
                if (again.hash, again.events) != (report.hash, report.events) {
                    wrongs.push(format!("seed {seed}: another run was another"));
                }
            }
            met += report.met.len();
            kernels += report.had.iter().flatten().map(|had| had.kernels).sum::<u64>();
        }
        (wrongs, met, kernels)
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let (mut wrongs, mut met, mut kernels) = (Vec::new(), 0, 0);
    for one in all {
        wrongs.extend(one.0);
        met += one.1;
        kernels += one.2;
    }
    println!("{SEEDS} seeds, {met} deviations, {kernels} kernels");
    assert!(
        wrongs.is_empty(),
        "{} of {SEEDS} seeds: {:#?}",
        wrongs.len(),
        &wrongs[..wrongs.len().min(8)]
    );
    assert!(
        met > 4_000 && kernels > 300_000,
        "{met} deviations, {kernels} kernels: too little happened"
    );
}
