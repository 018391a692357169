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

/// Makes the node one of which NVIDIA's plugin sells the cards.
fn sell(api: &FakeApi) {
    api.world().node["status"]["allocatable"]["nvidia.com/gpu"] = json!("2");
}

#[tokio::test]
async fn a_refusal_that_stands_is_said_again_and_one_that_is_over_is_not() {
    let api = FakeApi::start(good_node()).await;
    sell(&api);
    let _agent = Agent::start(&api, |options| {
        (options.times.event, options.times.refusal) = (Duration::ZERO, Duration::from_millis(50));
    });
    let said = |reason: &str| api.reasons().iter().filter(|it| *it == reason).count();
    until(&api, "three events", || said("DivvyCardsSoldByPlugin") >= 3).await;
    api.world().node = good_node();
    until(&api, "an event", || said("DivvyNodeAccepted") == 1).await;
    let count = api.reasons().len();
    looks(&api, 10).await;
    assert_eq!(api.reasons().len(), count, "{:?}", api.reasons());
}

#[tokio::test]
async fn a_second_instance_leaves_saying_it_again_to_the_publisher() {
    let api = FakeApi::start(good_node()).await;
    sell(&api);
    let lock = std::env::temp_dir().join(format!("divvy-cluster-says-{}", std::process::id()));
    let start = |instance: &str, refusal| {
        Agent::start(&api, |options| {
            (options.lock, options.instance) = (lock.clone(), instance.to_owned());
            (options.times.event, options.times.refusal) = (Duration::ZERO, refusal);
        })
    };
    let first = start("first", ClusterTimes::default().refusal);
    until(&api, "the publisher", || first.cluster.state.borrow().is_publisher).await;
    let second = start("second", Duration::from_millis(1));
    until(&api, "an event of each", || api.reasons().len() == 2).await;
    looks(&api, 20).await;
    assert_eq!(api.reasons().len(), 2);
    // It does not hold up a rolling update.
    let (met, words) = second.cluster.state.borrow().published();
    assert!(met && words.starts_with("sold-by-plugin: node n1"), "{words}");
    first.kill().await;
    until(&api, "it is said again", || api.reasons().len() > 3).await;
    assert!(!second.cluster.state.borrow().published().0);
    let _ = std::fs::remove_file(&lock);
}

#[tokio::test]
async fn what_stands_against_a_node_is_in_its_state_until_it_is_over() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    let told = || agent.cluster.state.borrow().published();
    let is = |met: bool, words: &'static str| {
        let told = &told;
        move || told().0 == met && told().1.contains(words)
    };
    until(&api, "good", is(true, "2 devices, generation 1")).await;
    sell(&api);
    until(&api, "refused", is(false, "sold-by-plugin: node n1: a device plugin")).await;
    api.world().node = good_node();
    until(&api, "good again", is(true, "2 devices")).await;
    let known = agent.book.borrow().clone();
    let doubt = Some("NVML is not there".to_owned());
    agent.book.send_replace(CardBook { doubt, ..known.clone() });
    until(&api, "in doubt", is(false, "NVML is not there")).await;
    let left_out = vec!["GPU-3 is told of twice".to_owned()];
    agent.book.send_replace(CardBook { left_out, ..known.clone() });
    until(&api, "one left out", is(true, "not published: GPU-3 is told of twice")).await;
    let ill = BookedDevice {
        health: CardHealth::Unhealthy,
        message: "fell off the bus".to_owned(),
        ..card("GPU-2")
    };
    // Events are refused from here on, which is said too.
    api.world().refuses_events = true;
    agent.book.send_replace(book(&[card("GPU-1"), ill]));
    until(&api, "one that has failed", is(true, "GPU-2 has failed: fell off the bus")).await;
    until(&api, "no event", is(true, "an event was refused")).await;
    api.world().refuses_events = false;
    agent.book.send_replace(known);
    until(&api, "nothing", || told().0 && told().1.ends_with(char::is_numeric)).await;
}

#[tokio::test]
async fn cards_that_nobody_tells_of_keep_a_node_from_being_ready() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    agent.book.send_replace(CardBook::default());
    let told = || agent.cluster.state.borrow().published();
    until(&api, "unknown", || told().1.contains("the daemon has not told the cards yet")).await;
    let doubt = Some("no NVML on the node".to_owned());
    agent.book.send_replace(CardBook { doubt, ..CardBook::default() });
    until(&api, "in doubt", || told() == (false, "no NVML on the node".to_owned())).await;
}

#[tokio::test]
async fn a_card_that_another_driver_sells_from_the_beginning_is_told_of() {
    let api = FakeApi::start(good_node()).await;
    api.world().put(json!({ "metadata": { "name": "other" }, "spec": { "driver": "gpu.nvidia.com", "nodeName": "n1",
        "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 },
        "devices": [{ "name": "gpu-0", "attributes": { "uuid": { "string": "GPU-2" } } }] } }));
    let agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1"]).await;
    until(&api, "an event", || api.reasons() == ["DivvyCardSoldByDriver"]).await;
    let told = || agent.cluster.state.borrow().published();
    until(&api, "settled", || told().0).await;
    assert!(told().1.contains("not published: GPU-2: the driver gpu.nvidia.com"), "{}", told().1);
}
