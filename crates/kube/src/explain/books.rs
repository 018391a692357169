//! Books of the cluster's cards: what slices offer, less what allocated claims consume. Pure.
//!
//! Promises: of a pool the slices of its highest generation count, as for the scheduler; an amount is rounded as the card's own
//! policy rounds it; a quantity that cannot be read counts as nothing offered, or as all consumed.
//!
//! Does not evaluate selectors.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, Device, DeviceCapacity, ResourceClaim, ResourceSlice,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use crate::driver::DRIVER;
use crate::quantity;

/// Amounts of a card by the names of its capacities: `memory` in bytes, `cores` in percent, `slots` by number.
pub(crate) type Amounts = BTreeMap<String, u64>;

/// One card that some slice offers, and what is left of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CardOffer {
    /// The node, or the pool where the slice names none.
    pub(crate) node: String,
    pub(crate) device: String,
    pub(crate) product: Option<String>,
    /// Whether several claims may have parts of it.
    pub(crate) is_shared: bool,
    pub(crate) capacity: Amounts,
    /// Capacity that no claim has.
    pub(crate) free: Amounts,
    /// Claims that have a part of it.
    pub(crate) claims: usize,
    #[serde(skip)]
    policies: BTreeMap<String, Option<CapacityRequestPolicy>>,
}

/// Answer of a card to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CardAnswer {
    /// It has room.
    Fits,
    /// It has too little left, by capacity; `claims` where it cannot be shared and is taken.
    Lacks(Amounts),
    /// It is smaller than what is asked, however empty; the capacity's name.
    TooSmall(String),
    /// It has no capacity of this name.
    Unknown(String),
}

impl CardOffer {
    fn of(node: &str, device: &Device) -> Self {
        let offered = device.capacity.clone().unwrap_or_default();
        let read = |capacity: &DeviceCapacity| amount(&capacity.value).unwrap_or(0);
        let capacity: Amounts =
            offered.iter().map(|(name, capacity)| (name.clone(), read(capacity))).collect();
        let attribute = |name: &str| device.attributes.as_ref()?.get(name)?.string.clone();
        Self {
            node: node.to_owned(),
            device: device.name.clone(),
            product: attribute("productName"),
            is_shared: device.allow_multiple_allocations == Some(true),
            free: capacity.clone(),
            capacity,
            claims: 0,
            policies: offered.into_iter().map(|(name, it)| (name, it.request_policy)).collect(),
        }
    }

    /// What a request takes of it: what it asks, rounded, and the policy's default where it asks nothing.
    ///
    /// # Errors
    /// The answer that says why it never fits.
    pub(crate) fn taken_by(&self, asked: &Amounts) -> Result<Amounts, CardAnswer> {
        if let Some(name) = asked.keys().find(|&name| !self.capacity.contains_key(name)) {
            return Err(CardAnswer::Unknown(name.clone()));
        }
        let take = |(name, &all): (&String, &u64)| {
            let policy = self.policies.get(name).and_then(Option::as_ref);
            let taken = rounded(asked.get(name).copied(), policy, all);
            if taken > all {
                return Err(CardAnswer::TooSmall(name.clone()));
            }
            Ok((name.clone(), taken))
        };
        self.capacity.iter().map(take).collect()
    }

    /// Whether there is room for a request.
    pub(crate) fn answer(&self, asked: &Amounts) -> CardAnswer {
        let taken = match self.taken_by(asked) {
            Ok(taken) => taken,
            Err(answer) => return answer,
        };
        if !self.is_shared {
            return match self.claims {
                0 => CardAnswer::Fits,
                claims => CardAnswer::Lacks(Amounts::from([("claims".to_owned(), claims as u64)])),
            };
        }
        let lacks = taken.into_iter().filter_map(|(name, taken)| {
            let free = self.free.get(&name).copied().unwrap_or(0);
            (taken > free).then(|| (name, taken - free))
        });
        let lacks: Amounts = lacks.collect();
        if lacks.is_empty() { CardAnswer::Fits } else { CardAnswer::Lacks(lacks) }
    }
}

/// What is taken of `all` where `asked` is asked: the policy's default, least amount and step.
fn rounded(asked: Option<u64>, policy: Option<&CapacityRequestPolicy>, all: u64) -> u64 {
    let read = |it: &Option<Quantity>| it.as_ref().and_then(amount);
    let default = || policy.and_then(|policy| read(&policy.default)).unwrap_or(all);
    let asked = asked.unwrap_or_else(default);
    let Some(policy) = policy else { return asked };
    if let Some(range) = &policy.valid_range {
        let least = amount(&range.min).unwrap_or(0);
        let asked = asked.max(least);
        let step = read(&range.step).unwrap_or(1).max(1);
        let rounded = (asked - least).div_ceil(step).checked_mul(step);
        return rounded.and_then(|more| least.checked_add(more)).unwrap_or(u64::MAX);
    }
    let valid = policy.valid_values.iter().flatten().filter_map(amount);
    match valid.filter(|&value| value >= asked).min() {
        Some(value) => value,
        None if policy.valid_values.is_some() => u64::MAX,
        None => asked,
    }
}

/// A quantity as a whole number.
pub(crate) fn amount(quantity: &Quantity) -> Option<u64> {
    quantity::whole_text(&quantity.0).ok()
}

/// Cards that `slices` offer, less what `claims` have, by node and device.
pub(crate) fn offers(slices: &[ResourceSlice], claims: &[ResourceClaim]) -> Vec<CardOffer> {
    let ours = || slices.iter().filter(|slice| slice.spec.driver == DRIVER);
    let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
    for slice in ours() {
        let newest = newest.entry(&slice.spec.pool.name).or_default();
        *newest = slice.spec.pool.generation.max(*newest);
    }
    let mut cards: BTreeMap<(String, String), CardOffer> = BTreeMap::new();
    for slice in ours() {
        let pool = &slice.spec.pool;
        if newest.get(&*pool.name) != Some(&pool.generation) {
            continue;
        }
        let node = slice.spec.node_name.as_deref().unwrap_or(&pool.name);
        for device in slice.spec.devices.iter().flatten() {
            let key = (pool.name.clone(), device.name.clone());
            cards.insert(key, CardOffer::of(node, device));
        }
    }
    for claim in claims {
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
        let results = devices.and_then(|devices| devices.results.as_ref());
        for result in results.into_iter().flatten().filter(|result| result.driver == DRIVER) {
            let key = (result.pool.clone(), result.device.clone());
            let Some(card) = cards.get_mut(&key) else { continue };
            card.claims += 1;
            let consumed = result.consumed_capacity.clone().unwrap_or_default();
            for (name, free) in &mut card.free {
                let taken = match consumed.get(name) {
                    Some(quantity) => amount(quantity).unwrap_or(u64::MAX),
                    None => u64::MAX,
                };
                *free = free.saturating_sub(taken);
            }
        }
    }
    cards.into_values().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::explain::tests::{allocated, slice};

    fn asked(memory_gib: u64, cores: u64) -> Amounts {
        Amounts::from([("memory".to_owned(), memory_gib << 30), ("cores".to_owned(), cores)])
    }

    #[test]
    fn what_claims_have_is_not_free() {
        let claims = [allocated("a", "n1", 60, 30), allocated("b", "n1", 10, 60)];
        let cards = offers(&[slice("n1", 1, 80), slice("n2", 1, 80)], &claims);
        assert_eq!(cards.len(), 2);
        let [first, second] = &*cards else { panic!("{cards:?}") };
        assert_eq!(
            (first.free["memory"], first.free["cores"], first.free["slots"]),
            (10 << 30, 10, 14)
        );
        assert_eq!((first.claims, second.claims), (2, 0));
        assert_eq!(first.answer(&asked(10, 10)), CardAnswer::Fits);
        let lacks = CardAnswer::Lacks(Amounts::from([("memory".to_owned(), 2 << 30)]));
        assert_eq!(first.answer(&asked(12, 10)), lacks);
        assert_eq!(first.answer(&asked(81, 10)), CardAnswer::TooSmall("memory".to_owned()));
        assert_eq!(second.answer(&Amounts::new()), CardAnswer::Fits, "all of an empty card");
        let unknown = Amounts::from([("memry".to_owned(), 1)]);
        assert_eq!(second.answer(&unknown), CardAnswer::Unknown("memry".to_owned()));
    }

    #[test]
    fn a_pool_is_its_newest_generation() {
        let cards = offers(&[slice("n1", 1, 80), slice("n1", 2, 40)], &[]);
        assert_eq!(cards.len(), 1);
        assert_eq!(cards[0].capacity["memory"], 40 << 30);
    }

    #[test]
    fn a_card_that_is_not_shared_has_one_claim() {
        let mut whole = slice("n1", 1, 80);
        let device = &mut whole.spec.devices.as_mut().unwrap()[0];
        device.allow_multiple_allocations = None;
        let claims = [allocated("a", "n1", 1, 1)];
        let card = &offers(std::slice::from_ref(&whole), &claims)[0];
        assert!(matches!(card.answer(&asked(1, 1)), CardAnswer::Lacks(_)));
        assert_eq!(offers(&[whole], &[])[0].answer(&asked(1, 1)), CardAnswer::Fits);
    }

    #[test]
    fn what_cannot_be_read_is_not_offered_and_is_all_consumed() {
        let mut odd = slice("n1", 1, 80);
        let device = &mut odd.spec.devices.as_mut().unwrap()[0];
        let memory = device.capacity.as_mut().unwrap().get_mut("memory").unwrap();
        memory.value = Quantity("much".to_owned());
        assert_eq!(offers(&[odd], &[])[0].capacity["memory"], 0);
        let mut claim = serde_json::to_value(allocated("a", "n1", 1, 1)).unwrap();
        let place = "/status/allocation/devices/results/0/consumedCapacity/memory";
        *claim.pointer_mut(place).unwrap() = json!("-1");
        let claim = serde_json::from_value(claim).unwrap();
        assert_eq!(offers(&[slice("n1", 1, 80)], &[claim])[0].free["memory"], 0);
    }

    proptest! {
        #[test]
        fn a_request_that_fits_leaves_what_it_says(memory in 0..100_u64 << 30, cores in 0..120_u64) {
            let card = &offers(&[slice("n1", 1, 80)], &[])[0];
            let asked = Amounts::from([("memory".to_owned(), memory), ("cores".to_owned(), cores)]);
            match card.taken_by(&asked) {
                Ok(taken) => {
                    prop_assert!(taken["memory"] >= memory && taken["memory"] <= 80 << 30);
                    prop_assert!(taken["memory"] % (1 << 20) == 0 && taken["cores"] >= cores.max(1));
                }
                Err(CardAnswer::TooSmall(_)) => prop_assert!(memory > (80 << 30) - (1 << 20) || cores > 100),
                Err(other) => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
