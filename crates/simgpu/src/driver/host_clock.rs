//! Time of a thread of the program, as the device sees it.
//!
//! A thread that waited for the device wakes later than the device finished: on the hardware by a few
//! microseconds, here by what the host's scheduler and three processes take. [`HostClock`] remembers
//! that lateness and dates the thread's next work back by it, so that a loop of launch and
//! synchronise keeps the device as busy as on the hardware, whatever the host does. Lateness is
//! forgiven to a thread that goes on at once, and up to a limit: a thread that does something else in
//! between has lost that time on the hardware too. So has one that asks again and again: nobody can
//! tell whether it meant to ask sooner.
//!
//! Pure but for the thread's own copy; times are nanoseconds of the machine's clock.

use core::cell::Cell;

use crate::calibration::SYNCHRONISE_GAP_NS;
use crate::clock::now_ns;

/// The most lateness forgiven, on a machine as fast as the hardware.
const FORGIVEN_NS: u64 = 5_000_000;
/// How long after a wait a thread may go on as if it had woken in time, on such a machine.
const FRESH_NS: u64 = 1_000_000;

/// One thread's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HostClock {
    /// When its last wait returned.
    returned_ns: u64,
    /// How late that was.
    late_ns: u64,
    /// When work launched behind that wait can begin at the earliest.
    earliest_ns: u64,
    scale: u64,
}

impl HostClock {
    /// When work that the thread hands in at `now_ns` was handed in, as the device sees it.
    fn submission_ns(&self, now_ns: u64) -> u64 {
        let fresh_until_ns = self.returned_ns.saturating_add(FRESH_NS * self.scale);
        if now_ns > fresh_until_ns {
            return now_ns;
        }
        now_ns.saturating_sub(self.late_ns).max(self.earliest_ns)
    }

    /// The clock after a wait begun at `called_ns`, as the device sees it, for work that ended at
    /// `ended_ns`; it returns at `now_ns`.
    fn returned(called_ns: u64, ended_ns: u64, now_ns: u64, scale: u64) -> Self {
        let late_ns = now_ns.saturating_sub(ended_ns.max(called_ns)).min(FORGIVEN_NS * scale);
        let earliest_ns = ended_ns.saturating_add(SYNCHRONISE_GAP_NS * scale);
        Self { returned_ns: now_ns, late_ns, earliest_ns, scale }
    }
}

thread_local! {
    static CLOCK: Cell<HostClock> = const {
        Cell::new(HostClock { returned_ns: 0, late_ns: 0, earliest_ns: 0, scale: 1 })
    };
}

/// When the calling thread's work of this moment was handed in.
pub(crate) fn submission_ns() -> u64 {
    let now_ns = now_ns();
    CLOCK.try_with(|clock| clock.get().submission_ns(now_ns)).unwrap_or(now_ns)
}

/// The calling thread, which began to wait at `called_ns`, returns for work that ended at `ended_ns`.
pub(crate) fn returned(called_ns: u64, ended_ns: u64, scale: u32) {
    let clock = HostClock::returned(called_ns, ended_ns, now_ns(), u64::from(scale));
    let _ = CLOCK.try_with(|own| own.set(clock));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_loop_of_launch_and_wait_keeps_the_cards_period_however_late_it_wakes() {
        // 100 µs kernels; one wake-up in ten is 300 µs late; each launch takes 5 µs.
        let (mut now_ns, mut device_ns) = (1_000_000, 0);
        let mut clock = HostClock { scale: 1, ..HostClock::default() };
        let mut first_ns = None;
        for turn in 0..1000_u64 {
            now_ns += 5_000;
            let began_ns = clock.submission_ns(now_ns).max(device_ns);
            first_ns.get_or_insert(began_ns);
            device_ns = began_ns + 100_000;
            let called_ns = clock.submission_ns(now_ns);
            let late_ns = if turn % 10 == 0 { 300_000 } else { 0 };
            now_ns = now_ns.max(device_ns) + late_ns;
            clock = HostClock::returned(called_ns, device_ns, now_ns, 1);
        }
        let busy = 1000.0 * 100_000.0 / (device_ns - first_ns.unwrap_or(0)) as f64;
        assert!((busy - 0.9346).abs() < 0.001, "{busy}");
    }

    #[test]
    fn what_a_thread_does_of_its_own_is_its_own_time() {
        let clock = HostClock::returned(0, 1_000_000, 1_200_000, 1);
        assert_eq!(clock.submission_ns(1_200_000), 1_007_000);
        assert_eq!(clock.submission_ns(1_250_000), 1_050_000);
        assert_eq!(clock.submission_ns(2_200_001), 2_200_001);
    }

    #[test]
    fn a_slower_machine_has_a_wider_gap() {
        let clock = HostClock::returned(0, 1_000_000, 1_200_000, 10);
        assert_eq!(clock.submission_ns(1_200_000), 1_070_000);
    }

    #[test]
    fn forgiveness_ends() {
        let clock = HostClock::returned(0, 1_000_000, 21_000_000, 1);
        assert_eq!(clock.submission_ns(21_000_000), 16_000_000);
    }

    proptest! {
        #[test]
        fn never_before_the_end_it_waited_for_and_never_beyond_the_gap_behind_it(
            called in 0_u64..1 << 40, ended in 0_u64..1 << 40, after in 0_u64..1 << 34,
            later in 0_u64..1 << 30, scale in 1_u64..1001
        ) {
            let now_ns = called.max(ended) + after;
            let clock = HostClock::returned(called, ended, now_ns, scale);
            let at_ns = clock.submission_ns(now_ns + later);
            prop_assert!(at_ns <= (now_ns + later).max(ended + SYNCHRONISE_GAP_NS * scale));
            prop_assert!(at_ns >= ended);
        }
    }
}
