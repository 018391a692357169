//! Steps beside others: how long they take, what parts there are, and what all get done in sum.
//!
//! Two decode servers on an H200, a step of 4.15 ms each, had one step in a hundred longer than 25
//! ms by turns of 20.

mod workers;

use divvy_searcher::case::{Actor, Dev, Fault, Site};
use divvy_searcher::oracle;
use divvy_searcher::steps::{self, Who, Work};
use divvy_searcher::{MS, US};

const DECODE: Work = Work::Steps(4_150 * US, 150 * US);
/// How long a thread is held up.
const HELD_NS: u64 = 3 * MS;
const FLOOD: Work = Work::Flood(400 * US);

/// Judges a row, in which the steps are alike or not; the faults that it has.
fn judge(what: &str, tenants: &[Who], is_alike: bool) -> Vec<String> {
    let reached = steps::run(tenants, &[]);
    let (bounds, parts) = (steps::bounds_ns(tenants, is_alike), steps::parts(tenants));
    let mut faults = Vec::new();
    let sum: f64 = reached.iter().map(|one| one.progress).sum();
    for (at, one) in reached.iter().enumerate() {
        println!("{what}, {at}: {} bound {}", one.text(), bounds[at] / US);
        if one.percentile_ns(99) > bounds[at] {
            faults.push(format!("{what}, {at}: {} of {}", one.percentile_ns(99), bounds[at]));
        }
        if one.percentile_ns(100) > 2 * bounds[at] {
            faults.push(format!("{what}, {at}: waits {}", one.percentile_ns(100)));
        }
        // The host's time between two steps is in its turn or in another's.
        let of_sum = one.progress * 100.0 / sum;
        let nearest = parts[at].clamp(one.part.min(of_sum), one.part.max(of_sum));
        if !steps::within(tenants).holds(parts[at], nearest) {
            faults.push(format!("{what}, {at}: {} of {} percent", one.part, parts[at]));
        }
    }
    println!("{what}: {sum:.2} percent in sum");
    if !oracle::steps_in_sum(tenants.len(), steps::cycle_ns(tenants)).holds(100.0, sum) {
        faults.push(format!("{what}: {sum} percent in sum"));
    }
    faults
}

fn row(what: &str, tenants: &[Who]) -> Vec<String> {
    let is_alike = tenants.iter().all(|who| {
        let is_other = |other: &&Who| other.work != who.work && other.step_ns().is_some();
        who.weight == tenants[0].weight
            && (who.step_ns().is_none() || !tenants.iter().any(|other| is_other(&other)))
    });
    judge(what, tenants, is_alike)
}

fn decodes(count: usize) -> Vec<Who> {
    vec![Who::of(DECODE); count]
}

#[test]
fn steps_take_no_longer_than_a_cycle() {
    let mut faults = Vec::new();
    for count in [2, 3, 4, 8] {
        faults.extend(row(&format!("{count} decodes"), &decodes(count)));
    }
    let pair = |a: u32, b: u32| [Who::of(DECODE).weighs(a), Who::of(DECODE).weighs(b)];
    faults.extend(row("30 and 70", &pair(30, 70)));
    faults.extend(row("20 and 80", &pair(20, 80)));
    let uneven = |ns: u64| [Who::of(DECODE), Who::of(Work::Steps(ns, 150 * US))];
    faults.extend(row("4 and 1 ms", &uneven(MS)));
    faults.extend(row("4 and 12 ms", &uneven(12 * MS)));
    faults.extend(row("steps of 1 ms", &[Who::of(Work::Steps(MS, 20 * US)); 2]));
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Caps are as good as weights among those that make steps.
#[test]
fn steps_under_caps_take_no_longer() {
    let mut faults = Vec::new();
    for caps in [&[30, 70][..], &[50, 50], &[20, 20, 60], &[25, 25, 25, 25]] {
        let tenants: Vec<_> = caps.iter().map(|cap| Who::of(DECODE).under(*cap)).collect();
        faults.extend(judge(
            &format!("caps of {caps:?}"),
            &tenants,
            caps.iter().all(|cap| cap == &caps[0]),
        ));
    }
    let uneven =
        |ns: u64| [Who::of(DECODE).under(70), Who::of(Work::Steps(ns, 150 * US)).under(30)];
    faults.extend(row("4 and 1 ms, 70 and 30 %", &uneven(MS)));
    faults.extend(row("4 and 12 ms, 70 and 30 %", &uneven(12 * MS)));
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn steps_beside_a_flood_take_little_longer() {
    let mut faults = row("decode and flood", &[Who::of(DECODE), Who::of(FLOOD)]);
    let three = [Who::of(DECODE), Who::of(DECODE), Who::of(FLOOD)];
    faults.extend(row("two decodes and a flood", &three));
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The host may hold a stepper up for any time: its neighbour's steps do not wait for that.
#[test]
fn who_is_held_up_keeps_nobody() {
    let tenants = decodes(2);
    let who = Actor { tenant: 0, process: 0, thread: 0 };
    let stop = |nth| Dev { who, site: Site::Graph, nth, what: Fault::Delay(HELD_NS) };
    let devs: Vec<_> = (300..800).step_by(25).map(stop).collect();
    let reached = steps::run(&tenants, &devs);
    println!("{}\n{}", reached[0].text(), reached[1].text());
    assert!(reached[1].percentile_ns(99) <= steps::bounds_ns(&tenants, true)[1] + HELD_NS);
}

#[test]
fn drawn_steps_keep_their_bounds() {
    let verdicts = workers::of_seeds(workers::chosen(40), |seed| {
        let tenants = steps::drawn(seed);
        let faults = judge(&format!("seed {seed}"), &tenants, false);
        (!faults.is_empty()).then(|| format!("{faults:?} {tenants:?}"))
    });
    let faults: Vec<_> = verdicts.iter().flatten().collect();
    let most = verdicts.len() / oracle::STEPS_ONE_IN;
    assert!(faults.len() <= most, "{} of {}: {faults:#?}", faults.len(), verdicts.len());
}
