//! The last minute of each tenant: shares reached, by time.
//!
//! Pure. Promises: a minute and no more is kept, of tenants that are there and no others, and all of it ends with the
//! screen.

use std::collections::{BTreeMap, VecDeque};

use super::model::Picture;

/// Time that is kept.
const KEPT_NS: u64 = 60_000_000_000;

/// Shares of all tenants on their devices.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// By directory and device.
    tenants: BTreeMap<(String, String), VecDeque<(u64, f64)>>,
    now_ns: u64,
}

impl History {
    /// Takes what a picture of the time `at_ns` shows.
    pub(super) fn take(&mut self, picture: &Picture, at_ns: u64) {
        self.now_ns = at_ns;
        let is_there = |directory: &str, gpu: &str| {
            picture.rows.iter().any(|row| row.directory == directory && row.gpu == gpu)
        };
        self.tenants.retain(|(directory, gpu), _| is_there(directory, gpu));
        for row in &picture.rows {
            let Some(reached) = row.reached_ratio else { continue };
            let kept = self.tenants.entry((row.directory.clone(), row.gpu.clone())).or_default();
            kept.push_back((at_ns, reached));
            while kept.front().is_some_and(|(at, _)| at_ns.saturating_sub(*at) >= KEPT_NS) {
                kept.pop_front();
            }
        }
    }

    /// The minute of a tenant in `cells` equal parts, the newest last; each is the mean of the samples in it.
    pub(super) fn of(&self, directory: &str, gpu: &str, cells: usize) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0_u32); cells];
        let key = (directory.to_owned(), gpu.to_owned());
        for (at, value) in self.tenants.get(&key).into_iter().flatten() {
            let age = self.now_ns.saturating_sub(*at);
            let back = (u128::from(age) * cells as u128 / u128::from(KEPT_NS)) as usize;
            let Some(cell) = cells.checked_sub(back + 1) else { continue };
            if let Some((sum, count)) = sums.get_mut(cell) {
                *sum += value;
                *count += 1;
            }
        }
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::TenantRow;
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn picture(names: &[&str], reached: Option<f64>) -> Picture {
        let row = |name: &&str| TenantRow {
            directory: (*name).to_owned(),
            gpu: "g".to_owned(),
            reached_ratio: reached,
            ..TenantRow::default()
        };
        Picture { rows: names.iter().map(row).collect(), ..Picture::default() }
    }

    #[test]
    fn a_minute_is_kept_of_tenants_that_are_there() {
        let mut history = History::default();
        for second in 0..90_u64 {
            let reached = if second < 60 { 0.0 } else { 1.0 };
            history.take(&picture(&["a", "b"], Some(reached)), second * SECOND_NS);
        }
        let minute = history.of("a", "g", 60);
        assert_eq!(
            (minute[0], minute[29], minute[30], minute[59]),
            (Some(0.0), Some(0.0), Some(1.0), Some(1.0))
        );
        assert_eq!(history.of("a", "g", 2), [Some(0.0), Some(1.0)]);
        assert_eq!(history.tenants.values().map(VecDeque::len).max(), Some(60));
        history.take(&picture(&["b"], None), 91 * SECOND_NS);
        assert_eq!(history.of("a", "g", 2), [None, None], "it is gone");
        assert_eq!(history.tenants.len(), 1);
        // Time passes over what is not counted.
        assert_eq!(history.of("b", "g", 60)[57..], [Some(1.0), None, None]);
        assert!(history.of("b", "g", 0).is_empty());
    }
}
