//! Slices: published, left alone, made again when they are wiped, put right when they are edited, by one instance at a time.

use serde_json::json;

use super::*;

#[tokio::test]
async fn cards_are_published_once_and_then_nothing_is_written() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    until(&api, "settled", || agent.cluster.state.borrow().is_settled).await;
    let slice = api.slice(NAME);
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "node-uid");
    assert_eq!(
        slice["spec"]["pool"],
        json!({ "name": "n1", "generation": 1, "resourceSliceCount": 1 })
    );
    // Each look at the cards is sent, changed or not.
    for _ in 0..20 {
        agent.book.send_modify(|_| {});
        looks(&api, 1).await;
    }
    assert_eq!((api.writes(), api.count("DRY POST"), api.count("WATCH")), (1, 1, 1));
    let state = agent.cluster.state.borrow().clone();
    assert!(state.is_synced && state.is_publisher && state.problem.is_none(), "{state:?}");
    assert_eq!((state.writes, state.devices, state.generation), (1, 2, 1));
    assert_eq!(agent.cluster.verdict.borrow().check("GPU-1"), Ok(()));
}

#[tokio::test]
async fn an_agent_that_is_restarted_finds_its_slices_and_writes_nothing() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    agent.kill().await;
    let agent = Agent::start(&api, |_| {});
    until(&api, "settled", || agent.cluster.state.borrow().is_settled).await;
    looks(&api, 5).await;
    assert_eq!((api.writes(), api.count("DRY")), (1, 1));
}

#[tokio::test]
async fn a_wipe_is_made_good_in_the_same_generation() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    agent.book.send_replace(book(&[card("GPU-1")]));
    published(&api, &["gpu-1"]).await;
    for _ in 0..3 {
        let wiped = api.world().remove(NAME).unwrap();
        assert_eq!(wiped["spec"]["pool"]["generation"], 2);
        published(&api, &["gpu-1"]).await;
    }
    assert_eq!(api.slice(NAME)["spec"]["pool"]["generation"], 2);
    assert_eq!(api.writes(), 5);
}

#[tokio::test]
async fn edits_are_put_right_and_surplus_goes() {
    let api = FakeApi::start(good_node()).await;
    let _agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    let good = api.slice(NAME)["spec"].clone();
    let mut edited = api.slice(NAME);
    edited["spec"]["devices"][0]["capacity"]["memory"]["value"] = json!("999Gi");
    edited["metadata"]["labels"] = json!({ "somebody": "else" });
    api.world().put(edited);
    until(&api, "put right", || api.slice(NAME)["spec"] == good).await;
    assert_eq!(api.slice(NAME)["metadata"]["labels"]["somebody"], "else");

    let mut copy = api.slice(NAME);
    copy["metadata"] = json!({ "name": "copy" });
    api.world().put(copy);
    until(&api, "the copy goes", || !api.world().slices.contains_key("copy")).await;
    assert_eq!(api.slice(NAME)["spec"], good);
}

#[tokio::test]
async fn two_instances_of_a_rolling_update_do_not_fight() {
    let api = FakeApi::start(good_node()).await;
    let lock = std::env::temp_dir().join(format!("divvy-cluster-two-{}", std::process::id()));
    let slots = || api.slice(NAME)["spec"]["devices"][0]["capacity"]["slots"]["value"].clone();
    let old = Agent::start(&api, |options| options.lock.clone_from(&lock));
    published(&api, &["gpu-1", "gpu-2"]).await;
    // The new one would publish something else.
    let new = Agent::start(&api, |options| {
        (options.lock, options.terms.slots) = (lock.clone(), 4);
    });
    until(&api, "the new one has looked", || new.cluster.state.borrow().is_synced).await;
    looks(&api, 20).await;
    assert_eq!((slots(), api.writes()), (json!("16"), 1));
    assert!(!new.cluster.state.borrow().is_publisher);
    // It may already say whether a card may be used.
    assert_eq!(new.cluster.verdict.borrow().check("GPU-1"), Ok(()));

    old.kill().await;
    until(&api, "the new one writes", || slots() == json!("4")).await;
    looks(&api, 10).await;
    assert_eq!(api.writes(), 2);
    let _ = std::fs::remove_file(&lock);
}

#[tokio::test]
async fn a_card_that_fails_leaves_and_one_in_doubt_stays() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    let with = |health, message: &str| {
        let message = message.to_owned();
        book(&[card("GPU-1"), BookedDevice { health, message, ..card("GPU-2") }])
    };
    agent.book.send_replace(with(CardHealth::Unknown, "no daemon"));
    looks(&api, 5).await;
    assert_eq!(api.writes(), 1);
    agent.book.send_replace(with(CardHealth::Unhealthy, "fell off the bus"));
    published(&api, &["gpu-1"]).await;
    until(&api, "an event", || !api.world().events.is_empty()).await;
    let event = api.world().events[0].clone();
    assert_eq!(event["reason"], "DivvyCardUnhealthy");
    assert_eq!(
        event["regarding"],
        json!({ "kind": "Node", "apiVersion": "v1", "name": "n1", "uid": "node-uid" })
    );
    assert!(event["note"].as_str().unwrap().contains("fell off the bus"), "{event}");
    agent.book.send_replace(with(CardHealth::Healthy, ""));
    published(&api, &["gpu-1", "gpu-2"]).await;
    assert_eq!(api.slice(NAME)["spec"]["pool"]["generation"], 3);
}

#[tokio::test]
async fn nothing_is_published_or_removed_before_the_cards_are_known() {
    let api = FakeApi::start(good_node()).await;
    let first = Agent::start(&api, |_| {});
    published(&api, &["gpu-1", "gpu-2"]).await;
    first.kill().await;
    let agent = Agent::start(&api, |_| {});
    agent.book.send_replace(CardBook::default());
    until(&api, "synced", || agent.cluster.state.borrow().is_synced).await;
    looks(&api, 5).await;
    assert_eq!(api.writes(), 1, "what is there stays");
}
