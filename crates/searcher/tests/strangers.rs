//! A cap beside a process of no tenant: whatever the stranger does, the tenant has what its cap allows and the driver
//! gives it, from three seconds after it came, or a second after it was noticed. Rows are printed.

use divvy_searcher::case::{Case, Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::oracle;
use divvy_searcher::program::{Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US, gated, world};

/// When the stranger comes; what is judged from then on.
const COMES_NS: u64 = 2 * SECOND;
const FIRST_NS: u64 = 3 * SECOND;
const JUDGED_NS: u64 = 5 * SECOND;
/// How long it is there before the daemon knows: half a second as a rule, up to three where NVML was asked a moment before or
/// the kernel does not count the driver's users.
const UNNOTICED_NS: [u64; 3] = [SECOND / 4, 3 * SECOND / 2, 3 * SECOND];

/// Percent of the device that the tenant had, and what it was charged of that, while it was judged.
fn share(cap: u64, ops: &Ops, stranger: &Ops, unnoticed_ns: u64, is_library: bool) -> (f64, f64) {
    let from_ns = COMES_NS + FIRST_NS.max(unnoticed_ns + SECOND);
    let until_ns = from_ns + JUDGED_NS;
    let tenant = TenantPlan {
        share_ppm: cap * 10_000,
        is_stranger: !is_library,
        ..TenantPlan::of(ops.clone())
    };
    let plan = ProcessPlan { ops: stranger.clone(), start_ns: COMES_NS, ..ProcessPlan::default() };
    let stranger = TenantPlan { is_stranger: true, processes: vec![plan], ..tenant.clone() };
    let knobs = Knobs {
        run_ns: until_ns,
        heal_ns: until_ns,
        has_daemon: true,
        unnoticed_ns,
        ..Knobs::default()
    };
    let mut from = None;
    let (mut had_ns, mut charged) = (0, 0.0);
    let case = Case { knobs, tenants: vec![tenant, stranger], devs: Vec::new() };
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        if now_ns < from_ns {
            return;
        }
        let now = (world.had(0, 0).busy_ns, world.charged_ns(0, 0));
        let from = *from.get_or_insert(now);
        had_ns = now.0 - from.0;
        charged = (now.1 as f64 - from.1 as f64) / had_ns.max(1) as f64;
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    (100.0 * had_ns as f64 / JUDGED_NS as f64, charged)
}

fn every(period_ns: u64, kernel_ns: u64) -> Ops {
    named::forever(vec![named::launch(1, kernel_ns), Op::Sync, Op::PauseUntil { period_ns }])
}

#[test]
fn a_cap_holds_beside_whatever_a_stranger_does() {
    let strangers = [
        ("queue of 1 ms", named::flood(MS)),
        ("queue of 5 ms", named::flood(5 * MS)),
        ("sync 100 us", named::sync(100 * US)),
        ("1 ms of 5", every(5 * MS, MS)),
        ("2 ms of 10", every(10 * MS, 2 * MS)),
        ("20 ms of 100", every(100 * MS, 20 * MS)),
        ("idle", every(900 * MS, 20 * US)),
    ];
    let tenants = [
        ("queue of 1 ms", named::flood(MS)),
        ("queue of 5 ms", named::flood(5 * MS)),
        ("queue of 100 us", named::flood(100 * US)),
        ("sync 100 us", named::sync(100 * US)),
        ("sync 1 ms", named::sync(MS)),
        ("sync 5 ms", named::sync(5 * MS)),
        ("50 us and 2 ms", named::mix2()),
        ("20 of 50 us", named::queue(20, 50 * US)),
        ("graphs of 2 ms", named::graph(20, 100 * US)),
    ];
    let mut rows = Rows::default();
    for (what, stranger) in &strangers {
        for (who, ops) in &tenants {
            let (native, _) = share(0, ops, stranger, 0, false);
            for cap in [50, 20] {
                for unnoticed_ns in UNNOTICED_NS {
                    let (had, charged) = share(cap, ops, stranger, unnoticed_ns, true);
                    // Who has more than the driver gives it has it up to its cap.
                    let due = native.max(had).min(cap as f64);
                    println!("charged {charged:.2} of what it had:");
                    let unnoticed = unnoticed_ns as f64 / SECOND as f64;
                    let row = format!("{who} at {cap} beside {what}, unnoticed for {unnoticed} s");
                    rows.row(&row, due, oracle::beside_strangers(), had);
                }
            }
        }
    }
    rows.judge();
}
