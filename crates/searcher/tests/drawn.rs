//! Cases by seed: that they replay to the same hash, get on, differ, and that books add up in all.

use std::collections::BTreeSet;

use divvy_searcher::case::Case;
use divvy_searcher::draw::{self, Size};
use divvy_searcher::world::{self, End, Report};
use divvy_searcher::{MS, shrink};

/// A drawn case with deviations, and what came of it.
fn drawn(seed: u64, size: Size, run_ns: Option<u64>) -> (Case, Report) {
    let mut case = draw::case(seed, size);
    case.knobs.run_ns = run_ns.unwrap_or(case.knobs.run_ns);
    let plain = world::run(&case, &world::native());
    case.devs = draw::devs(&case, &plain.visits, seed);
    let report = world::run(&case, &world::native());
    (case, report)
}

fn holds(seed: u64, case: &Case, report: &Report) {
    let again = world::run(case, &world::native());
    assert_eq!((report.hash, report.events), (again.hash, again.events), "seed {seed}");
    for (device, books) in report.books.iter().enumerate() {
        assert_eq!(books.wall_ns(), report.wall_ns, "seed {seed}: the books add up");
        let busy_ns: u64 = report.had.iter().map(|had| had[device].busy_ns).sum();
        assert_eq!(busy_ns, books.busy_ns, "seed {seed}: and are somebody's");
    }
    let text = case.to_json();
    assert_eq!(Case::from_json(&text).expect("its own"), *case, "seed {seed}");
}

#[test]
fn small_cases_replay_and_differ() {
    let (mut hashes, mut met, mut launched) = (BTreeSet::new(), 0, 0);
    for seed in 0..120 {
        let (case, report) = drawn(seed, Size::Micro, None);
        holds(seed, &case, &report);
        met += report.met.len();
        launched += usize::from(report.had.iter().flatten().any(|had| had.kernels != 0));
        hashes.insert(report.hash);
    }
    // Some launch nothing and end at once, all alike.
    assert!(hashes.len() > 115, "{}", hashes.len());
    assert!(met > 60, "{met} deviations happened");
    assert!(launched > 105, "{launched} runs launched anything");
}

#[test]
fn larger_cases_replay_and_get_on() {
    let mut in_time = 0;
    for seed in 1_000..1_020 {
        let (case, report) = drawn(seed, Size::Meso, Some(200 * MS));
        holds(seed, &case, &report);
        in_time += usize::from(report.end == End::InTime);
    }
    assert!(in_time > 10, "{in_time} runs came to their end");
}

/// From a drawn failure of a whole run to the deviation that it needs.
#[test]
fn a_failure_of_a_run_is_made_small() {
    let fails = |case: &Case| {
        let report = world::run(case, &world::native());
        report.met.iter().any(|dev| matches!(dev.what, divvy_searcher::case::Fault::Kill))
    };
    let found = (0..2_000).map(|seed| drawn(seed, Size::Micro, None).0).find(|case| fails(case));
    let found = found.expect("a kill in two thousand cases");
    let small = shrink::shrink(found, 400, &fails);
    assert!(fails(&small));
    assert_eq!((small.devs.len(), small.tenants.len()), (1, 1), "{small:#?}");
}
