//! Advice about a range of managed memory, and where it was last prefetched to: for each page of it what the
//! program said last.
//!
//! Promises: neighbouring pages of which the same was said are one piece, so that no program can make it
//! longer than its own requests. Follows no advice: [`crate::driver::managed`] does.

use std::collections::{BTreeMap, BTreeSet};

/// Where memory can be, or be wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    /// The host.
    Host,
    /// A memory node of the host.
    Node(i32),
    /// A visible device.
    Device(i32),
}

/// The driver's number of the host among devices.
pub(crate) const CPU: i32 = -1;

/// Advice about a page.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Advice {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: Option<Location>,
    /// Devices, or [`CPU`].
    pub(crate) accessed_by: BTreeSet<i32>,
    pub(crate) last_prefetch: Option<Location>,
}

/// Advice about a range, by where in it each piece begins.
#[derive(Debug)]
pub(crate) struct Advised(BTreeMap<u64, Advice>);

impl Default for Advised {
    fn default() -> Self {
        Self(BTreeMap::from([(0, Advice::default())]))
    }
}

impl Advised {
    fn split(&mut self, at: u64) {
        let before = self.0.range(..=at).next_back().map(|(_, advice)| advice.clone());
        self.0.entry(at).or_insert(before.unwrap_or_default());
    }

    /// Changes what was said of `from..to`.
    pub(crate) fn change(&mut self, from: u64, to: u64, change: impl Fn(&mut Advice)) {
        if from >= to {
            return;
        }
        self.split(from);
        self.split(to);
        self.0.range_mut(from..to).for_each(|(_, advice)| change(advice));
        let touched: Vec<u64> = self.0.range(from..=to).map(|(at, _)| *at).collect();
        for at in touched {
            let before = self.0.range(..at).next_back();
            if before.is_some_and(|(_, before)| Some(before) == self.0.get(&at)) {
                self.0.remove(&at);
            }
        }
    }

    /// The pieces of `from..to`, each with where it begins and ends.
    pub(crate) fn pieces(&self, from: u64, to: u64) -> Vec<(u64, u64, &Advice)> {
        let first = self.0.range(..=from).next_back().map_or(from, |(at, _)| *at);
        let starts: Vec<(u64, &Advice)> =
            self.0.range(first..to.max(first)).map(|(at, advice)| (*at, advice)).collect();
        let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([to]);
        starts.iter().zip(ends).map(|((at, advice), end)| (from.max(*at), end, *advice)).collect()
    }

    /// The value that holds for all of `from..to`, if it is the same everywhere.
    pub(crate) fn common<T: PartialEq>(
        &self,
        from: u64,
        to: u64,
        of: impl Fn(&Advice) -> T,
    ) -> Option<T> {
        let mut all = self.pieces(from, to).into_iter().map(|(_, _, advice)| of(advice));
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    /// Devices that were named for all of `from..to`.
    pub(crate) fn accessed_by(&self, from: u64, to: u64) -> BTreeSet<i32> {
        let mut sets = self.pieces(from, to).into_iter().map(|(_, _, advice)| &advice.accessed_by);
        let Some(first) = sets.next() else { return BTreeSet::new() };
        sets.fold(first.clone(), |common, set| common.intersection(set).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_what_was_said_last_of_it() {
        let mut advised = Advised::default();
        advised.change(10, 20, |advice| advice.read_mostly = true);
        advised.change(15, 30, |advice| advice.preferred = Some(Location::Host));
        let read_mostly = |from, to| advised.common(from, to, |advice| advice.read_mostly);
        assert_eq!(read_mostly(10, 20), Some(true));
        assert_eq!(read_mostly(9, 20), None);
        assert_eq!(read_mostly(20, 30), Some(false));
        assert_eq!(advised.common(12, 18, |advice| advice.preferred), None);
        assert_eq!(advised.common(16, 29, |advice| advice.preferred), Some(Some(Location::Host)));
        let ends: Vec<_> = advised.pieces(5, 25).iter().map(|piece| (piece.0, piece.1)).collect();
        assert_eq!(ends, [(5, 10), (10, 15), (15, 20), (20, 25)]);
    }

    #[test]
    fn what_is_taken_back_leaves_no_piece() {
        let mut advised = Advised::default();
        advised.change(10, 20, |advice| advice.accessed_by.extend([CPU, 0]));
        advised.change(15, 25, |advice| advice.accessed_by.extend([0]));
        assert_eq!(advised.accessed_by(10, 25), BTreeSet::from([0]));
        assert_eq!(advised.accessed_by(10, 26), BTreeSet::new());
        advised.change(0, 100, |advice| advice.accessed_by.clear());
        assert_eq!(advised.0.len(), 1);
        advised.change(7, 7, |advice| advice.read_mostly = true);
        assert_eq!(advised.0.len(), 1);
    }
}
