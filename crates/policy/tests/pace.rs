//! The virtual clock of a cap: what is owed is repaid, what is saved is bounded.

mod words;

use divvy_policy::pace::{Cap, CapState};
use proptest::prelude::*;
use words::Words;

const MS: u64 = 1_000_000;

fn cap(percent: u64) -> Cap {
    Cap { share_ppm: percent * 10_000, quantum_ns: 4 * MS, unsettled_since_ns: u64::MAX }
}

/// Device time run within `wall_ns` by a program that always has a kernel of `kernel_ns` ready.
fn run(cap: Cap, words: &Words, from_ns: u64, wall_ns: u64, kernel_ns: u64) -> u64 {
    let (mut now_ns, mut busy_ns) = (from_ns, 0);
    while now_ns < from_ns + wall_ns {
        match cap.admit(words, now_ns) {
            CapState::Open => {
                cap.charge(words, now_ns, kernel_ns as i64);
                now_ns += kernel_ns;
                busy_ns += kernel_ns;
            }
            CapState::Closed { until_ns } => {
                assert!(until_ns > now_ns);
                now_ns = until_ns;
            }
        }
    }
    busy_ns
}

#[test]
fn a_long_kernel_is_repaid_in_full() {
    let words = Words::default();
    let ten = cap(10);
    assert_eq!(ten.admit(&words, 1_000 * MS), CapState::Open);
    ten.charge(&words, 1_000 * MS, 500 * MS as i64);
    let CapState::Closed { until_ns } = ten.admit(&words, 1_500 * MS) else { panic!() };
    // 500 ms cost 5 s from the credit of one quantum on, and the next burst is saved up too.
    assert_eq!(until_ns, 1_000 * MS - 40 * MS + 5_000 * MS + 20 * MS);
    assert_eq!(ten.admit(&words, until_ns), CapState::Open);
}

#[test]
fn idleness_is_worth_one_quantum() {
    let words = Words::default();
    let cap = cap(50);
    cap.charge(&words, 100 * MS, 0);
    assert_eq!(cap.admit(&words, 60_000 * MS), CapState::Open);
    cap.charge(&words, 60_000 * MS, 4 * MS as i64);
    assert!(matches!(cap.admit(&words, 60_000 * MS), CapState::Closed { .. }));
}

#[test]
fn a_changed_share_values_debt_anew_once() {
    let words = Words::default();
    cap(10).charge(&words, 1_000 * MS, 104 * MS as i64);
    assert_eq!(words.paid_at.get(), 2_000 * MS);
    assert!(matches!(cap(50).admit(&words, 1_000 * MS), CapState::Closed { .. }));
    assert_eq!(words.paid_at.get(), 1_200 * MS);
    cap(50).charge(&words, 1_000 * MS, 0);
    assert_eq!(words.paid_at.get(), 1_200 * MS);
}

#[test]
fn a_correction_gives_back_and_never_more_than_a_quantum() {
    let words = Words::default();
    let cap = cap(50);
    cap.charge(&words, 100 * MS, 10 * MS as i64);
    let before_ns = words.paid_at.get();
    cap.charge(&words, 100 * MS, -(2 * MS as i64));
    assert_eq!(words.paid_at.get(), before_ns - 4 * MS);
    cap.charge(&words, 100 * MS, i64::MIN);
    assert_eq!(words.paid_at.get(), 92 * MS);
}

proptest! {
    #[test]
    fn the_share_is_reached_whatever_the_kernel(
        percent in 1_u64..=99,
        kernel_ns in 1_000_u64..600 * MS,
        start_ns in 0_u64..1 << 50,
    ) {
        let wall_ns = 400 * kernel_ns.max(4 * MS) * 100 / percent;
        let cap = cap(percent);
        let busy_ns = run(cap, &Words::default(), start_ns + 1, wall_ns, kernel_ns);
        let share = busy_ns as f64 / wall_ns as f64;
        prop_assert!((share - percent as f64 / 100.0).abs() < 0.01, "{share} of {percent} %");
    }

    #[test]
    fn no_argument_panics(
        share_ppm: u64, quantum_ns: u64, now_ns: u64, ns: i64, paid: u64, old: u64, closed: u64,
    ) {
        let words = Words { paid_at: paid.into(), share: old.into(), closed: closed.into(), ..Words::default() };
        let cap = Cap { share_ppm, quantum_ns, unsettled_since_ns: u64::MAX };
        cap.charge(&words, now_ns, ns);
        if let CapState::Closed { until_ns } = cap.admit(&words, now_ns) {
            prop_assert!(until_ns > now_ns);
        }
    }
}

/// A long kernel that was admitted as a short one: the wall time in which it ran pays for it, however much that
/// is, once it is charged.
#[test]
fn wall_time_pays_for_work_that_is_charged_late() {
    let clock = Words::default();
    let now_ns = 100_000 * MS;
    let cap = Cap { share_ppm: 300_000, quantum_ns: 4 * MS, unsettled_since_ns: u64::MAX };
    cap.charge(&clock, now_ns, 1_000);
    // It takes 300 ms, in which others look at the gate.
    let unsettled = Cap { unsettled_since_ns: now_ns, ..cap };
    for ms in [1, 50, 299] {
        assert_eq!(unsettled.admit(&clock, now_ns + ms * MS), CapState::Open);
    }
    let end_ns = now_ns + 300 * MS;
    unsettled.charge(&clock, end_ns, 300 * MS as i64);
    let CapState::Closed { until_ns } = cap.admit(&clock, end_ns) else { panic!("a debt") };
    // A second of wall time for 300 ms, from when it began, and the burst's part.
    let owed_ns = until_ns - now_ns;
    assert!((980 * MS..1_010 * MS).contains(&owed_ns), "{owed_ns}");
}
