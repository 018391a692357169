//! Workers that end, and workers that take the place of those: a tenant has its cap all the while.
//!
//! Who ends does not hand its turn on, and who comes has the slot of one that is gone. Rows are printed: `--nocapture`
//! shows them.

mod table;

use divvy_searcher::case::{Case, Knobs, TenantPlan};
use divvy_searcher::program::{Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US, oracle};

const RUN_NS: u64 = 10 * SECOND;

/// Percent of the device that a tenant of such processes had in each second.
fn seconds(cap: u64, processes: Vec<Ops>, has_daemon: bool) -> Vec<f64> {
    let plan = TenantPlan { share_ppm: cap * 10_000, ..table::of(processes) };
    let knobs = Knobs { run_ns: RUN_NS, heal_ns: RUN_NS, has_daemon, ..Knobs::default() };
    let case = Case { knobs, tenants: vec![plan], devs: Vec::new() };
    let (looks, _) = table::looks(&case, 0, SECOND);
    looks.windows(2).map(table::between).collect()
}

fn daemon(has_daemon: bool) -> &'static str {
    if has_daemon { ", daemon" } else { "" }
}

/// One of several, or two, end after a second or two. The turn that it left behind was taken for one that nobody used, and others
/// went beside its successor; what they had been let go for was still beside it when it was to be measured alone. So they
/// went at once for good, and four of 20 us had 13 of 50 % where they had 50 before.
#[test]
fn those_that_end_take_nothing_from_the_others() {
    let mut rows = Rows::default();
    for ns in [20 * US, 50 * US, 100 * US, MS] {
        for (count, gone) in [(4, 1), (8, 1), (16, 1), (4, 2), (16, 2)] {
            for (cap, has_daemon) in [(25, true), (50, true), (50, false)] {
                let once = vec![named::launch(1, ns), Op::Sync];
                let times = u32::try_from(SECOND / count / ns).unwrap_or(u32::MAX);
                let ends = vec![Op::Repeat { times, ops: once.clone() }, Op::Exit];
                let mut processes = vec![named::forever(once); count as usize];
                processes.extend(vec![ends; gone]);
                let all = seconds(cap, processes, has_daemon);
                let far = |had: &&f64| (**had - cap as f64).abs();
                // In the first second they begin.
                let worst = all.iter().skip(1).max_by(|a, b| far(a).total_cmp(&far(b)));
                let daemon = daemon(has_daemon);
                let row = format!("{count} and {gone} of {} us, cap {cap} %{daemon}", ns / US);
                let worst = worst.copied().unwrap_or(0.0);
                rows.row(&row, cap as f64, oracle::a_second(ns), worst);
            }
        }
    }
    rows.judge();
}

/// Seven workers of which each is replaced as soon as it has ended, beside one that stays and can use all.
#[test]
fn workers_that_are_replaced_have_their_cap() {
    let mut rows = Rows::default();
    let lives = [(20 * US, 1_000), (20 * US, 10_000), (100 * US, 300), (MS, 50), (5 * MS, 20)];
    for (ns, times) in lives {
        for is_queue in [false, true] {
            let kernels = match is_queue {
                true => vec![Op::Repeat { times, ops: vec![named::launch(1, ns)] }, Op::Sync],
                false => vec![Op::Repeat { times, ops: vec![named::launch(1, ns), Op::Sync] }],
            };
            let ops = [kernels, vec![Op::Exit]].concat();
            let worker = named::forever(vec![Op::Process { ops, is_waited: true }]);
            let mut processes = vec![worker; 7];
            processes.push(named::queue(64, MS));
            for cap in [25, 50] {
                for has_daemon in [false, true] {
                    let all = seconds(cap, processes.clone(), has_daemon);
                    let had = all.iter().skip(1).sum::<f64>() / (all.len() - 1) as f64;
                    let what = if is_queue { "a queue" } else { "a loop" };
                    let row = format!(
                        "{times} of {} us in {what}, then another, cap {cap} %{}",
                        ns / US,
                        daemon(has_daemon)
                    );
                    rows.row(&row, cap as f64, oracle::share(), had);
                }
            }
        }
    }
    rows.judge();
}
