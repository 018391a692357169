//! A tenant alone under a cap has its cap, or what it can have without one, whatever its kernels' lengths do.
//!
//! Programs are drawn (`divvy_searcher::lone`); of each, what it had over the run but its beginning. On one stream
//! all but one in thirty are within their tolerance, and those within twice that. On several the share of most is:
//! what is asserted there is that it does not get worse. `FROM` and `SEEDS` choose others; each row is printed.

use divvy_searcher::case::Case;
use divvy_searcher::world;
use divvy_searcher::{gated, lone, oracle, program};

const SEEDS: u64 = 60;
const WORKERS: u64 = 2;

#[derive(Clone, Debug)]
struct Row {
    seed: u64,
    is_one_stream: bool,
    wanted: f64,
    reached: f64,
    points: f64,
    charged: f64,
}

impl Row {
    fn off(&self) -> f64 {
        self.reached - self.wanted
    }

    fn is_far(&self) -> bool {
        self.off().abs() > self.points
    }
}

/// What the program had behind the beginning of the run, in percent, and what it was charged for each part.
fn had(case: &Case, code: &world::Code, first_ns: u64) -> (f64, f64) {
    let (mut first, mut charged) = (None, 0);
    let report = world::run_with(case, code, |world, now_ns| {
        charged = world.charged_ns(0, 0);
        if now_ns >= first_ns && first.is_none() {
            first = Some((now_ns, world.had(0, 0).busy_ns, charged));
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let (first_ns, first_had_ns, first_charged_ns) = first.expect("the run is longer");
    let had_ns = report.had[0][0].busy_ns - first_had_ns;
    let charged = (charged - first_charged_ns) as f64 / had_ns.max(1) as f64;
    (100.0 * had_ns as f64 / (report.wall_ns - first_ns) as f64, charged)
}

fn row(seed: u64) -> Row {
    let case = lone::case(seed);
    let ops = &case.tenants[0].processes[0].ops;
    let longest_ns = program::longest_ns(ops);
    let first_ns = oracle::first_ns(longest_ns).min(case.knobs.run_ns / 2);
    let mut open = case.clone();
    open.tenants[0].share_ppm = 0;
    let (native, _) = had(&open, &world::native(), first_ns);
    let (reached, charged) = had(&case, &gated::shipped(), first_ns);
    let wanted = native.min(case.tenants[0].share_ppm as f64 / 10_000.0);
    let points = oracle::lone_points(longest_ns, case.knobs.run_ns - first_ns);
    Row { seed, is_one_stream: program::has_one_stream(ops), wanted, reached, points, charged }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn a_lone_tenant_has_its_cap_whatever_its_kernels_do() {
    let (from, seeds) = (number("FROM", 0), number("SEEDS", SEEDS));
    let work = |worker| (from + worker..from + seeds).step_by(WORKERS as usize).map(row).collect();
    let mut rows: Vec<Row> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(move || -> Vec<Row> { work(worker) })).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    rows.sort_by(|a, b| a.off().abs().total_cmp(&b.off().abs()));
    for row in &rows {
        println!(
            "seed {:5} {} stream: {:6.2} of {:6.2}, {:+6.2} of {:4.2} points, charged {:.3}",
            row.seed,
            if row.is_one_stream { "  one" } else { "more than one" },
            row.reached,
            row.wanted,
            row.off(),
            row.points,
            row.charged
        );
    }
    let far =
        |is_one: bool| rows.iter().filter(move |row| row.is_one_stream == is_one && row.is_far());
    // Known: bursts that always begin with the same launch of a pattern, which no draw in their midst stands for.
    let of_one: Vec<_> = far(true).collect();
    let is_worst = |row: &&&Row| row.off().abs() > 2.0 * row.points;
    assert!(of_one.len() * 30 <= rows.len(), "of one stream: {of_one:#?}");
    assert_eq!(of_one.iter().filter(is_worst).count(), 0, "of one stream: {of_one:#?}");
    let several = rows.iter().filter(|row| !row.is_one_stream).count();
    let mean = rows.iter().map(|row| row.off().abs()).sum::<f64>() / rows.len() as f64;
    println!("{} rows, {mean:.3} points on average; {several} of several streams", rows.len());
    assert!(
        far(false).count() * 4 <= several,
        "of several streams: {:#?}",
        far(false).collect::<Vec<_>>()
    );
}
