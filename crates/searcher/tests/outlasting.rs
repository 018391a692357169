//! Tenants whose kernels outlast their turns have what weights and caps say, and so has whoever is beside them.
//!
//! Such work is in flight when the next turn begins, is sliced with that tenant's, and shows how long it took when both
//! have had many turns: who is not charged for it has what he likes.

mod table;

use divvy_searcher::case::TenantPlan;
use divvy_searcher::program::{Length, Op, Ops, named};
use divvy_searcher::rows::Rows;
use divvy_searcher::{MS, SECOND, US, oracle};

const RUN_NS: u64 = 20 * SECOND;

/// What it is, how many processes do it, and its longest kernel.
type Program = (&'static str, usize, Ops, u64);

fn programs() -> Vec<Program> {
    let lengths = [vec![4_756 * US; 17], vec![126 * US; 18]].concat();
    let runs = named::queue_of(lengths);
    let many = [(170, 10 * US), (4, 39 * MS)].map(|(n, ns)| named::repeat(n, named::launch(1, ns)));
    let many = named::forever(many.into_iter().chain([Op::Sync]).collect());
    vec![
        ("200 of 5 us, then 4 of 40 ms", 1, named::liar(), 40 * MS),
        ("2 of these", 2, named::liar(), 40 * MS),
        ("2 of 170 of 10 us, then 4 of 39 ms", 2, many, 39 * MS),
        ("40 ms", 1, named::sync(40 * MS), 40 * MS),
        ("4 of 40 ms", 4, named::sync(40 * MS), 40 * MS),
        ("4 queues of 4 of 40 ms", 4, named::queue(4, 40 * MS), 40 * MS),
        ("2 with runs of long ones", 2, runs.clone(), 5 * MS),
        ("4 with runs of long ones", 4, runs, 5 * MS),
    ]
}

fn plan((_, processes, ops, _): &Program) -> TenantPlan {
    let plan = TenantPlan::of(ops.clone());
    TenantPlan { processes: vec![plan.processes[0].clone(); *processes], ..plan }
}

/// Those they are beside: two kernels and a synchronisation, and 64 and one.
fn others() -> [(&'static str, Ops); 2] {
    let two = named::launch_on(2, Length::List(vec![286 * US, 521 * US]), 0);
    let queue = named::repeat(64, named::launch(2, MS));
    [
        ("a loop", named::forever(vec![two.clone(), two, Op::Sync])),
        ("a queue", named::forever(vec![queue, Op::Sync])),
    ]
}

/// What is in flight of one when its turn ends, sliced with others' work.
fn in_flight_ns((_, processes, _, longest_ns): &Program) -> u64 {
    2 * longest_ns * *processes as u64
}

/// Where the driver's slices divided the device, four processes had 80 of 60 %.
#[test]
fn whoever_is_beside_them_has_its_weight() {
    let mut rows = Rows::default();
    for program in &programs() {
        for (beside, other) in others() {
            let tenants = vec![
                TenantPlan { weight: 300, ..plan(program) },
                TenantPlan { weight: 200, ..TenantPlan::of(other) },
            ];
            let had = table::shares(tenants, true, RUN_NS);
            let of_both = 100.0 * had[1] / (had[0] + had[1]);
            let within = oracle::outlasting(40, in_flight_ns(program), RUN_NS);
            rows.row(&format!("beside {}: {beside}", program.0), 40, within, of_both);
        }
    }
    rows.judge();
}

/// Beside another tenant that showed nothing, and the first had what it liked: 66 of 30 %. Of several that were taken for
/// done while they slept, each was charged for the others: 16 of 30 with a daemon.
#[test]
fn their_cap_holds_beside_others_and_alone() {
    let mut rows = Rows::default();
    for program in &programs() {
        for cap in [10_u32, 30, 50] {
            let capped = || TenantPlan { share_ppm: u64::from(cap) * 10_000, ..plan(program) };
            let within = oracle::share_of_units(in_flight_ns(program), RUN_NS);
            let sliced = oracle::outlasting(cap, in_flight_ns(program), RUN_NS);
            for (beside, other) in others() {
                let had = table::shares(vec![capped(), TenantPlan::of(other)], true, RUN_NS);
                let row = format!("{} under {cap} beside {beside}", program.0);
                rows.row(&row, cap, sliced, had[0]);
            }
            for has_daemon in [false, true] {
                let had = table::shares(vec![capped()], has_daemon, RUN_NS);
                let row = format!("{} under {cap}, daemon {has_daemon}", program.0);
                rows.row(&row, cap, within, had[0]);
            }
        }
    }
    rows.judge();
}
