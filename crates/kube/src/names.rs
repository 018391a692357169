//! Resources that an administrator has renamed in HAMi's chart, by the names that the converter
//! knows.
//!
//! Promises: names change where resources stand, and nowhere else; a name that then stands twice
//! is refused where it is read.
//!
//! Does not read the chart: [`crate::chart`] does.

use std::str::FromStr;

use crate::yaml::{MapEntry, Node, Value};

/// HAMi's resources for NVIDIA's cards, behind their domain.
const KEYS: [&str; 5] = ["gpu", "gpumem", "gpumem-percentage", "gpucores", "priority"];
/// Mappings whose keys are resources.
const PLACES: [&str; 9] = [
    "limits",
    "requests",
    "hard",
    "default",
    "defaultRequest",
    "max",
    "min",
    "maxLimitRequestRatio",
    "scopedHard",
];

/// A resource's own name, such as `gpumem=example.com/vgpu-memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceName {
    known: String,
    name: String,
}

impl ResourceName {
    /// Whether it is the name that HAMi's chart gives.
    pub(crate) fn is_usual(&self) -> bool {
        self.known == self.name
    }
}

impl FromStr for ResourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((key, name)) = text.split_once('=') else {
            return Err(format!("{text}: write KEY=NAME, such as gpumem=example.com/vgpu-memory"));
        };
        if !KEYS.contains(&key) {
            let keys = KEYS.join(", ");
            return Err(format!("{key} is no resource of HAMi's; write one of {keys}"));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        match name.split_once('/') {
            Some((domain, rest))
                if !domain.is_empty()
                    && !rest.is_empty()
                    && domain.chars().chain(rest.chars()).all(is_part) =>
            {
                Ok(Self { known: format!("nvidia.com/{key}"), name: name.to_owned() })
            }
            _ => Err(format!(
                "{name:?} is no name of a resource; write it with its domain, such as example.com/vgpu-memory"
            )),
        }
    }
}

/// Calls resources by the names that are known.
pub(crate) fn known(root: &mut Node, names: &[ResourceName]) {
    if !names.is_empty() {
        walk(root, false, names);
    }
}

fn walk(node: &mut Node, is_resources: bool, names: &[ResourceName]) {
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(|item| walk(item, false, names)),
        Value::Mapping(entries) => {
            for at in 0..entries.len() {
                if is_resources {
                    rename(entries, at, names);
                }
                if let Some(entry) = entries.get_mut(at) {
                    let is_place = PLACES.contains(&&*entry.key.text);
                    walk(&mut entry.value, is_place, names);
                }
            }
        }
        Value::Scalar(_) => {}
    }
}

fn rename(entries: &mut [MapEntry], at: usize, names: &[ResourceName]) {
    let Some(entry) = entries.get(at) else { return };
    let text = &*entry.key.text;
    let side = ["limits.", "requests."].into_iter().find(|side| text.starts_with(side));
    let bare = side.map_or(text, |side| &text[side.len()..]);
    let Some(found) = names.iter().find(|it| it.name == bare) else { return };
    let renamed = format!("{}{}", side.unwrap_or_default(), found.known);
    if let Some(entry) = entries.get_mut(at) {
        entry.key.text = renamed;
    }
}
