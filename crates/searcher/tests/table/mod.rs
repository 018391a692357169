//! Tenants of one program, and what they had of the device.

#![allow(dead_code, reason = "no test uses all of it")]

use divvy_searcher::case::{Case, Dev, Knobs, ProcessPlan, TenantPlan};
use divvy_searcher::gated;
use divvy_searcher::program::Ops;
use divvy_searcher::world::{self, Report};

/// A tenant of so many processes, without a cap.
pub(crate) fn of(processes: Vec<Ops>) -> TenantPlan {
    let processes = processes.into_iter().map(|ops| ProcessPlan { ops, ..ProcessPlan::default() });
    TenantPlan { processes: processes.collect(), ..TenantPlan::default() }
}

/// A tenant of one process under a cap.
pub(crate) fn capped(percent: u64, ops: Ops) -> TenantPlan {
    TenantPlan { share_ppm: percent * 10_000, ..of(vec![ops]) }
}

/// Runs tenants with what ships; no promise may be broken.
pub(crate) fn run(tenants: Vec<TenantPlan>, has_daemon: bool, run_ns: u64) -> Report {
    run_with(tenants, Vec::new(), Knobs { run_ns, has_daemon, ..Knobs::default() })
}

/// The same, with what goes wrong.
pub(crate) fn run_with(tenants: Vec<TenantPlan>, devs: Vec<Dev>, knobs: Knobs) -> Report {
    let knobs = Knobs { heal_ns: knobs.run_ns, ..knobs };
    let report = world::run(&Case { knobs, tenants, devs }, &gated::shipped());
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    report
}

/// When it was looked, and what the first tenant had had of the first device by then.
pub(crate) type Look = (u64, u64);

/// Runs a case with what ships, and looks every so often from then on; no promise may be broken.
pub(crate) fn looks(case: &Case, from_ns: u64, every_ns: u64) -> (Vec<Look>, Report) {
    let mut looks = Vec::new();
    let report = world::run_with(case, &gated::shipped(), |world, now_ns| {
        if now_ns >= from_ns + looks.len() as u64 * every_ns {
            looks.push((now_ns, world.had(0, 0).busy_ns));
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    (looks, report)
}

/// Percent of the device that it had from the first look to the last.
pub(crate) fn between(looks: &[Look]) -> f64 {
    let [(from_ns, had_ns), .., (to_ns, have_ns)] = looks else { return 0.0 };
    100.0 * (have_ns - had_ns) as f64 / (to_ns - from_ns) as f64
}

/// Percent of the first device that tenants had.
pub(crate) fn shares(tenants: Vec<TenantPlan>, has_daemon: bool, run_ns: u64) -> Vec<f64> {
    let report = run(tenants, has_daemon, run_ns);
    (0..report.had.len()).map(|tenant| report.busy_percent(tenant)).collect()
}

/// What one has alone, without gates.
pub(crate) fn natively(ops: &Ops, run_ns: u64) -> f64 {
    let case = Case::beside(std::slice::from_ref(ops), run_ns);
    world::run(&case, &world::native()).busy_percent(0)
}
