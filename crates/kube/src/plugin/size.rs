//! Sizes of shares, as the command line and the names of resources have them: `8g-30c` is 8 GiB and 30 % of a card's time. Pure.
//!
//! Promises: a size is written in one way, so that two that are equal have one name; what is no size is refused with the fix.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// Beginning of a resource's name.
const RESOURCE: &str = "divvy.dev/gpu-";
/// The most memory of a size, in GiB.
const MOST_GIB: u32 = 1024;
/// The most cores.
const MOST_PERCENT: u32 = 100;
/// Sizes that are sold where nobody says otherwise.
pub(super) const DEFAULT_SIZES: [&str; 3] = ["8g-10c", "16g-25c", "40g-50c"];
/// Sizes that a plugin may sell: each is a resource of the node.
pub(super) const MOST_SIZES: usize = 16;

/// Size of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ShareSize {
    pub(super) memory_gib: u32,
    pub(super) cores_percent: u32,
}

impl ShareSize {
    /// Bytes of memory.
    pub(super) fn memory_bytes(self) -> u64 {
        u64::from(self.memory_gib) << 30
    }

    /// Name of the resource that a pod asks for.
    pub(super) fn resource(self) -> String {
        format!("{RESOURCE}{self}")
    }

    /// Size of a resource; `None` where it is none of ours.
    pub(super) fn of_resource(name: &str) -> Option<Self> {
        name.strip_prefix(RESOURCE)?.parse().ok()
    }
}

impl Display for ShareSize {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}g-{}c", self.memory_gib, self.cores_percent)
    }
}

/// A whole number without zeros in front.
pub(super) fn number(text: &str) -> Option<u32> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

impl FromStr for ShareSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('-').and_then(|(memory, cores)| {
            Some((number(memory.strip_suffix('g')?)?, number(cores.strip_suffix('c')?)?))
        });
        let Some((memory_gib, cores_percent)) = parts else {
            return Err(format!(
                "{text:?} is no size: write GiB of memory and percent of the time, such as 8g-30c"
            ));
        };
        if !(1..=MOST_GIB).contains(&memory_gib) {
            return Err(format!("{text}: memory of {memory_gib} GiB; there are 1 to {MOST_GIB}"));
        }
        if !(1..=MOST_PERCENT).contains(&cores_percent) {
            return Err(format!(
                "{text}: cores of {cores_percent} %; there are 1 to {MOST_PERCENT}"
            ));
        }
        Ok(Self { memory_gib, cores_percent })
    }
}

/// Sizes of a command line.
///
/// # Errors
/// In words, with the value.
pub(super) fn sizes(texts: &[String]) -> Result<Vec<ShareSize>, String> {
    let mut sizes: Vec<ShareSize> = Vec::new();
    for text in texts {
        let size = text.parse().map_err(|why| format!("--size: {why}"))?;
        if sizes.contains(&size) {
            return Err(format!("--size {size} is named twice"));
        }
        sizes.push(size);
    }
    if !(1..=MOST_SIZES).contains(&sizes.len()) {
        return Err(format!("--size: {} sizes; there are 1 to {MOST_SIZES}", sizes.len()));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_size_is_written_in_one_way() {
        let size: ShareSize = "8g-30c".parse().unwrap();
        assert_eq!((size.memory_bytes(), size.cores_percent), (8 << 30, 30));
        assert_eq!(size.resource(), "divvy.dev/gpu-8g-30c");
        assert_eq!(ShareSize::of_resource("divvy.dev/gpu-8g-30c"), Some(size));
        for none in ["nvidia.com/gpu", "divvy.dev/gpu-", "divvy.dev/gpu-8g", "8g-30c"] {
            assert_eq!(ShareSize::of_resource(none), None, "{none}");
        }
        for (text, part) in [
            ("", "such as 8g-30c"),
            ("8g", "such as 8g-30c"),
            ("8g-30", "such as 8g-30c"),
            ("8G-30c", "such as 8g-30c"),
            ("08g-30c", "such as 8g-30c"),
            ("8g-+3c", "such as 8g-30c"),
            ("8g-30c-1", "such as 8g-30c"),
            ("99999999999g-30c", "such as 8g-30c"),
            ("0g-30c", "1 to 1024"),
            ("1025g-30c", "1 to 1024"),
            ("8g-0c", "1 to 100"),
            ("8g-101c", "1 to 100"),
        ] {
            let error = text.parse::<ShareSize>().unwrap_err();
            assert!(error.contains(part) && error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn a_list_has_each_size_once() {
        let list =
            |texts: &[&str]| sizes(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&DEFAULT_SIZES).unwrap().len(), 3);
        assert!(list(&["8g-30c", "8g-30c"]).unwrap_err().contains("named twice"));
        assert!(list(&["8g-30c", "x"]).unwrap_err().contains("--size: \"x\""));
        assert!(list(&[]).unwrap_err().contains("0 sizes"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_written_so(text in "[0-9]{1,5}g-[0-9]{1,4}c|\\PC*") {
            if let Ok(size) = text.parse::<ShareSize>() {
                prop_assert_eq!(size.to_string(), text);
            }
        }
    }
}
