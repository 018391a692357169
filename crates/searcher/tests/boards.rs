//! Tenants with caps that share a device without a daemon: they meet at the device's board, and take it burst by burst.

mod table;

use divvy_searcher::case::{Actor, Dev, Fault, Knobs, Site};
use divvy_searcher::oracle;
use divvy_searcher::program::named;
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US};
use table::{capped, run_with};

const RUN_NS: u64 = 6 * SECOND;

fn knobs() -> Knobs {
    Knobs { run_ns: RUN_NS, has_daemon: false, has_board: true, ..Knobs::default() }
}

/// Caps that fit a device hold beside each other.
#[test]
fn caps_hold_beside_each_other() {
    let mut rows = Rows::default();
    for (what, caps, ops) in [
        ("queues of 1 ms", vec![30, 60], named::flood(MS)),
        ("sync 1 ms", vec![30, 60], named::sync(MS)),
        ("sync 100 us", vec![20, 40], named::sync(100 * US)),
        ("queues of 1 ms", vec![30, 30, 30], named::flood(MS)),
        ("queues of 5 ms", vec![20, 50], named::flood(5 * MS)),
    ] {
        let tenants = caps.iter().map(|cap| capped(*cap, ops.clone())).collect();
        let report = run_with(tenants, Vec::new(), knobs());
        for (tenant, cap) in caps.iter().enumerate() {
            let had = report.busy_percent(tenant);
            let (what, cap) = (format!("{what}, {cap} of {caps:?}"), *cap as f64);
            rows.row(&what, cap, oracle::handed_about().of(cap), had);
        }
    }
    rows.judge();
}

/// One that is stopped in its burst, or killed, keeps the others out for a moment only; whoever cannot read or write the
/// board keeps its cap.
#[test]
fn who_stops_keeps_nobody_out() {
    let mut rows = Rows::default();
    let who = Actor { tenant: 0, process: 0, thread: 0 };
    for (how, what) in [("stopped", Fault::Stop(9 * SECOND)), ("killed", Fault::Kill)] {
        for site in [Site::Launch, Site::SynchroniseBack, Site::BoardWrite] {
            let devs = vec![Dev { who, site, nth: 100, what }];
            let tenants = vec![capped(30, named::sync(MS)), capped(60, named::flood(MS))];
            let report = run_with(tenants, devs, knobs());
            assert_eq!(report.met.len(), 1, "{how} at {site:?}");
            let what = format!("{how} at {site:?}, the other");
            rows.row(&what, 60, oracle::share(), report.busy_percent(1));
        }
    }
    for site in [Site::BoardRead, Site::BoardWrite] {
        let refused = |nth: u32| Dev { who, site, nth: nth * 7, what: Fault::Refuse };
        let tenants = vec![capped(30, named::sync(MS)), capped(60, named::flood(MS))];
        let report = run_with(tenants, (0..40_u32).map(refused).collect(), knobs());
        let (what, about) = (format!("refused at {site:?}"), oracle::handed_about().of(60));
        rows.row(&what, 30, oracle::share(), report.busy_percent(0));
        rows.row(&format!("{what}, the other"), 60, about, report.busy_percent(1));
    }
    rows.judge();
}
