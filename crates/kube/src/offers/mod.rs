//! Offers of the cluster's nodes: cards as slices publish them, and what allocations leave of them, as the scheduler counts. For
//! those who ask why a pod waits ([`crate::explain`]) and who may have to go for it ([`crate::controller`]).
//!
//! Does not evaluate selectors, and reads nothing from the cluster.

mod card;
mod slices;

#[cfg(test)]
pub(crate) use self::card::{AllowedAmounts, CardCapacity};
pub(crate) use self::card::{Amounts, Card, CardLoad, NotForIt};
pub(crate) use self::slices::cards;

/// How many cards the bytes of a list of slices offer; for fuzzers.
pub fn offered(bytes: &[u8]) -> usize {
    let list = crate::lenient::list(bytes).unwrap_or_default();
    cards(&list).len()
}
