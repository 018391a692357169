//! Card: capacities of a device, and what a claim consumes of them, as the scheduler counts it. Pure.
//!
//! Promises: a share fits here where the scheduler would let it: amounts are rounded as the device's policy says, what a claim does
//! not say is the policy's default, and without a policy it is all of it.

use std::collections::BTreeMap;

/// Amounts by the name of a capacity.
pub(super) type Amounts = BTreeMap<String, u64>;

/// Values that a claim may have of a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AllowedAmounts {
    Any,
    Range {
        least: u64,
        step: Option<u64>,
        most: Option<u64>,
    },
    /// From the smallest on.
    Values(Vec<u64>),
}

/// Capacity of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CardCapacity {
    pub(super) value: u64,
    /// Amount of a claim that says nothing.
    pub(super) default: u64,
    pub(super) allowed: AllowedAmounts,
}

impl CardCapacity {
    /// Amount that a claim consumes which asks for so much; none where it cannot have that.
    fn consumed(&self, asked: Option<u64>) -> Option<u64> {
        let Some(asked) = asked else { return Some(self.default) };
        match &self.allowed {
            AllowedAmounts::Any => Some(asked),
            AllowedAmounts::Values(values) => values.iter().copied().find(|value| *value >= asked),
            AllowedAmounts::Range { least, step, most } => {
                let beyond = asked.saturating_sub(*least);
                let beyond = match step.filter(|step| *step > 0) {
                    Some(step) => beyond.checked_next_multiple_of(step)?,
                    None => beyond,
                };
                let rounded = least.checked_add(beyond)?;
                (rounded <= most.unwrap_or(u64::MAX)).then_some(rounded)
            }
        }
    }
}

/// Device of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) node: String,
    pub(super) pool: String,
    pub(super) device: String,
    /// Whether several claims may have it.
    pub(super) is_shared: bool,
    pub(super) capacities: BTreeMap<String, CardCapacity>,
}

/// Part of a card that is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CardLoad {
    used: Amounts,
    shares: usize,
}

impl CardLoad {
    pub(super) fn add(&mut self, amounts: &Amounts) {
        self.shares += 1;
        for (name, amount) in amounts {
            let used = self.used.entry(name.clone()).or_default();
            *used = used.saturating_add(*amount);
        }
    }
}

impl Card {
    /// Amounts that a claim consumes, of each capacity; none where the card is not for it.
    pub(super) fn consumed(&self, asked: &Amounts) -> Option<Amounts> {
        if asked.keys().any(|name| !self.capacities.contains_key(name)) {
            return None;
        }
        let consumed = |(name, capacity): (&String, &CardCapacity)| {
            Some((name.clone(), capacity.consumed(asked.get(name).copied())?))
        };
        self.capacities.iter().map(consumed).collect()
    }

    /// Whether a claim fits that consumes `amounts`.
    pub(super) fn has_room(&self, load: &CardLoad, amounts: &Amounts) -> bool {
        (self.is_shared || load.shares == 0)
            && amounts.iter().all(|(name, amount)| {
                let used = load.used.get(name).copied().unwrap_or(0);
                let value = self.capacities.get(name).map_or(0, |capacity| capacity.value);
                used.checked_add(*amount).is_some_and(|sum| sum <= value)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_as_the_policy_says() {
        let capacity = |allowed| CardCapacity { value: 80, default: 7, allowed };
        let range = AllowedAmounts::Range { least: 4, step: Some(10), most: Some(34) };
        for (allowed, asked, consumed) in [
            (AllowedAmounts::Any, None, Some(7)),
            (AllowedAmounts::Any, Some(90), Some(90)),
            (range.clone(), Some(0), Some(4)),
            (range.clone(), Some(5), Some(14)),
            (range.clone(), Some(14), Some(14)),
            (range.clone(), Some(35), None),
            (range, Some(u64::MAX), None),
            (AllowedAmounts::Values(vec![1, 5]), Some(2), Some(5)),
            (AllowedAmounts::Values(vec![1, 5]), Some(6), None),
        ] {
            assert_eq!(
                capacity(allowed.clone()).consumed(asked),
                consumed,
                "{allowed:?} {asked:?}"
            );
        }
    }
}
