//! Partitions of a card (MIG): which profiles there are, and what part of the card an instance of each is.
//!
//! A card is seven slices of processors and eight of memory; a GPU instance has some of both, and here one compute instance
//! that has all of it. Instances are there from the start: none is made or ended while the machine runs.
//!
//! Promises: the instances of a card fit it. Does not interpret the size in a profile's name, which NVIDIA rounds by hand:
//! an instance has its eighths of the memory that the card has.

use serde::{Deserialize, Serialize};

/// Profiles by their slices of processors: eighths of memory, and multiprocessors of an H200.
const PROFILES: [(u32, u64, u32); 5] =
    [(1, 1, 16), (2, 2, 32), (3, 4, 60), (4, 4, 64), (7, 8, 132)];
/// Slices of a card's processors, which is as many instances as it can have.
pub const SLICES: u32 = 7;
/// Slices of its memory.
const EIGHTHS: u64 = 8;

/// How a device of the machine stands to partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partition {
    /// A card that is one device.
    #[default]
    Whole,
    /// A card with MIG on: programs use its instances.
    Parted,
    /// An instance of one.
    Instance {
        /// The card, by its index.
        card: u32,
        /// Its place among the card's instances.
        number: u32,
        /// Slices of processors.
        slices: u32,
    },
}

/// Profile of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, such as `1g.18gb`.
    pub name: String,
    /// Slices of processors.
    pub slices: u32,
    eighths: u64,
}

impl Profile {
    /// Bytes of an instance on a card with so many.
    pub fn bytes(&self, card_bytes: u64) -> u64 {
        card_bytes / EIGHTHS * self.eighths
    }
}

/// Multiprocessors of an instance with so many slices.
pub fn multiprocessors(slices: u32) -> Option<u32> {
    PROFILES.iter().find(|(known, ..)| *known == slices).map(|(_, _, count)| *count)
}

/// Profiles of a card's instances, as `1g.18gb,3g.71gb`; none where a profile is not known or they do not fit. An empty text
/// is a card with MIG on and no instance.
pub fn parse(text: &str) -> Option<Vec<Profile>> {
    let names = text.split(',').map(str::trim).filter(|name| !(name.is_empty() && text.is_empty()));
    let profiles: Vec<Profile> = names.map(profile).collect::<Option<_>>()?;
    let slices: u32 = profiles.iter().map(|profile| profile.slices).sum();
    let eighths: u64 = profiles.iter().map(|profile| profile.eighths).sum();
    (slices <= SLICES && eighths <= EIGHTHS).then_some(profiles)
}

fn profile(name: &str) -> Option<Profile> {
    let (slices, size) = name.split_once("g.")?;
    let digits = size.strip_suffix("gb")?;
    let is_size =
        !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|it| it.is_ascii_digit());
    let slices: u32 = slices.parse().ok()?;
    let (_, eighths, _) = PROFILES.iter().find(|(known, ..)| *known == slices)?;
    is_size.then(|| Profile { name: name.to_owned(), slices, eighths: *eighths })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_fit_a_card_or_are_none() {
        let slices =
            |text: &str| parse(text).map(|all| all.iter().map(|it| it.slices).collect::<Vec<_>>());
        assert_eq!(slices(""), Some(vec![]));
        assert_eq!(slices("1g.18gb"), Some(vec![1]));
        assert_eq!(slices("3g.71gb, 2g.35gb,1g.18gb"), Some(vec![3, 2, 1]));
        assert_eq!(slices("3g.71gb,4g.71gb"), Some(vec![3, 4]));
        assert_eq!(slices(&["1g.18gb"; 7].join(",")).map(|all| all.len()), Some(7));
        let eight = ["1g.18gb"; 8].join(",");
        for none in [
            "7g.141gb,1g.18gb",
            "3g.71gb,3g.71gb,1g.18gb",
            &eight,
            "5g.88gb",
            "1g",
            "1g.",
            "1g.gb",
            "1g.18gb,",
            "g.18gb",
            "1g.18 gb",
            "1g.9999gb",
            "all",
        ] {
            assert_eq!(slices(none), None, "{none}");
        }
    }

    #[test]
    fn an_instance_has_its_eighths() {
        let card_bytes = 16 << 30;
        let bytes = |text: &str| parse(text).unwrap()[0].bytes(card_bytes);
        assert_eq!([bytes("1g.2gb"), bytes("2g.4gb")], [2 << 30, 4 << 30]);
        assert_eq!([bytes("3g.8gb"), bytes("7g.16gb")], [8 << 30, 16 << 30]);
        assert_eq!([1, 7, 5].map(multiprocessors), [Some(16), Some(132), None]);
    }
}
