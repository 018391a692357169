//! Native programs on the simulated card get what they got on the real one.
//!
//! Each row names the stored result that it is compared with; all lie under bench/results and are of one
//! H200. Shares are of the wall, by the lengths of the kernels that were completed, as the real ones are.
//! No row's figure is fitted to that row alone: the card has fewer figures than there are rows.

use std::cell::RefCell;
use std::rc::Rc;

use divvy_searcher::case::{Case, TenantPlan};
use divvy_searcher::oracle;
use divvy_searcher::program::{Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::world::{self, Code, LaunchStream, Report, Shim, SimDriver, SimWait};
use divvy_searcher::{MS, SECOND, US};

fn run(programs: &[Ops], run_ns: u64) -> Report {
    let report = world::run(&Case::beside(programs, run_ns), &world::native());
    assert_eq!(report.books[0].wall_ns(), run_ns, "the books add up");
    let had = report.had.iter().map(|had| had[0].busy_ns).sum::<u64>();
    assert_eq!(had, report.books[0].busy_ns);
    report
}

/// The sum of all tenants' work, in percent of the wall.
fn sum(programs: &[Ops], run_ns: u64) -> f64 {
    let report = run(programs, run_ns);
    (0..programs.len()).map(|tenant| report.work_percent(tenant)).sum()
}

/// A figure of a stored result.
const fn stored(figure: f64) -> f64 {
    figure
}

/// Rows of shares, in percent.
#[derive(Default)]
struct Shares(Rows);

impl Shares {
    fn add(&mut self, what: &str, stored: f64, reached: f64) {
        self.0.row(what, stored, oracle::stored_points(stored), reached);
    }

    fn judge(self) {
        self.0.judge();
    }
}

/// gate-facts.txt, B and G; share-nvidia-*.json of both days.
#[test]
fn one_alone() {
    let mut rows = Shares::default();
    for (us, share) in [
        (5, stored(43.0)),
        (20, stored(75.0)),
        (100, stored(93.4)),
        (1_000, stored(99.1)),
        (5_000, stored(99.7)),
    ] {
        // So long that a kernel cut off at the end does not matter.
        let reached = sum(&[named::sync(us * US)], (SECOND / 4).max(500 * us * US));
        rows.add(&format!("1 x {us} us sync"), share, reached);
    }
    rows.add("1 x 100 us queue", stored(100.0), sum(&[named::flood(100 * US)], SECOND / 4));
    rows.add("1 x 5 us queue", stored(100.0), sum(&[named::flood(5 * US)], SECOND / 8));
    // A, 2,803 ns a launch of an empty kernel: the host is the limit.
    rows.add("1 x 2 us queue", stored(71.4), sum(&[named::flood(2 * US)], SECOND / 8));
    // E: 110.0 on four streams.
    rows.add("4 streams of 100 us", stored(110.0), sum(&[four_streams()], SECOND / 4));
    rows.judge();
}

fn four_streams() -> Ops {
    let kernels = (1..=4).map(|stream| {
        named::launch_on(1, divvy_searcher::program::Length::Fixed(100 * US), stream)
    });
    let burst = divvy_searcher::program::Op::Repeat { times: 25, ops: kernels.collect() };
    named::forever(vec![burst, divvy_searcher::program::Op::StreamSync { stream: 1 }])
}

/// gate-facts.txt, G; fairness-nvidia-*.json.
#[test]
fn several_beside_each_other() {
    let mut rows = Shares::default();
    let of = |count: usize, ops: Ops| vec![ops; count];
    for (count, us, share) in [
        (2, 20, stored(12.8)),
        (3, 20, stored(12.8)),
        (2, 100, stored(42.3)),
        (3, 100, stored(42.3)),
        (2, 1_000, stored(87.9)),
        (3, 1_000, stored(88.2)),
    ] {
        let reached = sum(&of(count, named::sync(us * US)), SECOND / 2);
        rows.add(&format!("{count} x {us} us sync"), share, reached);
    }
    for count in [2, 3] {
        let reached = sum(&of(count, named::flood(100 * US)), SECOND);
        rows.add(&format!("{count} x 100 us queue"), stored(90.3), reached);
    }
    // Nobody gets more than another.
    let report = run(&of(3, named::sync(100 * US)), SECOND);
    let (mut alike, first) = (Rows::default(), report.work_percent(0));
    for nth in 1..3 {
        let reached = report.work_percent(nth);
        alike.row("as much as the first", first, oracle::slice(SECOND), reached);
    }
    alike.judge();
    rows.judge();
}

/// fairness-nvidia-*.json, native: what leaves the card idle, the victim of floods, who idles by halves.
#[test]
fn others_beside_each_other() {
    let mut rows = Shares::default();
    let pausing = named::pausing(MS, 2 * MS);
    rows.add(
        "1 x 1 ms and 2 ms of pause",
        stored(32.1),
        sum(std::slice::from_ref(&pausing), SECOND),
    );
    rows.add("2 x 1 ms and 2 ms of pause", stored(61.2), sum(&[pausing.clone(), pausing], SECOND));
    let paced = named::paced(5 * US, 20 * US);
    rows.add("1 x 5 us every 20 us", stored(25.0), sum(std::slice::from_ref(&paced), SECOND / 2));
    rows.add("2 x 5 us every 20 us", stored(50.1), sum(&[paced.clone(), paced], SECOND / 2));
    let copying = named::copying(4 << 20, 200 * US);
    rows.add("1 x 4 MiB and 200 us", stored(69.8), sum(std::slice::from_ref(&copying), SECOND / 2));
    rows.add("2 x 4 MiB and 200 us", stored(59.5), sum(&[copying.clone(), copying], SECOND / 2));
    let flood = named::flood(100 * US);
    let sync = named::sync(100 * US);
    let alone = run(std::slice::from_ref(&sync), SECOND).work_percent(0);
    let beside = run(&[sync, flood.clone(), flood.clone(), flood.clone()], 2 * SECOND);
    let of_quarter = f64::from(4) * 100.0 * beside.work_percent(0) / alone;
    rows.add("100 us sync beside 3 floods, of a quarter", stored(6.07), of_quarter);
    let half = sum(&[flood, named::half(100 * US, 100 * MS)], 2 * SECOND);
    rows.add("a flood and one that idles by halves", stored(92.6), half);
    rows.judge();
}

/// latency-nvidia-*.json and gate-facts.txt, H: what gave the slice its length.
#[test]
fn a_request_beside_a_flood() {
    let mut rows = Shares::default();
    // The period and the slice have no common measure that matters: requests meet all places of a slice.
    let requests = || named::requests(100, 100 * US, 100_300 * US);
    let alone = latencies(&[requests()]);
    let add = |rows: &mut Shares, what: &str, ms, reached| {
        rows.0.row(what, ms, oracle::stored_part(ms), reached);
    };
    add(&mut rows, "request alone, middle, ms", stored(10.17), middle(&alone));
    for ns in [100 * US, 2 * MS] {
        let beside = latencies(&[requests(), named::flood(ns)]);
        let what = format!("request beside a flood of {} us", ns / US);
        add(&mut rows, &format!("{what}, middle, ms"), stored(21.1), middle(&beside));
        let most = beside.last().copied().unwrap_or(0.0);
        add(&mut rows, &format!("{what}, longest, ms"), stored(22.4), most);
    }
    let report = run(&[requests(), named::flood(100 * US)], 6 * SECOND);
    rows.add("the flood's throughput beside it", stored(87.9), report.work_percent(1));
    rows.judge();
}

fn middle(of: &[f64]) -> f64 {
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}

/// Latencies of the first program's requests in ms, shortest first, from their arrival by the clock.
fn latencies(programs: &[Ops]) -> Vec<f64> {
    const PERIOD_NS: u64 = 100_300 * US;
    let tenants = programs.iter().map(|ops| TenantPlan::of(ops.clone())).collect();
    let knobs = Case::beside(&[], 6 * SECOND).knobs;
    let case = Case { knobs, tenants, devs: Vec::new() };
    let mut ends = Vec::new();
    let mut kernels = 0;
    world::run_with(&case, &world::native(), |world, now_ns| {
        let had = world.had(0, 0);
        if had.kernels != kernels {
            kernels = had.kernels;
            if kernels.is_multiple_of(100) {
                ends.push((now_ns % PERIOD_NS) as f64 / MS as f64);
            }
        }
    });
    ends.sort_by(f64::total_cmp);
    ends
}

/// Two timing events around each launch, and what they show.
struct Timed {
    driver: SimDriver,
    events: [u64; 2],
    shown_ns: Rc<RefCell<Vec<i64>>>,
}

impl Shim for Timed {
    fn launch(&self, stream: LaunchStream, _: u64, call: &mut dyn FnMut() -> bool) -> bool {
        let [before, behind] = self.events;
        self.driver.record(before, stream) && call() && self.driver.record(behind, stream)
    }

    fn synchronise(&self, _: SimWait, call: &mut dyn FnMut()) {
        call();
        let [before, behind] = self.events;
        self.shown_ns.borrow_mut().extend(self.driver.elapsed_ns(before, behind));
    }
}

/// gate-facts.txt, C ("drained", one kernel, in the middle) and B ("+2 timing events+elapsed").
#[test]
fn events_around_launches() {
    let mut rows = Rows::default();
    for (us, beyond_ns, loops) in [
        (5, stored(2_980.0), stored(70_868.0)),
        (20, stored(3_000.0), stored(34_190.0)),
        (100, stored(3_140.0), stored(9_155.0)),
    ] {
        let shown_ns = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&shown_ns);
        let shims: world::Shims = Rc::new(move |_, driver| {
            let events = [driver.create_event(), driver.create_event()];
            Rc::new(Timed { driver, events, shown_ns: Rc::clone(&to) })
        });
        let case = Case::beside(&[named::sync(us * US)], SECOND / 10);
        let report = world::run(&case, &Code { shims, daemon: None });
        let mut shown: Vec<_> = shown_ns.borrow().iter().map(|ns| *ns as f64).collect();
        shown.sort_by(f64::total_cmp);
        let beyond = middle(&shown) - (us * US) as f64;
        let what = format!("events around {us} us");
        rows.row(&format!("{what}, beyond it, ns"), beyond_ns, oracle::stored_ns(), beyond);
        let turns = (report.had[0][0].kernels * 10) as f64;
        rows.row(&format!("{what}, turns a second"), loops, oracle::stored_part(loops), turns);
    }
    rows.judge();
}

/// A timing event behind each launch.
struct Marked {
    driver: SimDriver,
    event: u64,
}

impl Shim for Marked {
    fn launch(&self, stream: LaunchStream, _: u64, call: &mut dyn FnMut() -> bool) -> bool {
        call() && self.driver.record(self.event, stream)
    }
}

/// events-in-a-queue.txt of h200-2026-11-25: from one kernel to the next with an event behind each.
#[test]
fn events_in_a_queue() {
    let mut rows = Rows::default();
    for (length_ns, each_ns) in
        [(4_910, stored(6_885.0)), (20_122, stored(22_083.0)), (59_153, stored(61_072.0))]
    {
        let shims: world::Shims = Rc::new(move |_, driver| {
            let event = driver.create_event();
            Rc::new(Marked { driver, event })
        });
        let case = Case::beside(&[named::flood(length_ns)], SECOND / 10);
        let report = world::run(&case, &Code { shims, daemon: None });
        let reached = (SECOND / 10) as f64 / report.had[0][0].kernels as f64;
        let what = format!("an event behind {length_ns} ns, each, ns");
        rows.row(&what, each_ns, oracle::stored_ns(), reached);
    }
    rows.judge();
}
