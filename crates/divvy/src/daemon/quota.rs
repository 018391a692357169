//! Places among several users, if there are not enough for all.
//!
//! Pure. The rule is that of fair shares: while there are places, each that asks gets one, up to a bound of
//! its own; when there are none left, whoever has the most gives one up to whoever has fewer, until all
//! who want more have as many. So no user keeps another out by taking much, and a newcomer needs no place
//! kept free for it.

use std::collections::BTreeMap;

/// How many places there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    /// In all.
    pub(super) most: usize,
    /// Of one user.
    pub(super) most_of_one: usize,
}

/// Whether a user gets a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict<K> {
    /// A free one.
    Free,
    /// One that this user gives up.
    Instead(K),
    /// None: it has as many as it may, or nobody has more than it would have.
    None,
}

impl Quota {
    /// Judges the wish of `who` for one place more, by the places that all have.
    pub(super) fn judge<K: Copy + Ord>(&self, held: &BTreeMap<K, usize>, who: K) -> Verdict<K> {
        let own = held.get(&who).copied().unwrap_or(0);
        if own >= self.most_of_one {
            return Verdict::None;
        }
        if held.values().sum::<usize>() < self.most {
            return Verdict::Free;
        }
        match held.iter().max_by_key(|(_, count)| **count) {
            Some((greediest, count)) if *count > own + 1 => Verdict::Instead(*greediest),
            _ => Verdict::None,
        }
    }
}

/// How many of `holders` each is.
pub(super) fn count<K: Ord>(holders: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut held = BTreeMap::new();
    for holder in holders {
        *held.entry(holder).or_default() += 1;
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota { most: 10, most_of_one: 6 };

    /// The users that hold places after all of `wishes`, one after the other.
    fn after(wishes: impl IntoIterator<Item = u32>) -> BTreeMap<u32, usize> {
        let mut held = BTreeMap::new();
        for who in wishes {
            match QUOTA.judge(&held, who) {
                Verdict::Free => {}
                Verdict::Instead(other) => *held.get_mut(&other).unwrap() -= 1,
                Verdict::None => continue,
            }
            *held.entry(who).or_default() += 1;
            assert!(held.values().sum::<usize>() <= QUOTA.most);
        }
        held
    }

    #[test]
    fn nobody_keeps_another_out() {
        assert_eq!(after([1; 300]), BTreeMap::from([(1, 6)]));
        // Two take all; the third comes last and gets its part, the fourth as well.
        let greedy = || [[1; 300], [2; 300]].concat();
        assert_eq!(after(greedy()), BTreeMap::from([(1, 5), (2, 5)]));
        let third = [greedy(), vec![3]].concat();
        assert_eq!(after(third), BTreeMap::from([(1, 5), (2, 4), (3, 1)]));
        let all = (0..300).flat_map(|_| [1, 2, 3, 4]);
        assert_eq!(after(all).values().copied().collect::<Vec<_>>(), [3, 3, 2, 2]);
    }

    #[test]
    fn who_has_as_many_as_the_greediest_would_gets_none() {
        let held = BTreeMap::from([(1, 5), (2, 5)]);
        assert_eq!(QUOTA.judge(&held, 1), Verdict::None);
        assert_eq!(QUOTA.judge(&BTreeMap::from([(1, 4), (2, 6)]), 1), Verdict::Instead(2));
        assert_eq!(QUOTA.judge(&BTreeMap::from([(1, 5), (2, 5)]), 3), Verdict::Instead(2));
        assert_eq!(count([7, 8, 7].into_iter()), BTreeMap::from([(7, 2), (8, 1)]));
    }
}
