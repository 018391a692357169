//! Parts of cards that a claim takes, as it was allocated. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::allocated::{AllocatedClaim, CardOffer};
use super::daemon::{CardLimits, PPM_OF_PERCENT};
use crate::quantity;

/// Percent of a card's time.
pub(super) const CARD_PERCENT: u32 = 100;

/// Part of a card that a claim has, whatever its size is made to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TakenPart {
    pub(super) memory_bytes: u64,
    pub(super) cores_percent: u32,
    pub(super) slots: u32,
}

impl TakenPart {
    /// The part that a tenant has of a card by the daemon's limits. A cap is the most that it has, and with a burst that is all of
    /// the card; its weight is what it is due, where that is less.
    pub(super) fn of_limits(card: &CardLimits, weight: u32) -> Self {
        let cap = card.share_ppm.div_ceil(PPM_OF_PERCENT);
        let cap = if cap == 0 { CARD_PERCENT } else { cap };
        Self { memory_bytes: card.memory_bytes, cores_percent: cap.min(weight), slots: 1 }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.cores_percent = self.cores_percent.saturating_add(other.cores_percent);
        self.slots = self.slots.saturating_add(other.slots);
    }

    /// Rest of the card beside it.
    pub(super) fn left(self, offer: CardOffer) -> Self {
        Self {
            memory_bytes: offer.memory_bytes.saturating_sub(self.memory_bytes),
            cores_percent: CARD_PERCENT.saturating_sub(self.cores_percent),
            slots: offer.slots.saturating_sub(self.slots),
        }
    }

    pub(super) fn fits(self, left: Self) -> bool {
        self.memory_bytes <= left.memory_bytes
            && self.cores_percent <= left.cores_percent
            && self.slots <= left.slots
    }

    pub(super) fn words(self) -> String {
        let memory = quantity::binary(self.memory_bytes);
        format!("memory {memory}, cores {} and slots {}", self.cores_percent, self.slots)
    }
}

/// Parts that a claim has, by the UUIDs of the cards.
pub(super) fn taken(claim: &AllocatedClaim) -> BTreeMap<String, TakenPart> {
    let mut taken = BTreeMap::<String, TakenPart>::new();
    for share in &claim.shares {
        let (memory_bytes, cores_percent) = (share.memory_bytes, share.cores_percent);
        let part = TakenPart { memory_bytes, cores_percent, slots: 1 };
        taken.entry(share.gpu_uuid.clone()).or_default().add(part);
    }
    taken
}
