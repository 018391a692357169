//! Turns inside a tenant without a cap: by trial, and only where they gain. Tenants are in memory, and what their
//! processes get done goes by the gate that stands.
#![cfg(not(loom))]

mod turns_memory;

use divvy_abi::config::gate;
use divvy_policy::turns::{GateEntry, Tenants};
use proptest::prelude::*;
use turns_memory::{Daemon, MS, SEC};

/// What a process gets done: launches a millisecond, and nanoseconds of each.
#[derive(Clone, Copy, Debug)]
struct Pace {
    beside: u64,
    turns: u64,
    each_ns: u64,
}

const SLOW: Pace = Pace { beside: 2, turns: 9, each_ns: 20_000 };
const SAME: Pace = Pace { beside: 9, turns: 9, each_ns: 20_000 };

/// A daemon of one tenant of processes.
fn daemon(paces: &[Pace]) -> Daemon {
    let mut daemon = Daemon::of(1);
    daemon.files(0).slots = vec![(GateEntry::default(), true); paces.len()];
    daemon
}

/// Steps until a time, with work; how long the gate stood so, in milliseconds.
fn run(daemon: &mut Daemon, paces: &[Pace], from_ns: u64, until_ns: u64) -> [u64; 5] {
    let mut stood = [0; 5];
    let mut next_ns = from_ns;
    for now_ns in (from_ns..until_ns).step_by(MS as usize) {
        let state = daemon.line(0).gate;
        stood[state as usize] += 1;
        for ((entry, _), pace) in daemon.files(0).slots.iter_mut().zip(paces) {
            let launches = match state {
                gate::FREE => continue,
                gate::TURNS => pace.turns,
                _ => pace.beside,
            };
            entry.launches = entry.launches.wrapping_add(launches);
            entry.used_ns = entry.used_ns.wrapping_add(launches * pace.each_ns);
            entry.last_launch_ns = now_ns;
        }
        if now_ns >= next_ns {
            next_ns = daemon.step(now_ns);
        }
    }
    stood
}

fn is_in_turns(daemon: &mut Daemon) -> bool {
    daemon.line(0).gate == gate::TURNS
}

#[test]
fn turns_stay_where_they_gain_and_within_two_seconds() {
    let paces = [SLOW; 4];
    let mut daemon = daemon(&paces);
    run(&mut daemon, &paces, SEC, 3 * SEC);
    assert!(is_in_turns(&mut daemon));
    let stood = run(&mut daemon, &paces, 3 * SEC, 63 * SEC);
    assert!(stood[gate::TURNS as usize] > 59_000, "compared anew each half minute: {stood:?}");
    assert!(stood[gate::TIMED as usize] > 300, "{stood:?}");
}

#[test]
fn turns_that_gain_nothing_are_tried_ever_more_rarely() {
    let worse = Pace { beside: 9, turns: 4, each_ns: 20_000 };
    for paces in [[SAME; 4], [worse; 4]] {
        let mut daemon = daemon(&paces);
        let first = run(&mut daemon, &paces, SEC, 11 * SEC);
        let later = run(&mut daemon, &paces, 11 * SEC, 71 * SEC);
        let most = if paces[0].turns == 9 { 1_000 } else { 150 };
        assert!((10..most).contains(&first[gate::TURNS as usize]), "{paces:?}: {first:?}");
        assert!(later[gate::TURNS as usize] < most, "{paces:?}: {later:?}");
        assert!(later[gate::FREE as usize] > 58_000, "{paces:?}: {later:?}");
    }
}

#[test]
fn one_that_gets_less_done_is_enough_against_turns() {
    let paces = [SLOW, SLOW, SLOW, Pace { beside: 12, turns: 9, each_ns: 20_000 }];
    let mut daemon = daemon(&paces);
    let stood = run(&mut daemon, &paces, SEC, 11 * SEC);
    assert!(stood[gate::TURNS as usize] < 1_000, "{stood:?}");
}

#[test]
fn those_that_are_not_in_each_others_way_are_left_alone() {
    let rests = Pace { beside: 0, turns: 0, each_ns: 0 };
    let little = Pace { beside: 1, turns: 9, each_ns: 1_000 };
    for paces in [vec![SLOW], vec![SLOW, rests, rests], vec![little; 3]] {
        let mut daemon = daemon(&paces);
        let stood = run(&mut daemon, &paces, SEC, 11 * SEC);
        assert_eq!(stood[gate::TURNS as usize], 0, "{paces:?}: {stood:?}");
        // A launch is counted for a part of the time at most.
        assert!(stood[gate::FREE as usize] > 7_000, "{paces:?}: {stood:?}");
    }
}

#[test]
fn who_comes_or_goes_in_a_trial_begins_it_anew() {
    let paces = [SLOW; 3];
    let mut daemon = daemon(&paces);
    let mut now_ns = SEC;
    while !is_in_turns(&mut daemon) {
        run(&mut daemon, &paces, now_ns, now_ns + MS);
        now_ns += MS;
    }
    daemon.files(0).slots[1].1 = false;
    run(&mut daemon, &paces, now_ns, now_ns + 30 * MS);
    assert!(!is_in_turns(&mut daemon), "the trial is over");
    run(&mut daemon, &paces, now_ns + 30 * MS, now_ns + 2 * SEC);
    assert!(is_in_turns(&mut daemon));
    // Once they stay, one more is one more.
    daemon.files(0).slots[1].1 = true;
    let stood = run(&mut daemon, &paces, now_ns + 2 * SEC, now_ns + 7 * SEC);
    assert!(stood[gate::TURNS as usize] > 4_990, "{stood:?}");
}

/// Their kernels' lengths show in turns alone, and others pay for what is taken for short.
#[test]
fn beside_another_tenant_those_with_long_kernels_take_turns() {
    let open_states = |longest_ms: [u64; 3], each_ns: u64| {
        let mut daemon = Daemon::of(2);
        daemon.files(0).slots = longest_ms
            .map(|ms| (GateEntry { longest_ns: ms * MS, ..GateEntry::default() }, true))
            .to_vec();
        let mut stood = [0; 5];
        for now_ns in (SEC..3 * SEC).step_by(MS as usize) {
            for tenant in 0..2 {
                let is_closed = daemon.line(tenant).gate == gate::CLOSED;
                for (entry, _) in &mut daemon.files(tenant).slots {
                    if is_closed {
                        entry.want_ns = now_ns;
                        continue;
                    }
                    entry.launches += 1;
                    entry.used_ns += each_ns;
                    (entry.last_launch_ns, entry.busy_until_ns) = (now_ns, now_ns + MS);
                }
            }
            daemon.step(now_ns);
            stood[daemon.line(0).gate as usize] += 1;
            assert_ne!(daemon.line(1).gate, gate::SHARED_TURNS, "it has one process");
        }
        (stood, daemon)
    };
    let (stood, _) = open_states([5, 5, 5], 20_000);
    assert!(stood[3..] == [0, 0], "they are short by now: {stood:?}");
    for long in [[5, 5, 5], [0, 2, 3]] {
        let (stood, mut daemon) = open_states(long, MS);
        let [_, timed, closed, _, shared] = stood;
        assert!(shared > 700 && closed > 800 && timed < 210, "{long:?}: {stood:?}");
        // Alone they are tried as any others.
        daemon.seats.0[1] = turns_memory::Seat::Left;
        daemon.is_changed = true;
        let paces = [SAME; 3];
        let stood = run(&mut daemon, &paces, 3 * SEC, 8 * SEC);
        assert!(stood[gate::TURNS as usize] < 1_000, "{long:?}: {stood:?}");
    }
    for short in [[1, 1, 1], [0, 0, 50]] {
        let (stood, _) = open_states(short, MS);
        assert_eq!(stood[3..], [0, 0], "{short:?}: {stood:?}");
    }
}

/// A cap binds processes by itself, and where an MPS daemon serves the device nobody takes turns.
#[test]
fn a_cap_and_mps_need_no_trial() {
    let paces = [SLOW; 4];
    let mut capped = daemon(&paces);
    let mut config = capped.files(0).config.clone();
    config.compute_rule_count = 1;
    config.compute_rules[0].quantity = divvy_abi::config::quantity::PPM;
    config.compute_rules[0].value = 300_000;
    config.epoch += 2;
    let tenant = capped.seats.get_mut(0).expect("a tenant");
    tenant.take_limits(config);
    tenant.name_rows([Some((turns_memory::CARD, Some(0)))].into_iter());
    let mut mps = daemon(&paces);
    mps.seated[0].mps = true;
    for mut daemon in [capped, mps] {
        let stood = run(&mut daemon, &paces, SEC, 5 * SEC);
        assert_eq!(stood[gate::TURNS as usize], 0, "{stood:?}");
    }
}

proptest! {
    /// No words make the daemon panic, nor a gate that is not open: it is one tenant's own matter.
    #[test]
    fn any_words_leave_the_gate_open(words in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 200..400)) {
        let mut daemon = daemon(&[SLOW; 3]);
        let mut now_ns = SEC;
        for (nth, (launches, used_ns, alive)) in words.into_iter().enumerate() {
            let (entry, lives) = &mut daemon.files(0).slots[nth % 3];
            (entry.launches, entry.used_ns, entry.last_launch_ns) = (launches, used_ns, now_ns);
            *lives = alive || nth % 7 != 0;
            now_ns = daemon.step(now_ns).min(now_ns + 50 * MS);
            prop_assert_ne!(daemon.line(0).gate, gate::CLOSED);
        }
    }
}
