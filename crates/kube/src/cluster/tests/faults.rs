//! API servers that fail: whatever they answer, the slices are as they should be in the end, each once.

use super::api::ApiFault::{Code, Unanswered};
use super::*;

/// The only slice is the one that is wanted, and it stays so.
async fn is_whole(api: &FakeApi, agent: &Agent, names: &[&str]) {
    published(api, names).await;
    until(api, "settled", || agent.cluster.state.borrow().is_settled).await;
    let problem = || agent.cluster.state.borrow().problem.clone();
    until(api, "no problem", || problem().is_none()).await;
    let writes = api.writes();
    looks(api, 5).await;
    let count = api.world().slices.len();
    assert_eq!((api.writes(), count), (writes, 1));
}

#[tokio::test]
async fn writes_that_fail_are_tried_again() {
    for fault in [Code(409), Code(410), Code(404), Code(500), Code(429), Code(403), Unanswered] {
        let api = FakeApi::start(good_node()).await;
        api.world().write_faults.extend([fault; 3]);
        let agent = Agent::start(&api, |_| {});
        is_whole(&api, &agent, &["gpu-1", "gpu-2"]).await;
        // The same of a slice that is there.
        api.world().write_faults.extend([fault; 3]);
        agent.book.send_replace(book(&[card("GPU-2")]));
        is_whole(&api, &agent, &["gpu-2"]).await;
        // And of one that is to go.
        api.world().write_faults.extend([fault; 3]);
        agent.book.send_replace(book(&[]));
        until(&api, "no slice", || api.world().slices.is_empty()).await;
        agent.kill().await;
    }
}

#[tokio::test]
async fn a_conflict_is_read_again_and_not_waited_for() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    is_whole(&api, &agent, &["gpu-1", "gpu-2"]).await;
    // Watches fail for long; somebody edits the slice meanwhile.
    api.world().watch_faults.extend([Code(500); 1000]);
    api.world().drop_watches();
    let mut edited = api.slice(NAME);
    edited["metadata"]["labels"] = serde_json::json!({ "a": "b" });
    api.world().put(edited);
    agent.book.send_replace(book(&[card("GPU-2")]));
    published(&api, &["gpu-2"]).await;
    assert_eq!(api.slice(NAME)["metadata"]["labels"]["a"], "b");
}

#[tokio::test]
async fn watches_that_drop_or_fall_behind_go_on() {
    let api = FakeApi::start(good_node()).await;
    let agent = Agent::start(&api, |_| {});
    is_whole(&api, &agent, &["gpu-1", "gpu-2"]).await;
    // Dropped; what happens before it is back is told then.
    api.world().drop_watches();
    api.world().remove(NAME);
    is_whole(&api, &agent, &["gpu-1", "gpu-2"]).await;
    // Fallen out of the history: listed again.
    let lists = api.count("GET /apis/resource.k8s.io/v1/resourceslices");
    {
        let mut world = api.world();
        world.remove(NAME);
        world.forget_history();
        world.drop_watches();
    }
    is_whole(&api, &agent, &["gpu-1", "gpu-2"]).await;
    assert!(api.count("GET /apis/resource.k8s.io/v1/resourceslices") > lists);
}
