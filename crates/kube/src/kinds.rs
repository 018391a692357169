//! Kinds of objects, and where in them pods stand.
//!
//! Promises: a kind is known by its group and name; of any other nothing is guessed.

use crate::yaml::{Node, Value};

/// Group, kind, and ways to its pods: `[]` is each of a list, `*` each of a mapping, and the empty way the object itself.
const KINDS: &[(&str, &str, &[&str])] = &[
    ("", "Pod", &[""]),
    ("", "PodTemplate", &["template"]),
    ("", "ReplicationController", &["spec.template"]),
    ("apps", "Deployment", &["spec.template"]),
    ("apps", "StatefulSet", &["spec.template"]),
    ("apps", "DaemonSet", &["spec.template"]),
    ("apps", "ReplicaSet", &["spec.template"]),
    ("batch", "Job", &["spec.template"]),
    ("batch", "CronJob", &["spec.jobTemplate.spec.template"]),
    ("batch.volcano.sh", "Job", &["spec.tasks.[].template"]),
    ("kubeflow.org", "PyTorchJob", &["spec.pytorchReplicaSpecs.*.template"]),
    ("kubeflow.org", "TFJob", &["spec.tfReplicaSpecs.*.template"]),
    ("kubeflow.org", "MPIJob", &["spec.mpiReplicaSpecs.*.template"]),
    ("kubeflow.org", "XGBoostJob", &["spec.xgbReplicaSpecs.*.template"]),
    ("kubeflow.org", "PaddleJob", &["spec.paddleReplicaSpecs.*.template"]),
    ("kubeflow.org", "JAXJob", &["spec.jaxReplicaSpecs.*.template"]),
    ("ray.io", "RayCluster", &["spec.headGroupSpec.template", "spec.workerGroupSpecs.[].template"]),
    (
        "ray.io",
        "RayJob",
        &[
            "spec.rayClusterSpec.headGroupSpec.template",
            "spec.rayClusterSpec.workerGroupSpecs.[].template",
        ],
    ),
    (
        "ray.io",
        "RayService",
        &[
            "spec.rayClusterConfig.headGroupSpec.template",
            "spec.rayClusterConfig.workerGroupSpecs.[].template",
        ],
    ),
    ("jobset.x-k8s.io", "JobSet", &["spec.replicatedJobs.[].template.spec.template"]),
    (
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        &["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"],
    ),
    ("argoproj.io", "Rollout", &["spec.template"]),
    ("kubeflow.org", "Notebook", &["spec.template"]),
    ("keda.sh", "ScaledJob", &["spec.jobTargetRef.template"]),
    ("apps.kruise.io", "CloneSet", &["spec.template"]),
    ("apps.kruise.io", "StatefulSet", &["spec.template"]),
    ("apps.kruise.io", "DaemonSet", &["spec.template"]),
];

/// The group of an object; the core's is empty.
pub(crate) fn group(object: &Node) -> &str {
    let version = object.get("apiVersion").and_then(Node::text).unwrap_or_default();
    version.split_once('/').map_or("", |(group, _)| group)
}

pub(crate) fn kind(object: &Node) -> &str {
    object.get("kind").and_then(Node::text).unwrap_or_default()
}

/// Whether it holds objects as items, as what `kubectl get` prints of several.
pub(crate) fn is_list(object: &Node) -> bool {
    let items = object.get("items").map(Node::items);
    kind(object).ends_with("List")
        && items.is_some_and(|items| items.iter().all(|item| !item.entries().is_empty()))
}

/// Ways to the pods of such an object; `None` where the kind is not known.
pub(crate) fn ways(object: &Node) -> Option<&'static [&'static str]> {
    let (group, kind) = (group(object), kind(object));
    KINDS.iter().find(|(of, name, _)| *of == group && *name == kind).map(|(.., ways)| *ways)
}

/// The way to claims in an object of a kind that is not known, for people.
pub(crate) fn hint(object: &Node) -> &'static str {
    match (group(object), kind(object)) {
        ("serving.knative.dev", _) => {
            "Knative takes no resourceClaims in its pod template; write nvidia.com/gpu, gpumem and gpucores alone there, of which the cluster's policy makes a claim when the pod is created"
        }
        ("serving.kserve.io", "InferenceService") => {
            "convert the pod of its predictor by itself, and write its resourceClaims to spec.predictor.resourceClaims and its claims to spec.predictor.model.resources.claims, or those of spec.predictor.containers; or write nvidia.com/gpu, gpumem and gpucores alone, of which the cluster's policy makes a claim when the pod is created"
        }
        ("", "") => {
            "it is no object of Kubernetes' (a chart's values, or a patch?); render the chart, and convert what it makes: helm template … | divvy kube convert"
        }
        _ => "its pods are at no place that is known here; convert the pod template by itself",
    }
}

/// Calls `each` with every pod of `object` that stands at `way`.
pub(crate) fn pods(object: &mut Node, way: &str, each: &mut impl FnMut(&mut Node)) {
    if way.is_empty() {
        return each(object);
    }
    let (first, rest) = way.split_once('.').unwrap_or((way, ""));
    match first {
        "[]" => object.items_mut().iter_mut().for_each(|item| pods(item, rest, each)),
        "*" => object.values_mut().for_each(|value| pods(value, rest, each)),
        key => {
            if let Some(value) = object.get_mut(key) {
                pods(value, rest, each);
            }
        }
    }
}

/// Calls `each` with every key below `limits` or `requests`, at any depth; but for what a cluster wrote in `status`.
pub(crate) fn resources(object: &Node, each: &mut impl FnMut(&str, usize)) {
    fn walk(node: &Node, is_resources: bool, each: &mut impl FnMut(&str, usize)) {
        match &node.value {
            Value::Sequence(items) => items.iter().for_each(|item| walk(item, false, each)),
            Value::Mapping(entries) => {
                for entry in entries {
                    if is_resources {
                        each(&entry.key.text, entry.line);
                    }
                    walk(&entry.value, ["limits", "requests"].contains(&&*entry.key.text), each);
                }
            }
            Value::Scalar(_) => {}
        }
    }
    for entry in object.entries().iter().filter(|entry| entry.key.text != "status") {
        walk(&entry.value, false, each);
    }
}
