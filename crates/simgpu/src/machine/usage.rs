//! How busy each client kept each device, as NVML tells it: late and averaged.
//!
//! Time is cut into periods; a figure covers the last second of complete periods, so it lags as the
//! hardware's does.

use crate::calibration::UTILISATION_WINDOW_NS;
use std::collections::BTreeMap;

/// Complete periods a figure covers.
const PERIODS: u64 = 4;
const PERIOD_NS: u64 = UTILISATION_WINDOW_NS / PERIODS;
/// Periods remembered: those complete, the one under way, and one that a late report may still be for.
const KEPT: usize = PERIODS as usize + 2;

#[derive(Clone, Copy, Debug, Default)]
struct Period {
    number: u64,
    compute_ns: u64,
    copy_ns: u64,
}

#[derive(Debug, Default)]
struct Meter {
    periods: [Period; KEPT],
}

impl Meter {
    fn add(&mut self, compute: bool, from_ns: u64, to_ns: u64) {
        // Of a stretch longer than what is remembered only the end counts.
        let mut from_ns = from_ns.max(to_ns.saturating_sub(PERIOD_NS * KEPT as u64));
        while from_ns < to_ns {
            let number = from_ns / PERIOD_NS;
            let end_ns = to_ns.min((number + 1) * PERIOD_NS);
            let period = &mut self.periods[(number % KEPT as u64) as usize];
            if period.number < number {
                *period = Period { number, ..Period::default() };
            }
            if period.number == number {
                let busy_ns = if compute { &mut period.compute_ns } else { &mut period.copy_ns };
                *busy_ns += end_ns - from_ns;
            }
            from_ns = end_ns;
        }
    }

    fn busy_ns(&self, now_ns: u64) -> (u64, u64) {
        let current = now_ns / PERIOD_NS;
        self.periods
            .iter()
            .filter(|period| period.number < current && period.number + PERIODS >= current)
            .fold((0, 0), |(compute, copy), period| {
                (compute + period.compute_ns, copy + period.copy_ns)
            })
    }
}

fn percent(busy_ns: u64) -> u32 {
    u32::try_from(busy_ns * 100 / UTILISATION_WINDOW_NS).unwrap_or(100).min(100)
}

/// The meters of one device.
#[derive(Debug, Default)]
pub struct Usage {
    meters: BTreeMap<u64, Meter>,
}

impl Usage {
    /// Counts a stretch of a client's work.
    pub fn add(&mut self, client: u64, compute: bool, from_ns: u64, to_ns: u64) {
        self.meters.entry(client).or_default().add(compute, from_ns, to_ns);
    }

    /// Percent of the last second in which kernels, and copies, ran.
    pub fn device(&self, now_ns: u64) -> (u32, u32) {
        let (compute, copy) = self.meters.values().fold((0, 0), |(compute, copy), meter| {
            let busy = meter.busy_ns(now_ns);
            (compute + busy.0, copy + busy.1)
        });
        (percent(compute), percent(copy))
    }

    /// Percent by client; those that did nothing are left out.
    pub fn clients(&self, now_ns: u64) -> Vec<(u64, u32)> {
        self.meters
            .iter()
            .map(|(client, meter)| (*client, meter.busy_ns(now_ns)))
            .filter(|(_, (compute, copy))| *compute > 0 || *copy > 0)
            .map(|(client, (compute, _))| (client, percent(compute)))
            .collect()
    }

    /// When the last complete period ended.
    pub fn sampled_ns(now_ns: u64) -> u64 {
        now_ns / PERIOD_NS * PERIOD_NS
    }

    /// A client is gone.
    pub fn forget(&mut self, client: u64) {
        self.meters.remove(&client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_lags_and_covers_a_second() {
        let mut usage = Usage::default();
        let start_ns = 40 * PERIOD_NS;
        usage.add(1, true, start_ns, start_ns + PERIOD_NS * 2);
        usage.add(2, false, start_ns, start_ns + PERIOD_NS);
        assert_eq!(usage.device(start_ns + PERIOD_NS / 2), (0, 0));
        assert_eq!(usage.device(start_ns + PERIOD_NS * 2), (50, 25));
        assert_eq!(usage.clients(start_ns + PERIOD_NS * 2), [(1, 50), (2, 0)]);
        assert_eq!(usage.device(start_ns + PERIOD_NS * 9), (0, 0));
        usage.forget(1);
        assert_eq!(usage.clients(start_ns + PERIOD_NS * 2), [(2, 0)]);
    }

    #[test]
    fn a_stretch_of_years_is_counted_without_walking_them() {
        let mut usage = Usage::default();
        usage.add(1, true, 0, 1 << 60);
        assert_eq!(usage.device(1 << 60).0, 100);
    }
}
