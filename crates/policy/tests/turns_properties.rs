//! Properties of the turns over generated tenants: shares follow weights, caps hold, nobody starves,
//! priorities never invert, jobs on several devices make progress, garbage harms only its writer.
#![cfg(not(loom))]

mod turns_sim;

use divvy_policy::turns::{DeviceState, Gate, GateState, Sample, TenantState, Turns, tuning};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use turns_sim::{MS, Node, Program, SEC, Tenant, US};

const FROM: u64 = SEC;
const TO: u64 = 7 * SEC;

fn run(tenants: &[Tenant], devices: usize, seed: u64) -> Node {
    let mut node = Node::new(tenants, devices, seed);
    node.run_until(TO);
    node
}

fn solo(program: &Program) -> f64 {
    run(&[Tenant::new(program.clone())], 1, 1).ledger.share(0, FROM, TO)
}

/// Each case simulates seconds, and is judged by bounds that hold of most: the cases are the same in
/// each run.
fn quick() -> ProptestConfig {
    ProptestConfig {
        cases: 16,
        rng_seed: RngSeed::Fixed(0x5eed),
        max_shrink_iters: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Programs that always have work, with kernels of 20 us to 5 ms.
fn busy() -> impl Strategy<Value = Program> {
    let kernel_ns = prop::sample::select(vec![20 * US, 100 * US, 400 * US, MS, 5 * MS]);
    prop_oneof![
        kernel_ns.clone().prop_map(|kernel_ns| Program::Sync { kernel_ns, gap_ns: 1 }),
        kernel_ns.prop_map(|kernel_ns| Program::Queue { kernel_ns }),
    ]
}

/// Programs that leave the device idle at times.
fn any_program() -> impl Strategy<Value = Program> {
    let kernel_ns = prop::sample::select(vec![20 * US, 100 * US, MS, 5 * MS, 50 * MS]);
    let pause_ns = prop::sample::select(vec![50 * US, 500 * US, 5 * MS, 50 * MS]);
    prop_oneof![
        busy(),
        (kernel_ns.clone(), 1_u64..30, pause_ns.clone()).prop_map(
            |(kernel_ns, count, pause_ns)| { Program::Burst { kernel_ns, count, pause_ns } }
        ),
        (kernel_ns, pause_ns).prop_map(|(kernel_ns, gap_ns)| Program::Sync { kernel_ns, gap_ns }),
    ]
}

proptest! {
    #![proptest_config(quick())]

    /// Busy tenants get the device by weight, whatever their kernels.
    #[test]
    fn shares_follow_weights(
        tenants in prop::collection::vec((busy(), 5_u32..100), 2..5),
        seed: u64,
    ) {
        let total: u32 = tenants.iter().map(|(_, weight)| weight).sum();
        let all: Vec<Tenant> =
            tenants.iter().map(|(p, weight)| Tenant::new(p.clone()).weight(*weight)).collect();
        let node = run(&all, 1, seed);
        for (row, (program, weight)) in tenants.iter().enumerate() {
            let due = f64::from(*weight) / f64::from(total);
            let got = node.ledger.share(row, FROM, TO) / solo(program);
            prop_assert!((got - due).abs() < 0.02, "row {row}: {got:.4} of {due:.4}, {tenants:?}");
        }
    }

    /// A cap holds beside any weight, and what a cap leaves goes to the others.
    #[test]
    fn caps_and_weights_hold_together(
        program in busy(), cap in 10_u32..60, weight in 10_u32..100, seed: u64,
    ) {
        let tenants = [
            Tenant::new(program.clone()).cap(cap).weight(100),
            Tenant::new(program.clone()).weight(weight),
        ];
        let node = run(&tenants, 1, seed);
        let alone = solo(&program);
        let got = [node.ledger.share(0, FROM, TO), node.ledger.share(1, FROM, TO)];
        let due = (f64::from(cap) / 100.0).min(100.0 / f64::from(100 + weight));
        prop_assert!(got[0] < f64::from(cap) / 100.0 + 0.01, "{got:?}");
        prop_assert!(got[0] > (due - 0.12) * alone, "{got:?}, due {due}");
        prop_assert!((got[0] + got[1]) / alone > 0.80, "{got:?} of {alone}");
    }

    /// Whatever the others do, each gets most of its entitlement, or what the driver would give it.
    #[test]
    fn nobody_starves(programs in prop::collection::vec(any_program(), 2..5), seed: u64) {
        let all: Vec<Tenant> = programs.iter().cloned().map(Tenant::new).collect();
        let node = run(&all, 1, seed);
        let mut driver = Node::new(&all, 1, seed);
        driver.gated = false;
        driver.run_until(TO);
        for (row, program) in programs.iter().enumerate() {
            let entitled = 0.4 * solo(program) / programs.len() as f64;
            let due = entitled.min(0.6 * driver.ledger.share(row, FROM, TO));
            let got = node.ledger.share(row, FROM, TO);
            prop_assert!(got > due, "row {row}: {got:.4} of {due:.4}, {programs:?}");
        }
    }

    /// Without a floor nothing of lower priority takes time from work that never pauses, but for kernels
    /// that are too long to be bounded in flight: one that has begun shares the device until it ends.
    #[test]
    fn priorities_do_not_invert(high in busy(), low in any_program(), seed: u64) {
        let tenants = [Tenant::new(high.clone()).priority(1), Tenant::new(low.clone())];
        let mut node = Node::new(&tenants, 1, seed);
        node.floor_ppm = 0;
        node.run_until(TO);
        let got = node.ledger.share(0, FROM, TO);
        let alone = solo(&high);
        prop_assert!(got > 0.98 * alone, "{got:.4} of {alone:.4}, {high:?}, {low:?}");
    }

    /// With a floor a lower one has half of it at least, for what it can use of its pieces, and the higher one
    /// nearly all else.
    #[test]
    fn a_lower_one_has_the_floor(high in busy(), low in any_program(), seed: u64) {
        let tenants = [Tenant::new(high.clone()).priority(1), Tenant::new(low.clone())];
        let node = run(&tenants, 1, seed);
        let got = [0, 1].map(|row| node.ledger.share(row, FROM, TO));
        let (alone, floor) = (solo(&high), node.floor_ppm as f64 / 1e6);
        prop_assert!(got[0] > 0.94 * alone, "{:.4} of {alone:.4}, {high:?}, {low:?}", got[0]);
        let due = floor / 2.0 * solo(&low);
        prop_assert!(got[1] > due, "{:.4} of {due:.4}, {high:?}, {low:?}", got[1]);
    }

    /// A job on two devices and jobs on one of them each get their part.
    #[test]
    fn a_gang_neither_starves_nor_is_starved(
        gang in busy(), first in busy(), second in busy(), seed: u64,
    ) {
        let tenants = [
            Tenant::new(gang.clone()).on(&[0, 1]),
            Tenant::new(first.clone()).on(&[0]),
            Tenant::new(second.clone()).on(&[1]),
        ];
        let node = run(&tenants, 2, seed);
        // The books divide a gang's kernels by its devices and count each device. Its devices drain
        // one after the other, up to a horizon apart: that is the slack.
        for (row, program) in [&gang, &first, &second].into_iter().enumerate() {
            let due = solo(program) / 2.0;
            let got = node.ledger.share(row, FROM, TO);
            prop_assert!(got > 0.8 * due && got < 1.2 * due, "row {row}: {got:.4} of {due:.4}, {tenants:?}");
        }
    }

    /// A tenant that writes garbage does not take much from the others.
    #[test]
    fn garbage_harms_its_writer(
        honest in prop::collection::vec(busy(), 1..4), liar in busy(), seed: u64,
    ) {
        let mut all = vec![Tenant { hostile: true, ..Tenant::new(liar) }];
        all.extend(honest.iter().cloned().map(Tenant::new));
        let node = run(&all, 1, seed);
        for (row, program) in (1..).zip(&honest) {
            let due = solo(program) / all.len() as f64;
            let got = node.ledger.share(row, FROM, TO);
            prop_assert!(got > 0.7 * due, "row {row}: {got:.4} of {due:.4}");
        }
    }

    /// Nobody gets more of a device by opening and closing contexts on another one: what it owes the
    /// others, and whose turn it is, stays as it was.
    #[test]
    fn contexts_opened_and_closed_elsewhere_pay_no_debts(
        long in prop::sample::select(vec![5 * MS, 20 * MS, 40 * MS]),
        short in busy(), every_ms in 5_u64..200, seed: u64,
    ) {
        let every_ns = every_ms * MS;
        let visits = move |now_ns: u64| (now_ns / every_ns).is_multiple_of(2);
        let tenants = [
            Tenant::new(Program::Queue { kernel_ns: long }),
            Tenant::new(short.clone()),
            Tenant::new(short.clone()).on(&[1]),
        ];
        let mut node = Node::new(&tenants, 2, seed);
        for at_ns in (0..TO).step_by(MS as usize) {
            node.tenant_mut(0).visits = if visits(at_ns) { Some(1) } else { None };
            node.run_until(at_ns + MS);
        }
        let got = node.ledger.share(1, FROM, TO) / solo(&short);
        prop_assert!(got > 0.45, "{got:.3} of a half, {short:?} beside {long}, each {every_ms} ms");
    }

    /// Tenants that come and die leave the device to those that stay.
    #[test]
    fn the_dead_leave_nothing_closed(
        stays in busy(),
        passing in prop::collection::vec((any_program(), 0_u64..2_000, 1_u64..2_000), 1..5),
        seed: u64,
    ) {
        let mut all = vec![Tenant::new(stays.clone())];
        for (program, start_ms, life_ms) in passing {
            let start_ns = start_ms * MS;
            let stop_ns = start_ns + life_ms * MS;
            all.push(Tenant { start_ns, stop_ns, ..Tenant::new(program) });
        }
        let node = run(&all, 1, seed);
        prop_assert_eq!(node.gate(0, 0).state, GateState::Free);
        let got = node.ledger.share(0, 5 * SEC, TO);
        prop_assert!(got > 0.97 * solo(&stays), "{got}");
    }
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let time = || prop_oneof![Just(0), Just(u64::MAX), 0..10 * SEC, any::<u64>()];
    let flags =
        (prop::bool::weighted(0.8), any::<bool>(), prop::bool::weighted(0.1), any::<bool>());
    let times = (time(), time(), time(), time(), time());
    (flags, times, any::<u64>(), prop_oneof![Just(0), any::<u32>()], -1_i32..2, any::<u32>())
        .prop_map(
            |((attached, wants, paused, latency), times, launches, weight, priority, share_ppm)| {
                Sample {
                    attached,
                    wants,
                    paused,
                    latency,
                    busy_until_ns: times.0,
                    last_launch_ns: times.1,
                    used_ns: times.2,
                    launches,
                    waited_ns: times.1,
                    sleeps: launches & 1 == 0,
                    sleepers: launches & 3,
                    contexts: (launches >> 32) as u32,
                    closed_until_ns: times.3,
                    longest_ns: times.4,
                    weight,
                    priority,
                    share_ppm,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any samples at any times: no panic, a next step in time, paused tenants closed, lone ones open,
    /// unattached ones free.
    #[test]
    fn any_samples_are_survived(
        steps in prop::collection::vec(
            (prop::collection::vec(any_sample(), 12), prop_oneof![0_u64..MS, 0..SEC, Just(u64::MAX)]),
            1..40,
        ),
    ) {
        let mut tenants = vec![TenantState::default(); 4];
        let mut devices = vec![DeviceState::default(); 3];
        let mut gates = vec![Gate::default(); 12];
        let mut now_ns = 0_u64;
        for (samples, passed_ns) in steps {
            now_ns = now_ns.saturating_add(passed_ns).min(u64::MAX - SEC);
            let next_ns =
                Turns { floor_ppm: tuning::FLOOR_PPM, tenants: &mut tenants, devices: &mut devices }
                    .step(now_ns, &samples, &[0, 0, 1], &mut gates);
            prop_assert!(next_ns > now_ns && next_ns <= now_ns + tuning::LEASE_POLL_NS);
            for row in 0..4 {
                let paused = (0..3).any(|d| samples[row * 3 + d].attached && samples[row * 3 + d].paused);
                for device in 0..3 {
                    let index = row * 3 + device;
                    let state = gates[index].state;
                    let alone = (0..4).filter(|r| samples[r * 3 + device].attached).count() < 2;
                    match samples[index] {
                        Sample { attached: false, .. } => prop_assert_eq!(state, GateState::Free),
                        _ if paused => prop_assert_eq!(state, GateState::Closed),
                        _ if alone || device == 2 => prop_assert!(state != GateState::Closed),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// One that used the device for much longer than its turn, closes its contexts and comes back, still has
/// to wait as long as it would have had to.
#[test]
fn who_leaves_comes_back_with_its_debt() {
    // Time that the second gets of the first 250 ms after the first has left for 10 ms, or has not.
    let second_gets = |leaves: bool| {
        let (mut tenants, mut devices) =
            (vec![TenantState::default(); 2], vec![DeviceState::default()]);
        let mut gates = vec![Gate::default(); 2];
        let mut samples = [Sample { attached: true, ..Sample::default() }; 2];
        let (mut now_ns, mut long_until_ns, mut left_ns, mut got_ns) = (SEC, 0, 0, 0);
        while left_ns == 0 || now_ns < left_ns + 250 * MS {
            for (row, sample) in samples.iter_mut().enumerate() {
                let is_open = gates[row].state != GateState::Closed;
                let away = row == 0 && leaves && left_ns != 0 && now_ns < left_ns + 10 * MS;
                *sample = Sample { attached: !away, wants: !is_open && !away, ..*sample };
                if row == 0 && is_open && now_ns > SEC + 500 * MS && long_until_ns == 0 {
                    // Within a turn of its own.
                    long_until_ns = now_ns + 300 * MS;
                }
                if is_open && !away {
                    let until_ns = if row == 0 { long_until_ns } else { 0 };
                    sample.busy_until_ns = until_ns.max(now_ns + MS);
                    sample.last_launch_ns = now_ns;
                    sample.launches += 1;
                }
            }
            if long_until_ns != 0 && now_ns > long_until_ns && left_ns == 0 {
                left_ns = now_ns;
            }
            let holds = |row: usize| gates[row].state != GateState::Closed;
            if left_ns != 0 && holds(1) && !holds(0) {
                got_ns += MS / 4;
            }
            Turns { floor_ppm: tuning::FLOOR_PPM, tenants: &mut tenants, devices: &mut devices }
                .step(now_ns, &samples, &[0], &mut gates);
            now_ns += MS / 4;
        }
        got_ns
    };
    let (stayed_ns, left_ns) = (second_gets(false), second_gets(true));
    println!("{} and {} ms of 250", stayed_ns / MS, left_ns / MS);
    assert!(stayed_ns > 100 * MS, "it owes for 300 ms: {stayed_ns}");
    assert!(left_ns + 20 * MS > stayed_ns, "{left_ns} of {stayed_ns}");
}
