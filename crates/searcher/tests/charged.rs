//! What is charged is what was had: of a tenant alone under a cap, over a second, within 1 % and 0.3 us for each kernel's
//! end.
//!
//! A launch is charged when it is let go, and its kernel ends later: at both ends of what is judged that may differ by what
//! may be in flight, which is no error of what is charged. So five seconds are judged together, where that is little, and the
//! worst of them. Rows are printed, in percent of the device.

mod table;

use divvy_searcher::case::{Case, Knobs};
use divvy_searcher::program::{Op, Ops, named, unit_ns};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US, gated, oracle, world};
use table::capped;

/// What is not judged: kernels are met for the first time.
const FIRST_NS: u64 = 2 * SECOND;
const SECONDS: u64 = 5;

/// What a program submits before it waits, each of its threads.
fn submitted_ns(ops: &Ops) -> u64 {
    let of_thread = |op: &Op| if let Op::Thread { ops } = op { submitted_ns(ops) } else { 0 };
    unit_ns(ops) + ops.iter().map(of_thread).sum::<u64>()
}

/// What was charged, had, and how many kernels ended, of each second.
fn seconds(cap: u64, ops: &Ops) -> Vec<(u64, u64, u64)> {
    let run_ns = FIRST_NS + (SECONDS + 1) * SECOND;
    let knobs = Knobs { run_ns, heal_ns: run_ns, ..Knobs::default() };
    let case = Case { knobs, tenants: vec![capped(cap, ops.clone())], devs: Vec::new() };
    let (mut looks, mut next_ns) = (Vec::new(), FIRST_NS);
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        if now_ns >= next_ns {
            let had = world.had(0, 0);
            looks.push((world.charged_ns(0, 0), had.busy_ns, had.kernels));
            next_ns += SECOND;
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let each = looks.windows(2).map(|pair| {
        let [from, to] = [pair[0], pair[1]];
        (to.0 - from.0, to.1 - from.1, to.2 - from.2)
    });
    each.collect()
}

#[test]
fn what_is_charged_is_what_was_had() {
    let mut programs = vec![];
    for us in [5, 20, 100, 1_000, 5_000] {
        programs.push((format!("sync {us} us"), named::sync(us * US)));
        programs.push((format!("queue of {us} us"), named::flood(us * US)));
    }
    for (threads, us) in [(2, 20), (4, 200), (16, 20), (4, 5_000)] {
        programs.push((format!("{threads} threads of {us} us"), named::threads(threads, us * US)));
    }
    let others = [
        ("graphs of 20 of 100 us", named::graph(20, 100 * US)),
        ("mix2", named::mix2()),
        ("liar", named::liar()),
        ("mixq", named::mixq()),
        ("graphupd", named::graphupd()),
        ("grow", named::grow(13 * SECOND)),
        ("paced 1 ms each 5", named::paced(MS, 5 * MS)),
        ("copies and 200 us", named::copying(4 << 20, 200 * US)),
    ];
    programs.extend(others.map(|(what, ops)| (what.to_owned(), ops)));
    let mut rows = Rows::default();
    for (what, ops) in &programs {
        for cap in [10, 30, 70] {
            let each = seconds(cap, ops);
            let percent = |ns: u64, wall_ns: u64| 100.0 * ns as f64 / wall_ns as f64;
            let sum = |of: fn(&(u64, u64, u64)) -> u64| each.iter().map(of).sum::<u64>();
            let (charged_ns, had_ns, ends) = (sum(|one| one.0), sum(|one| one.1), sum(|one| one.2));
            let wall_ns = each.len() as u64 * SECOND;
            rows.row(
                &format!("{what} at {cap}: charged"),
                percent(had_ns, wall_ns),
                oracle::charged(had_ns, ends, submitted_ns(ops), wall_ns),
                percent(charged_ns, wall_ns),
            );
            let off = |one: &&(u64, u64, u64)| one.0.abs_diff(one.1);
            let (charged_ns, had_ns, ends) = each.iter().max_by_key(off).copied().expect("some");
            rows.row(
                &format!("{what} at {cap}: charged of its worst second"),
                percent(had_ns, SECOND),
                oracle::charged(had_ns, ends, submitted_ns(ops), SECOND),
                percent(charged_ns, SECOND),
            );
        }
    }
    rows.judge();
}
