//! A container's share: what its keys ask for together, as a claim.
//!
//! Promises: what cannot be together refuses the document; nothing is rounded or guessed.
//!
//! Does not know the pod: what its annotations ask for comes as [`PodWide`].

use crate::asked::{self, Instances, PodPart, Understood, Values};
use crate::claim::{self, Ask, MOST_DEVICES, SharePriority};
use crate::note::{Code, Notes};
use crate::yaml::Node;

/// The most memory that a CUDA context takes on recent cards: 518 MiB on an H100 or H200, this on others.
const CONTEXT_MIB: u64 = 600;

/// Facts of a cluster that manifests leave to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Memory of each card, for percentages.
    pub card_bytes: Option<u64>,
    /// Memory of a container that says none, where it is not all of the card.
    pub default_memory_mib: Option<u64>,
    /// Cores of a container that says none, in percent.
    pub default_cores: Option<u64>,
}

/// Demands of a pod on all of its containers' devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodWide {
    pub(crate) selectors: Vec<String>,
    pub(crate) one_numa_node: bool,
    /// Whether no other pod may be on the cards.
    pub(crate) is_alone: bool,
    /// Part of a card for one container.
    pub(crate) part: Option<PodPart>,
}

/// Takes a container's share out of it. `None` where it asks for no GPU, or where the notes refuse it.
pub(crate) fn take(
    container: &mut Node,
    wide: &PodWide,
    part: Option<&PodPart>,
    options: Options,
    notes: &mut Notes,
) -> Option<Ask> {
    let mut values = Values::default();
    let before = notes.refusals();
    asked::resources(container, &mut values, notes);
    asked::variables(container, &mut values, notes);
    if let Some(part) = part {
        values.take_part(part, notes);
    }
    if notes.refusals() > before {
        return None;
    }
    let line = container.line;
    let request = values.is_asked.then(|| share(&values, wide, options, line, notes)).flatten();
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

/// Tells of variables that are gone because a claim stands in for them.
fn understood(values: &Values, ask: Option<&Ask>, notes: &mut Notes) {
    for Understood { name, value, line, becomes } in &values.understood {
        let (code, words) = match (ask, becomes) {
            (None, _) => (Code::Removed, "the container asks for no GPU".to_owned()),
            (Some(ask), Some(becomes)) if ask.bursts || !becomes.starts_with("burst") => {
                (Code::InClaim, format!("the claim has {becomes}"))
            }
            (Some(_), _) => (Code::Removed, "a claim needs nothing for it".to_owned()),
        };
        notes.add(code, *line, name, format!("{name}={value} is gone: {words}"));
    }
}

/// Takes out the devices that a container names itself, where a claim decides; beside claims nobody may see more.
fn see(container: &mut Node, values: &Values, has_claim: bool, notes: &mut Notes) {
    const NAME: &str = "NVIDIA_VISIBLE_DEVICES";
    let Some((value, line)) = &values.sees else { return };
    if has_claim {
        asked::keep(container, |node| node.get("name").and_then(Node::text) != Some(NAME));
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
    options: Options,
    line: usize,
    notes: &mut Notes,
) -> Option<Ask> {
    let mut selectors = wide.selectors.clone();
    let (devices, memory_mib, (cores_percent, is_free)) = match &values.instances {
        Some(instances) => {
            let devices = of_instances(instances, values, line, notes)?;
            selectors.push(claim::profile_selector(&instances.profile));
            (devices, None, (None, false))
        }
        None => {
            let devices = cards(values, line, notes)?;
            let memory_mib = memory(values, options, line, notes)?;
            (devices, memory_mib, cores(values, memory_mib, wide, options, line, notes))
        }
    };
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
    let ask = Ask {
        devices,
        memory_mib,
        cores_percent,
        bursts: is_free || (values.bursts && cores_percent.is_some_and(|cores| cores < 100)),
        priority,
        oversubscribes: values.oversubscribes,
        one_numa_node: wide.one_numa_node && devices > 1,
        selectors,
    };
    if values.is_uncontrolled && !ask.is_whole() {
        let words = "CUDA_DISABLE_CONTROL=true lifts all limits, and this is a part of a card; take it out, or ask for whole cards";
        notes.add(Code::LimitsOff, line, "CUDA_DISABLE_CONTROL", words);
        return None;
    }
    Some(ask)
}

/// Number of instances of MIG, beside which the container asks for nothing else: it has one claim.
fn of_instances(
    instances: &Instances,
    values: &Values,
    line: usize,
    notes: &mut Notes,
) -> Option<u64> {
    let Instances { name, count, .. } = instances;
    if values.count.is_some() || values.asks_for_part() {
        let words = format!(
            "{name} beside nvidia.com/gpu, memory or cores: a container has one claim; remove one of them"
        );
        notes.add(Code::Contradiction, line, name, words);
        return None;
    }
    counted(name, *count, line, notes)
}

/// Number of cards.
fn cards(values: &Values, line: usize, notes: &mut Notes) -> Option<u64> {
    const NAME: &str = "nvidia.com/gpu";
    match values.count {
        Some(0) if values.asks_for_part() => {
            let words = "nvidia.com/gpu: 0 asks for no card, and memory or cores for a part of one; remove one of them";
            notes.add(Code::Contradiction, line, NAME, words);
            None
        }
        Some(count) => counted(NAME, count, line, notes),
        None if values.asks_for_part() => {
            let words = "no nvidia.com/gpu beside memory or cores: one card, as HAMi adds";
            notes.add(Code::CountAdded, line, NAME, words);
            Some(1)
        }
        None => {
            let words = "nvidia.com/priority asks for no card; write nvidia.com/gpu: 1 beside it";
            notes.add(Code::Contradiction, line, "nvidia.com/priority", words);
            None
        }
    }
}

/// A number of devices that a claim can have.
fn counted(name: &str, count: u64, line: usize, notes: &mut Notes) -> Option<u64> {
    let (code, words) = match count {
        1..=MOST_DEVICES => return Some(count),
        0 => (Code::NoGpu, format!("{name}: 0 asks for nothing")),
        _ => {
            let words =
                format!("{name}: {count} is more than the {MOST_DEVICES} devices of a claim");
            (Code::TooMany, words)
        }
    };
    notes.add(code, line, name, words);
    None
}

/// MiB of each card; `Some(None)` is all of it, with a warning where no program has room.
fn memory(
    values: &Values,
    options: Options,
    line: usize,
    notes: &mut Notes,
) -> Option<Option<u64>> {
    let memory_mib = said_memory(values, options, line, notes)?;
    if let Some(mib @ ..CONTEXT_MIB) = memory_mib {
        let words = format!(
            "{mib} MiB: a program's CUDA context alone costs 518 to {CONTEXT_MIB} MiB on recent cards, and one that does not fit is refused; ask for more"
        );
        notes.add(Code::BelowContext, line, "nvidia.com/gpumem", words);
    }
    Some(memory_mib)
}

/// MiB of each card, as the container says it.
fn said_memory(
    values: &Values,
    options: Options,
    line: usize,
    notes: &mut Notes,
) -> Option<Option<u64>> {
    /// Millionths of a whole.
    const WHOLE: u64 = 1_000_000;
    let millionths = values.millionths.or(values.percent.map(|percent| percent * 10_000));
    match (values.memory_mib, millionths) {
        (Some(_), Some(_)) => {
            let words =
                "nvidia.com/gpumem and nvidia.com/gpumem-percentage exclude each other; keep one";
            notes.add(Code::Contradiction, line, PERCENT, words);
            None
        }
        (Some(mib), None) => Some(Some(mib)),
        (None, Some(WHOLE)) => Some(None),
        (None, Some(part)) => of_card(part, options, line, notes).map(Some),
        (None, None) if let Some(mib) = options.default_memory_mib => {
            let words = format!("no memory is asked for: {mib} MiB, by --default-memory");
            notes.add(Code::ClusterDefault, line, "nvidia.com/gpumem", words);
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

/// The resource by which a percentage of memory is asked for.
const PERCENT: &str = "nvidia.com/gpumem-percentage";

/// MiB in so many millionths of a card of `--card-memory`.
fn of_card(part: u64, options: Options, line: usize, notes: &mut Notes) -> Option<u64> {
    let (whole, rest) = (part / 10_000, part % 10_000);
    let percent = match rest {
        0 => whole.to_string(),
        _ => format!("{whole}.{rest:04}").trim_end_matches('0').to_owned(),
    };
    let Some(card) = options.card_bytes.map(|bytes| bytes >> 20) else {
        let words = format!(
            "{PERCENT}: {percent} is of a card whose size is not said; claims are in bytes: give --card-memory, such as 80GiB"
        );
        notes.add(Code::NeedsCardMemory, line, PERCENT, words);
        return None;
    };
    let mib = (card * part / 1_000_000).max(1);
    let words = format!("{percent} % of a card of {card} MiB is {mib} MiB");
    notes.add(Code::PercentOfCard, line, PERCENT, words);
    Some(mib)
}

/// Percent of each card's time, and whether idle time is free beyond that.
fn cores(
    values: &Values,
    memory_mib: Option<u64>,
    wide: &PodWide,
    options: Options,
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
        None if let Some(cores) = options.default_cores => {
            let words = format!("no nvidia.com/gpucores: {cores} %, by --default-cores");
            notes.add(Code::ClusterDefault, line, CORES, words);
            (Some(cores), false)
        }
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
