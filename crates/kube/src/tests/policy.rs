//! Manifests that would run unchanged, held against the policy of the cluster, which is CEL in `deploy/kubernetes/hami.yaml`.
//!
//! The text of each condition, and of what names the template, is compared with what the converter's constants make of it: a
//! change of the file fails here until the converter follows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use super::corpus::{self, json};
use super::{codes, converted, pod, pod_with};
use crate::document::Outcome;
use crate::policy::{
    ANNOTATION_PREFIXES, RESOURCE_PREFIX, RESOURCES, RUNTIME_CLASS, SCHEDULER, VARIABLE_PREFIX,
    VARIABLES,
};
use crate::yaml;

/// All containers that a pod is made with, as CEL writes them.
const ALL: &str = "(object.spec.containers + object.spec.?initContainers.orValue([]))";

/// Expressions of the policy by their names, each on one line.
fn expressions(part: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/hami.yaml");
    let documents = yaml::read(&fs::read(path).unwrap()).unwrap();
    let policy = json(&documents[0].root);
    let entries = policy["spec"][part].as_array().unwrap();
    let text = |entry: &Json, key: &str| entry[key].as_str().unwrap().trim().to_owned();
    entries.iter().map(|entry| (text(entry, "name"), text(entry, "expression"))).collect()
}

/// A list of texts as CEL writes it.
fn list(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    words.join(", ")
}

#[test]
fn each_condition_of_the_policy_is_one_here() {
    let [_, memory, cores] = RESOURCES;
    let [first, second] = ANNOTATION_PREFIXES;
    let (resources, variables) = (list(&RESOURCES), list(&VARIABLES));
    let rows = [
        (
            "asks-for-a-part",
            format!(
                r#"object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && ("{memory}" in c.resources.limits || "{cores}" in c.resources.limits))"#
            ),
        ),
        (
            "one-container-asks",
            format!(
                r#"{ALL}.filter(c, has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(name, name.startsWith("{RESOURCE_PREFIX}"))).size() == 1"#
            ),
        ),
        (
            "nothing-else-is-asked",
            format!(
                r#"{ALL}.all(c, !has(c.resources) || !has(c.resources.limits) || c.resources.limits.all(name, !name.startsWith("{RESOURCE_PREFIX}") || name in [{resources}])) && {ALL}.all(c, !has(c.env) || c.env.all(v, !v.name.startsWith("{VARIABLE_PREFIX}") && !(v.name in [{variables}])))"#
            ),
        ),
        (
            "nothing-of-hami-on-the-pod",
            format!(
                r#"(!has(object.metadata.annotations) || object.metadata.annotations.all(name, !name.startsWith("{first}") && !name.startsWith("{second}"))) && !(object.spec.?schedulerName.orValue("") == "{SCHEDULER}") && !(object.spec.?runtimeClassName.orValue("") == "{RUNTIME_CLASS}")"#
            ),
        ),
        (
            "no-way-around-its-limits",
            format!(
                r#"object.spec.?nodeName.orValue("") == "" && {ALL}.all(c, !c.?securityContext.?privileged.orValue(false))"#
            ),
        ),
        (
            "whole-numbers",
            format!(
                r#"object.spec.containers.all(c, !has(c.resources) || !has(c.resources.limits) || c.resources.limits.all(name, !name.startsWith("{RESOURCE_PREFIX}") || quantity(c.resources.limits[name]).isInteger()))"#
            ),
        ),
    ];
    let rows: BTreeMap<String, String> =
        rows.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    assert_eq!(
        expressions("matchConditions"),
        rows,
        "crates/kube/src/policy.rs has each condition"
    );
}

#[test]
fn the_policy_names_the_same_template() {
    let [devices, memory, cores] = RESOURCES;
    let variables = expressions("variables");
    for (name, text) in [
        (
            "limits",
            format!(
                r#"variables.container.resources.limits.transformMap(name, amount, name.startsWith("{RESOURCE_PREFIX}"), quantity(amount).asInteger())"#
            ),
        ),
        ("devices", format!(r#"variables.limits[?"{devices}"].orValue(1)"#)),
        (
            "memory",
            format!(
                r#"variables.limits[?"{memory}"].optMap(mib, "-" + string(mib) + "mi").orValue("-whole")"#
            ),
        ),
        (
            "cores",
            format!(
                r#"variables.limits[?"{cores}"].orValue(0) > 0 ? "-" + string(variables.limits["{cores}"]) + "c" : "-1c-burst""#
            ),
        ),
        (
            "template",
            r#""gpu" + (variables.devices == 1 ? "" : "-" + string(variables.devices) + "x") + variables.memory + variables.cores"#
                .to_owned(),
        ),
    ] {
        assert_eq!(variables[name], text, "{name}");
    }
}

/// Texts in quotes of an expression, in their order.
fn quoted(expression: &str) -> Vec<String> {
    expression.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The conditions once more, over JSON and with the words that stand in the file.
fn is_taken(pod: &Json) -> bool {
    let conditions = expressions("matchConditions");
    let words = |name: &str| quoted(&conditions[name]);
    let containers = |list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
    let limits = |container: &Json| -> Vec<String> {
        let limits = container["resources"]["limits"].as_object();
        limits.map(|all| all.keys().cloned().collect()).unwrap_or_default()
    };
    let (main, init) = (containers("containers"), containers("initContainers"));
    let part = words("asks-for-a-part");
    let asks_for_a_part = main.iter().any(|it| limits(it).iter().any(|name| part.contains(name)));
    let prefix = &words("one-container-asks")[0];
    let asking = main.iter().chain(&init);
    let asking = asking.filter(|it| limits(it).iter().any(|name| name.starts_with(&**prefix)));
    let else_words = words("nothing-else-is-asked");
    let (prefix, names) = else_words.split_first().unwrap();
    let (resources, names) = names.split_at(names.iter().position(|it| it == "CUDA_").unwrap());
    let (begin, variables) = names.split_first().unwrap();
    let nothing_else = main.iter().all(|it| {
        let env = it["env"].as_array().cloned().unwrap_or_default();
        limits(it).iter().all(|name| !name.starts_with(&**prefix) || resources.contains(name))
            && env.iter().all(|variable| {
                let name = variable["name"].as_str().unwrap().to_owned();
                !name.starts_with(&**begin) && !variables.contains(&name)
            })
    });
    let [first, second, _, scheduler, _, class] = &words("nothing-of-hami-on-the-pod")[..] else {
        panic!("{conditions:?}")
    };
    let annotations = pod["metadata"]["annotations"].as_object();
    let is_bare = annotations.is_none_or(|all| {
        all.keys().all(|name| !name.starts_with(&**first) && !name.starts_with(&**second))
    });
    let goes_around = pod["spec"]["nodeName"].is_string()
        || main.iter().any(|it| {
            it["securityContext"]["privileged"] == true
                && limits(it).iter().any(|name| name.starts_with(&**prefix))
        });
    asks_for_a_part
        && !goes_around
        && asking.count() == 1
        && nothing_else
        && is_bare
        && pod["spec"]["schedulerName"] != **scheduler
        && pod["spec"]["runtimeClassName"] != **class
}

/// Pods and templates of pods, wherever they stand, that ask for something of NVIDIA's.
fn asking(object: &Json, found: &mut Vec<Json>) {
    if object["spec"]["containers"].is_array() && object.to_string().contains("nvidia.com/") {
        found.push(object.clone());
    }
    match object {
        Json::Object(entries) => entries.values().for_each(|value| asking(value, found)),
        Json::Array(items) => items.iter().for_each(|value| asking(value, found)),
        _ => {}
    }
}

#[test]
fn what_runs_unchanged_is_what_the_policy_takes() {
    let mut seen = [0, 0];
    for path in corpus::manifests() {
        let whose = path.display();
        let result = corpus::converted(&path);
        let is_unchanged = corpus::outcome(&result) == Outcome::Unchanged;
        let mut pods = Vec::new();
        for document in yaml::read(&fs::read(&path).unwrap()).unwrap() {
            asking(&json(&document.root), &mut pods);
        }
        let are_taken = !pods.is_empty() && pods.iter().all(is_taken);
        assert_eq!(is_unchanged, are_taken, "{whose}");
        seen[usize::from(are_taken)] += 1;
    }
    assert!(seen.iter().all(|count| *count >= 10), "{seen:?}");
}

const SHARE: &str = "nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192\nnvidia.com/gpucores: 30";

#[test]
fn what_the_policy_leaves_is_converted() {
    assert_eq!(codes(&pod(SHARE)).0, Outcome::Unchanged);
    let env = |name: &str, value: &str| {
        pod_with("", SHARE, &format!("env:\n- {{name: {name}, value: \"{value}\"}}"))
    };
    let beside = |lines: &str| format!("{}  - name: beside\n{lines}", pod(SHARE));
    for (why, text) in [
        ("a whole card", pod("nvidia.com/gpu: 1")),
        ("CUDA_HOME", env("CUDA_HOME", "/usr/local/cuda")),
        ("CUDA_VISIBLE_DEVICES", env("CUDA_VISIBLE_DEVICES", "0")),
        ("a policy for cores", env("GPU_CORE_UTILIZATION_POLICY", "default")),
        ("the killer", env("ACTIVE_OOM_KILLER", "false")),
        (
            "a container beside that sees none",
            beside("    env:\n    - {name: NVIDIA_VISIBLE_DEVICES, value: none}\n"),
        ),
        (
            "a container beside with CUDA's variable",
            beside("    env:\n    - {name: CUDA_HOME, value: /cuda}\n"),
        ),
        ("an init container with CUDA's variable", {
            let init =
                "  initContainers:\n  - name: i\n    env:\n    - {name: CUDA_HOME, value: /cuda}\n";
            pod(SHARE) + init
        }),
        ("a privileged container beside", beside("    securityContext: {privileged: true}\n")),
        ("two that ask", beside("    resources: {limits: {nvidia.com/gpu: 1}}\n")),
        ("requests alone", pod(SHARE).replace("limits:", "requests:")),
        ("cores in requests alone", {
            let text = pod("nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192");
            text + "      requests:\n        nvidia.com/gpucores: 30\n"
        }),
        ("a percentage", pod("nvidia.com/gpu: 1\nnvidia.com/gpumem-percentage: 100")),
        ("a priority", pod(&format!("{SHARE}\nnvidia.com/priority: 1"))),
        ("an annotation", pod_with("hami.io/vgpu-node: n1", SHARE, "")),
        (
            "a label that the converter heeds",
            pod(SHARE)
                .replace("metadata:\n", "metadata:\n  labels: {nvidia.com/use-gputype: A100}\n"),
        ),
        (
            "the scheduler",
            pod(SHARE).replace("spec:\n", "spec:\n  schedulerName: hami-scheduler\n"),
        ),
        ("the class", pod(SHARE).replace("spec:\n", "spec:\n  runtimeClassName: nvidia\n")),
    ] {
        let result = converted(&text);
        assert_eq!(result.documents[0].outcome, Outcome::Converted, "{why}: {result:?}");
    }
}
