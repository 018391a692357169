//! Requests for a part of a card that stand where nothing reads them, and names of HAMi's within
//! texts.
//!
//! Promises: a container never gets a whole card without a word beside a key that reads like a
//! request for a part. Such a key is refused or warned of, wherever in the object it stands.
//!
//! Does not change an object.

use crate::claim::Ask;
use crate::foreign::FOREIGN;
use crate::key::{Fate, Key, Place};
use crate::keys::{self, KEYS};
use crate::metric;
use crate::note::{Code, Note, Notes};
use crate::yaml::{Node, Value};

/// Parts of an object that a cluster wrote.
const SKIPPED: [&str; 3] =
    ["status", "managedFields", "kubectl.kubernetes.io/last-applied-configuration"];
/// Parts that choose nodes or select pods: a label of these is no request.
const CHOICES: [&str; 6] = [
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "selector",
    "matchLabels",
];
/// Words of HAMi's resources, without their domain.
const WORDS: [&str; 2] = ["gpumem", "gpucores"];
/// Beginnings of HAMi-core's variables for limits.
const LIMITS: [&str; 2] = ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"];

/// Whether a resource with this fate is a part of a card.
fn is_part(fate: Fate) -> bool {
    matches!(
        fate,
        Fate::Memory
            | Fate::MemoryPercent
            | Fate::MemoryUnits(_)
            | Fate::MemoryBytes
            | Fate::Cores
            | Fate::CardPercents
            | Fate::CardMemoryPercents
            | Fate::CardParts
    )
}

/// Whether a share leaves memory or cores open, so that a lost request would have been for these.
pub(crate) fn is_open(ask: &Ask) -> bool {
    !ask.is_instance() && (ask.memory_mib.is_none() || ask.cores_percent.is_none() || ask.bursts)
}

/// Resources that stand among a pod's annotations or labels, where no system reads them.
pub(crate) fn at_pod(pod: &Node, has_open: bool, notes: &mut Notes) {
    for part in ["annotations", "labels"] {
        let entries = pod.at(&["metadata", part]).map(Node::entries).unwrap_or_default();
        for entry in entries {
            let name = &*entry.key.text;
            let Some(key) = keys::find(Place::Resource, name) else { continue };
            let value = entry.value.text().unwrap_or_default();
            let place = format!("{name}: {value} stands in the pod's {part}, where it is not read");
            if has_open && is_part(key.fate) {
                let words = format!(
                    "{place}, so that the container would have more of the card; move it to the container's limits, or take it out"
                );
                notes.add(Code::Misplaced, entry.line, name, words);
            } else if is_part(key.fate) || key.fate == Fate::Priority {
                let words =
                    format!("{place}; it stays, without effect: move it to the container's limits");
                notes.add(Code::OutOfPlace, entry.line, name, words);
            }
        }
    }
}

/// Tells of what an object that is written has of HAMi's within texts, and of what reads like a
/// part where `has_open`.
pub(crate) fn look(object: &Node, has_open: bool, notes: &mut Notes) {
    if notes.refusals() == 0 {
        Look { has_open, notes }.node(object);
    }
}

#[derive(Debug)]
struct Look<'n> {
    has_open: bool,
    notes: &'n mut Notes,
}

impl Look<'_> {
    fn node(&mut self, node: &Node) {
        match &node.value {
            Value::Scalar(scalar) => self.text(&scalar.text, node.line),
            Value::Sequence(items) => items.iter().for_each(|item| self.node(item)),
            Value::Mapping(entries) => {
                // A variable: its name is the key.
                if let Some(name) = node.get("name").and_then(Node::text)
                    && (node.get("value").is_some() || node.get("valueFrom").is_some())
                {
                    self.key(name, node.get("value"), node.line);
                }
                for entry in entries {
                    let name = &*entry.key.text;
                    if SKIPPED.contains(&name) {
                        continue;
                    }
                    self.key(name, Some(&entry.value), entry.line);
                    let has_open = self.has_open;
                    self.has_open &= !CHOICES.contains(&name);
                    self.node(&entry.value);
                    self.has_open = has_open;
                }
            }
        }
    }

    fn key(&mut self, name: &str, value: Option<&Node>, line: usize) {
        let value = value.and_then(Node::text).unwrap_or_default();
        if self.has_open && reads_like_part(name) && !self.is_told(name, line) {
            let mut words = format!(
                "{name}: {value} reads like a part of a card and is not known here, and a container gets all of a card's memory or time; write nvidia.com/gpumem and gpucores in its limits"
            );
            if name.contains('/') {
                words.push_str(&format!(
                    ", or say of a renamed resource --resource-name gpumem={name}"
                ));
            }
            self.notes.add(Code::PartUnread, line, name, words);
        }
        for known in names_within(name) {
            if !self.is_told(name, line) {
                let words = format!(
                    "{name}: {value} stands where no container has it, and is not converted; move {known} to a container's limits, or take it out"
                );
                self.notes.add(Code::InText, line, name, words);
            }
        }
        metric::look(name, line, self.notes);
    }

    fn text(&mut self, text: &str, line: usize) {
        metric::look(text, line, self.notes);
        let known = names_within(text);
        let words = WORDS.iter().copied().filter(|word| self.has_open && text.contains(word));
        let words: Vec<&'static str> = if known.is_empty() { words.collect() } else { known };
        for name in words {
            if !self.is_told(name, line) {
                let words = format!(
                    "{name} within {:?}: nothing there is converted; convert the manifest that it is for by itself, or correct it by hand",
                    short(text)
                );
                self.notes.add(Code::InText, line, name, words);
            }
        }
    }

    fn is_told(&self, name: &str, line: usize) -> bool {
        let told = [Code::PartUnread, Code::InText, Code::Misplaced, Code::OutOfPlace];
        let is_it = |note: &Note| {
            note.line == line
                && note.key.as_deref() == Some(name)
                && told.iter().any(|code| code.name() == note.code)
        };
        self.notes.list.iter().any(is_it)
    }
}

/// Names of HAMi's and others' parts within a text: as resources, escaped as in JSON patches, and
/// variables.
fn names_within(text: &str) -> Vec<&'static str> {
    if !text.contains(['/', '~']) && !text.contains("CUDA_") {
        return Vec::new();
    }
    let plain = text.replace("~1", "/");
    let is_resource = |key: &&Key| key.place == Place::Resource && is_part(key.fate);
    let all = KEYS.iter().chain(FOREIGN.iter().map(|foreign| &foreign.key));
    let mut found: Vec<&'static str> = all
        .filter(is_resource)
        .map(|key| key.name)
        .chain(LIMITS)
        .filter(|name| plain.contains(name))
        .collect();
    // The longest of those that begin alike.
    let all = found.clone();
    found.retain(|name| !all.iter().any(|other| other != name && other.starts_with(name)));
    found
}

fn short(text: &str) -> String {
    const MOST: usize = 60;
    let line = text.lines().find(|line| !names_within(line).is_empty()).unwrap_or(text).trim();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
        None => line.to_owned(),
    }
}

/// Whether a key's name has a word for a GPU, and one for a part.
fn reads_like_part(name: &str) -> bool {
    const GPU: [&str; 7] = ["gpu", "cuda", "vram", "nvidia", "accelerator", "hami", "divvy_"];
    const PART: [&str; 16] = [
        "mem", "vram", "core", "percent", "fraction", "share", "slice", "limit", "quota", "ratio",
        "tflops", "replica", "part", "util", "portion", "compute",
    ];
    // Values of these are no amounts, and every other image has them.
    const KNOWN: [&str; 2] = ["NVIDIA_DRIVER_CAPABILITIES", "PYTORCH_CUDA_ALLOC_CONF"];
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    !KNOWN.contains(&name) && has(&GPU) && has(&PART)
}
