//! How much a tenant uses of the time that it holds: where it has a cap and no weight, and beside work that outlasts
//! another's turn.
//!
//! A cap is of device time used, a turn is of time held: caps that sum to a whole device would each be missed
//! by what their own programs leave idle between kernels. So such a tenant pays for what it uses of what it holds.
//!
//! Beside a kernel that outlasts its turn a tenant has the slices that the driver leaves it. One that always has work
//! queued uses half of the time; one that waits for each of its kernels far less. It pays for what it uses, and the
//! other for the rest.
//!
//! Promises: a tenant says itself what it uses, and gains by it an eighth of its weight at most; beside work that
//! outlasts another's turn it pays an eighth of its part at least. One with a weight of its own, or without a cap,
//! pays for what it holds alone.

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

/// The part that a tenant uses of what it would pay beside work that outlasts another's turn, which the driver slices
/// with its own. One that waits for each kernel of 20 us finds the other's slice of 2 ms before each, and uses a
/// fiftieth of an even part.
#[derive(Clone, Debug)]
pub(super) struct Sliced {
    /// Its part, and what it used of that, since the window began.
    part_ns: u64,
    used_ns: i64,
    /// The time that it used of its parts, in millionths: moving mean over windows.
    used_ppm: u64,
    /// It was beside such work at the last charge.
    is_beside: bool,
}

impl Default for Sliced {
    fn default() -> Self {
        Self { part_ns: 0, used_ns: 0, used_ppm: ALL_PPM, is_beside: false }
    }
}

impl Sliced {
    /// It has used so much since the last charge; less than nothing where an earlier charge was too much.
    pub(super) fn used(&mut self, more_ns: i64) {
        if self.is_beside {
            self.used_ns = self.used_ns.saturating_add(more_ns);
        }
        if self.part_ns >= tuning::IN_USE_WINDOW_NS {
            let used_ns = u64::try_from(self.used_ns).unwrap_or(0);
            // Switches between the slices are neither's.
            let most_ns = scaled(self.part_ns, tuning::SLICED_PERCENT, 100);
            let used_ppm = scaled(used_ns, ALL_PPM, most_ns);
            self.used_ppm = mean(self.used_ppm, used_ppm.clamp(tuning::LEAST_SLICED_PPM, ALL_PPM));
            (self.part_ns, self.used_ns) = (0, 0);
        }
    }

    /// The payment for its part of some time; the other pays for the rest.
    pub(super) fn of(&self, part_ns: u64) -> u64 {
        scaled(part_ns, self.used_ppm, ALL_PPM)
    }

    /// It was charged for its part of the time since the last charge; `None` where no such work was beside it.
    pub(super) fn charged(&mut self, part_ns: Option<u64>) {
        self.is_beside = part_ns.is_some();
        self.part_ns = self.part_ns.saturating_add(part_ns.unwrap_or(0));
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
