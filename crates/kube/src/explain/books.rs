//! Books of the cluster's cards: what slices offer, less what allocated claims have. Pure.
//!
//! Promises: counted as the scheduler counts, by [`crate::offers`]; a quantity that cannot be read is no offer, or is all taken.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use serde::Serialize;

use crate::driver::DRIVER;
use crate::offers::{Amounts, Card, CardLoad, NotForIt, cards};

/// One card, and what is left of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CardOffer {
    pub(crate) node: String,
    pub(crate) device: String,
    pub(crate) product: Option<String>,
    /// Whether several claims may have parts of it.
    pub(crate) is_shared: bool,
    pub(crate) capacity: Amounts,
    /// Capacity that no claim has; `None` where it is not known.
    pub(crate) free: Option<Amounts>,
    /// Allocations that have a part of the card; `None` where they are not known.
    pub(crate) shares: Option<usize>,
}

/// Answer of a card to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CardAnswer {
    /// It has room.
    Fits,
    /// It has too little left, by capacity.
    Lacks(Amounts),
    /// It is not shared, and taken.
    Taken,
    /// It never has that.
    Never(NotForIt),
}

/// A card of the books.
#[derive(Clone, Debug)]
pub(crate) struct BookedOffer {
    card: Card,
    load: CardLoad,
}

impl BookedOffer {
    /// The same for people and programs.
    pub(crate) fn offer(&self) -> CardOffer {
        let Card { node, device, product, is_shared, capacities, .. } = self.card.clone();
        let capacity = capacities.into_iter().map(|(name, capacity)| (name, capacity.value));
        CardOffer {
            node,
            device,
            product,
            is_shared,
            capacity: capacity.collect(),
            free: Some(self.card.free(&self.load)),
            shares: Some(self.load.shares),
        }
    }

    pub(crate) fn node(&self) -> &str {
        &self.card.node
    }

    /// Whether there is room for a request.
    pub(crate) fn answer(&self, asked: &Amounts) -> CardAnswer {
        let amounts = match self.card.consumed(asked) {
            Ok(amounts) => amounts,
            Err(why) => return CardAnswer::Never(why),
        };
        if self.card.has_room(&self.load, &amounts) {
            return CardAnswer::Fits;
        }
        if !self.card.is_shared {
            return CardAnswer::Taken;
        }
        let free = self.card.free(&self.load);
        let lacks = amounts.into_iter().filter_map(|(name, amount)| {
            let free = free.get(&name).copied().unwrap_or(0);
            (amount > free).then(|| (name, amount - free))
        });
        CardAnswer::Lacks(lacks.collect())
    }
}

/// Cards that `slices` offer, less what `claims` have.
pub(crate) fn books(slices: &[ResourceSlice], claims: &[ResourceClaim]) -> Vec<BookedOffer> {
    let cards = cards(slices);
    let mut loads: BTreeMap<(&str, &str), CardLoad> = BTreeMap::new();
    let places: BTreeMap<_, _> =
        cards.iter().map(|card| ((&*card.pool, &*card.device), card)).collect();
    for claim in claims {
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
        let results = devices.and_then(|devices| devices.results.as_ref());
        for result in results.into_iter().flatten().filter(|result| result.driver == DRIVER) {
            let place = (&*result.pool, &*result.device);
            let Some((place, card)) = places.get_key_value(&place) else { continue };
            loads.entry(*place).or_default().add(&card.held(result));
        }
    }
    let booked = |card: &Card| {
        let load = loads.get(&(&*card.pool, &*card.device)).cloned().unwrap_or_default();
        BookedOffer { card: card.clone(), load }
    };
    cards.iter().map(booked).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explain::tests::{allocated, slice};

    fn asked(memory_gib: u64, cores: u64) -> Amounts {
        Amounts::from([("memory".to_owned(), memory_gib << 30), ("cores".to_owned(), cores)])
    }

    #[test]
    fn what_claims_have_is_not_free() {
        let claims = [allocated("a", "n1", 60, 30), allocated("b", "n1", 10, 60)];
        let cards = books(&[slice("n1", 1, 80), slice("n2", 1, 80)], &claims);
        let [first, second] = &*cards else { panic!("{cards:?}") };
        let free = first.offer().free.unwrap();
        assert_eq!((free["memory"], free["cores"], free["slots"]), (10 << 30, 10, 14));
        assert_eq!((first.offer().shares, second.offer().shares), (Some(2), Some(0)));
        assert_eq!(first.answer(&asked(10, 10)), CardAnswer::Fits);
        let lacks = CardAnswer::Lacks(Amounts::from([("memory".to_owned(), 2 << 30)]));
        assert_eq!(first.answer(&asked(12, 10)), lacks);
        let never =
            |why: fn(String) -> NotForIt, name: &str| CardAnswer::Never(why(name.to_owned()));
        assert_eq!(first.answer(&asked(81, 10)), never(NotForIt::TooSmall, "memory"));
        assert_eq!(second.answer(&Amounts::new()), CardAnswer::Fits, "all of an empty card");
        let unknown = Amounts::from([("memry".to_owned(), 1)]);
        assert_eq!(second.answer(&unknown), never(NotForIt::Unknown, "memry"));
    }

    #[test]
    fn a_pool_is_its_newest_generation() {
        let cards = books(&[slice("n1", 1, 80), slice("n1", 2, 40)], &[]);
        assert_eq!(cards.len(), 1);
        assert_eq!(cards[0].offer().capacity["memory"], 40 << 30);
    }

    #[test]
    fn a_card_that_is_not_shared_has_one_claim() {
        let mut whole = slice("n1", 1, 80);
        let device = &mut whole.spec.devices.as_mut().unwrap()[0];
        device.allow_multiple_allocations = None;
        let claims = [allocated("a", "n1", 1, 1)];
        let card = &books(std::slice::from_ref(&whole), &claims)[0];
        assert_eq!(card.answer(&asked(1, 1)), CardAnswer::Taken);
        assert_eq!(books(&[whole], &[])[0].answer(&asked(1, 1)), CardAnswer::Fits);
    }

    #[test]
    fn what_cannot_be_read_is_all_taken() {
        let mut claim = serde_json::to_value(allocated("a", "n1", 1, 1)).unwrap();
        let place = "/status/allocation/devices/results/0/consumedCapacity/memory";
        *claim.pointer_mut(place).unwrap() = json!("-1");
        let claim = serde_json::from_value(claim).unwrap();
        assert_eq!(books(&[slice("n1", 1, 80)], &[claim])[0].offer().free.unwrap()["memory"], 0);
    }
}
