//! How much of the time that a tenant holds it uses, where it has a cap and no weight.
//!
//! A cap is of device time used, a turn is of time held: caps that sum to a whole device would each be missed
//! by what their own programs leave idle between kernels. So such a tenant pays for what it uses of what it holds.
//!
//! Promises: a tenant says itself what it uses, and gains by it an eighth of its weight at most. One with a weight
//! of its own, or without a cap, pays for what it holds.

use super::mean::mean;
use super::tuning;
use crate::scaled::scaled;

const ALL_PPM: u64 = 1_000_000;
/// The part that a tenant uses of the time it holds.
#[derive(Clone, Debug)]
pub(super) struct InUse {
    is_counted: bool,
    /// Held and used when the window began.
    held_ns: u64,
    used_ns: u64,
    /// Time used of the time held, in millionths: moving mean over windows.
    used_ppm: u64,
}

impl Default for InUse {
    fn default() -> Self {
        Self { is_counted: false, held_ns: 0, used_ns: 0, used_ppm: ALL_PPM }
    }
}

impl InUse {
    /// Takes what the tenant has held and used so far; `is_counted` is true if it has a cap and no weight.
    pub(super) fn look(&mut self, is_counted: bool, held_ns: u64, used_ns: u64) {
        if self.is_counted != is_counted {
            *self = Self { is_counted, held_ns, used_ns, used_ppm: ALL_PPM };
        }
        let window_ns = held_ns.saturating_sub(self.held_ns);
        if window_ns < tuning::IN_USE_WINDOW_NS {
            return;
        }
        // Used while nobody else was there is not held: then it seems to use more.
        let window_used_ns = used_ns.saturating_sub(self.used_ns);
        let used_ppm = scaled(window_used_ns, ALL_PPM, window_ns)
            .clamp(tuning::LEAST_PAID_PPM, tuning::MOST_PAID_PPM);
        self.used_ppm = mean(self.used_ppm, used_ppm);
        (self.held_ns, self.used_ns) = (held_ns, used_ns);
    }

    /// The part that is paid of time held, in millionths.
    pub(super) fn paid_ppm(&self) -> u64 {
        if self.is_counted { self.used_ppm } else { ALL_PPM }
    }

    /// The payment for so much time held.
    pub(super) fn of(&self, held_ns: u64) -> u64 {
        scaled(held_ns, self.paid_ppm(), ALL_PPM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Pays for so many windows of which so many hundredths were used.
    fn after(windows: u64, used_percent: u64) -> InUse {
        let mut in_use = InUse::default();
        in_use.look(true, 0, 0);
        for at in 1..=windows {
            in_use.look(true, at * 50 * MS, at * 50 * MS / 100 * used_percent);
        }
        in_use
    }

    #[test]
    fn what_is_used_is_paid_for_between_seven_and_nine_eighths() {
        for (used_percent, paid) in
            [(100, 100), (90, 90), (50, 88), (0, 88), (110, 110), (300, 112)]
        {
            let of = after(40, used_percent).of(100 * MS);
            assert!(of.abs_diff(paid * MS) < MS, "{used_percent}: {of}");
        }
        assert_eq!(after(0, 0).of(MS), MS);
    }

    #[test]
    fn who_has_a_weight_pays_for_all() {
        let mut in_use = after(40, 50);
        in_use.look(false, 3_000 * MS, 0);
        assert_eq!(in_use.of(MS), MS);
        // And is seen again when it has no weight any more.
        in_use.look(true, 3_000 * MS, 0);
        assert_eq!(in_use.of(MS), MS);
    }
}
