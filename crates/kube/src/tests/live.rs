//! Lists, and objects that were read from a cluster.

use super::{converted, made, pod};
use crate::convert::DocumentReport;
use crate::document::Outcome;
use crate::yaml;

const SHARE: &str = "nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192\nnvidia.com/gpucores: 30";

fn item(name: &str, limits: &str) -> String {
    let text = pod(limits).replace("name: p\n", &format!("name: {name}\n"));
    let line = |(at, line): (usize, &str)| format!("{}{line}\n", if at == 0 { "- " } else { "  " });
    text.lines().enumerate().map(line).collect()
}

fn list(items: &[String]) -> String {
    format!(
        "apiVersion: v1\nkind: List\nmetadata:\n  resourceVersion: \"\"\nitems:\n{}",
        items.concat()
    )
}

#[test]
fn each_item_of_a_list_is_converted_or_refused() {
    let text = list(&[
        item("a", "nvidia.com/gpu: 1\nnvidia.com/gpumem: none"),
        item("b", SHARE),
        item("c", "cpu: 1"),
        item("d", SHARE),
    ]);
    let result = converted(&text);
    let outcomes: Vec<Outcome> = result.documents.iter().map(|it| it.outcome).collect();
    let (refused, taken) = (Outcome::Refused, Outcome::Unchanged);
    assert_eq!(outcomes, [refused, taken, Outcome::Passed, taken]);
    let places: Vec<String> = result.documents.iter().map(DocumentReport::place).collect();
    assert_eq!(places[0], "document 1, item 1, Pod a");
    assert_eq!(places[3], "document 1, item 4, Pod d");
    let documents = yaml::read(result.text.as_bytes()).unwrap();
    let [template, list] = &documents[..] else { panic!("{}", result.text) };
    let names: Vec<&str> = list
        .root
        .get("items")
        .unwrap()
        .items()
        .iter()
        .map(|item| item.at(&["metadata", "name"]).unwrap().text().unwrap())
        .collect();
    assert_eq!(names, ["b", "c", "d"]);
    assert_eq!(template.root.at(&["metadata", "name"]).unwrap().text(), Some("gpu-8192mi-30c"));
    assert!(list.root.get("metadata").is_none(), "{}", result.text);
}

#[test]
fn a_list_of_which_nothing_is_left_is_not_written() {
    let bad = "nvidia.com/gpu: 1\nnvidia.com/gpumem: none";
    let result = converted(&list(&[item("a", bad), item("b", bad)]));
    assert_eq!((result.documents.len(), &*result.text), (2, ""));
    let empty = "apiVersion: v1\nkind: List\nitems: []\n";
    let result = converted(empty);
    assert_eq!((result.documents.len(), &*result.text), (1, empty));
    assert_eq!(result.documents[0].outcome, Outcome::Passed);
    let beside =
        list(&[item("a", SHARE), "- {status: a}\n".to_owned(), "- {status: b}\n".to_owned()]);
    assert_eq!(converted(&converted(&beside).text).documents.len(), 1 + 3, "none is emptied");
    let others = list(&[item("a", "cpu: 1")]);
    assert_eq!(converted(&others).text, others, "nothing of HAMi's: as it was");
}

#[test]
fn what_is_no_list_of_objects_is_an_object() {
    for text in [
        "kind: AllowList\nitems: [a, b]\n",
        "kind: AllowList\nitems: {a: b}\n",
        "kind: AllowList\nitems:\n",
    ] {
        let result = converted(text);
        assert_eq!((result.documents.len(), &*result.text), (1, text));
    }
}

#[test]
fn what_a_cluster_wrote_is_not_applied_again() {
    let applied = "kubectl.kubernetes.io/last-applied-configuration";
    let metadata = format!(
        "metadata:\n  uid: 3a0c93f1\n  resourceVersion: \"88120\"\n  generation: 4\n  creationTimestamp: \"2026-01-01T00:00:00Z\"\n  \
         managedFields:\n  - manager: kubectl\n  annotations:\n    {applied}: '{{\"nvidia.com/gpumem\":8192}}'\n  labels: {{app: kept}}\n"
    );
    let text = pod(SHARE).replace("metadata:\n", &metadata) + "status:\n  phase: Running\n";
    let written = made(&text);
    for gone in [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "annotations",
        applied,
        "status",
        "8192}",
    ] {
        assert!(!written.contains(gone), "{gone}: {written}");
    }
    assert!(written.contains("app: kept") && written.contains("name: p"), "{written}");
    let other =
        text.replace("nvidia.com/gpu: 1", "cpu: 1").replace("nvidia.com/gpumem: 8192", "memory: 1");
    let other = other.replace("        nvidia.com/gpucores: 30\n", "");
    assert_eq!(made(&other), other, "nothing of HAMi's: as it was");
}
