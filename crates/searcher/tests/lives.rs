//! Caps of programs whose contexts, captures and calls do not all go well, or that are stopped: nothing of a life that is
//! over is charged or measured in the next, what the driver refused is given back, and a stop is no work.

mod table;

use divvy_searcher::case::{Actor, Case, Dev, Fault, Knobs, Site, TenantPlan};
use divvy_searcher::oracle;
use divvy_searcher::program::{Op, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US, gated, world};
use table::{capped, natively, run, run_with};

const RUN_NS: u64 = 6 * SECOND;
const CAP: u64 = 30;

/// Launches that the driver refuses, each third of them, cost nothing.
#[test]
fn what_was_refused_is_given_back() {
    let mut rows = Rows::default();
    for (what, ops) in [
        ("queue of 1 ms", named::queue(10, MS)),
        ("queue of 100 us", named::queue(50, 100 * US)),
        ("sync 1 ms", named::sync(MS)),
    ] {
        let who = Actor { tenant: 0, process: 0, thread: 0 };
        let refused = |nth: u32| Dev { who, site: Site::Launch, nth: nth * 3, what: Fault::Refuse };
        let knobs = Knobs { run_ns: RUN_NS, ..Knobs::default() };
        let devs = (10..4_000).map(refused).collect();
        let report = run_with(vec![capped(CAP, ops)], devs, knobs);
        rows.row(
            &format!("{what}, refused {}", report.met.len()),
            CAP as f64,
            oracle::share(),
            report.busy_percent(0),
        );
    }
    rows.judge();
}

/// Contexts that come and go with work in flight.
#[test]
fn a_new_context_begins_with_nothing_of_the_last() {
    let mut rows = Rows::default();
    for (what, ops) in [
        (
            "destroyed behind a wait",
            vec![
                Op::NewContext,
                Op::Repeat { times: 4_000, ops: vec![named::launch(1, 100 * US)] },
                Op::Sync,
                Op::DestroyContext,
            ],
        ),
        (
            "destroyed with work in flight",
            vec![
                Op::NewContext,
                Op::Repeat { times: 4_000, ops: vec![named::launch(1, 100 * US)] },
                Op::DestroyContext,
            ],
        ),
    ] {
        let ops = named::forever(ops);
        // A context takes its time to be made.
        let wanted = natively(&ops, RUN_NS).min(CAP as f64);
        let had = run(vec![capped(CAP, ops)], false, RUN_NS).busy_percent(0);
        rows.row(what, wanted, oracle::share(), had);
    }
    rows.judge();
}

/// Captures between launches, on the stream that is launched on and on another.
#[test]
fn captures_take_nothing_from_a_cap() {
    let mut rows = Rows::default();
    for stream in [0, 3] {
        for is_global in [false, true] {
            let capture = Op::Capture { stream, launches: 20, is_global };
            let ops = vec![
                capture,
                Op::Repeat { times: 20, ops: vec![named::launch(1, 200 * US)] },
                Op::Sync,
            ];
            let had = run(vec![capped(CAP, named::forever(ops))], false, RUN_NS).busy_percent(0);
            let what = format!("captures on {stream}, global {is_global}");
            rows.row(&what, CAP as f64, oracle::share(), had);
        }
    }
    rows.judge();
}

/// A process that is stopped around a launch, wherever that is, is charged for none of the stop. It waits for nothing: in
/// a wait a stop may be work that no estimate knew.
#[test]
fn a_stop_around_a_launch_is_no_work() {
    const RUN_NS: u64 = 600 * MS;
    const KERNEL_NS: u64 = 2 * MS;
    let who = Actor { tenant: 0, process: 0, thread: 0 };
    let (mut wrong, mut worst_ns) = (Vec::new(), 0);
    for site in [Site::Now, Site::IsDone, Site::Record, Site::Launch, Site::LaunchBack] {
        for nth in 10..90 {
            let program = named::paced(KERNEL_NS, 10 * MS);
            let tenant = TenantPlan { share_ppm: 300_000, ..TenantPlan::of(program) };
            let knobs = Knobs { run_ns: RUN_NS, heal_ns: RUN_NS, ..Knobs::default() };
            let devs = vec![Dev { who, site, nth, what: Fault::Stop(150 * MS) }];
            let case = Case { knobs, tenants: vec![tenant], devs };
            let mut charged_ns = 0;
            let report = world::run_with(&case, &gated::shipped(), |world, _| {
                charged_ns = world.charged_ns(0, 0);
            });
            let had_ns = report.had[0][0].busy_ns;
            // The last may be under way.
            let most_ns = oracle::charged_ns(had_ns, report.had[0][0].kernels) + KERNEL_NS;
            worst_ns = charged_ns.abs_diff(had_ns).max(worst_ns);
            if charged_ns.abs_diff(had_ns) > most_ns {
                wrong.push(format!("at {site:?} {nth}: had {had_ns}, charged {charged_ns}"));
            }
        }
    }
    println!("{worst_ns} ns between what was charged and what was had");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
