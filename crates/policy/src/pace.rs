//! The virtual clock of a cap: device time is paid for in wall time, `cost / share`.
//!
//! One shared word, `paid_at`, says when everything charged so far is paid. Work is admitted while that
//! lies in the past; once it does not, the gate closes until a burst's worth of credit has grown. The
//! closed time is chosen so that the account is exact when it ends, whatever the work was: no gain to
//! tune, no dependence on the card.
//!
//! Promises: debt is never forgiven; credit for idleness is at most one quantum of device time; a
//! changed share values old debt anew, once, whoever sees the change first; a process that dies leaves
//! at most what it had charged. Any number of processes share the words without a lock.
//!
//! Does not measure, wait or read a clock.

use divvy_abi::config::PPM;

/// The words that all processes of a tenant share, on one device. Loads and exchanges are of single
/// words; no order between two words is relied on.
pub trait Clock {
    /// When everything charged is paid; 0 before the first charge.
    fn paid_at_ns(&self) -> u64;
    /// Replaces it if it is still `old`; the error is what it is now.
    ///
    /// # Errors
    /// The word's value, when it is not `old`.
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64>;
    /// The share that debt is valued at, in millionths; 0 before the first charge.
    fn share_ppm(&self) -> u64;
    /// Replaces it if it is still `old`.
    ///
    /// # Errors
    /// The word's value, when it is not `old`.
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64>;
    /// Until when the gate is closed; 0 while it is open.
    fn closed_until_ns(&self) -> u64;
    /// Says so.
    fn set_closed_until_ns(&self, until_ns: u64);
}

/// A cap on a tenant's device time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cap {
    /// Share of the device's time in millionths, at least 1.
    pub share_ppm: u64,
    /// Most credit that idleness leaves, in device time. A burst is half of it, so that who wakes late
    /// loses nothing.
    pub quantum_ns: u64,
}

/// Whether work may be submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may.
    Open,
    /// Not before this time.
    Closed {
        /// CLOCK_MONOTONIC.
        until_ns: u64,
    },
}

impl Cap {
    /// Wall time that pays for `device_ns`.
    pub fn wall_ns(self, device_ns: u64) -> u64 {
        let wall = u128::from(device_ns) * u128::from(PPM) / u128::from(self.share_ppm.max(1));
        u64::try_from(wall).unwrap_or(u64::MAX)
    }

    /// Charges `device_ns`; a negative amount puts an estimate right.
    pub fn charge(self, clock: &impl Clock, now_ns: u64, device_ns: i64) {
        self.value_anew(clock, now_ns);
        let wall_ns = self.wall_ns(device_ns.unsigned_abs());
        let floor_ns = self.floor_ns(now_ns);
        update(clock, |paid_at_ns| {
            let from_ns = paid_at_ns.max(floor_ns);
            if device_ns < 0 {
                from_ns.saturating_sub(wall_ns).max(floor_ns)
            } else {
                from_ns.saturating_add(wall_ns)
            }
        });
    }

    /// Decides, and keeps the word that says until when the gate is closed.
    pub fn admit(self, clock: &impl Clock, now_ns: u64) -> Admission {
        self.value_anew(clock, now_ns);
        let floor_ns = self.floor_ns(now_ns);
        let paid_at_ns = update(clock, |paid_at_ns| paid_at_ns.max(floor_ns));
        let closed_until_ns = clock.closed_until_ns();
        // An open gate closes when its credit is spent; a closed one opens when a burst has grown.
        if closed_until_ns == 0 && paid_at_ns < now_ns {
            return Admission::Open;
        }
        let opens_at_ns = paid_at_ns.saturating_add(self.wall_ns(self.quantum_ns / 2));
        if opens_at_ns <= now_ns {
            clock.set_closed_until_ns(0);
            return Admission::Open;
        }
        clock.set_closed_until_ns(opens_at_ns);
        Admission::Closed { until_ns: opens_at_ns }
    }

    /// The earliest `paid_at`: idleness has left a quantum of credit, and no more.
    fn floor_ns(self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.wall_ns(self.quantum_ns))
    }

    /// Values what is owed at this share, where it was valued at another.
    fn value_anew(self, clock: &impl Clock, now_ns: u64) {
        let before_ppm = clock.share_ppm();
        if before_ppm == self.share_ppm
            || clock.replace_share_ppm(before_ppm, self.share_ppm).is_err()
            || before_ppm == 0
        {
            return;
        }
        update(clock, |paid_at_ns| {
            let owed_ns = u128::from(paid_at_ns.saturating_sub(now_ns));
            let owed_ns = owed_ns * u128::from(before_ppm) / u128::from(self.share_ppm.max(1));
            match owed_ns {
                0 => paid_at_ns,
                owed_ns => now_ns.saturating_add(u64::try_from(owed_ns).unwrap_or(u64::MAX)),
            }
        });
    }
}

/// Changes `paid_at` without a lock; what it is afterwards.
fn update(clock: &impl Clock, change: impl Fn(u64) -> u64) -> u64 {
    let mut old = clock.paid_at_ns();
    loop {
        let new = change(old);
        if new == old {
            return new;
        }
        match clock.replace_paid_at_ns(old, new) {
            Ok(()) => return new,
            Err(now) => old = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[derive(Default)]
    struct Words {
        paid_at: Cell<u64>,
        share: Cell<u64>,
        closed: Cell<u64>,
    }

    fn replace(cell: &Cell<u64>, old: u64, new: u64) -> Result<(), u64> {
        if cell.get() != old {
            return Err(cell.get());
        }
        cell.set(new);
        Ok(())
    }

    impl Clock for Words {
        fn paid_at_ns(&self) -> u64 {
            self.paid_at.get()
        }
        fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64> {
            replace(&self.paid_at, old, new)
        }
        fn share_ppm(&self) -> u64 {
            self.share.get()
        }
        fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64> {
            replace(&self.share, old, new)
        }
        fn closed_until_ns(&self) -> u64 {
            self.closed.get()
        }
        fn set_closed_until_ns(&self, until_ns: u64) {
            self.closed.set(until_ns);
        }
    }

    fn cap(percent: u64) -> Cap {
        Cap { share_ppm: percent * 10_000, quantum_ns: 4 * MS }
    }

    /// Device time run within `wall_ns` by a program that always has a kernel of `kernel_ns` ready.
    fn run(cap: Cap, words: &Words, from_ns: u64, wall_ns: u64, kernel_ns: u64) -> u64 {
        let (mut now_ns, mut busy_ns) = (from_ns, 0);
        while now_ns < from_ns + wall_ns {
            match cap.admit(words, now_ns) {
                Admission::Open => {
                    cap.charge(words, now_ns, kernel_ns as i64);
                    now_ns += kernel_ns;
                    busy_ns += kernel_ns;
                }
                Admission::Closed { until_ns } => {
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
        assert_eq!(ten.admit(&words, 1_000 * MS), Admission::Open);
        ten.charge(&words, 1_000 * MS, 500 * MS as i64);
        let Admission::Closed { until_ns } = ten.admit(&words, 1_500 * MS) else { panic!() };
        // 500 ms cost 5 s from the credit of one quantum on, and the next burst is saved up too.
        assert_eq!(until_ns, 1_000 * MS - 40 * MS + 5_000 * MS + 20 * MS);
        assert_eq!(ten.admit(&words, until_ns), Admission::Open);
    }

    #[test]
    fn idleness_is_worth_one_quantum() {
        let words = Words::default();
        let cap = cap(50);
        cap.charge(&words, 100 * MS, 0);
        assert_eq!(cap.admit(&words, 60_000 * MS), Admission::Open);
        cap.charge(&words, 60_000 * MS, 4 * MS as i64);
        assert!(matches!(cap.admit(&words, 60_000 * MS), Admission::Closed { .. }));
    }

    #[test]
    fn a_changed_share_values_debt_anew_once() {
        let words = Words::default();
        cap(10).charge(&words, 1_000 * MS, 104 * MS as i64);
        assert_eq!(words.paid_at.get(), 2_000 * MS);
        assert!(matches!(cap(50).admit(&words, 1_000 * MS), Admission::Closed { .. }));
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
            let words = Words { paid_at: paid.into(), share: old.into(), closed: closed.into() };
            let cap = Cap { share_ppm, quantum_ns };
            cap.charge(&words, now_ns, ns);
            if let Admission::Closed { until_ns } = cap.admit(&words, now_ns) {
                prop_assert!(until_ns > now_ns);
            }
        }
    }
}
