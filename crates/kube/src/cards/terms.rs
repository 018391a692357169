//! Terms on which a node's cards are sold, one for all of them. Pure.
//!
//! Above [`ALL_OF_A_CARD`] more memory is sold than there is: then each share must be able to leave its card, or the last ones find
//! no room that they have claimed. A single share is never larger than its card.

use crate::prepare::CardOffer;

/// Shares that may be on a card at a time, where nobody says otherwise.
pub const SLOTS: u32 = 16;
/// Tenants that a node's daemon serves.
const MOST_TENANTS: u32 = 256;
/// Percent of a card's memory that is all of it.
pub const ALL_OF_A_CARD: u32 = 100;

/// Terms of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardTerms {
    /// Shares that may be on a card at a time.
    pub slots: u32,
    /// Memory that is sold of a card, in percent of what it has.
    pub memory_percent: u32,
}

impl Default for CardTerms {
    fn default() -> Self {
        Self { slots: SLOTS, memory_percent: ALL_OF_A_CARD }
    }
}

impl CardTerms {
    /// Shares of a card on a node with so many cards and instances. Together they are no more than the tenants that the daemon
    /// serves: a pod beyond that would never start.
    #[must_use]
    pub fn on_node_of(self, devices: usize) -> Self {
        let devices = u32::try_from(devices).unwrap_or(u32::MAX).max(1);
        Self { slots: self.slots.min(MOST_TENANTS / devices).max(1), ..self }
    }

    /// Bytes that are sold of a card of so many.
    pub fn memory_sold(self, card_bytes: u64) -> u64 {
        let bytes =
            u128::from(card_bytes) * u128::from(self.memory_percent) / u128::from(ALL_OF_A_CARD);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Offer of a card of so many bytes; none where they are not known.
    pub fn offer(self, card_bytes: u64) -> Option<CardOffer> {
        let memory_bytes = self.memory_sold(card_bytes);
        (card_bytes > 0).then_some(CardOffer { memory_bytes, slots: self.slots })
    }

    /// Bytes that a single share of such a card may have.
    pub fn most_memory(self, card_bytes: u64) -> u64 {
        self.memory_sold(card_bytes).min(card_bytes)
    }

    /// Whether shares may have to leave their card for others.
    pub fn sells_beyond(self) -> bool {
        self.memory_percent > ALL_OF_A_CARD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_node_are_no_more_than_its_daemon_has_tenants() {
        for (devices, slots) in [(0, 16), (1, 16), (16, 16), (17, 15), (56, 4), (300, 1)] {
            assert_eq!(CardTerms::default().on_node_of(devices).slots, slots, "{devices}");
        }
    }

    #[test]
    fn a_share_is_never_larger_than_its_card() {
        for (memory_percent, sold, most, beyond) in
            [(50, 40, 40, false), (100, 80, 80, false), (150, 120, 80, true)]
        {
            let terms = CardTerms { memory_percent, ..CardTerms::default() };
            assert_eq!((terms.memory_sold(80), terms.most_memory(80)), (sold, most));
            assert_eq!(terms.sells_beyond(), beyond);
        }
        let most = CardTerms { memory_percent: u32::MAX, ..CardTerms::default() };
        assert_eq!(most.memory_sold(u64::MAX), u64::MAX);
    }
}
