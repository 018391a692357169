//! A container's resources and variables, as the share that it asks for.
//!
//! Promises: a key is treated by its entry in [`keys`] alone; what cannot be understood, and what looks like one of HAMi's
//! and is none, refuses the document. A container whose limits were understood is left without any of those keys.
//!
//! Does not know the pod: what its annotations ask for comes as [`PodWide`].

use crate::claim::{Ask, MOST_DEVICES, MOST_MIB, SharePriority};
use crate::keys::{self, Fate, Place};
use crate::note::{Code, Notes};
use crate::quantity::whole;
use crate::yaml::{MapEntry, Node};

/// Demands of a pod on all of its containers' devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodWide {
    pub(crate) selectors: Vec<String>,
    pub(crate) one_numa_node: bool,
    /// Whether no other pod may be on the cards.
    pub(crate) is_alone: bool,
}

/// Values that a container's keys have.
#[derive(Debug, Default)]
struct Values {
    count: Option<u64>,
    memory_mib: Option<u64>,
    percent: Option<u64>,
    cores: Option<u64>,
    priority: Option<u64>,
    oversubscribes: bool,
    bursts: bool,
    is_uncontrolled: bool,
    /// Whether a resource of HAMi's was there.
    is_asked: bool,
    sees: Option<(String, usize)>,
    /// Variables that were understood, each with what it says to a claim.
    understood: Vec<Understood>,
}

/// A variable that the claim stands in for.
#[derive(Debug)]
struct Understood {
    name: String,
    value: String,
    line: usize,
    /// What the claim's configuration has of it; `None` where that needs nothing.
    becomes: Option<&'static str>,
}

/// Takes a container's share out of it. `None` where it asks for no GPU, or where the notes refuse it.
pub(crate) fn take(
    container: &mut Node,
    wide: &PodWide,
    card_mib: Option<u64>,
    notes: &mut Notes,
) -> Option<Ask> {
    let mut values = Values::default();
    let before = notes.refusals();
    resources(container, &mut values, notes);
    variables(container, &mut values, notes);
    if notes.refusals() > before {
        return None;
    }
    let line = container.line;
    let request = values.is_asked.then(|| share(&values, wide, card_mib, line, notes)).flatten();
    see(container, &values, request.is_some(), notes);
    understood(&values, request.as_ref(), notes);
    if request.is_some()
        && container.at(&["securityContext", "privileged"]).and_then(Node::text) == Some("true")
    {
        notes.add(
            Code::Privileged,
            line,
            "privileged",
            "it is privileged, and would see every card without a limit; take `privileged: true` out",
        );
    }
    request
}

fn resources(container: &mut Node, values: &mut Values, notes: &mut Notes) {
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
    }
    if let Some(first) = below_requests.first() {
        let names: Vec<&str> = below_requests.iter().map(|it| &*it.key.text).collect();
        let words = format!(
            "{}: below requests alone, which Kubernetes refuses; taken as the limit",
            names.join(", ")
        );
        notes.add(Code::RequestsOnly, first.line, &first.key.text, words);
    }
    let Some(all) = container.get_mut("resources") else { return };
    for name in taken {
        all.take(&["limits", &name]);
        all.take(&["requests", &name]);
    }
}

fn number(entry: &MapEntry, notes: &mut Notes) -> Option<u64> {
    let name = &*entry.key.text;
    match whole(&entry.value) {
        Ok(value) => Some(value),
        Err(reason) => {
            let shown = entry.value.scalar().map_or("what it has", |scalar| &*scalar.text);
            let words = format!("{name}: {shown:?} {reason}");
            notes.add(Code::BadValue, entry.line, name, words);
            None
        }
    }
}

fn set(values: &mut Values, fate: Fate, value: u64, entry: &MapEntry, notes: &mut Notes) {
    let name = &*entry.key.text;
    let mut bad = |words: String| notes.add(Code::BadValue, entry.line, name, words);
    match fate {
        Fate::Count => values.count = Some(value),
        Fate::Memory if value == 0 => bad(format!(
            "{name}: 0 is the whole card to HAMi; take the line out if that is meant, or write MiB"
        )),
        Fate::Memory if value > MOST_MIB => bad(format!(
            "{name}: {value} MiB is more than any card has; a number is MiB to HAMi, and a unit multiplies it: 8192 is 8 GiB"
        )),
        Fate::Memory => values.memory_mib = Some(value),
        Fate::MemoryPercent if !(1..=100).contains(&value) => {
            bad(format!("{name}: {value} is no part of a card; write 1 to 100"));
        }
        Fate::MemoryPercent => values.percent = Some(value),
        Fate::Cores if value > 100 => {
            bad(format!("{name}: {value} is more than all of a card's time; write 0 to 100"));
        }
        Fate::Cores => values.cores = Some(value),
        Fate::Priority => {
            values.priority = Some(value);
        }
        _ => bad(format!("{name} is no resource")),
    }
}

fn variables(container: &mut Node, values: &mut Values, notes: &mut Notes) {
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
fn keep(container: &mut Node, is_kept: impl Fn(&Node) -> bool) {
    let Some(all) = container.get_mut("env") else { return };
    if let crate::yaml::Value::Sequence(items) = &mut all.value {
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

/// Tells of variables that are gone because a claim stands in for them.
fn understood(values: &Values, ask: Option<&Ask>, notes: &mut Notes) {
    for Understood { name, value, line, becomes } in &values.understood {
        let (code, words) = match (ask, becomes) {
            (None, _) => (Code::Removed, "the container asks for no GPU".to_owned()),
            (Some(_), Some(becomes)) => (Code::InClaim, format!("the claim has {becomes}")),
            (Some(_), None) => (Code::Removed, "a claim needs nothing for it".to_owned()),
        };
        notes.add(code, *line, name, format!("{name}={value} is gone: {words}"));
    }
}

/// Takes out the devices that a container names itself, where a claim decides; beside claims nobody may see more.
fn see(container: &mut Node, values: &Values, has_claim: bool, notes: &mut Notes) {
    const NAME: &str = "NVIDIA_VISIBLE_DEVICES";
    let Some((value, line)) = &values.sees else { return };
    if has_claim {
        keep(container, |node| node.get("name").and_then(Node::text) != Some(NAME));
        notes.add(
            Code::EnvironmentDropped,
            *line,
            NAME,
            format!("{NAME}={value} is gone: the claim decides which cards there are"),
        );
    } else if !["", "none", "void"].contains(&&**value) {
        notes.add(
            Code::SeesGpus,
            *line,
            NAME,
            format!(
                "{NAME}={value} shows this container GPUs that it does not ask for, without a limit"
            ),
        );
    }
}

fn share(
    values: &Values,
    wide: &PodWide,
    card_mib: Option<u64>,
    line: usize,
    notes: &mut Notes,
) -> Option<Ask> {
    let asks_for_part =
        values.memory_mib.is_some() || values.percent.is_some() || values.cores.is_some();
    let devices = match values.count {
        Some(0) if asks_for_part => {
            let words = "nvidia.com/gpu: 0 asks for no card, and memory or cores for a part of one; remove one of them";
            notes.add(Code::Contradiction, line, "nvidia.com/gpu", words);
            return None;
        }
        Some(0) => {
            notes.add(Code::NoGpu, line, "nvidia.com/gpu", "nvidia.com/gpu: 0 asks for nothing");
            return None;
        }
        Some(count @ MOST_DEVICES..) if count > MOST_DEVICES => {
            let words = format!(
                "nvidia.com/gpu: {count} is more than the {MOST_DEVICES} devices of a claim"
            );
            notes.add(Code::TooMany, line, "nvidia.com/gpu", words);
            return None;
        }
        Some(count) => count,
        None if asks_for_part => {
            let words = "no nvidia.com/gpu beside memory or cores: one card, as HAMi adds";
            notes.add(Code::CountAdded, line, "nvidia.com/gpu", words);
            1
        }
        None => {
            let words = "nvidia.com/priority asks for no card; write nvidia.com/gpu: 1 beside it";
            notes.add(Code::Contradiction, line, "nvidia.com/priority", words);
            return None;
        }
    };
    let memory_mib = memory(values, card_mib, line, notes)?;
    let cores = cores(values, memory_mib, wide, line, notes);
    let priority = values.priority.map(|value| match value {
        0 => SharePriority::High,
        _ => SharePriority::Low,
    });
    if priority == Some(SharePriority::High) {
        let words = "high priority: the claim's class must allow it";
        notes.add(Code::PriorityBound, line, "nvidia.com/priority", words);
    }
    if wide.one_numa_node && devices > 1 {
        let words = "same NUMA node by resource.kubernetes.io/numaNode: such a claim waits where no driver gives it";
        notes.add(Code::WeakerNuma, line, "nvidia.com/numa-bind", words);
    }
    let (cores_percent, is_free) = cores;
    let ask = Ask {
        devices,
        memory_mib,
        cores_percent,
        bursts: is_free || (values.bursts && cores_percent.is_some_and(|cores| cores < 100)),
        priority,
        oversubscribes: values.oversubscribes,
        one_numa_node: wide.one_numa_node && devices > 1,
        selectors: wide.selectors.clone(),
    };
    if values.is_uncontrolled && !ask.is_whole() {
        let words = "CUDA_DISABLE_CONTROL=true lifts all limits, and this is a part of a card; take it out, or ask for whole cards";
        notes.add(Code::LimitsOff, line, "CUDA_DISABLE_CONTROL", words);
        return None;
    }
    Some(ask)
}

/// MiB of each card; `Some(None)` is all of it.
fn memory(
    values: &Values,
    card_mib: Option<u64>,
    line: usize,
    notes: &mut Notes,
) -> Option<Option<u64>> {
    const PERCENT: &str = "nvidia.com/gpumem-percentage";
    match (values.memory_mib, values.percent) {
        (Some(_), Some(_)) => {
            let words =
                "nvidia.com/gpumem and nvidia.com/gpumem-percentage exclude each other; keep one";
            notes.add(Code::Contradiction, line, PERCENT, words);
            None
        }
        (Some(mib), None) => Some(Some(mib)),
        (None, Some(100)) => Some(None),
        (None, Some(percent)) => {
            let Some(card) = card_mib else {
                let words = format!(
                    "{PERCENT}: {percent} is of a card whose size is not said; claims are in bytes: give --card-memory, such as 80GiB"
                );
                notes.add(Code::NeedsCardMemory, line, PERCENT, words);
                return None;
            };
            let mib = (card * percent / 100).max(1);
            let words = format!("{percent} % of a card of {card} MiB is {mib} MiB");
            notes.add(Code::PercentOfCard, line, PERCENT, words);
            Some(Some(mib))
        }
        (None, None) => {
            notes.add(
                Code::WholeCards,
                line,
                "nvidia.com/gpumem",
                "no memory is asked for: all of each card",
            );
            Some(None)
        }
    }
}

/// Percent of each card's time, and whether idle time is free beyond that.
fn cores(
    values: &Values,
    memory_mib: Option<u64>,
    wide: &PodWide,
    line: usize,
    notes: &mut Notes,
) -> (Option<u64>, bool) {
    const CORES: &str = "nvidia.com/gpucores";
    if wide.is_alone {
        let words = "mutex: it claims all of its cards' time, so that no other pod joins them";
        notes.add(Code::CardTaken, line, "hami.io/gpu-scheduler-policy", words);
        return (Some(100), false);
    }
    match values.cores {
        Some(cores @ 1..) => (Some(cores), false),
        None if memory_mib.is_none() => (None, false),
        cores => {
            let said =
                if cores.is_some() { "nvidia.com/gpucores: 0" } else { "no nvidia.com/gpucores" };
            let words =
                format!("{said}: it claims 1 % of each card's time, and may have what is idle");
            notes.add(Code::CoresUnlimited, line, CORES, words);
            (Some(1), true)
        }
    }
}
