//! Kernels that take longer than a turn keep who waits out for a turn and a drain's time-out, not until they end.

use divvy_searcher::case::{Case, Knobs, TenantPlan};
use divvy_searcher::program::named;
use divvy_searcher::{MS, SECOND, gated, oracle, world};

#[test]
fn who_waits_for_long_kernels_waits_for_a_time_out() {
    for kernel_ms in [150, 300, 304, 900] {
        let tenants = [named::flood(kernel_ms * MS), named::sync(MS)].map(TenantPlan::of);
        let run_ns = 8 * SECOND;
        let knobs = Knobs { run_ns, heal_ns: run_ns, has_daemon: true, ..Knobs::default() };
        let case = Case { knobs, tenants: tenants.to_vec(), devs: Vec::new() };
        let (mut had_ns, mut last_ns, mut longest_ns) = (0, SECOND, 0);
        let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
            let now_had_ns = world.had(1, 0).busy_ns;
            if now_ns < SECOND || now_had_ns == had_ns {
                return;
            }
            longest_ns = now_ns.saturating_sub(last_ns).max(longest_ns);
            (had_ns, last_ns) = (now_had_ns, now_ns);
        });
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        let most_ns = oracle::wait_ns();
        println!("{kernel_ms} ms: {} of {} ms", longest_ns / MS, most_ns / MS);
        assert!(longest_ns <= most_ns, "{kernel_ms} ms: {longest_ns} ns, more than {most_ns}");
        // What works on in another's turn is charged there: the other had 19 where it was not.
        let had = report.busy_percent(1);
        let least = oracle::least_beside_long();
        println!("{had:.2} % of {least:.2} at least");
        assert!(kernel_ms < 300 || had > least, "{kernel_ms} ms: {had:.2} %");
    }
}
