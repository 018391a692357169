//! Facts about the cards that tenants use: name, index, size.
//!
//! Promises: a card stands once, whatever tenants say of it. Where the kernel module knows it, its name and index are the
//! kernel's; else, and for the size, they are what most tenants say, so that one that lies about a card it shares
//! is overruled by those who do not.
//!
//! Does not ask a driver.

use std::collections::BTreeMap;

use crate::machine::gpus;
use crate::tenants::ledger::{DeviceUse, LedgerTenant};

/// A card.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CardInfo {
    /// As the driver's tools print it.
    pub(super) uuid: String,
    pub(super) name: String,
    /// On the machine; empty where it is not known.
    pub(super) index: String,
    /// 0 where it is not known.
    pub(super) size_bytes: u64,
}

/// The cards of `tenants`, by UUID.
pub(super) fn of(tenants: &[&LedgerTenant]) -> Vec<CardInfo> {
    let mut claims: BTreeMap<&str, Vec<&DeviceUse>> = BTreeMap::new();
    for device in tenants.iter().flat_map(|tenant| &tenant.devices) {
        claims.entry(&device.uuid).or_default().push(device);
    }
    claims.into_iter().map(|(uuid, claims)| card(uuid, &claims)).collect()
}

fn card(uuid: &str, claims: &[&DeviceUse]) -> CardInfo {
    let known = gpus::known(uuid);
    let index = known.map(|(index, _)| index);
    let index = index.or_else(|| most_said(claims.iter().filter_map(|claim| claim.index)));
    let named = known.map(|(_, gpu)| gpu.name.as_str()).filter(|name| !name.is_empty());
    let named = named.or_else(|| most_said(claims.iter().map(|claim| claim.name.as_str())));
    let size_bytes =
        most_said(claims.iter().map(|claim| claim.card_bytes).filter(|bytes| *bytes > 0));
    CardInfo {
        uuid: uuid.to_owned(),
        name: named.unwrap_or_default().to_owned(),
        index: index.map(|index| index.to_string()).unwrap_or_default(),
        size_bytes: size_bytes.unwrap_or(0),
    }
}

/// The claim that is made most often; of several such the least.
fn most_said<T: Ord + Copy>(claims: impl Iterator<Item = T>) -> Option<T> {
    let mut counted: BTreeMap<T, usize> = BTreeMap::new();
    for claim in claims {
        *counted.entry(claim).or_default() += 1;
    }
    // Of equal counts the last one wins: from the greatest claim down to the least.
    counted.into_iter().rev().max_by_key(|(_, count)| *count).map(|(claim, _)| claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(card_bytes: u64, name: &str, index: Option<u32>) -> LedgerTenant {
        let device = DeviceUse {
            uuid: "GPU-a".to_owned(),
            name: name.to_owned(),
            index,
            card_bytes,
            ..DeviceUse::default()
        };
        LedgerTenant { devices: vec![device], ..LedgerTenant::default() }
    }

    #[test]
    fn a_card_stands_once_and_a_lie_is_overruled() {
        let told = [
            tenant(80, "H100", Some(3)),
            tenant(1, "toaster", Some(0)),
            tenant(80, "H100", Some(3)),
            tenant(0, "H100", None),
        ];
        let told: Vec<&LedgerTenant> = told.iter().collect();
        let [card] = &of(&told)[..] else { panic!("{:?}", of(&told)) };
        let expected = CardInfo {
            uuid: "GPU-a".to_owned(),
            name: "H100".to_owned(),
            index: "3".to_owned(),
            size_bytes: 80,
        };
        assert_eq!(*card, expected);
        assert_eq!(of(&[]), []);
        assert_eq!(most_said([7, 5].into_iter()), Some(5));
    }
}
