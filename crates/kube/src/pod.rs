//! A pod, or a template of pods: annotations and containers of HAMi's, as claims.
//!
//! Promises: after [`convert`] no container of the pod asks for a GPU but by a claim; where the notes refuse, the pod that it
//! leaves is not to be written. Init containers that run before the others share the claim of an equal container.
//!
//! Does not make templates: it asks [`Templates`] for them.

use serde::Serialize;

use crate::claim::{self, Ask, Templates};
use crate::key::Fate;
use crate::keys;
use crate::note::{Code, Notes};
use crate::part;
use crate::policy::{self, RUNTIME_CLASS, SCHEDULER, STOCK_SCHEDULER};
use crate::request::{self, Options, PodWide};
use crate::unread;
use crate::yaml::Node;

/// One container's share, for the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ContainerShare {
    pub(crate) name: String,
    pub(crate) is_init: bool,
    #[serde(flatten)]
    pub(crate) ask: Ask,
    /// The pod's name for the claim, and the template that it is made of.
    pub(crate) claim: String,
    pub(crate) template: String,
}

/// A pod that was looked at.
#[derive(Debug, Default)]
pub(crate) struct Pod {
    pub(crate) shares: Vec<ContainerShare>,
    /// Templates that are new.
    pub(crate) templates: Vec<Node>,
    /// Whether anything of HAMi's was in it.
    pub(crate) is_hami: bool,
    /// Whether the policy of the cluster makes the same of it.
    pub(crate) is_unchanged: bool,
}

/// Converts `pod`, which has `metadata` and `spec`.
pub(crate) fn convert(
    pod: &mut Node,
    namespace: Option<&str>,
    options: Options,
    templates: &mut Templates,
    notes: &mut Notes,
) -> Pod {
    let mut found = Pod::default();
    let before = pod.clone();
    let first_note = notes.list.len();
    let wide = annotations(pod, notes);
    let Some(spec) = pod.get_mut("spec") else { return found };
    let mut shares = Vec::new();
    let part = wide.part.as_ref().and_then(|part| Some((part, part::place(part, spec)?)));
    if let (Some(part), None) = (&wide.part, &part) {
        let words = format!("{}: the pod has no container that it is for", part.name);
        notes.add(Code::Contradiction, part.line, &part.name, words);
    }
    for list in ["initContainers", "containers"] {
        let Some(containers) = spec.get_mut(list) else { continue };
        for (at, container) in containers.items_mut().iter_mut().enumerate() {
            let name = container.get("name").and_then(Node::text).unwrap_or("?").to_owned();
            notes.container = Some(name.clone());
            let part = part.filter(|(_, place)| *place == (list, at)).map(|(part, _)| part);
            if let Some(ask) = request::take(container, &wide, part, options, notes) {
                let is_sidecar = container.get("restartPolicy").is_some();
                let line = container.line;
                shares.push(Found { list, at, line, name, is_sidecar, ask });
            }
        }
    }
    notes.container = None;
    let has_claims = !shares.is_empty();
    misplaced(&before, has_claims, first_note, notes);
    found.is_unchanged =
        matches!(&shares[..], [one] if policy::ask(&before).as_ref() == Some(&one.ask));
    claims(spec, shares, namespace, templates, &mut found, notes);
    unread::at_pod(&before, found.shares.iter().any(|share| unread::is_open(&share.ask)), notes);
    scheduling(spec, has_claims, notes);
    found.is_hami = before != *pod;
    found
}

/// A container with its share.
#[derive(Debug)]
struct Found {
    list: &'static str,
    at: usize,
    line: usize,
    name: String,
    is_sidecar: bool,
    ask: Ask,
}

/// Takes annotations and labels of HAMi's out of a pod: what they ask of its devices.
fn annotations(pod: &mut Node, notes: &mut Notes) -> PodWide {
    let mut wide = PodWide::default();
    let Some(metadata) = pod.get_mut("metadata") else { return wide };
    wide.part = part::take(metadata, notes);
    for part in ["annotations", "labels"] {
        let entries = metadata.get(part).map(Node::entries).unwrap_or_default().to_vec();
        for entry in entries {
            let name = &*entry.key.text;
            let Some(key) = keys::find_at_pod(part == "labels", name) else {
                if keys::is_annotation_alike(name) {
                    let words =
                        format!("{name} is nothing that HAMi reads; correct it, or take it out");
                    notes.add(Code::UnknownKey, entry.line, name, words);
                }
                continue;
            };
            let value = entry.value.text().unwrap_or_default();
            match key.fate {
                Fate::Refused(code) => {
                    notes.add(code, entry.line, name, format!("{name}: {}", key.reason()))
                }
                Fate::Gone(code) => {
                    notes.add(code, entry.line, name, format!("{name}: {}", key.reason()))
                }
                Fate::Kept => continue,
                fate => meant(&mut wide, fate, name, value, entry.line, notes),
            }
            metadata.take(&[part, name]);
        }
    }
    wide
}

fn meant(wide: &mut PodWide, fate: Fate, name: &str, value: &str, line: usize, notes: &mut Notes) {
    let mut bad = |words: String| notes.add(Code::BadValue, line, name, format!("{name}: {words}"));
    let words: Vec<String> = value
        .split(',')
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    match fate {
        Fate::UseType | Fate::NoType | Fate::UseUuid | Fate::NoUuid if words.is_empty() => {
            bad("it is empty; name something, or take it out".to_owned());
        }
        Fate::UseType | Fate::NoType => {
            let is_type = |c: char| c.is_ascii_alphanumeric() || " ._-/()+".contains(c);
            match words.iter().find(|word| !word.chars().all(is_type)) {
                Some(word) => bad(format!("{word:?} is no name of a card, such as A100 or \"Tesla V100-PCIE-32GB\"")),
                None => types(wide, fate == Fate::UseType, name, &words, line, notes),
            }
        }
        Fate::UseUuid | Fate::NoUuid => {
            match words.iter().find(|word| divvy_policy::limit::parse_uuid(word).is_none()) {
                Some(word) => bad(format!("{word:?} is no UUID of a card, GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx (nvidia-smi -L)")),
                None => {
                    let uuids: Vec<String> = words.iter().map(|word| as_nvml(word)).collect();
                    wide.selectors.push(claim::uuid_selector(&uuids, fate == Fate::UseUuid));
                }
            }
        }
        // The spellings are those of Go's ParseBool, by which HAMi reads it.
        Fate::Numa => match value {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => wide.one_numa_node = true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => {}
            _ => bad(format!("{value:?} is neither true nor false")),
        },
        Fate::Mode => match value {
            "hami-core" => {}
            "mig" => notes.add(Code::Mig, line, name, "nvidia.com/vgpu-mode: mig: Divvy does not create MIG instances; make them, and ask for one by nvidia.com/mig-PROFILE, or for a share by memory and cores"),
            "mps" => notes.add(Code::Mps, line, name, "nvidia.com/vgpu-mode: mps: HAMi starts no MPS either; take it out"),
            _ => bad(format!("{value:?} is none of hami-core, mig and mps")),
        },
        Fate::NodePolicy => match value.trim() {
            "binpack" | "spread" => notes.add(
                Code::PreferenceDropped,
                line,
                name,
                format!("{name}: {value} is gone: the stock scheduler has no such wish for claims"),
            ),
            _ => bad(format!("{value:?} is neither binpack nor spread")),
        },
        Fate::GpuPolicy => policies(wide, name, value, &words, line, notes),
        _ => bad("it is not read here".to_owned()),
    }
}

fn policies(
    wide: &mut PodWide,
    name: &str,
    value: &str,
    words: &[String],
    line: usize,
    notes: &mut Notes,
) {
    if words.is_empty() {
        notes.add(Code::BadValue, line, name, format!("{name}: it is empty; take it out"));
    }
    for word in words {
        match &**word {
            "binpack" => notes.add(
                Code::Removed,
                line,
                name,
                "binpack: the scheduler takes a node's cards in their order, which packs them",
            ),
            "mutex" => wide.is_alone = true,
            "numa" => wide.one_numa_node = true,
            "spread" | "topology-aware" => notes.add(
                Code::PreferenceDropped,
                line,
                name,
                format!("{name}: {word} is gone: the stock scheduler does not choose among a node's cards"),
            ),
            _ => {
                let words = format!("{name}: {value:?}: {word:?} is none of binpack, spread, mutex, numa and topology-aware");
                notes.add(Code::BadValue, line, name, words);
            }
        }
    }
}

/// The selector for cards by type; none where the words stand for every card.
fn types(
    wide: &mut PodWide,
    is_wanted: bool,
    name: &str,
    words: &[String],
    line: usize,
    notes: &mut Notes,
) {
    let parts: Option<Vec<String>> = words.iter().map(|word| claim::type_part(word)).collect();
    match parts {
        Some(parts) => wide.selectors.push(claim::type_selector(&parts, is_wanted)),
        None if is_wanted => {
            let words =
                format!("{name}: {words:?} has a word that every card of NVIDIA's has: any card");
            notes.add(Code::Removed, line, name, words);
        }
        None => {
            let words = format!(
                "{name}: {words:?} has a word that every card of NVIDIA's has, so that no card is left; name a card, such as T4"
            );
            notes.add(Code::BadValue, line, name, words);
        }
    }
}

/// A UUID with its digits in lower case, as NVML writes it and attributes have it.
fn as_nvml(uuid: &str) -> String {
    let (kind, digits) = uuid.split_at(uuid.find('-').unwrap_or(0));
    format!("{kind}{}", digits.to_lowercase())
}

/// Refuses what would leave a container without its limit.
fn misplaced(pod: &Node, has_claims: bool, first_note: usize, notes: &mut Notes) {
    let Some(spec) = pod.get("spec") else { return };
    for side in ["limits", "requests"] {
        for entry in spec.at(&["resources", side]).map(Node::entries).unwrap_or_default() {
            let name = &*entry.key.text;
            if keys::is_gpu(name) {
                let words = format!(
                    "{name} stands at the pod, where HAMi does not read it; move it to a container"
                );
                notes.add(Code::UnknownKey, entry.line, name, words);
            }
        }
    }
    if !has_claims {
        return;
    }
    if let Some(node) = spec.get("nodeName") {
        let words = "nodeName goes past the scheduler, which allocates claims; use nodeSelector kubernetes.io/hostname";
        notes.add(Code::NodeName, node.line, "nodeName", words);
    }
    for note in notes.list.iter_mut().skip(first_note) {
        if note.code == Code::SeesGpus.name() {
            note.code = Code::WithoutLimit.name();
            note.level = Code::WithoutLimit.level();
            note.message.push_str("; take the variable out, or ask for a share");
        }
    }
}

/// A claim of the pod that a container may share which ends before others begin.
#[derive(Debug)]
struct Held {
    ask: Ask,
    claim: String,
    template: String,
}

/// Puts claims in the place of what the containers asked for.
fn claims(
    spec: &mut Node,
    shares: Vec<Found>,
    namespace: Option<&str>,
    templates: &mut Templates,
    found: &mut Pod,
    notes: &mut Notes,
) {
    let is_early = |share: &Found| share.list == "initContainers" && !share.is_sidecar;
    let (early, late): (Vec<_>, Vec<_>) = shares.into_iter().partition(is_early);
    let stem_of = |share: &Found| format!("gpu-{}", share.name);
    let is_only = late.len() == 1 && early.iter().all(|share| share.ask == late[0].ask)
        || late.is_empty() && early.len() == 1;
    let existing = spec.get("resourceClaims").map(Node::items).unwrap_or_default();
    let mut taken: Vec<String> =
        existing.iter().filter_map(|claim| claim.get("name")?.text().map(str::to_owned)).collect();
    let mut held: Vec<Held> = Vec::new();
    // Containers that stay come first: one that ends before they begin can have the claim of one of them.
    for share in late.into_iter().chain(early) {
        let (is_init, is_ending) = (share.list == "initContainers", is_early(&share));
        notes.container = Some(share.name.clone());
        let shared = held.iter().find(|it| is_ending && it.ask == share.ask);
        let (claim, template) = match shared {
            Some(it) => {
                let words =
                    format!("it ends before others begin, and has their claim {}", it.claim);
                notes.add(Code::SharedClaim, share.line, "", words);
                (it.claim.clone(), it.template.clone())
            }
            None => {
                let stem = if is_only { "gpu".to_owned() } else { stem_of(&share) };
                let claim = claim::pod_claim_name(&stem, &taken);
                taken.push(claim.clone());
                let (template, made) = templates.template(namespace, &share.ask);
                found.templates.extend(made);
                let name = ("name", Node::plain(&*claim));
                let of = ("resourceClaimTemplateName", Node::plain(&*template));
                spec.push_within("resourceClaims", Node::mapping([name, of]));
                if is_ending {
                    let words = "an init container's claim is held for the pod's whole life";
                    notes.add(Code::InitClaim, share.line, "", words);
                }
                (claim, template)
            }
        };
        if is_ending || !is_init {
            let ask = share.ask.clone();
            held.push(Held { ask, claim: claim.clone(), template: template.clone() });
        }
        hold(spec, share.list, share.at, &claim);
        let ask = share.ask;
        found.shares.push(ContainerShare { name: share.name, is_init, ask, claim, template });
    }
    notes.container = None;
}

/// Gives a container a claim of its pod.
fn hold(spec: &mut Node, list: &str, at: usize, claim: &str) {
    let containers = spec.get_mut(list).map(Node::items_mut).unwrap_or_default();
    let Some(container) = containers.get_mut(at) else { return };
    if container.get("resources").is_none_or(Node::is_empty) {
        container.remove("resources");
        container.set("resources", Node::mapping([]));
    }
    if let Some(resources) = container.get_mut("resources") {
        resources.push_within("claims", Node::mapping([("name", Node::plain(claim))]));
    }
}

pub(crate) fn other_scheduler(name: &str) -> String {
    format!(
        "the scheduler {name} places it, and must know resource claims with consumable capacity"
    )
}

/// Fields that HAMi needed of the pod and claims do not.
fn scheduling(spec: &mut Node, has_claims: bool, notes: &mut Notes) {
    let text =
        |spec: &Node, key: &str| Some((spec.get(key)?.text()?.to_owned(), spec.get(key)?.line));
    match text(spec, "schedulerName") {
        Some((name, line)) if name == SCHEDULER => {
            spec.remove("schedulerName");
            notes.add(
                Code::Removed,
                line,
                "schedulerName",
                "schedulerName: the stock scheduler places claims",
            );
        }
        Some((name, line)) if has_claims && name != STOCK_SCHEDULER => {
            notes.add(Code::OtherScheduler, line, "schedulerName", other_scheduler(&name));
        }
        _ => {}
    }
    match text(spec, "runtimeClassName") {
        Some((name, line)) if has_claims && name == RUNTIME_CLASS => {
            spec.remove("runtimeClassName");
            let words = "runtimeClassName: nvidia is gone: it shows a container whatever its variables ask for; claims come by CDI";
            notes.add(Code::Removed, line, "runtimeClassName", words);
        }
        _ => {}
    }
}
