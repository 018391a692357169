//! Ids of devices, and of the claims that stand for them in the prepare core. Pure.
//!
//! A device is a place for one share of a size on a card: `513d9a0b-8g-30c-0` is the first of 8 GiB and 30 % on the card whose
//! UUID begins so. Two cards of one node with the same beginning are named by all of it. So an id says what it takes of which
//! card, with no other record.
//!
//! Promises: an id has at most 63 characters, a claim's at most the 64 of a UID; what is read is written so again.

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};
use std::str::FromStr;

use super::size::{ShareSize, number};
use crate::fnv::{BASIS, fnv_1a};

/// Digits of a card's UUID.
const UUID_DIGITS: usize = 32;
/// Digits of it that name the card.
const SHORT_DIGITS: usize = 8;
/// Beginning of a claim's UID.
const PREFIX: &str = "dp-";
/// Between the first device of several and the hash of all.
const SEVERAL: &str = "-x";
/// Digits of that hash.
const HASH_DIGITS: usize = 8;

/// Device of a size on a card.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShareDevice {
    /// Digits that the card's UUID begins with.
    pub(super) card: String,
    pub(super) size: ShareSize,
    pub(super) number: u32,
}

/// Devices of one container.
pub(super) type DeviceGroup = BTreeSet<ShareDevice>;

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The digits of the UUID of a card, or of an instance of one; `None` for any other text.
pub(super) fn digits_of(uuid: &str) -> Option<String> {
    let digits = uuid
        .strip_prefix("GPU-")
        .or_else(|| uuid.strip_prefix("MIG-"))?
        .replace('-', "")
        .to_ascii_lowercase();
    (digits.len() == UUID_DIGITS && is_digits(&digits)).then_some(digits)
}

/// Digits that name the card with these `digits` among `all`.
pub(super) fn key_of<'a>(digits: &'a str, mut all: impl Iterator<Item = &'a str>) -> String {
    let short = digits.get(..SHORT_DIGITS).unwrap_or(digits);
    let is_alone = all.all(|other| other == digits || !other.starts_with(short));
    if is_alone { short } else { digits }.to_owned()
}

impl Display for ShareDevice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.card, self.size, self.number)
    }
}

impl FromStr for ShareDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (card, rest) = text.split_once('-')?;
            let (size, place) = rest.rsplit_once('-')?;
            let is_card = [SHORT_DIGITS, UUID_DIGITS].contains(&card.len()) && is_digits(card);
            let (size, number) = (size.parse().ok()?, number(place)?);
            is_card.then(|| Self { card: card.to_owned(), size, number })
        };
        read().ok_or_else(|| {
            format!("{text:?} is no device of this plugin, such as 513d9a0b-8g-30c-0")
        })
    }
}

/// UID of the claim that stands for a container's devices; `None` where there are none.
pub(super) fn uid_of(devices: &DeviceGroup) -> Option<String> {
    let first = devices.first()?;
    if devices.len() == 1 {
        return Some(format!("{PREFIX}{first}"));
    }
    let all = devices.iter().map(ShareDevice::to_string).collect::<Vec<_>>().join(" ");
    let hash = fnv_1a(BASIS, all.as_bytes());
    let folded = (hash ^ (hash >> 32)) & u64::from(u32::MAX);
    Some(format!("{PREFIX}{first}{SEVERAL}{folded:0HASH_DIGITS$x}"))
}

/// Device that the claim of this UID begins with; `None` for a claim of somebody else.
pub(super) fn first_of(uid: &str) -> Option<ShareDevice> {
    let rest = uid.strip_prefix(PREFIX)?;
    let hashed =
        rest.rsplit_once(SEVERAL).filter(|(_, hash)| hash.len() == HASH_DIGITS && is_digits(hash));
    hashed.map_or(rest, |(first, _)| first).parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "GPU-513d9a0b-7e42-4c11-9f20-d177e5000000";

    #[test]
    fn an_id_that_was_given_stays() {
        let digits = digits_of(UUID).unwrap();
        let key = key_of(&digits, [&*digits, "613d9a0b7e424c119f20d177e5000000"].into_iter());
        let device = ShareDevice { card: key, size: "8g-30c".parse().unwrap(), number: 0 };
        assert_eq!(device.to_string(), "513d9a0b-8g-30c-0");
        assert_eq!("513d9a0b-8g-30c-0".parse(), Ok(device.clone()));
        assert_eq!(uid_of(&DeviceGroup::from([device.clone()])).unwrap(), "dp-513d9a0b-8g-30c-0");
        let second = ShareDevice { number: 1, ..device.clone() };
        let both = uid_of(&DeviceGroup::from([second, device.clone()])).unwrap();
        assert_eq!(both, "dp-513d9a0b-8g-30c-0-xc1615842");
        assert_eq!(first_of(&both), Some(device));
        assert_eq!(uid_of(&DeviceGroup::new()), None);
    }

    #[test]
    fn cards_that_begin_alike_are_named_by_all_of_their_uuid() {
        let (one, other) =
            (digits_of(UUID).unwrap(), digits_of(&UUID.replace("5000000", "5000001")).unwrap());
        let key = key_of(&one, [&*one, &*other].into_iter());
        assert_eq!(key, "513d9a0b7e424c119f20d177e5000000");
    }

    #[test]
    fn what_is_none_of_ours_is_none() {
        for uuid in [
            "",
            "GPU-",
            "GPU-1",
            "GI-513d9a0b-7e42-4c11-9f20-d177e5000000",
            "MIG-GPU-513d9a0b-7e42-4c11-9f20-d177e5000000/1/0",
            "GPU-../../etc/passwd-aaaaaaaaaaaaaaa",
        ] {
            assert_eq!(digits_of(uuid), None, "{uuid}");
        }
        for id in [
            "",
            "-",
            "513d9a0b",
            "513d9a0b-8g-30c",
            "513d9a0b-8g-30c-",
            "513d9a0b-8g-30c-00",
            "513d9a0b-8g-30c--1",
            "513d9a0-8g-30c-0",
            "513D9A0B-8g-30c-0",
            "513d9a0b-8g-0c-0",
            "513d9a0b-8g-30c-0/../x",
            "513d9a0b-8g-30c-99999999999",
        ] {
            assert!(id.parse::<ShareDevice>().unwrap_err().contains("is no device"), "{id}");
            assert_eq!(first_of(&format!("dp-{id}")), None, "{id}");
        }
        assert_eq!(first_of("3f0c7a52-1c1f-4f6a-9d3e-0a1b2c3d4e5f"), None);
    }

    proptest! {
        #[test]
        fn ids_are_short_and_read_as_they_are_written(
            card in "[0-9a-f]{8}|[0-9a-f]{32}", gib in 1..=1024_u32, cores in 1..=100_u32, numbers in prop::collection::btree_set(0..=256_u32, 1..5),
        ) {
            let size = ShareSize { memory_gib: gib, cores_percent: cores };
            let devices: DeviceGroup =
                numbers.into_iter().map(|number| ShareDevice { card: card.clone(), size, number }).collect();
            for device in &devices {
                let id = device.to_string();
                prop_assert!(id.len() <= 63);
                prop_assert_eq!(id.parse(), Ok(device.clone()));
            }
            let uid = uid_of(&devices).unwrap();
            prop_assert!(uid.len() <= 64);
            prop_assert_eq!(first_of(&uid), devices.first().cloned());
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = (text.parse::<ShareDevice>(), first_of(&text), digits_of(&text), key_of(&text, [&*text].into_iter()));
        }
    }
}
