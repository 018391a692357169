//! A thread that stands still, as one that a debugger has stopped, holds up nobody else, wherever it stands: in each
//! second the other threads of its process have what the cap gives.
//!
//! It may hold the lane's claim, so that nobody measures what the others do, or have begun to measure itself.

mod table;

use divvy_searcher::case::{Actor, Case, Dev, Fault, Knobs, Site};
use divvy_searcher::oracle::{self, Within};
use divvy_searcher::program::{Length, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::world::Report;
use divvy_searcher::{MS, SECOND, US};

const CAP: u64 = 30;
const RUN_NS: u64 = 6 * SECOND;
/// A thread that is none of the first, and for how long it stands.
const WHO: Actor = Actor { tenant: 0, process: 0, thread: 3 };
const STANDS_NS: u64 = SECOND;
/// Where: the calls that are made with the claim, or to begin.
const SITES: [Site; 7] = [
    Site::Now,
    Site::Record,
    Site::RecordContext,
    Site::IsDone,
    Site::Elapsed,
    Site::Launch,
    Site::Word,
];
/// At how many places of each.
const PLACES: u32 = 10;

/// What it had in each second that begins at a quarter of one, from the second on: the least and the most, in percent.
fn seconds(ops: &Ops, devs: Vec<Dev>) -> (f64, f64, Report) {
    let knobs = Knobs { run_ns: RUN_NS, heal_ns: RUN_NS, ..Knobs::default() };
    let case = Case { knobs, tenants: vec![table::capped(CAP, ops.clone())], devs };
    let (had, report) = table::looks(&case, SECOND, SECOND / 4);
    let shares: Vec<f64> = had.windows(5).map(table::between).collect();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    (least, most, report)
}

fn judge(what: &str, ops: &Ops, within: Within) {
    let mut rows = Rows::default();
    let (.., plain) = seconds(ops, Vec::new());
    for site in SITES {
        // Behind its first second, in which it came there as often as in the others.
        let visits = plain.visits.get(&(WHO, site)).copied().unwrap_or(0);
        let from = visits / 3;
        for place in 0..PLACES.min(visits / 12) {
            // One after the other as well: it comes to some sites always in the same order.
            let nth = from + place * (visits / 4 / PLACES) + place;
            let dev = Dev { who: WHO, site, nth, what: Fault::Delay(STANDS_NS) };
            let (least, most, _) = seconds(ops, vec![dev]);
            let what = format!("{what}, at {site:?} {nth}");
            rows.row(&format!("{what}: least"), CAP as f64, within, least);
            rows.row(&format!("{what}: most"), CAP as f64, within, most);
        }
    }
    rows.judge();
}

#[test]
fn threads_with_streams_of_their_own() {
    judge("2 ms", &named::threads(8, 2 * MS), oracle::a_second(2 * MS));
}

#[test]
fn threads_of_one_stream() {
    for ns in [100 * US, 2 * MS] {
        let ops = named::threads_of_one(8, &Length::Fixed(ns));
        judge(&format!("{} us, one stream", ns / US), &ops, oracle::a_second(ns));
    }
}

/// Estimates stand meanwhile, which may be wrong by as much as lengths differ.
#[test]
fn threads_whose_kernels_vary() {
    let ops = named::threads_of_one(8, &Length::Spread(100 * US, 5 * MS));
    judge("100 us to 5 ms, one stream", &ops, oracle::unmeasured().of(CAP as f64));
}
