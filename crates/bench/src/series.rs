//! A counter over time, and the figures that follow from it: shares, windows, their spread, fairness.
//!
//! Pure: the samples come from [`super::busy`]. A share is work completed, at what it takes in a
//! saturated queue, over wall time.

/// A counter of completed work, read again and again.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// CLOCK_MONOTONIC nanoseconds, and what the work done by then takes in a saturated queue, ascending.
    pub(super) samples: Vec<(u64, f64)>,
    /// Work of one kernel, or of a round of several.
    pub(super) unit_ns: f64,
}

/// Units at least this long are measured from completion to completion: cut in the middle, one of them
/// would be a large part of what is measured.
const LONG_NS: f64 = 50e6;

impl Series {
    /// Units done by then. Sums of fractions may fall short of a whole by their last digits.
    fn units(&self, work_ns: f64) -> f64 {
        (work_ns / self.unit_ns + 1e-6).floor()
    }

    fn within(&self, from_ns: u64, until_ns: u64) -> Vec<(u64, f64)> {
        let is_within = |(at, _): &(u64, f64)| (from_ns..=until_ns).contains(at);
        self.samples.iter().copied().filter(is_within).collect()
    }

    /// Share in percent between two times, by the samples nearest to them.
    pub(super) fn share(&self, from_ns: u64, until_ns: u64) -> Option<f64> {
        let within = self.within(from_ns, until_ns);
        let (mut first, mut last) = (*within.first()?, *within.last()?);
        if self.unit_ns >= LONG_NS {
            let completions: Vec<_> = within
                .windows(2)
                .filter(|w| self.units(w[0].1) != self.units(w[1].1))
                .map(|w| w[1])
                .collect();
            if let (Some(one), Some(other)) = (completions.first(), completions.last())
                && self.units(other.1) > self.units(one.1)
            {
                let period = (other.0 - one.0) as f64 / (self.units(other.1) - self.units(one.1));
                // A program that stopped half-way must not look as if it had gone on.
                if (last.0 - other.0) as f64 <= 3.0 * period {
                    (first, last) = (*one, *other);
                }
            }
        }
        let wall = last.0.checked_sub(first.0).filter(|wall| *wall > 0)?;
        Some((last.1 - first.1) / wall as f64 * 100.0)
    }

    /// The longest time without progress between two times.
    pub(super) fn longest_gap_ns(&self, from_ns: u64, until_ns: u64) -> Option<u64> {
        let within = self.within(from_ns, until_ns);
        let (first, last) = (within.first()?, within.last()?);
        let progress = within.windows(2).filter(|w| w[0].1 != w[1].1).map(|w| w[1].0);
        let moments: Vec<u64> = [first.0].into_iter().chain(progress).chain([last.0]).collect();
        moments.windows(2).map(|w| w[1] - w[0]).max()
    }

    /// Shares of whole windows of `width_ns` between two times.
    pub(super) fn windows(&self, from_ns: u64, until_ns: u64, width_ns: u64) -> Vec<f64> {
        self.windows_each(from_ns, until_ns, width_ns, width_ns)
    }

    /// Shares of windows of `width_ns` that begin every `step_ns`.
    pub(super) fn windows_each(
        &self,
        from_ns: u64,
        until_ns: u64,
        width_ns: u64,
        step_ns: u64,
    ) -> Vec<f64> {
        let mut shares = Vec::new();
        let mut at = from_ns;
        while at + width_ns <= until_ns {
            let nearest = |time: u64| {
                self.samples.iter().copied().min_by_key(|(sampled, _)| sampled.abs_diff(time))
            };
            if let (Some(first), Some(last)) = (nearest(at), nearest(at + width_ns))
                && last.0 > first.0
            {
                shares.push((last.1 - first.1) / (last.0 - first.0) as f64 * 100.0);
            }
            at += step_ns.max(1);
        }
        shares
    }
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation over mean.
pub(super) fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((squares / values.len() as f64).sqrt() / mean)
}

/// Jain's index of what several got: 1 when all got the same, 1/n when one got everything.
pub(super) fn jain(values: &[f64]) -> Option<f64> {
    let squares = values.iter().map(|value| value * value).sum::<f64>();
    (squares > 0.0).then(|| values.iter().sum::<f64>().powi(2) / (values.len() as f64 * squares))
}

/// The value that `percent` of all are at most; `None` of nothing.
pub(super) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A counter that moves every `period_ms`, read every 10 ms.
    fn steady(period_ms: u64, kernel_ns: f64, length_ms: u64) -> Series {
        let done = |i: u64| (i * 10 / period_ms) as f64 * kernel_ns;
        let samples = (0..=length_ms / 10).map(|i| (i * 10 * MS, done(i))).collect();
        Series { samples, unit_ns: kernel_ns }
    }

    #[test]
    fn a_share_is_work_over_time() {
        let series = steady(10, 3e6, 2000);
        assert!((series.share(0, 2000 * MS).unwrap() - 30.0).abs() < 0.2);
        assert_eq!(series.windows(0, 2000 * MS, 500 * MS).len(), 4);
        assert!(series.windows(0, 2000 * MS, 500 * MS).iter().all(|w| (w - 30.0).abs() < 0.7));
        assert_eq!(series.windows_each(0, 2000 * MS, 500 * MS, 100 * MS).len(), 16);
        assert_eq!(series.share(5000 * MS, 6000 * MS), None);
    }

    #[test]
    fn long_kernels_are_measured_between_completions() {
        // One of 500 ms every 1,670 ms: 29.94 %. Cut anywhere, ten seconds hold 5 or 6 of them.
        let series = steady(1670, 500e6, 10_000);
        let share = series.share(100 * MS, 9_000 * MS).unwrap();
        assert!((share - 29.94).abs() < 0.3, "{share}");
    }

    #[test]
    fn a_program_that_stopped_is_measured_to_the_end() {
        let mut series = steady(500, 450e6, 10_000);
        series.samples.iter_mut().for_each(|(_, work)| *work = work.min(4.0 * 450e6));
        let share = series.share(0, 10_000 * MS).unwrap();
        assert!(share < 20.0, "{share}");
        assert_eq!(series.longest_gap_ns(0, 10_000 * MS), Some(8_000 * MS));
        assert_eq!(series.longest_gap_ns(0, 1_900 * MS), Some(500 * MS));
        assert_eq!(series.longest_gap_ns(20_000 * MS, 30_000 * MS), None);
    }

    #[test]
    fn rounds_are_measured_whole() {
        // Two of 300 ms, one after the other, every two seconds: cut anywhere, 24 to 36 %.
        let done = |ms: u64| ms / 2000 * 2 + [0, 1, 2][(ms % 2000 / 300).min(2) as usize];
        let samples = (0..1001).map(|i| (i * 10 * MS, done(i * 10) as f64 * 300e6)).collect();
        let series = Series { samples, unit_ns: 600e6 };
        for from in [0, 350, 700, 1500] {
            let share = series.share(from * MS, (from + 8_300) * MS).unwrap();
            assert!((share - 30.0).abs() < 0.3, "{share} from {from}");
        }
    }

    #[test]
    fn figures_of_fairness() {
        assert_eq!(jain(&[1.0, 1.0, 1.0, 1.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(variation(&[2.0, 2.0]), Some(0.0));
        assert_eq!(variation(&[1.0, 3.0]), Some(0.5));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&hundred, 50.0), Some(50.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }
}
