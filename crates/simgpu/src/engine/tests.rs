//! The model against the rows of the measurement it is calibrated by, to within a few percent, in
//! simulated time.

use super::*;
use crate::calibration::{
    COPY_IN_BYTES_PER_S, SWITCH_DRY_NS, SWITCH_PREEMPT_NS, SYNCHRONISE_GAP_NS,
};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A client that keeps `depth` kernels in flight and hands the next in `gap_ns` after one ends.
struct Client {
    context: u64,
    kernel_ns: u64,
    depth: u64,
    gap_ns: u64,
}

/// Plays clients against one device for a second; answers the part of it each one's kernels ran.
fn shares(clients: &[Client]) -> Vec<f64> {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    let mut busy = vec![0u64; clients.len()];
    let mut sequence = 0;
    // Submissions to come: time, lane.
    let mut arrivals: Vec<(u64, u64)> = Vec::new();
    for (lane, client) in clients.iter().enumerate() {
        arrivals.extend((0..client.depth).map(|_| (lane as u64, lane as u64)));
    }
    while let Some(index) = (0..arrivals.len()).min_by_key(|index| arrivals[*index]) {
        let (at_ns, lane) = arrivals.swap_remove(index);
        if at_ns >= SECOND_NS {
            break;
        }
        let event_ns = engines.next_event_ns().filter(|event_ns| *event_ns < at_ns);
        if let Some(event_ns) = event_ns {
            arrivals.push((at_ns, lane));
            engines.advance(event_ns, &mut report);
        } else {
            engines.advance(at_ns, &mut report);
            sequence += 1;
            let client = &clients[lane as usize];
            engines.submit(
                lane,
                job(client.context, sequence, client.kernel_ns, at_ns),
                at_ns,
                &mut report,
            );
        }
        for ending in report.endings.drain(..) {
            let client = &clients[ending.lane as usize];
            arrivals.push((ending.finished_ns + client.gap_ns, ending.lane));
        }
        // With everybody waiting for the device, time goes on by its events alone.
        while arrivals.is_empty() {
            let Some(event_ns) = engines.next_event_ns() else { break };
            engines.advance(event_ns, &mut report);
            for ending in report.endings.drain(..) {
                let client = &clients[ending.lane as usize];
                arrivals.push((ending.finished_ns + client.gap_ns, ending.lane));
            }
        }
        for stretch in report.busy.drain(..) {
            let owner = clients.iter().position(|client| client.context == stretch.context);
            busy[owner.unwrap()] += stretch.to_ns - stretch.from_ns;
        }
    }
    busy.iter().map(|ns| *ns as f64 / SECOND_NS as f64).collect()
}

fn job(context: u64, sequence: u64, amount: u64, submitted_ns: u64) -> Job {
    Job {
        sequence,
        context,
        engine: Engine::Compute,
        amount,
        width_permille: 1000,
        pace: Pace::Work,
        submitted_ns,
    }
}

fn synchronising(contexts: u64, kernel_ns: u64) -> f64 {
    let clients: Vec<Client> = (1..=contexts)
        .map(|context| Client { context, kernel_ns, depth: 1, gap_ns: SYNCHRONISE_GAP_NS })
        .collect();
    let shares = shares(&clients);
    let (low, high) = shares
        .iter()
        .fold((1.0f64, 0.0f64), |(low, high), share| (low.min(*share), high.max(*share)));
    assert!(high - low < 0.02, "equal tenants got {shares:?}");
    shares.iter().sum()
}

fn near(got: f64, measured: f64, tolerance: f64) {
    assert!((got - measured).abs() <= tolerance, "{got:.3}, measured {measured:.3}");
}

#[test]
fn one_tenant_alone() {
    near(synchronising(1, 100_000), 0.94, 0.02);
    near(synchronising(1, 20_000), 0.717, 0.03);
}

#[test]
fn synchronising_tenants_lose_to_the_switch() {
    near(synchronising(2, 100_000), 0.42, 0.02);
    near(synchronising(3, 100_000), 0.42, 0.02);
    near(synchronising(2, 20_000), 0.127, 0.01);
    near(synchronising(2, 1_000_000), 0.87, 0.03);
}

#[test]
fn queued_tenants_take_slices() {
    let clients: Vec<Client> = (1..=2)
        .map(|context| Client { context, kernel_ns: 100_000, depth: 100, gap_ns: 0 })
        .collect();
    let shares = shares(&clients);
    near(shares.iter().sum(), 0.92, 0.01);
    near(shares[0], shares[1], 0.02);
}

/// The sum of two tenants that launch `batch` kernels of 100 µs and then synchronise.
fn batches(time_scale: u32, batch: u64) -> f64 {
    let mut engines = Engines::new(time_scale);
    let mut report = Report::default();
    let (mut busy_ns, mut sequence, mut ended) = (0, 0, [0, 0]);
    let scale = u64::from(time_scale);
    let mut hand_in = |engines: &mut Engines, report: &mut Report, lane: u64, at_ns: u64| {
        engines.advance(at_ns, report);
        for _ in 0..batch {
            sequence += 1;
            engines.submit(lane, job(lane + 1, sequence, 100_000, at_ns), at_ns, report);
        }
    };
    hand_in(&mut engines, &mut report, 0, 0);
    hand_in(&mut engines, &mut report, 1, 0);
    while let Some(event_ns) = engines.next_event_ns().filter(|at| *at < SECOND_NS * scale) {
        engines.advance(event_ns, &mut report);
        busy_ns += report.busy.drain(..).map(|busy| busy.to_ns - busy.from_ns).sum::<u64>();
        for ending in std::mem::take(&mut report.endings) {
            let lane = ending.lane as usize;
            ended[lane] += 1;
            if ended[lane] == batch {
                ended[lane] = 0;
                let next_ns = ending.finished_ns + SYNCHRONISE_GAP_NS * scale;
                hand_in(&mut engines, &mut report, ending.lane, next_ns);
            }
        }
    }
    busy_ns as f64 / (SECOND_NS * scale) as f64
}

#[test]
fn a_queue_of_a_slice_loses_as_measured() {
    near(batches(1, 10), 0.883, 0.01);
}

#[test]
fn a_slower_machine_loses_the_same() {
    for batch in [1, 3, 10, 25] {
        near(batches(10, batch), batches(1, batch), 0.000_1);
    }
}

/// Beginnings and ends of all jobs but the first.
fn times_after_first(report: &Report) -> Vec<(u64, u64)> {
    let times = |ending: &Ending| (ending.started_ns, ending.finished_ns);
    report.endings.iter().skip(1).map(times).collect()
}

#[test]
fn work_queued_ahead_runs_back_to_back_however_late_the_packets_come() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    // The context comes in.
    engines.submit(1, job(1, 1, 0, 0), 0, &mut report);
    engines.advance(500_000, &mut report);
    engines.submit(1, job(1, 2, 100_000, 501_000), 505_000, &mut report);
    engines.submit(1, job(1, 3, 100_000, 502_000), 506_000, &mut report);
    // The daemon sleeps through both ends, and what follows comes late too.
    engines.advance(850_000, &mut report);
    engines.submit(1, job(1, 4, 100_000, 650_000), 850_000, &mut report);
    engines.advance(850_000, &mut report);
    engines.submit(1, job(1, 5, 100_000, 810_000), 850_000, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let times = times_after_first(&report);
    let expected = [(501_000, 601_000), (601_000, 701_000), (701_000, 801_000), (810_000, 910_000)];
    assert_eq!(times, expected);
}

#[test]
fn work_handed_in_later_begins_later_and_holds_nobody_up() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    engines.submit(1, job(1, 1, 0, 0), 0, &mut report);
    engines.advance(500_000, &mut report);
    engines.submit(1, job(1, 2, 100_000, 507_000), 500_000, &mut report);
    engines.submit(2, job(1, 1, 3_000, 500_000), 500_000, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let times = times_after_first(&report);
    assert_eq!(times, [(500_000, 503_000), (507_000, 607_000)]);
    // Dropped before it was handed in, it never was.
    engines.submit(1, job(1, 3, 100_000, 2 * SECOND_NS), SECOND_NS, &mut report);
    engines.forget_context(1, SECOND_NS, &mut report);
    assert_eq!(report.endings.last().map(|ending| ending.finished_ns), Some(SECOND_NS));
    assert_eq!(engines.next_event_ns(), None);
}

#[test]
fn a_turn_costs_the_dry_switch_whatever_ran_before() {
    for kernel_ns in [20_000, 100_000, 900_000] {
        let mut engines = Engines::new(1);
        let mut report = Report::default();
        engines.submit(1, job(1, 1, kernel_ns, 0), 0, &mut report);
        engines.advance(SECOND_NS, &mut report);
        let ready_ns = report.endings[0].finished_ns + 10_000;
        engines.submit(2, job(2, 1, kernel_ns, ready_ns), ready_ns, &mut report);
        engines.advance(SECOND_NS, &mut report);
        let pause_ns = report.endings[1].started_ns - report.endings[0].finished_ns;
        assert!((145_000..=160_000).contains(&pause_ns), "{pause_ns}");
    }
}

/// On an H200 an event alone on its stream left a gap of 365 us in another context's queue; here it is
/// what kernels were measured to cost, a third less.
#[test]
fn an_event_in_anothers_slice_costs_two_switches() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    for sequence in 1..=60 {
        engines.submit(1, job(1, sequence, 100_000, 0), 0, &mut report);
    }
    let event = Job { amount: 0, width_permille: 0, ..job(2, 1, 0, 2_500_000) };
    engines.advance(2_500_000, &mut report);
    engines.submit(2, event, 2_500_000, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let starts: Vec<u64> =
        report.endings.iter().filter(|end| end.lane == 1).map(|end| end.started_ns).collect();
    let gaps = starts.windows(2).map(|pair| pair[1] - pair[0] - 100_000).filter(|gap| *gap > 0);
    let gaps: Vec<u64> = gaps.collect();
    assert_eq!(gaps, [SWITCH_PREEMPT_NS + SWITCH_DRY_NS]);
}

#[test]
fn an_event_takes_no_time_beside_its_own_kernels() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    engines.submit(1, job(1, 1, 100_000, 0), 0, &mut report);
    engines.submit(1, job(1, 2, 100_000, 0), 0, &mut report);
    engines.submit(2, job(1, 1, 100_000, 0), 0, &mut report);
    engines.advance(50_000, &mut report);
    let event = Job { amount: 0, width_permille: 0, ..job(1, 1, 0, 50_000) };
    engines.submit(3, event, 50_000, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let event = report.endings.iter().find(|end| end.lane == 3).map(|end| end.finished_ns);
    let last = report.endings.iter().map(|end| end.finished_ns).max();
    let first = report.endings.iter().map(|end| end.started_ns).min();
    assert_eq!(last.zip(first).map(|(last, first)| last - first), Some(300_000));
    assert!(event.zip(first).is_some_and(|(event, first)| event < first + 100_000), "{event:?}");
}

#[test]
fn a_spin_lasts_what_it_says_on_a_slower_machine() {
    let mut engines = Engines::new(10);
    let mut report = Report::default();
    engines.submit(1, Job { pace: Pace::Wall, ..job(1, 1, 100_000, 0) }, 0, &mut report);
    engines.submit(1, job(1, 2, 100_000, 0), 0, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let first_ns = report.endings[0].started_ns;
    let ends: Vec<u64> =
        report.endings.iter().map(|ending| ending.finished_ns - first_ns).collect();
    assert_eq!(ends, [100_000, 1_100_000]);
}

#[test]
fn a_kernel_longer_than_its_slice_stretches() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    engines.submit(1, job(1, 1, 5_000_000, 0), 0, &mut report);
    engines.submit(2, job(2, 1, 5_000_000, 0), 0, &mut report);
    engines.advance(SECOND_NS, &mut report);
    assert_eq!(report.endings.len(), 2);
    for ending in &report.endings {
        let wall_ns = ending.finished_ns - ending.started_ns;
        assert!(wall_ns > 9_000_000, "took {wall_ns} ns");
    }
}

#[test]
fn a_spin_counts_on_while_it_is_out() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    let spin = Job { pace: Pace::Wall, ..job(1, 1, 5_000_000, 0) };
    engines.submit(1, spin, 0, &mut report);
    engines.submit(2, job(2, 1, 50_000_000, 0), 0, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let spun = report.endings.iter().find(|ending| ending.lane == 1).unwrap();
    assert!(spun.finished_ns - spun.started_ns < 7_000_000);
}

#[test]
fn narrow_kernels_of_one_context_run_side_by_side() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    for lane in 1..=3 {
        let half = Job { width_permille: 500, ..job(1, 1, 100_000, 0) };
        engines.submit(lane, half, 0, &mut report);
    }
    engines.advance(SECOND_NS, &mut report);
    let mut ends: Vec<u64> = report.endings.iter().map(|ending| ending.finished_ns).collect();
    ends.sort_unstable();
    let first = ends[0];
    assert_eq!(ends, [first, first, first + 100_000]);
}

#[test]
fn a_lane_is_in_order_over_all_engines() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    let copy =
        Job { engine: Engine::CopyIn, amount: COPY_IN_BYTES_PER_S / 1000, ..job(1, 1, 0, 0) };
    engines.submit(1, copy, 0, &mut report);
    engines.submit(1, job(1, 2, 100_000, 0), 0, &mut report);
    engines.submit(1, Job { sequence: 3, ..copy }, 0, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let sequences: Vec<u64> = report.endings.iter().map(|ending| ending.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    assert!(report.endings.windows(2).all(|pair| pair[0].finished_ns <= pair[1].started_ns));
    assert_eq!(report.endings[0].finished_ns, 1_000_000);
}

#[test]
fn the_dead_make_room_at_once() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    engines.submit(1, job(1, 1, 100 * SECOND_NS, 0), 0, &mut report);
    engines.submit(2, job(2, 1, 100_000, 0), 0, &mut report);
    engines.advance(300_000, &mut report);
    engines.forget_lane(1, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let ending = report.endings.iter().find(|ending| ending.lane == 2).unwrap();
    assert!(ending.finished_ns < 1_000_000, "{ending:?}");
    assert_eq!(engines.next_event_ns(), None);
}

#[test]
fn no_end_is_told_twice_and_none_is_left_out() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    let copy = Job { engine: Engine::CopyIn, amount: COPY_IN_BYTES_PER_S / 100, ..job(1, 1, 0, 0) };
    // Copies are told at once, the kernel behind them is not.
    engines.submit(1, copy, 0, &mut report);
    engines.submit(1, job(1, 2, 100_000, 0), 0, &mut report);
    engines.submit(1, Job { sequence: 3, context: 2, ..copy }, 0, &mut report);
    engines.advance(1_000_000, &mut report);
    engines.forget_context(1, 1_000_000, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let sequences: Vec<u64> = report.endings.iter().map(|ending| ending.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    assert_eq!(engines.next_event_ns(), None);
}

#[test]
fn a_destroyed_context_ends_its_work_and_no_other() {
    let mut engines = Engines::new(1);
    let mut report = Report::default();
    engines.submit(1, job(1, 1, 100 * SECOND_NS, 0), 0, &mut report);
    engines.submit(1, job(2, 2, 100_000, 0), 0, &mut report);
    engines.advance(1_000_000, &mut report);
    engines.forget_context(1, 1_000_000, &mut report);
    engines.advance(SECOND_NS, &mut report);
    let ends: Vec<(u64, u64)> =
        report.endings.iter().map(|ending| (ending.sequence, ending.finished_ns)).collect();
    assert_eq!(ends[0], (1, 1_000_000));
    assert_eq!(ends[1].0, 2);
    assert!(ends[1].1 < 1_500_000);
}

#[derive(Clone, Debug)]
enum Step {
    Submit { lane: u64, context: u64, engine: u8, amount: u64, width: u32, wall: bool },
    ForgetLane(u64),
    ForgetContext(u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..4, 0u64..3, 0u8..3, 0u64..3_000_000, 1u32..1001, any::<bool>()).prop_map(
            |(lane, context, engine, amount, width, wall)| Step::Submit {
                lane, context, engine, amount, width, wall
            }
        ),
        1 => (0u64..4).prop_map(Step::ForgetLane),
        1 => (0u64..3).prop_map(Step::ForgetContext),
        4 => (0u64..2_000_000).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_each_end_is_told_once_and_in_order(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let mut engines = Engines::new(1);
        let mut report = Report::default();
        let mut now_ns = 0;
        let mut submitted: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut forgotten = Vec::new();
        for (sequence, step) in (1..).zip(steps) {
            engines.advance(now_ns, &mut report);
            match step {
                Step::Submit { lane, context, engine, amount, width, wall } => {
                    // A lane that was dropped is never used again.
                    let lane = lane + 10 * forgotten.len() as u64;
                    let engine = [Engine::Compute, Engine::CopyIn, Engine::CopyOut][usize::from(engine)];
                    let pace = if wall { Pace::Wall } else { Pace::Work };
                    let new = Job {
                        engine, pace, width_permille: width, ..job(context, sequence, amount, now_ns + amount % 1000)
                    };
                    engines.submit(lane, new, now_ns, &mut report);
                    submitted.entry(lane).or_default().push(sequence);
                }
                Step::ForgetLane(lane) => {
                    let lane = lane + 10 * forgotten.len() as u64;
                    engines.forget_lane(lane, &mut report);
                    forgotten.push(lane);
                }
                Step::ForgetContext(context) => engines.forget_context(context, now_ns, &mut report),
                Step::Wait(ns) => now_ns += ns,
            }
        }
        engines.advance(1 << 50, &mut report);
        prop_assert_eq!(engines.next_event_ns(), None);
        for (lane, sequences) in submitted {
            let told: Vec<&Ending> =
                report.endings.iter().filter(|ending| ending.lane == lane).collect();
            let order: Vec<u64> = told.iter().map(|ending| ending.sequence).collect();
            if forgotten.contains(&lane) {
                prop_assert!(sequences.starts_with(&order));
            } else {
                prop_assert_eq!(order, sequences);
            }
            prop_assert!(told.iter().all(|ending| ending.started_ns <= ending.finished_ns));
        }
        let mut busy: Vec<_> = report.busy.iter().filter(|busy| busy.compute).collect();
        busy.sort_by_key(|busy| busy.from_ns);
        prop_assert!(busy.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
    }
}
