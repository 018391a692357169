//! Node: whether a pod may be on it, but for devices. Pure.
//!
//! Judged are the node's name and labels (`nodeSelector`, required node affinity), taints, and what pods there ask for of its
//! resources, those that are ending included. Everything else the scheduler says ([`super::words`]).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity;

/// Amounts of a node's resources, in thousandths.
pub(super) type NodeAmounts = BTreeMap<String, u128>;

/// Resource that counts pods.
const PODS: &str = "pods";

/// Amounts that a pod asks for, as the scheduler sums them.
pub(super) fn requests(pod: &Pod) -> NodeAmounts {
    let spec = pod.spec.clone().unwrap_or_default();
    let asked = |container: &Container| {
        let resources = container.resources.as_ref();
        amounts(resources.and_then(|resources| resources.requests.as_ref()))
    };
    let mut sum = NodeAmounts::new();
    spec.containers.iter().for_each(|container| add(&mut sum, &asked(container)));
    // Sidecars stay; others run one after another, beside the sidecars before them.
    let (mut sidecars, mut most) = (NodeAmounts::new(), NodeAmounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut beside = asked(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &beside);
            add(&mut sum, &beside);
            beside = sidecars.clone();
        } else {
            add(&mut beside, &sidecars);
        }
        raise(&mut most, &beside);
    }
    raise(&mut sum, &most);
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    sum.extend(amounts(whole));
    add(&mut sum, &amounts(spec.overhead.as_ref()));
    sum.insert(PODS.to_owned(), 1000);
    sum
}

fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> NodeAmounts {
    // An amount that is not understood is more than any node has.
    let amount = |text: &str| quantity::thousandths(text).unwrap_or(u128::MAX);
    let all = quantities.into_iter().flatten();
    all.map(|(name, value)| (name.clone(), amount(&value.0))).collect()
}

pub(super) fn add(to: &mut NodeAmounts, amounts: &NodeAmounts) {
    for (name, amount) in amounts {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(to: &mut NodeAmounts, amounts: &NodeAmounts) {
    for (name, amount) in amounts {
        let most = to.entry(name.clone()).or_default();
        *most = (*amount).max(*most);
    }
}

/// Whether `pod` may be on `node`, of which other pods have `used`.
pub(super) fn may_be_on(pod: &Pod, node: &Node, used: &NodeAmounts) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let status = node.status.clone().unwrap_or_default();
    let has = status.allocatable.as_ref();
    let has = |name: &str| {
        let amount = has.and_then(|all| all.get(name));
        amount.and_then(|amount| quantity::thousandths(&amount.0).ok()).unwrap_or(0)
    };
    let has_room = requests(pod).iter().filter(|(_, asked)| **asked > 0).all(|(name, asked)| {
        let used = used.get(name).copied().unwrap_or(0);
        used.checked_add(*asked).is_some_and(|sum| sum <= has(name))
    });
    has_room && is_selected(spec, node) && is_tolerated(spec, node)
}

fn is_tolerated(spec: &PodSpec, node: &Node) -> bool {
    let node = node.spec.clone().unwrap_or_default();
    let taints = node.taints.unwrap_or_default();
    let unschedulable = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let all = taints.iter().chain(node.unschedulable.filter(|it| *it).map(|_| &unschedulable));
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    all.filter(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute")
        .all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key, value) = (of(&toleration.effect), of(&toleration.key), of(&toleration.value));
    let is_any = match of(&toleration.operator).as_str() {
        "Exists" => true,
        "" | "Equal" => value == of(&taint.value),
        // One that is not known tolerates nothing.
        _ => false,
    };
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && of(&toleration.operator) == "Exists")
        && is_any
}

fn is_selected(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let selector = spec.node_selector.iter().flatten();
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let is_term = |term: &NodeSelectorTerm| {
        let by_label = term.match_expressions.as_deref().unwrap_or_default();
        let by_field = term.match_fields.as_deref().unwrap_or_default();
        let is_said = !(by_label.is_empty() && by_field.is_empty());
        is_said
            && by_label.iter().all(|it| is_met(it, labels.get(&it.key).map(String::as_str)))
            && by_field.iter().all(|it| it.key == "metadata.name" && is_met(it, Some(name)))
    };
    selector.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && required.is_none_or(|required| required.node_selector_terms.iter().any(is_term))
}

fn is_met(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = value.is_some_and(|value| values.iter().any(|it| it == value));
    let numbers = || {
        let wanted = values.first()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, wanted))
    };
    match requirement.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, wanted)| value > wanted),
        "Lt" => numbers().is_some_and(|(value, wanted)| value < wanted),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
    }

    fn node() -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "n1", "labels": { "zone": "a", "cards": "8" } },
            "spec": { "taints": [
                { "key": "gpu", "value": "yes", "effect": "NoSchedule" },
                { "key": "soft", "effect": "PreferNoSchedule" },
            ] },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "3" } },
        }))
        .unwrap()
    }

    fn asking(cpu: &str) -> Value {
        json!({ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } })
    }

    #[test]
    fn a_pod_is_on_a_node_that_selects_tolerates_and_has_room() {
        let tolerations = json!([{ "key": "gpu", "operator": "Exists" }]);
        let terms = |expressions: Value| {
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": expressions }] } } })
        };
        let one = |operator: &str, values: Value| {
            terms(json!([{ "key": "cards", "operator": operator, "values": values }]))
        };
        for (what, change, is_fit) in [
            ("as it is", json!({}), true),
            ("no toleration", json!({ "tolerations": [] }), false),
            ("another value", json!({ "tolerations": [{ "key": "gpu", "value": "no" }] }), false),
            (
                "its value",
                json!({ "tolerations": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] }),
                true,
            ),
            ("all", json!({ "tolerations": [{ "operator": "Exists" }] }), true),
            (
                "an unknown operator",
                json!({ "tolerations": [{ "key": "gpu", "operator": "Gt" }] }),
                false,
            ),
            ("a label", json!({ "nodeSelector": { "zone": "a" } }), true),
            ("another label", json!({ "nodeSelector": { "zone": "b" } }), false),
            ("in", json!({ "affinity": one("In", json!(["8", "4"])) }), true),
            ("not in", json!({ "affinity": one("NotIn", json!(["8"])) }), false),
            ("more", json!({ "affinity": one("Gt", json!(["7"])) }), true),
            ("less", json!({ "affinity": one("Lt", json!(["8"])) }), false),
            ("there", json!({ "affinity": one("Exists", json!(null)) }), true),
            ("not there", json!({ "affinity": one("DoesNotExist", json!(null)) }), false),
            ("an empty term", json!({ "affinity": terms(json!([])) }), false),
            ("as much as there is", json!({ "containers": [asking("3")] }), true),
            ("more than there is", json!({ "containers": [asking("3001m")] }), false),
            ("an init container", json!({ "initContainers": [asking("3500m")] }), false),
            ("no number", json!({ "containers": [asking("many")] }), false),
            (
                "what it lacks",
                json!({ "containers": [
                { "name": "c", "resources": { "requests": { "nvidia.com/gpu": "1" } } }] }),
                false,
            ),
        ] {
            let mut spec = json!({ "containers": [asking("1")], "tolerations": tolerations });
            for (key, value) in change.as_object().unwrap() {
                spec[key] = value.clone();
            }
            let used = NodeAmounts::from([("cpu".to_owned(), 1000), (PODS.to_owned(), 2000)]);
            assert_eq!(may_be_on(&pod(spec), &node(), &used), is_fit, "{what}");
        }
        let full = NodeAmounts::from([(PODS.to_owned(), 3000)]);
        let spec = json!({ "containers": [], "tolerations": tolerations });
        assert!(!may_be_on(&pod(spec), &node(), &full), "no place for a pod");
        let mut cordoned = node();
        cordoned.spec.as_mut().unwrap().unschedulable = Some(true);
        let spec = json!({ "containers": [], "tolerations": tolerations });
        assert!(!may_be_on(&pod(spec), &cordoned, &NodeAmounts::new()));
    }

    #[test]
    fn requests_are_summed_as_the_scheduler_does() {
        let mut sidecar = asking("200m");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({
            "containers": [asking("1"), asking("500m")],
            "initContainers": [asking("1"), sidecar, asking("3")],
            "overhead": { "cpu": "100m" },
        });
        let sum = requests(&pod(spec));
        assert_eq!(
            sum["cpu"], 3300,
            "the last init container beside the sidecar, and the overhead"
        );
        assert_eq!((sum["memory"], sum[PODS]), ((3 << 30) * 1000, 1000));
    }
}
