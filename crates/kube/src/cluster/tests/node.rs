//! Nodes that may not have devices: nothing is published there, people are told, and it recovers by itself.

use serde_json::json;

use super::*;

/// Refusal of a node that was good, and is again.
async fn refused_for_a_while(
    reason: NodeReason,
    make: impl FnOnce(&mut Value),
    word: &str,
) -> Vec<String> {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    make(&mut api.world().node);
    published(&api, &[]).await;
    let refused = agent.cluster.verdict.borrow().check("GPU-1").unwrap_err();
    assert_eq!(refused.reason, reason);
    assert!(refused.words.contains(word) && refused.words.contains("n1"), "{}", refused.words);
    until(&api, "an event", || api.reasons().iter().any(|it| it == reason.event())).await;
    let writes = api.writes();
    looks(&api, 5).await;
    assert_eq!(api.writes(), writes, "nothing is written meanwhile");
    api.world().node = good_node();
    published(&api, &["gpu-1", "gpu-2"]).await;
    until(&api, "an event", || api.reasons().iter().any(|it| it == "DivvyNodeAccepted")).await;
    assert_eq!(agent.cluster.verdict.borrow().check("GPU-1"), Ok(()));
    api.reasons()
}

#[tokio::test]
async fn a_runtime_without_cdi_has_no_devices() {
    let old = |node: &mut Value| {
        node["status"]["nodeInfo"]["containerRuntimeVersion"] = json!("containerd://1.6.20");
    };
    let reasons = refused_for_a_while(NodeReason::RuntimeWithoutCdi, old, "1.6.20").await;
    assert_eq!(reasons, ["DivvyRuntimeWithoutCDI", "DivvyNodeAccepted"], "each is said once");
}

#[tokio::test]
async fn a_node_whose_cards_a_plugin_sells_has_no_devices() {
    let sells = |node: &mut Value| node["status"]["allocatable"]["nvidia.com/gpu"] = json!("2");
    refused_for_a_while(NodeReason::SoldByPlugin, sells, "nvidia.com/gpu: 2").await;
}

#[tokio::test]
async fn a_card_that_another_driver_sells_leaves_until_it_does_not() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    api.world().put(json!({ "metadata": { "name": "other" }, "spec": { "driver": "gpu.nvidia.com", "nodeName": "n1",
        "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 },
        "devices": [{ "name": "gpu-0", "attributes": { "uuid": { "string": "GPU-2" } } }] } }));
    published(&api, &["gpu-1"]).await;
    let verdict = agent.cluster.verdict.borrow().clone();
    assert_eq!(verdict.check("GPU-1"), Ok(()));
    assert_eq!(verdict.check("GPU-2").unwrap_err().reason, NodeReason::SoldByDriver);
    until(&api, "an event", || api.reasons() == ["DivvyCardSoldByDriver"]).await;
    api.world().remove("other");
    published(&api, &["gpu-1", "gpu-2"]).await;
}

#[tokio::test]
async fn where_the_gate_is_off_no_device_is_ever_there() {
    let api = FakeApi::start(good_node()).await;
    api.world().drops_shares = true;
    let agent = Agent::start(&api, |_| {});
    until(&api, "an event", || api.reasons() == ["DivvyConsumableCapacityOff"]).await;
    looks(&api, 5).await;
    assert_eq!(api.writes(), 0);
    let refused = agent.cluster.verdict.borrow().check("GPU-1").unwrap_err();
    assert!(refused.words.contains("DRAConsumableCapacity"), "{}", refused.words);
    // The gate is turned on.
    api.world().drops_shares = false;
    published(&api, &["gpu-1", "gpu-2"]).await;
    assert_eq!(agent.cluster.verdict.borrow().check("GPU-1"), Ok(()));
}

#[tokio::test]
async fn a_node_that_cannot_be_read_has_no_devices_and_says_why() {
    let api = FakeApi::start(json!({ "kind": "Status", "code": 403 })).await;
    let agent = Agent::start(&api, |_| {});
    let problem = || agent.cluster.state.borrow().problem.clone().unwrap_or_default();
    until(&api, "a problem", || problem().contains("node n1 cannot be read")).await;
    let refused = agent.cluster.verdict.borrow().check("GPU-1").unwrap_err();
    assert_eq!((refused.reason, api.writes()), (NodeReason::NotLooked, 0));
    api.world().node = good_node();
    published(&api, &["gpu-1", "gpu-2"]).await;
    until(&api, "no problem", || problem().is_empty()).await;
}
