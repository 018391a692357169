//! Instances of the agent: one that is killed, one that ends, two at a time.

use std::sync::atomic::Ordering::SeqCst;

use super::*;
use crate::kubelet::wire::agent::StateRequest;
use crate::kubelet::wire::agent::agent_client::AgentClient;

#[tokio::test]
async fn a_killed_agent_leaves_sockets_that_the_next_takes_over() {
    let node = KubeletNode::new("killed");
    node.allocate("train", "uid-1");
    let agent = node.agent(None).await;
    let sockets = agent.sockets.clone();
    let first = FakeKubelet::at(&sockets.service).await.prepare(&[("train", "uid-1")]).await;
    agent.terminate().await;
    assert!(!sockets.service.exists() && !sockets.registration.exists());
    for path in [&sockets.service, &sockets.registration] {
        drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    }

    let agent = node.agent(None).await;
    register(&sockets.registration).await;
    let mut kubelet = FakeKubelet::at(&sockets.service).await;
    assert_eq!(kubelet.prepare(&[("train", "uid-1")]).await, first);
    assert_eq!(kubelet.unprepare(&[("train", "uid-1")]).await["uid-1"], "");
    agent.terminate().await;
}

#[tokio::test]
async fn a_second_agent_on_the_same_sockets_is_refused_in_words() {
    let node = KubeletNode::new("second");
    let agent = node.agent(None).await;
    let other = node.agent(None).await;
    let error = other.task.await.unwrap().unwrap_err();
    assert!(error.contains("another process answers on") && error.contains("POD_UID"), "{error}");
    // The one that is there is as before.
    register(&agent.sockets.registration).await;
    agent.terminate().await;
}

#[tokio::test]
async fn two_agents_of_an_update_share_claims_and_each_removes_its_own_sockets() {
    let node = KubeletNode::new("update");
    node.allocate("train", "uid-1");
    let old = node.agent(Some("pod-1")).await;
    let info = register(&old.sockets.registration).await;
    let first =
        FakeKubelet::at(Path::new(&info.endpoint)).await.prepare(&[("train", "uid-1")]).await;

    let new = node.agent(Some("pod-2")).await;
    let next = register(&new.sockets.registration).await;
    assert_eq!(next.name, info.name);
    assert_ne!(next.endpoint, info.endpoint);
    let mut kubelet = FakeKubelet::at(Path::new(&next.endpoint)).await;
    assert_eq!(kubelet.prepare(&[("train", "uid-1")]).await, first);
    let gone = old.sockets.clone();
    old.terminate().await;
    assert!(!gone.service.exists() && !gone.registration.exists());
    assert!(new.sockets.service.exists() && new.sockets.registration.exists());
    assert_eq!(kubelet.unprepare(&[("train", "uid-1")]).await["uid-1"], "");
    assert_eq!((node.cdi_files(), node.daemon.ids().len()), (0, 0));
    new.terminate().await;
}

#[tokio::test]
async fn an_agent_whose_socket_is_removed_ends_for_another_to_begin() {
    let node = KubeletNode::new("removed");
    let agent = node.agent(None).await;
    std::fs::remove_file(&agent.sockets.registration).unwrap();
    let error = agent.task.await.unwrap().unwrap_err();
    assert!(error.contains("/reg.sock was removed"), "{error}");
    assert!(!agent.sockets.service.exists());
    let next = node.agent(None).await;
    register(&next.sockets.registration).await;
    next.terminate().await;
}

#[tokio::test]
async fn the_end_waits_for_a_call_that_runs() {
    let node = KubeletNode::new("drain");
    node.allocate("train", "uid-1");
    let agent = node.agent(None).await;
    let mut kubelet = FakeKubelet::at(&agent.sockets.service).await;
    node.daemon.stuck_ms.store(100, SeqCst);
    let call = tokio::spawn(async move { kubelet.prepare(&[("train", "uid-1")]).await });
    while node.claims.asked.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    agent.terminate().await;
    assert_eq!(call.await.unwrap()["uid-1"].devices.len(), 1);
}

#[tokio::test]
async fn a_refusal_is_said_and_the_agent_waits_for_the_kubelet_to_try_again() {
    let node = KubeletNode::new("refused");
    let agent = node.agent(None).await;
    let mut client = AgentClient::new(channel(&agent.sockets.service).await);
    let mut state = async || client.state(StateRequest {}).await.unwrap().into_inner().conditions;
    let before = state().await;
    assert_eq!((&*before[0].name, before[0].met), ("registered", false));
    assert!(before[0].message.contains("not called yet"));

    let mut kubelet = RegistrationClient::new(channel(&agent.sockets.registration).await);
    let error = "no handler for DRAPlugin".to_owned();
    let refusal = RegistrationStatus { plugin_registered: false, error };
    kubelet.notify_registration_status(refusal).await.unwrap();
    let refused = state().await;
    assert!(!refused[0].met && refused[0].message.contains("no handler for DRAPlugin"));
    assert!(node.log.lines().iter().any(|line| line.contains("no handler for DRAPlugin")));

    register(&agent.sockets.registration).await;
    assert!(state().await[0].met);
    agent.terminate().await;
}
