//! Pods that wait, each for one thing, and what is said of them.

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use serde_json::{Value, json};

use super::finding::FindingKind;
use super::look::{NamedClaim, PodScene};
use super::{answer, judge::judge};
use crate::cluster::NODE_ACCEPTED;
use crate::driver::DRIVER;

/// Slice of a node with one card of so much memory.
pub(super) fn slice(node: &str, generation: i64, memory_gib: u64) -> ResourceSlice {
    serde_json::from_value(json!({
        "metadata": { "name": format!("{node}-{generation}") },
        "spec": {
            "driver": DRIVER, "nodeName": node,
            "pool": { "name": node, "generation": generation, "resourceSliceCount": 1 },
            "devices": [{
                "name": "gpu-0", "allowMultipleAllocations": true,
                "attributes": { "productName": { "string": "H200" } },
                "capacity": {
                    "memory": { "value": format!("{memory_gib}Gi"), "requestPolicy": {
                        "default": format!("{memory_gib}Gi"),
                        "validRange": { "min": "1Mi", "step": "1Mi", "max": format!("{memory_gib}Gi") } } },
                    "cores": { "value": "100", "requestPolicy": {
                        "default": "100", "validRange": { "min": "1", "step": "1", "max": "100" } } },
                    "slots": { "value": "16", "requestPolicy": { "default": "1", "validValues": ["1"] } },
                },
            }],
        },
    }))
    .unwrap()
}

/// Claim that has a part of the node's card.
pub(super) fn allocated(name: &str, node: &str, memory_gib: u64, cores: u64) -> ResourceClaim {
    let mut claim = serde_json::to_value(claim(name, json!({}))).unwrap();
    claim["status"] = json!({ "allocation": { "devices": { "results": [{
        "request": "gpu", "driver": DRIVER, "pool": node, "device": "gpu-0", "shareID": name,
        "consumedCapacity": { "memory": format!("{memory_gib}Gi"), "cores": cores.to_string(), "slots": "1" },
    }] } } });
    serde_json::from_value(claim).unwrap()
}

fn claim(name: &str, requests: Value) -> ResourceClaim {
    serde_json::from_value(json!({
        "metadata": { "namespace": "team", "name": name, "uid": format!("uid-{name}") },
        "spec": { "devices": { "requests": [{ "name": "gpu", "exactly": {
            "deviceClassName": DRIVER, "capacity": { "requests": requests } } }] } },
    }))
    .unwrap()
}

/// A pod that asks for so much, on a cluster with one empty card of 80 GiB.
fn scene(requests: Value) -> PodScene {
    let pod = serde_json::from_value(json!({
        "metadata": { "namespace": "team", "name": "train", "uid": "uid-pod" },
        "spec": { "containers": [{ "name": "main", "image": "x" }],
                  "resourceClaims": [{ "name": "gpu", "resourceClaimTemplateName": "gpu-8192mi-30c" }] },
        "status": { "phase": "Pending" },
    }));
    PodScene {
        pod: pod.unwrap(),
        claims: vec![NamedClaim {
            name: "gpu".to_owned(),
            template: Some("gpu-8192mi-30c".to_owned()),
            object: Some("train-gpu".to_owned()),
            claim: Some(claim("train-gpu", requests)),
            ..NamedClaim::default()
        }],
        slices: Some(vec![slice("n1", 1, 80)]),
        others: Some(Vec::new()),
        ..PodScene::default()
    }
}

fn event(about: &str, reason: &str, message: &str) -> k8s_openapi::api::core::v1::Event {
    serde_json::from_value(json!({
        "metadata": { "name": reason }, "type": "Warning", "reason": reason, "message": message,
        "involvedObject": { "name": about, "uid": format!("uid-{about}") },
    }))
    .unwrap()
}

/// A change of the pod itself.
fn with_pod(scene: PodScene, place: &str, value: Value) -> PodScene {
    let mut pod = serde_json::to_value(&scene.pod).unwrap();
    let (parent, key) = place.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[key] = value;
    PodScene { pod: serde_json::from_value(pod).unwrap(), ..scene }
}

fn usual() -> Value {
    json!({ "memory": "8Gi", "cores": "30" })
}

#[test]
fn each_reason_has_its_word_and_a_way_out() {
    use FindingKind::{
        Gated, HamiLeft, NoCards, NoClaim, NoClass, NoRoom, NoShare, NoTemplate, NodeRefused,
        NotPrepared, NotRead, OtherReason, OtherScheduler, Started, Starting, TooLarge,
        UnknownCapacity,
    };
    let usual = || scene(usual());
    let named = |named: NamedClaim| PodScene { claims: vec![named], ..usual() };
    let template = NamedClaim { template: Some("t-1".to_owned()), ..NamedClaim::default() };
    let cases: Vec<(PodScene, FindingKind, &str)> = vec![
        (with_pod(usual(), "/status/phase", json!("Running")), Started, "Running"),
        (with_pod(usual(), "/spec/nodeName", json!("n1")), Starting, "n1"),
        (
            PodScene {
                events: vec![event(
                    "train",
                    "FailedPrepareDynamicResources",
                    "gpu: daemon-unreachable: no daemon",
                )],
                ..with_pod(usual(), "/spec/nodeName", json!("n1"))
            },
            NotPrepared,
            "daemon-unreachable",
        ),
        (with_pod(usual(), "/spec/schedulingGates", json!([{ "name": "quota" }])), Gated, "quota"),
        (
            with_pod(usual(), "/spec/schedulerName", json!("hami-scheduler")),
            OtherScheduler,
            "hami-scheduler",
        ),
        (
            with_pod(
                usual(),
                "/spec/containers",
                json!([{ "name": "m", "resources": { "limits": { "nvidia.com/gpumem": "8192" } } }]),
            ),
            HamiLeft,
            "nvidia.com/gpumem",
        ),
        (PodScene { claims: Vec::new(), ..usual() }, NoShare, "no share"),
        (named(NamedClaim { has_template: Some(false), ..template.clone() }), NoTemplate, "t-1"),
        (
            named(NamedClaim { has_template: Some(true), ..template.clone() }),
            NoClaim,
            "not made yet",
        ),
        (named(NamedClaim { object: Some("c-1".to_owned()), ..template }), NoClaim, "c-1"),
        (PodScene { no_classes: vec![DRIVER.to_owned()], ..usual() }, NoClass, DRIVER),
        (PodScene { slices: Some(Vec::new()), ..usual() }, NoCards, "no node"),
        (
            PodScene {
                slices: Some(Vec::new()),
                node_events: vec![event(
                    "n7",
                    "DivvyRuntimeWithoutCDI",
                    "containerd 1.6 knows no CDI",
                )],
                ..usual()
            },
            NodeRefused,
            "n7: containerd 1.6",
        ),
        (scene(json!({ "memry": "8Gi" })), UnknownCapacity, "memry"),
        (scene(json!({ "memory": "8500m" })), UnknownCapacity, "8500m"),
        (scene(json!({ "memory": "81Gi" })), TooLarge, "81 GiB"),
        (
            PodScene { others: Some(vec![allocated("a", "n1", 10, 80)]), ..usual() },
            NoRoom,
            "memory 8 GiB, cores 30 %",
        ),
        (usual(), OtherReason, "some card has"),
        (
            PodScene {
                others: None,
                unread: vec!["claims of all namespaces: 403".to_owned()],
                ..usual()
            },
            NotRead,
            "403",
        ),
    ];
    for (scene, kind, part) in cases {
        let found = judge(&scene);
        let finding = found.findings.iter().find(|it| it.kind == kind);
        let finding = finding.unwrap_or_else(|| panic!("{kind:?}: {found:?}"));
        assert!(finding.words.contains(part), "{kind:?}: {finding:?}");
        let has_fix = matches!(kind, Started | NoShare | NotRead);
        assert!(has_fix || !finding.fix.is_empty(), "{kind:?} says what to do");
    }
}

#[test]
fn nothing_is_concluded_from_what_may_not_be_read() {
    let kinds = |scene: &PodScene| -> Vec<FindingKind> {
        judge(scene).findings.iter().map(|it| it.kind).collect()
    };
    let blind = PodScene { others: None, ..scene(usual()) };
    assert_eq!(kinds(&blind), []);
    let page = answer(&blind, false).unwrap().text;
    assert!(page.contains("unknown  what others have is not known"), "{page}");
    assert!(!page.contains("fits") && !page.contains("80 GiB"), "{page}");
    let printed: Value = serde_json::from_str(&answer(&blind, true).unwrap().text).unwrap();
    assert_eq!(printed["requests"][0]["cards"][0]["free"], Value::Null);
    // A card never has more than it has, whatever others have of it.
    let large = PodScene { others: None, ..scene(json!({ "memory": "81Gi" })) };
    assert_eq!(kinds(&large), [FindingKind::TooLarge]);
    // Cards that may not be listed are not none.
    let unread = vec!["the cards cannot be read".to_owned()];
    let no_slices = PodScene { slices: None, others: None, unread, ..scene(usual()) };
    assert_eq!(kinds(&no_slices), [FindingKind::NotRead]);
    // A claim that may not be read may be there, and may be for a share.
    let claim = NamedClaim {
        object: Some("train-gpu".to_owned()),
        is_unread: true,
        ..NamedClaim::default()
    };
    assert_eq!(kinds(&PodScene { claims: vec![claim], ..scene(usual()) }), []);
    // Events that may not be read may say why it does not start.
    let placed = with_pod(scene(usual()), "/spec/nodeName", json!("n1"));
    let found = judge(&PodScene { has_more_events: true, ..placed });
    assert!(found.findings[0].words.contains("could not be read"), "{found:?}");
}

#[test]
fn a_count_beyond_the_cards_of_a_node_never_fits() {
    let counted = |count: i64, nodes: &[&str]| {
        let mut scene = scene(usual());
        let claim = scene.claims[0].claim.as_mut().unwrap();
        let requests = claim.spec.devices.as_mut().unwrap().requests.as_mut().unwrap();
        requests[0].exactly.as_mut().unwrap().count = Some(count);
        scene.slices = Some(nodes.iter().map(|node| slice(node, 1, 80)).collect());
        judge(&scene).findings.remove(0)
    };
    let found = counted(2, &["n1", "n2"]);
    assert_eq!(found.kind, FindingKind::TooLarge);
    assert!(found.words.contains("2 devices, and no node has more than 1 cards"), "{found:?}");
    assert_eq!(counted(1, &["n1"]).kind, FindingKind::OtherReason);
}

#[test]
fn a_node_that_was_accepted_again_is_not_refused() {
    let at = |reason, minute| {
        let mut event = serde_json::to_value(event("n7", reason, "a runtime")).unwrap();
        event["eventTime"] = json!(format!("2026-11-29T10:{minute}:00.000000Z"));
        serde_json::from_value(event).unwrap()
    };
    let refused = |node_events| {
        let scene = PodScene { slices: Some(Vec::new()), node_events, ..scene(usual()) };
        judge(&scene).findings.iter().any(|it| it.kind == FindingKind::NodeRefused)
    };
    assert!(!refused(vec![at("DivvyRuntimeUnknown", 10), at(NODE_ACCEPTED, 20)]));
    assert!(refused(vec![at(NODE_ACCEPTED, 20), at("DivvyRuntimeUnknown", 30)]));
}

#[test]
fn the_scheduler_s_words_are_shown() {
    let message = "0/3 nodes are available: 3 cannot allocate all claims";
    let condition = json!([{ "type": "PodScheduled", "status": "False", "message": message }]);
    let found = judge(&with_pod(scene(usual()), "/status/conditions", condition));
    assert!(found.findings.iter().any(|it| it.words.contains(message)), "{found:?}");
}

#[test]
fn the_page_is_read_by_people_and_the_json_by_programs() {
    let full = PodScene { others: Some(vec![allocated("a", "n1", 75, 80)]), ..scene(usual()) };
    let page = answer(&full, false).unwrap();
    assert_eq!(page.code, 1);
    assert_eq!(
        page.text,
        "pod team/train waits
  request gpu of claim train-gpu asks for memory 8 GiB, cores 30 %, and no card has that much left
    -> wait for others to end, ask for less, or add a node

request gpu of claim train-gpu: memory 8 GiB, cores 30 %
  node  card   product  free
  n1    gpu-0  H200     memory 5 GiB, cores 20 %, slots 15  lacks memory 3 GiB, cores 10 %
"
    );
    let printed = answer(&full, true).unwrap();
    let read: Value = serde_json::from_str(&printed.text).unwrap();
    assert_eq!(read["schema"], 1);
    assert_eq!(read["findings"][0]["word"], "no-room");
    assert_eq!(read["requests"][0]["cards"][0]["free"]["memory"], 5_u64 << 30);
    let running = with_pod(scene(usual()), "/status/phase", json!("Running"));
    assert_eq!(answer(&running, false).unwrap().code, 0);
}

#[test]
fn nothing_reaches_the_terminal_that_it_would_obey() {
    let hostile = with_pod(scene(usual()), "/spec/schedulerName", json!("a\u{1b}[2Jb"));
    let text = answer(&hostile, false).unwrap().text;
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}"), "{text}");
}
