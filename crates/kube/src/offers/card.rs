//! Card: capacities of a device, and what a claim consumes of them, as the scheduler counts it. Pure.
//!
//! Promises: a share fits here where the scheduler would let it: amounts are rounded as the device's policy says, what a claim does
//! not say is the policy's default, and without a policy it is all of it.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::DeviceRequestAllocationResult;

use crate::quantity;

/// Amounts by the name of a capacity.
pub(crate) type Amounts = BTreeMap<String, u64>;

/// Values that a claim may have of a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AllowedAmounts {
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
pub(crate) struct CardCapacity {
    pub(crate) value: u64,
    /// Amount of a claim that says nothing.
    pub(crate) default: u64,
    pub(crate) allowed: AllowedAmounts,
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
pub(crate) struct Card {
    pub(crate) node: String,
    pub(crate) pool: String,
    pub(crate) device: String,
    /// Name of the product, for people.
    pub(crate) product: Option<String>,
    /// Whether several claims may have it.
    pub(crate) is_shared: bool,
    pub(crate) capacities: BTreeMap<String, CardCapacity>,
}

/// Capacity for which a card is never for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotForIt {
    /// It has no capacity of this name.
    Unknown(String),
    /// It has less than is asked, however empty it is.
    TooSmall(String),
}

/// Part of a card that is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CardLoad {
    used: Amounts,
    /// Allocations that have a part of it.
    pub(crate) shares: usize,
}

impl CardLoad {
    pub(crate) fn add(&mut self, amounts: &Amounts) {
        self.shares += 1;
        for (name, amount) in amounts {
            let used = self.used.entry(name.clone()).or_default();
            *used = used.saturating_add(*amount);
        }
    }
}

impl Card {
    /// Amounts that a claim consumes, of each capacity.
    ///
    /// # Errors
    /// The capacity for which the card is not for it: one that it does not have, or less than is asked.
    pub(crate) fn consumed(&self, asked: &Amounts) -> Result<Amounts, NotForIt> {
        if let Some(name) = asked.keys().find(|&name| !self.capacities.contains_key(name)) {
            return Err(NotForIt::Unknown(name.clone()));
        }
        let consumed = |(name, capacity): (&String, &CardCapacity)| {
            let amount = capacity.consumed(asked.get(name).copied());
            let amount = amount.filter(|&amount| amount <= capacity.value);
            Ok((name.clone(), amount.ok_or_else(|| NotForIt::TooSmall(name.clone()))?))
        };
        self.capacities.iter().map(consumed).collect()
    }

    /// Amounts that an allocation has of it; all of it where they are not said.
    pub(crate) fn held(&self, result: &DeviceRequestAllocationResult) -> Amounts {
        let said = result.consumed_capacity.as_ref();
        let amount = |(name, capacity): (&String, &CardCapacity)| {
            let text = said.and_then(|said| said.get(name));
            // A fraction is as good as a whole: what is free is never more than is said.
            let rounded = |text: &str| {
                quantity::whole_text(text)
                    .or_else(|_| Ok::<u64, &str>(quantity::given(text)?.saturating_add(1)))
            };
            let amount = text.and_then(|text| rounded(&text.0).ok());
            (name.clone(), amount.unwrap_or(capacity.value))
        };
        self.capacities.iter().map(amount).collect()
    }

    /// Amounts that are left of it.
    pub(crate) fn free(&self, load: &CardLoad) -> Amounts {
        let free = |(name, capacity): (&String, &CardCapacity)| {
            let used = load.used.get(name).copied().unwrap_or(0);
            (name.clone(), capacity.value.saturating_sub(used))
        };
        self.capacities.iter().map(free).collect()
    }

    /// Whether a claim fits that consumes `amounts`.
    pub(crate) fn has_room(&self, load: &CardLoad, amounts: &Amounts) -> bool {
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
