//! Threads with a stream each and short kernels have their cap, whatever they wait for and whether they sleep while they do.
//!
//! Their launches come while others are in the driver's hands, and the device is drained between them. Rows are printed:
//! `--nocapture` shows them.

mod table;

use divvy_searcher::case::ProcessPlan;
use divvy_searcher::program::{Length, Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::{SECOND, US, oracle};

const CAP: u64 = 30;
const RUN_NS: u64 = 5 * SECOND;

/// Threads that launch one kernel and wait, for all of the context or for their own stream.
fn threads(count: u32, ns: u64, waits_for_all: bool) -> Ops {
    let of = |stream| {
        let wait = if waits_for_all { Op::Sync } else { Op::StreamSync { stream } };
        named::forever(vec![named::launch_on(1, Length::Fixed(ns), stream), wait])
    };
    let others = (2..=count).map(|stream| Op::Thread { ops: of(stream) });
    others.chain(of(1)).collect()
}

#[test]
fn threads_have_their_cap_however_they_wait() {
    let mut rows = Rows::default();
    for (count, ns) in [
        (2, 8 * US),
        (4, 8 * US),
        (2, 12 * US),
        (2, 20 * US),
        (4, 20 * US),
        (16, 20 * US),
        (16, 200 * US),
    ] {
        for waits_for_all in [false, true] {
            for is_blocking in [false, true] {
                let ops = threads(count, ns, waits_for_all);
                let plan = ProcessPlan { is_blocking, ops, ..ProcessPlan::default() };
                let mut tenant = table::capped(CAP, Vec::new());
                tenant.processes = vec![plan];
                let report = table::run(vec![tenant], false, RUN_NS);
                let what = if waits_for_all { "the context" } else { "a stream" };
                let how = if is_blocking { ", asleep" } else { "" };
                let row = format!("{count} threads of {} us wait for {what}{how}", ns / US);
                rows.row(&row, CAP as f64, oracle::share(), report.busy_percent(0));
            }
        }
    }
    rows.judge();
}
