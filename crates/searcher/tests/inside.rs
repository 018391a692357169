//! Processes of one tenant under a cap: together they have it, and each as much as another that wants as much,
//! whatever they do and whoever of them is killed or stopped.
//!
//! Each with and without a daemon. Rows are printed: `--nocapture` shows them.

use divvy_searcher::case::{Actor, Case, Dev, Fault, Knobs, ProcessPlan, Site, TenantPlan};
use divvy_searcher::oracle;
use divvy_searcher::program::{Op, Ops, longest_ns, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::world::Report;
use divvy_searcher::{MS, SECOND, US, gated, world};

/// What is not judged at the beginning: kernels are met for the first time.
const FIRST_NS: u64 = SECOND;
/// How long is judged at least, and how many units of work of each process.
const JUDGED_NS: u64 = 6 * SECOND;
const UNITS: u64 = 100;

/// What came of a tenant's processes.
struct Came {
    report: Report,
    /// Percent of the device that each had.
    each: Vec<f64>,
    /// What all were charged of what they had, since the run began.
    charged: f64,
    /// The longest time in which one of them had none.
    longest_ns: u64,
}

impl Came {
    fn sum(&self) -> f64 {
        self.each.iter().sum()
    }

    /// What the one that had least had of what the one that had most had.
    fn least_of_most(&self) -> f64 {
        let most = self.each.iter().copied().fold(0.0, f64::max);
        self.each.iter().copied().fold(f64::MAX, f64::min) / most
    }
}

/// As long as the units that a process submits at once take under its part of its tenant's cap.
fn run(tenants: Vec<TenantPlan>, devs: Vec<Dev>, has_daemon: bool) -> Vec<Came> {
    let units_ns = tenants.iter().map(|tenant| {
        let lengths = tenant.processes.iter().map(|process| longest_ns(&process.ops));
        let unit_ns = lengths.max().unwrap_or(0) * tenant.processes.len() as u64;
        let share_ppm = if tenant.share_ppm == 0 { 1_000_000 } else { tenant.share_ppm };
        UNITS * unit_ns * 1_000_000 / share_ppm
    });
    let run_ns = FIRST_NS + units_ns.max().unwrap_or(0).max(JUDGED_NS);
    let knobs = Knobs { run_ns, heal_ns: run_ns, has_daemon, ..Knobs::default() };
    let counts: Vec<usize> = tenants.iter().map(|tenant| tenant.processes.len()).collect();
    // Of each tenant and process: what it had, what it had when the judged time began, and when it had some last.
    let mut had: Vec<Vec<[u64; 3]>> = counts.iter().map(|count| vec![[0; 3]; *count]).collect();
    let mut longest_ns = vec![0; counts.len()];
    let (mut begun_ns, mut charged) = (0, vec![0.0; counts.len()]);
    let case = Case { knobs, tenants, devs };
    let report = world::run_with(&case, &gated::shipped(), |world, now_ns| {
        if now_ns < FIRST_NS {
            return;
        }
        let is_first = begun_ns == 0;
        if is_first {
            begun_ns = now_ns;
        }
        for ((tenant, had), charged) in (0..).zip(&mut had).zip(&mut charged) {
            let busy_ns = world.had(tenant, 0).busy_ns.max(1);
            *charged = world.charged_ns(tenant, 0) as f64 / busy_ns as f64;
            for (of, [now, first, last_ns]) in world.had_by_process(tenant, 0).iter().zip(had) {
                let is_over = now_ns + MS > run_ns;
                if is_first {
                    (*first, *last_ns) = (of.busy_ns, now_ns);
                }
                if of.busy_ns != *now || is_over {
                    let longest_ns = &mut longest_ns[tenant as usize];
                    *longest_ns = (now_ns - *last_ns).max(*longest_ns);
                    (*now, *last_ns) = (of.busy_ns, now_ns);
                }
            }
        }
    });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let percent = |ns: u64| 100.0 * ns as f64 / (report.wall_ns - begun_ns) as f64;
    let came = |((had, longest_ns), charged): ((Vec<[u64; 3]>, u64), f64)| Came {
        report: report.clone(),
        each: had.iter().map(|[now, first, _]| percent(now - first)).collect(),
        charged,
        longest_ns,
    };
    had.into_iter().zip(longest_ns).zip(charged).map(came).collect()
}

/// Processes that begin one after the other.
fn tenant(cap: u64, programs: impl IntoIterator<Item = Ops>) -> TenantPlan {
    let plan = |(start_ns, ops)| ProcessPlan { ops, start_ns, ..ProcessPlan::default() };
    let processes = (0..).step_by(7 * MS as usize).zip(programs).map(plan).collect();
    TenantPlan { share_ppm: cap * 10_000, processes, ..TenantPlan::default() }
}

/// Together what is due, and each about as much as another.
fn judge(rows: &mut Rows, what: &str, due: u64, came: &Came) {
    let (charged, longest_ms) = (came.charged, came.longest_ns / MS);
    println!("{:.2?}, charged {charged:.3}, {longest_ms} ms of nothing", came.each);
    rows.row(what, due as f64, oracle::together(), came.sum());
    alike(rows, what, came);
}

/// Who had least, as a part of who had most.
fn alike(rows: &mut Rows, what: &str, came: &Came) {
    rows.row(&format!("{what}: least"), 1, oracle::even(), came.least_of_most());
}

fn with(has_daemon: bool) -> &'static str {
    if has_daemon { ", daemon" } else { "" }
}

#[test]
fn workers_alike_have_alike() {
    let mut rows = Rows::default();
    for has_daemon in [false, true] {
        for cap in [25, 50] {
            for count in [2_u64, 4, 8, 16] {
                for us in [20, 100, 1_000, 5_000] {
                    for (how, ops) in
                        [("sync", named::sync(us * US)), ("queue", named::flood(us * US))]
                    {
                        let all = tenant(cap, vec![ops; count as usize]);
                        let came = &run(vec![all], Vec::new(), has_daemon)[0];
                        let what = format!("{count} {how} {us} us, {cap} %{}", with(has_daemon));
                        judge(&mut rows, &what, cap, came);
                        let due_ns = oracle::progress_ns(count, cap);
                        assert!(came.longest_ns <= due_ns, "{what}: {} ms", came.longest_ns / MS);
                    }
                }
            }
        }
    }
    rows.judge();
}

#[test]
fn workers_of_uneven_kernels_have_alike() {
    let mut rows = Rows::default();
    for has_daemon in [false, true] {
        for (what, ops) in
            [("mix2", named::mix2()), ("mixq", named::mixq()), ("graphupd", named::graphupd())]
        {
            for cap in [25, 50] {
                let came = &run(vec![tenant(cap, vec![ops.clone(); 4])], Vec::new(), has_daemon)[0];
                judge(&mut rows, &format!("4 {what}, {cap} %{}", with(has_daemon)), cap, came);
            }
        }
    }
    rows.judge();
}

/// Who could have more than its part leaves nobody less.
#[test]
fn workers_unlike_have_alike() {
    let mut rows = Rows::default();
    let unlike = || {
        vec![
            named::flood(5 * MS),
            named::sync(100 * US),
            named::sync(MS),
            named::queue(20, 50 * US),
            named::graph(20, 100 * US),
        ]
    };
    for has_daemon in [false, true] {
        for cap in [25, 50] {
            let came = &run(vec![tenant(cap, unlike())], Vec::new(), has_daemon)[0];
            judge(&mut rows, &format!("five kinds, {cap} %{}", with(has_daemon)), cap, came);
        }
    }
    rows.judge();
}

#[test]
fn tenants_of_workers_hold_beside_each_other() {
    let mut rows = Rows::default();
    for (what, ops) in [("sync 1 ms", named::sync(MS)), ("queues of 5 ms", named::flood(5 * MS))] {
        let tenants = [30, 50].map(|cap| tenant(cap, vec![ops.clone(); 4]));
        for (came, cap) in run(tenants.to_vec(), Vec::new(), true).iter().zip([30, 50]) {
            judge(&mut rows, &format!("4 {what} beside 4, {cap} %"), cap, came);
        }
    }
    rows.judge();
}

/// Who comes later does not make up for the time in which the first was alone.
#[test]
fn who_was_there_first_is_not_kept_waiting_for_it() {
    let mut rows = Rows::default();
    for has_daemon in [false, true] {
        let mut all = tenant(50, vec![named::sync(MS); 4]);
        for (process, start_ms) in all.processes.iter_mut().zip([0, 900, 907, 990]) {
            process.start_ns = start_ms * MS;
        }
        let came = &run(vec![all], Vec::new(), has_daemon)[0];
        judge(&mut rows, &format!("one 0.9 s before three{}", with(has_daemon)), 50, came);
    }
    rows.judge();
}

/// A thread that returns from a wait behind a turn that was handed on does not take it back.
#[test]
fn threads_of_a_worker_have_no_more_than_one() {
    let mut rows = Rows::default();
    for has_daemon in [false, true] {
        for us in [20, 100, 1_000, 5_000] {
            for threads in [2, 4] {
                let all = tenant(
                    50,
                    [named::threads(threads, us * US), named::sync(us * US), named::sync(us * US)],
                );
                let came = &run(vec![all], Vec::new(), has_daemon)[0];
                let what = format!("{threads} threads of {us} us beside two{}", with(has_daemon));
                judge(&mut rows, &what, 50, came);
            }
        }
    }
    rows.judge();
}

/// Workers that leave the device idle between their kernels have together what they would have without turns, up to
/// the cap. Without a daemon each has the device to itself for a while where tenants meet (decision 6).
#[test]
fn workers_with_gaps_lose_nothing_to_turns() {
    const CAP: u32 = 50;
    let mut rows = Rows::default();
    for (kernel_us, gap_us) in [(100, 300), (100, 1_000), (1_000, 2_000), (1_000, 5_000)] {
        for count in [2, 4, 8] {
            let ops = named::pausing(kernel_us * US, gap_us * US);
            let all = || vec![tenant(CAP.into(), vec![ops.clone(); count])];
            let came = &run(all(), Vec::new(), true)[0];
            let mut open = all();
            open[0].share_ppm = 0;
            let native = run(open, Vec::new(), false)[0].sum();
            let what = format!("{count} of {kernel_us} us each {gap_us} us");
            println!("{:.2?}, {} ms of nothing", came.each, came.longest_ns / MS);
            let sum = came.sum();
            let due = native.min(f64::from(CAP));
            rows.row(&format!("{what}: of native"), 1, oracle::of_native(), sum / due);
            let most = sum.max(f64::from(CAP));
            rows.row(&format!("{what}: no more than its cap"), CAP, oracle::together(), most);
            alike(&mut rows, &what, came);
        }
    }
    rows.judge();
}

/// Whoever has the turn may be killed, or stopped: the others go on.
#[test]
fn the_dead_and_the_stopped_keep_nobody_waiting() {
    let mut rows = Rows::default();
    for has_daemon in [false, true] {
        for (what, fault) in [("killed", Fault::Kill), ("stopped", Fault::Stop(4 * SECOND))] {
            for nth in 400..420 {
                let who = Actor { tenant: 0, process: 1, thread: 0 };
                let devs = vec![Dev { who, site: Site::Word, nth: nth * 37, what: fault }];
                let all = tenant(50, vec![named::sync(MS); 4]);
                let mut came = run(vec![all], devs, has_daemon).remove(0);
                assert_eq!(came.report.met.len(), 1, "it was {what}");
                let gone = came.each.remove(1);
                let row = format!("{what} at {nth}{}", with(has_daemon));
                rows.row(&row, 50, oracle::together(), came.sum() + gone);
                alike(&mut rows, &row, &came);
            }
        }
    }
    rows.judge();
}

/// Workers whose kernels are in each other's way have together what one of them has alone, where a daemon sees them: after
/// two seconds at most.
#[test]
fn workers_without_a_cap_take_turns_where_that_gains() {
    let mut rows = Rows::default();
    for us in [20, 100] {
        let alone = run(vec![tenant(0, [named::sync(us * US)])], Vec::new(), true)[0].sum();
        for count in [2, 4, 8] {
            let all = tenant(0, vec![named::sync(us * US); count]);
            let native = run(vec![all.clone()], Vec::new(), false)[0].sum();
            let came = &run(vec![all], Vec::new(), true)[0];
            let (sum, longest_ms) = (came.sum(), came.longest_ns / MS);
            println!("{sum:.1}, alone {alone:.1}, sliced {native:.1}, {longest_ms} ms of nothing");
            let what = format!("{count} of {us} us");
            rows.row(&format!("{what}: of one alone"), 1, oracle::of_one_alone(), sum / alone);
            alike(&mut rows, &what, came);
        }
    }
    rows.judge();
}

/// Two that hand work to each other on the host: after each `kernels` of so many nanoseconds the other goes on.
fn ping_pong(ns: u64, kernels: usize) -> Vec<Ops> {
    let body = |hears, tells| {
        let mut ops = vec![Op::Hear { number: hears }];
        ops.extend((0..kernels).flat_map(|_| [named::launch(1, ns), Op::Sync]));
        ops.push(Op::Tell { number: tells });
        Op::Repeat { times: 0, ops }
    };
    vec![vec![Op::Tell { number: 1 }, body(0, 1)], vec![body(1, 0)]]
}

/// Stages of a pipeline, each with so much to do; no more than two pieces between each other.
fn pipeline(stages_ns: &[u64]) -> Vec<Ops> {
    let last = stages_ns.len() as u32 - 1;
    let stage = |(at, ns): (u32, &u64)| {
        let room = 100 + at;
        let mut ops = Vec::new();
        if at > 0 {
            ops.push(Op::Hear { number: at });
        }
        ops.extend([named::launch(u64::from(at), *ns), Op::Sync]);
        if at > 0 {
            ops.push(Op::Tell { number: room });
        }
        if at < last {
            ops.extend([Op::Hear { number: room + 1 }, Op::Tell { number: at + 1 }]);
        }
        let first = (at < last).then(|| vec![Op::Tell { number: room + 1 }; 2]);
        let mut all = first.unwrap_or_default();
        all.push(Op::Repeat { times: 0, ops });
        all
    };
    (0..).zip(stages_ns).map(stage).collect()
}

/// Workers that turns gain nothing.
fn better_sliced() -> Vec<(&'static str, Vec<Ops>)> {
    vec![
        ("ping-pong 20 us", ping_pong(20 * US, 1)),
        ("ping-pong 10 of 100 us", ping_pong(100 * US, 10)),
        ("ping-pong 2 ms", ping_pong(2 * MS, 1)),
        ("pipeline 50, 80 us", pipeline(&[50 * US, 80 * US])),
        ("pipeline 1, 2, 1 ms", pipeline(&[MS, 2 * MS, MS])),
        ("4 queues of 100 us", vec![named::flood(100 * US); 4]),
        ("4 queues of 5 ms", vec![named::flood(5 * MS); 4]),
        ("2 of 5 ms", vec![named::sync(5 * MS); 2]),
        ("4 of 100 us each 1 ms", vec![named::pausing(100 * US, MS); 4]),
        ("4 of 1 ms each 2 ms", vec![named::pausing(MS, 2 * MS); 4]),
        ("8 of 20 us each 500 us", vec![named::pausing(20 * US, 500 * US); 8]),
        ("flood and 20 us", vec![named::flood(MS), named::sync(20 * US)]),
        (
            "one of 20 us and one that rests",
            vec![named::sync(20 * US), named::pausing(MS, 900 * MS)],
        ),
    ]
}

/// Where turns gain nothing, workers have what the driver gives them.
#[test]
fn workers_without_a_cap_lose_nothing_to_trials() {
    let mut rows = Rows::default();
    for (what, programs) in better_sliced() {
        let native = &run(vec![tenant(0, programs.clone())], Vec::new(), false)[0];
        let came = &run(vec![tenant(0, programs)], Vec::new(), true)[0];
        println!("{:.1?}, natively {:.1?}", came.each, native.each);
        let part = came.sum() / native.sum();
        rows.row(&format!("{what}: of what it has natively"), 1, oracle::of_native(), part);
        for (now, was) in came.each.iter().zip(&native.each) {
            rows.row(&format!("{what}: one of them"), 1, oracle::even().or_more(), now / was);
        }
    }
    rows.judge();
}

/// Workers that had long kernels take turns beside other tenants, so that what each uses shows; beside one that rests they have
/// what the driver gives them.
#[test]
fn workers_that_had_long_kernels_lose_nothing_beside_one_that_rests() {
    let mut rows = Rows::default();
    let long = || [named::launch(77, 5 * MS), Op::Sync];
    for (what, programs) in better_sliced() {
        let programs: Vec<Ops> =
            programs.into_iter().map(|ops| long().into_iter().chain(ops).collect()).collect();
        let native = &run(vec![tenant(0, programs.clone())], Vec::new(), false)[0];
        let rests = tenant(0, [named::pausing(MS, 900 * MS)]);
        let came = &run(vec![tenant(0, programs), rests], Vec::new(), true)[0];
        println!("{what}: {:.1?}, natively {:.1?}", came.each, native.each);
        let what = format!("{what} beside one that rests");
        rows.row(&what, 1, oracle::of_native(), came.sum() / native.sum());
    }
    rows.judge();
}
