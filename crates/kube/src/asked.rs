//! A container's keys of HAMi's: resources and variables, each as a value.
//!
//! Promises: a key is treated by its entry in [`keys`] alone; what cannot be understood, and what looks like one of HAMi's
//! and is none, refuses the document. A container whose keys were understood is left without them.
//!
//! Does not know what the values amount to together.

use crate::claim::MOST_MIB;
use crate::key::{Fate, Place};
use crate::keys;
use crate::note::{Code, Notes};
use crate::quantity::whole;
use crate::yaml::{MapEntry, Node, Value};

/// Values that a container's keys have.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) count: Option<u64>,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) percent: Option<u64>,
    /// Memory as millionths of a card, where that is no whole percentage.
    pub(crate) millionths: Option<u64>,
    pub(crate) cores: Option<u64>,
    pub(crate) priority: Option<u64>,
    pub(crate) oversubscribes: bool,
    pub(crate) bursts: bool,
    pub(crate) is_uncontrolled: bool,
    pub(crate) instances: Option<Instances>,
    /// Whether it is several whole cards by a key whose other amounts are those of all of them.
    is_together: bool,
    /// Whether a resource of HAMi's was there.
    pub(crate) is_asked: bool,
    pub(crate) sees: Option<(String, usize)>,
    /// Variables that were understood, each with what it says to a claim.
    pub(crate) understood: Vec<Understood>,
}

impl Values {
    /// Whether it is a part of a card that is asked for.
    pub(crate) fn asks_for_part(&self) -> bool {
        self.has_memory() || self.cores.is_some()
    }

    fn has_memory(&self) -> bool {
        self.memory_mib.is_some() || self.percent.is_some() || self.millionths.is_some()
    }

    /// Adds what the pod asks for this container.
    pub(crate) fn take_part(&mut self, part: &PodPart, notes: &mut Notes) {
        self.is_asked = true;
        if self.has_memory() {
            let words = format!(
                "{} asks for memory of this container, which has another amount; keep one",
                part.name
            );
            notes.add(Code::Contradiction, part.line, &part.name, words);
            return;
        }
        match part.amount {
            PartAmount::Mib(mib) => self.memory_mib = Some(mib),
            PartAmount::Millionths(part) if part.is_multiple_of(10_000) => {
                self.percent = Some(part / 10_000)
            }
            PartAmount::Millionths(part) => self.millionths = Some(part),
        }
        if let Some(cards) = part.cards {
            if self.count.is_some_and(|count| count != cards) {
                let words = format!("{} differs from what the container asks for", part.name);
                notes.add(Code::Contradiction, part.line, &part.name, words);
            }
            self.count = Some(cards);
        }
    }
}

/// A part of a card that a pod's annotation asks for, for one of its containers.
#[derive(Clone, Debug)]
pub(crate) struct PodPart {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) amount: PartAmount,
    pub(crate) cards: Option<u64>,
    /// The container, where the pod names it.
    pub(crate) container: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PartAmount {
    Mib(u64),
    /// Of a card's memory.
    Millionths(u64),
}

/// Instances of MIG, which are asked for by their profile.
#[derive(Debug)]
pub(crate) struct Instances {
    /// The resource.
    pub(crate) name: String,
    /// The profile as NVIDIA's driver calls it: `1g.10gb+me`, where the resource ends in `1g.10gb.me`.
    pub(crate) profile: String,
    pub(crate) count: u64,
}

/// A variable that the claim stands in for.
#[derive(Debug)]
pub(crate) struct Understood {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) line: usize,
    /// Part of the claim's configuration; `None` where that needs nothing.
    pub(crate) becomes: Option<&'static str>,
}

pub(crate) fn resources(container: &mut Node, values: &mut Values, notes: &mut Notes) {
    let Some(all) = container.get("resources") else { return };
    let side = |name: &str| all.get(name).map(Node::entries).unwrap_or_default().to_vec();
    let (limits, requests) = (side("limits"), side("requests"));
    let mut taken: Vec<String> = Vec::new();
    let mut below_requests: Vec<&MapEntry> = Vec::new();
    for (entry, is_limit) in
        limits.iter().map(|it| (it, true)).chain(requests.iter().map(|it| (it, false)))
    {
        let name = &*entry.key.text;
        if taken.iter().any(|known| known == name) {
            if is_limit {
                let words =
                    format!("{name} stands twice, once by its name of --resource-name; keep one");
                notes.add(Code::Contradiction, entry.line, name, words);
            }
            continue;
        }
        let Some(key) = keys::find(Place::Resource, name) else {
            if keys::is_alike(name) {
                let known = "nvidia.com/gpu, gpumem, gpumem-percentage, gpucores and priority";
                let words =
                    format!("{name} is no resource of HAMi's, which are {known}; correct it");
                notes.add(Code::UnknownKey, entry.line, name, words);
            }
            continue;
        };
        if key.fate == Fate::Kept {
            continue;
        }
        taken.push(name.to_owned());
        values.is_asked = true;
        if let Fate::Refused(code) = key.fate {
            notes.add(code, entry.line, name, format!("{name}: {}", key.reason()));
            continue;
        }
        let Some(value) = number(entry, notes) else { continue };
        let other = requests.iter().find(|other| is_limit && other.key.text == name);
        if let Some(other) = other {
            let Some(asked) = number(other, notes) else { continue };
            if asked != value {
                let words = format!("limits have {value} and requests {asked}; make them equal");
                notes.add(Code::Contradiction, other.line, name, words);
                continue;
            }
        }
        if !is_limit {
            below_requests.push(entry);
        }
        set(values, key.fate, value, entry, notes);
        if let Some(system) = keys::system(key) {
            let words = format!("{name}: {value}: a key of {system}: {}", key.becomes);
            notes.add(Code::Foreign, entry.line, name, words);
        }
    }
    if values.is_together && values.memory_mib.is_some() {
        let words = "whole cards beside an amount of memory, which would be that of all of them together; write nvidia.com/gpu, and nvidia.com/gpumem for each";
        notes.add(Code::Contradiction, container.line, "resources", words);
    }
    only_requested(&below_requests, notes);
    let Some(all) = container.get_mut("resources") else { return };
    for name in taken {
        all.take(&["limits", &name]);
        all.take(&["requests", &name]);
    }
}

/// Tells of resources below `requests` alone.
fn only_requested(below_requests: &[&MapEntry], notes: &mut Notes) {
    if let Some(first) = below_requests.first() {
        let names: Vec<&str> = below_requests.iter().map(|it| &*it.key.text).collect();
        let words = format!(
            "{}: below requests alone, which Kubernetes refuses; taken as the limit",
            names.join(", ")
        );
        notes.add(Code::RequestsOnly, first.line, &first.key.text, words);
    }
}

fn number(entry: &MapEntry, notes: &mut Notes) -> Option<u64> {
    let name = &*entry.key.text;
    match whole(&entry.value) {
        Ok(value) => Some(value),
        Err(reason) => {
            let shown = entry.value.scalar().map_or("what it has", |scalar| &*scalar.text);
            let fix = if shown.contains("{{") { "; render the template first" } else { "" };
            let words = format!("{name}: {shown:?} {reason}{fix}");
            notes.add(Code::BadValue, entry.line, name, words);
            None
        }
    }
}

fn set(values: &mut Values, fate: Fate, value: u64, entry: &MapEntry, notes: &mut Notes) {
    let name = &*entry.key.text;
    let mut bad = |words: String| notes.add(Code::BadValue, entry.line, name, words);
    match fate {
        Fate::Count => put(&mut values.count, value, entry, notes),
        Fate::Memory => memory(values, Some(value), value, entry, notes),
        Fate::MemoryUnits(unit) => match value.checked_mul(unit) {
            Some(mib @ ..=MOST_OF_CARD) => memory(values, Some(mib), value, entry, notes),
            _ => bad(format!(
                "{name}: {value} in units of {unit} MiB is more than any card has; is it in MiB? Then write nvidia.com/gpumem"
            )),
        },
        Fate::MemoryBytes if !value.is_multiple_of(MIB) => {
            bad(format!("{name}: {value} bytes are no whole MiB; write a multiple of 1Mi"));
        }
        Fate::MemoryBytes => memory(values, Some(value / MIB), value, entry, notes),
        Fate::MemoryPercent if !(1..=100).contains(&value) => {
            bad(format!("{name}: {value} is no part of a card; write 1 to 100"));
        }
        Fate::MemoryPercent => put(&mut values.percent, value, entry, notes),
        Fate::Cores if value > 100 => {
            bad(format!("{name}: {value} is more than all of a card's time; write 0 to 100"));
        }
        Fate::Cores => put(&mut values.cores, value, entry, notes),
        Fate::CardPercents | Fate::CardMemoryPercents | Fate::CardParts => {
            hundredths(values, fate, value, entry, notes);
        }
        Fate::Priority => put(&mut values.priority, value, entry, notes),
        Fate::Instances => instances(values, value, entry, notes),
        _ => bad(format!("{name} is no resource")),
    }
}

/// More memory than a card of today has, in MiB: by it a unit is known that is not the one of the key.
const MOST_OF_CARD: u64 = 1 << 20;
/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// Gives a value to `slot`, where two keys that mean it agree.
fn put(slot: &mut Option<u64>, value: u64, entry: &MapEntry, notes: &mut Notes) {
    match *slot {
        Some(other) if other != value => {
            let name = &*entry.key.text;
            let words = format!(
                "{name}: {value}, where another key of the container says {other}; keep one"
            );
            notes.add(Code::Contradiction, entry.line, name, words);
        }
        _ => *slot = Some(value),
    }
}

/// Memory of each card, `None` where it cannot be counted; `value` is as it was written.
fn memory(values: &mut Values, mib: Option<u64>, value: u64, entry: &MapEntry, notes: &mut Notes) {
    let name = &*entry.key.text;
    let words = match mib {
        Some(0) => format!(
            "{name}: 0 is the whole card to HAMi; take the line out if that is meant, or write MiB"
        ),
        Some(mib @ ..=MOST_MIB) => return put(&mut values.memory_mib, mib, entry, notes),
        _ => format!(
            "{name}: {value} MiB is more than any card has; a number is MiB to HAMi, and a unit multiplies it: 8192 is 8 GiB"
        ),
    };
    notes.add(Code::BadValue, entry.line, name, words);
}

/// Hundredths of cards: a part of one, or whole ones.
fn hundredths(values: &mut Values, fate: Fate, value: u64, entry: &MapEntry, notes: &mut Notes) {
    let name = &*entry.key.text;
    let (cards, part) = match value {
        1..=99 => (1, value),
        _ if value > 0 && value.is_multiple_of(100) => (value / 100, 100),
        _ => {
            let words = format!(
                "{name}: {value} is neither a part of a card (1 to 99) nor whole cards (100, 200 …)"
            );
            return notes.add(Code::BadValue, entry.line, name, words);
        }
    };
    put(&mut values.count, cards, entry, notes);
    values.is_together |= cards > 1;
    if fate != Fate::CardMemoryPercents {
        put(&mut values.cores, part, entry, notes);
    }
    if fate != Fate::CardPercents {
        put(&mut values.percent, part, entry, notes);
    }
}

fn instances(values: &mut Values, value: u64, entry: &MapEntry, notes: &mut Notes) {
    let name = &*entry.key.text;
    match (profile(name), &values.instances) {
        (None, _) => {
            let words = format!(
                "{name} names no profile of MIG; write one as nvidia-smi mig -lgip does, such as nvidia.com/mig-1g.10gb"
            );
            notes.add(Code::BadValue, entry.line, name, words);
        }
        (Some(_), Some(other)) => {
            let words =
                format!("{name} beside {}: a container has one claim; keep one", other.name);
            notes.add(Code::Contradiction, entry.line, name, words);
        }
        (Some(profile), None) => {
            let name = name.to_owned();
            values.instances = Some(Instances { name, profile, count: value });
        }
    }
}

/// The profile of a resource of NVIDIA's plugin, in whose name a dot stands for the plus before an attribute.
fn profile(name: &str) -> Option<String> {
    let name = name.strip_prefix("nvidia.com/mig-")?;
    let (size, attributes) = name.split_at(name.find("gb")? + "gb".len());
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let is_of = |part: &str, unit: &str| part.strip_suffix(unit).is_some_and(is_number);
    let is_size = match size.split('.').collect::<Vec<_>>()[..] {
        [slices, memory] => is_of(slices, "g") && is_of(memory, "gb"),
        [compute, slices, memory] => {
            is_of(compute, "c") && is_of(slices, "g") && is_of(memory, "gb")
        }
        _ => false,
    };
    let is_word = |text: &str| {
        let is_part = |it: &str| it.bytes().all(|c| c.is_ascii_lowercase()) && !it.is_empty();
        // NVIDIA's plugin calls turns on an instance so: they have no limit of memory.
        text.split('.').all(|it| is_part(it) && it != "shared")
    };
    if !is_size {
        return None;
    }
    match attributes.strip_prefix('.') {
        Some(words) if is_word(words) => Some(format!("{size}+{words}")),
        None if attributes.is_empty() || attributes.strip_prefix('-').is_some_and(is_word) => {
            Some(name.to_owned())
        }
        _ => None,
    }
}

pub(crate) fn variables(container: &mut Node, values: &mut Values, notes: &mut Notes) {
    let variables = container.get("env").map(Node::items).unwrap_or_default().to_vec();
    let mut gone: Vec<&str> = Vec::new();
    for variable in &variables {
        let Some(name) = variable.get("name").and_then(Node::text) else { continue };
        let Some(key) = keys::find(Place::Variable, name) else { continue };
        let line = variable.line;
        if let Fate::VisibleDevices = key.fate {
            let value = variable.get("value").and_then(Node::text).unwrap_or_default();
            let is_from = variable.get("valueFrom").is_some();
            values.sees = Some((if is_from { "elsewhere" } else { value }.to_owned(), line));
            continue;
        }
        match key.fate {
            Fate::Refused(code) => {
                notes.add(code, line, name, format!("{name}: {}", key.reason()));
                continue;
            }
            Fate::Gone(code) => notes.add(code, line, name, format!("{name}: {}", key.reason())),
            fate => {
                let Some(value) = variable.get("value").and_then(Node::text) else {
                    let words =
                        format!("{name} has no value here (valueFrom?); write it, or take it out");
                    notes.add(Code::BadValue, line, name, words);
                    continue;
                };
                meant(values, fate, name, value, line, notes);
            }
        }
        gone.push(name);
    }
    if gone.is_empty() {
        return;
    }
    let is_kept = |node: &Node| {
        node.get("name").and_then(Node::text).is_none_or(|name| !gone.contains(&name))
    };
    keep(container, is_kept);
}

/// Keeps variables for which `is_kept` holds, and `env` where any is left.
pub(crate) fn keep(container: &mut Node, is_kept: impl Fn(&Node) -> bool) {
    let Some(all) = container.get_mut("env") else { return };
    if let Value::Sequence(items) = &mut all.value {
        items.retain(is_kept);
    }
    if all.is_empty() {
        container.remove("env");
    }
}

fn meant(values: &mut Values, fate: Fate, name: &str, value: &str, line: usize, notes: &mut Notes) {
    let truth = match value {
        "true" | "True" | "TRUE" | "1" => Some(true),
        "false" | "False" | "FALSE" | "0" => Some(false),
        _ => None,
    };
    let mut becomes = None;
    match (fate, truth) {
        (Fate::Oversubscribe, Some(is_true)) => {
            values.oversubscribes = is_true;
            becomes = is_true.then_some("oversubscribe: true");
        }
        (Fate::DisableControl, Some(is_true)) => values.is_uncontrolled = is_true,
        (Fate::Oversubscribe | Fate::DisableControl, None) => {
            let words = format!("{name}: {value:?} is neither true nor false");
            notes.add(Code::BadValue, line, name, words);
        }
        (Fate::CorePolicy, _) => match &*value.to_ascii_lowercase() {
            "default" | "force" => {}
            "disable" => {
                values.bursts = true;
                becomes = Some("burst: {cores: \"100\"}");
            }
            _ => {
                let words = format!("{name}: {value:?} is none of default, force and disable");
                notes.add(Code::BadValue, line, name, words);
            }
        },
        (Fate::TaskPriority, _) => match (value.parse::<u64>(), values.priority) {
            (Err(_), _) => {
                let words = format!("{name}: {value:?} is no priority; write 0 or 1");
                notes.add(Code::BadValue, line, name, words);
            }
            (Ok(own), Some(other)) if own.min(1) != other.min(1) => {
                let words =
                    format!("{name} is {own} and nvidia.com/priority {other}; make them equal");
                notes.add(Code::Contradiction, line, name, words);
            }
            (Ok(own), _) => {
                values.priority = Some(own);
                becomes = Some(if own == 0 { "priority: high" } else { "priority: low" });
            }
        },
        _ => {}
    }
    let (name, value) = (name.to_owned(), value.to_owned());
    values.understood.push(Understood { name, value, line, becomes });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_as_the_driver_calls_them() {
        for (name, wanted) in [
            ("1g.10gb", "1g.10gb"),
            ("7g.141gb", "7g.141gb"),
            ("1g.10gb.me", "1g.10gb+me"),
            ("1g.24gb.me.all", "1g.24gb+me.all"),
            ("1g.24gb-me", "1g.24gb-me"),
            ("1c.3g.20gb", "1c.3g.20gb"),
        ] {
            assert_eq!(profile(&format!("nvidia.com/mig-{name}")).as_deref(), Some(wanted));
        }
        let bad = [
            "",
            "1g",
            "gb",
            "g.gb",
            "1g.10gb.",
            "1g.10gb-",
            "1g.10gb+me",
            "1g.10gbé",
            "1g.10gb\" ||",
            "1.1g.10gb",
            "1g.10gb.ME",
        ];
        for name in bad {
            assert_eq!(profile(&format!("nvidia.com/mig-{name}")), None, "{name}");
        }
    }
}
