//! The cluster's policy for HAMi's pods, `deploy/kubernetes/hami.yaml`, as far as it says which pods it takes and what it makes of them.
//!
//! Promises: each condition here is one of the policy's; a test puts these words into the text of its expressions and compares.
//!
//! Does not judge pods that it does not take: those are the converter's.

use crate::claim::Ask;
use crate::quantity::whole;
use crate::yaml::{MapEntry, Node};

/// Beginning of the resources that the policy looks at.
pub(crate) const RESOURCE_PREFIX: &str = "nvidia.com/";
/// Those that it takes: of them each of the last two is enough.
pub(crate) const RESOURCES: [&str; 3] =
    ["nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"];
/// Beginning of the variables that no container of such a pod has, and others.
pub(crate) const VARIABLE_PREFIX: &str = "CUDA_";
pub(crate) const VARIABLES: [&str; 3] =
    ["GPU_CORE_UTILIZATION_POLICY", "NVIDIA_VISIBLE_DEVICES", "ACTIVE_OOM_KILLER"];
/// Beginnings of the annotations that such a pod does not have.
pub(crate) const ANNOTATION_PREFIXES: [&str; 2] = ["hami.io/", "nvidia.com/"];
/// The scheduler that HAMi's webhook names, and the runtime class of NVIDIA's.
pub(crate) const SCHEDULER: &str = "hami-scheduler";
pub(crate) const RUNTIME_CLASS: &str = "nvidia";
/// The scheduler that a pod has which names none.
pub(crate) const STOCK_SCHEDULER: &str = "default-scheduler";

/// The claim that the policy gives to `pod`; `None` where it leaves the pod as it is.
pub(crate) fn ask(pod: &Node) -> Option<Ask> {
    let spec = pod.get("spec")?;
    let list = |name: &str| spec.get(name).map(Node::items).unwrap_or_default();
    let (containers, init_containers) = (list("containers"), list("initContainers"));
    let asks = |container: &Node| limits(container).iter().any(is_counted);
    let is_part = |entry: &MapEntry| RESOURCES[1..].contains(&&*entry.key.text);
    let asks_for_a_part = containers.iter().any(|it| limits(it).iter().any(is_part));
    let one_container_asks =
        containers.iter().chain(init_containers).filter(|it| asks(it)).count() == 1;
    let all = || containers.iter().chain(init_containers);
    let nothing_else_is_asked = all().all(is_plain);
    let asking = containers.iter().find(|it| asks(it))?;
    let is_taken = asks_for_a_part && one_container_asks && nothing_else_is_asked && is_bare(pod);
    if !is_taken || goes_around(spec, all()) {
        return None;
    }
    let amount = |name: &str| {
        limits(asking).iter().find(|it| it.key.text == name).map(|it| whole(&it.value)).transpose()
    };
    let [devices, memory_mib, cores] = RESOURCES.map(amount);
    let cores = cores.ok()?.filter(|cores| *cores > 0);
    Some(Ask {
        devices: devices.ok()?.unwrap_or(1),
        memory_mib: memory_mib.ok()?,
        cores_percent: Some(cores.unwrap_or(1)),
        bursts: cores.is_none(),
        priority: None,
        oversubscribes: false,
        one_numa_node: false,
        selectors: Vec::new(),
    })
}

fn limits(container: &Node) -> &[MapEntry] {
    container.at(&["resources", "limits"]).map(Node::entries).unwrap_or_default()
}

fn is_counted(entry: &MapEntry) -> bool {
    entry.key.text.starts_with(RESOURCE_PREFIX)
}

/// Whether a container asks for nothing else of HAMi's.
fn is_plain(container: &Node) -> bool {
    let is_other = |entry: &MapEntry| is_counted(entry) && !RESOURCES.contains(&&*entry.key.text);
    let variables = container.get("env").map(Node::items).unwrap_or_default();
    let mut names = variables.iter().filter_map(|it| it.get("name").and_then(Node::text));
    !limits(container).iter().any(is_other)
        && !names.any(|name| name.starts_with(VARIABLE_PREFIX) || VARIABLES.contains(&name))
}

/// Whether a pod goes past the scheduler, which allocates claims, or one of its containers sees every card.
fn goes_around<'a>(spec: &Node, mut containers: impl Iterator<Item = &'a Node>) -> bool {
    let node = spec.get("nodeName").and_then(Node::text);
    let privileged =
        |it: &Node| it.at(&["securityContext", "privileged"]).and_then(Node::text) == Some("true");
    node.is_some_and(|name| !name.is_empty()) || containers.any(privileged)
}

/// Whether nothing of HAMi's is on the pod itself.
fn is_bare(pod: &Node) -> bool {
    let annotations = pod.at(&["metadata", "annotations"]).map(Node::entries).unwrap_or_default();
    let is_hami = |entry: &MapEntry| {
        ANNOTATION_PREFIXES.iter().any(|prefix| entry.key.text.starts_with(prefix))
    };
    let names = |key: &str, value: &str| pod.at(&["spec", key]).and_then(Node::text) == Some(value);
    !annotations.iter().any(is_hami)
        && !names("schedulerName", SCHEDULER)
        && !names("runtimeClassName", RUNTIME_CLASS)
}
