//! Claims that are prepared and taken back by a kubelet.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime};

use tokio_stream::StreamExt;

use super::*;
use crate::cluster::{ClusterState, EventObject, EventQueue, NodeVerdict};
use crate::kubelet::wire::health_v1::NodeWatchResourcesRequest;
use crate::kubelet::wire::health_v1::dra_resource_health_client::DraResourceHealthClient;
use crate::kubelet::wire::{dra_v1beta1, health_v1alpha1};

fn word(answers: &Answers, uid: &str) -> String {
    let error = &answers[uid].error;
    error.split_once(':').map_or("", |(word, _)| word).to_owned()
}

#[tokio::test]
async fn a_claim_is_prepared_however_often_and_taken_back_however_often() {
    let node = KubeletNode::new("twice");
    node.allocate("train", "uid-1");
    let agent = node.agent(None).await;
    let info = register(&agent.sockets.registration).await;
    assert_eq!((&*info.r#type, &*info.name), ("DRAPlugin", DRIVER));
    assert_eq!(info.endpoint, agent.sockets.service.display().to_string());
    assert_eq!(
        info.supported_versions,
        ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
    );

    let mut kubelet = FakeKubelet::at(Path::new(&info.endpoint)).await;
    let first = kubelet.prepare(&[("train", "uid-1")]).await;
    let [device] = &first["uid-1"].devices[..] else { panic!("{first:?}") };
    assert_eq!(device.request_names, ["gpu"]);
    assert_eq!((&*device.pool_name, &*device.device_name), ("node", "gpu-0"));
    assert_eq!(device.share_id.as_deref(), Some("uid-1"));
    assert_eq!(device.cdi_device_ids[0], format!("nvidia.com/gpu={UUID}"));
    assert_eq!(device.cdi_device_ids[1], format!("divvy.dev/share={}", node.daemon.ids()[0]));

    // Wiped, as by a reboot of /var/run; asked again, as by a kubelet that was restarted.
    std::fs::remove_dir_all(node.base.join("cdi")).unwrap();
    assert_eq!(kubelet.prepare(&[("train", "uid-1")]).await, first);
    assert_eq!((node.cdi_files(), node.daemon.ids().len()), (1, 1));

    // The API server is not needed any more.
    node.claims.is_away.store(1, SeqCst);
    for _ in 0..2 {
        let errors = kubelet.unprepare(&[("train", "uid-1"), ("other", "unknown")]).await;
        assert_eq!(errors.into_values().collect::<Vec<_>>(), ["", ""]);
    }
    assert_eq!((node.cdi_files(), node.daemon.ids().len()), (0, 0));
    agent.terminate().await;
}

#[tokio::test]
async fn the_older_version_is_the_same_without_the_share() {
    let node = KubeletNode::new("v1beta1");
    node.allocate("train", "uid-1");
    let agent = node.agent(None).await;
    let channel = channel(&agent.sockets.service).await;
    let mut client = dra_v1beta1::dra_plugin_client::DraPluginClient::new(channel);
    let claim = dra_v1beta1::Claim {
        namespace: "team".to_owned(),
        uid: "uid-1".to_owned(),
        name: "train".to_owned(),
    };
    let claims = vec![claim];
    let request = dra_v1beta1::NodePrepareResourcesRequest { claims: claims.clone() };
    let answer = client.node_prepare_resources(request).await.unwrap().into_inner();
    let device = &answer.claims["uid-1"].devices[0];
    assert_eq!((&*device.device_name, device.cdi_device_ids.len()), ("gpu-0", 2));
    let request = dra_v1beta1::NodeUnprepareResourcesRequest { claims };
    let answer = client.node_unprepare_resources(request).await.unwrap().into_inner();
    assert_eq!(answer.claims["uid-1"].error, "");
    agent.terminate().await;
}

#[tokio::test]
async fn one_claims_failure_is_its_own_and_has_a_word() {
    let node = KubeletNode::new("partial");
    node.allocate("good", "uid-1");
    node.allocate("again", "uid-3");
    node.allocate("odd", "uid-4");
    node.claims.claims.lock().unwrap().get_mut("team/odd").unwrap()["status"] = json!({});
    let agent = node.agent(None).await;
    let mut kubelet = FakeKubelet::at(&agent.sockets.service).await;
    let asked = [("good", "uid-1"), ("gone", "uid-2"), ("again", "uid-old"), ("odd", "uid-4")];
    let answers = kubelet.prepare(&asked).await;
    assert_eq!(answers.len(), 4);
    assert_eq!((&*answers["uid-1"].error, answers["uid-1"].devices.len()), ("", 1));
    for uid in ["uid-2", "uid-old", "uid-4"] {
        assert_eq!(word(&answers, uid), "claim-changed", "{}", answers[uid].error);
        assert!(answers[uid].devices.is_empty());
    }
    assert_eq!(node.claims.asked.load(SeqCst), 4, "one question for each claim");

    node.daemon.is_away.store(1, SeqCst);
    assert_eq!(word(&kubelet.prepare(&asked[..1]).await, "uid-1"), "daemon-unreachable");
    node.daemon.is_away.store(0, SeqCst);
    let told = node.log.lines();
    assert!(told.iter().any(|line| line.starts_with("prepared claim team/good (uid-1)")));
    assert!(told.iter().any(|line| line.contains("claim team/again (uid-old)")));

    // Cards that are not known are another thing than a card that is none.
    for (checked, reason) in
        [(Some(SystemTime::now()), "unknown-card"), (None, "daemon-unreachable")]
    {
        node.cards.send_replace(NodeCards { cards: Vec::new(), checked });
        assert_eq!(word(&kubelet.prepare(&asked[..1]).await, "uid-1"), reason);
    }
    agent.terminate().await;
}

#[tokio::test]
async fn what_is_stuck_is_answered_in_time_and_found_by_the_next_call() {
    let mut node = KubeletNode::new("stuck");
    node.patience = Duration::from_millis(100);
    node.allocate("train", "uid-1");
    let agent = node.agent(None).await;
    let mut kubelet = FakeKubelet::at(&agent.sockets.service).await;

    node.claims.is_away.store(1, SeqCst);
    assert_eq!(word(&kubelet.prepare(&[("train", "uid-1")]).await, "uid-1"), "timed-out");
    node.claims.is_away.store(0, SeqCst);

    node.daemon.stuck_ms.store(300, SeqCst);
    for _ in 0..2 {
        assert_eq!(word(&kubelet.prepare(&[("train", "uid-1")]).await, "uid-1"), "timed-out");
    }
    assert!(kubelet.unprepare(&[("train", "uid-1")]).await["uid-1"].starts_with("timed-out"));
    node.daemon.stuck_ms.store(0, SeqCst);
    while kubelet.prepare(&[("train", "uid-1")]).await["uid-1"].devices.is_empty() {}
    assert_eq!((node.cdi_files(), node.daemon.ids().len()), (1, 1));
    agent.terminate().await;
}

#[tokio::test]
async fn the_health_of_all_cards_is_told_at_first_and_after_each_look() {
    let node = KubeletNode::new("health");
    let agent = node.agent(None).await;
    let mut client = DraResourceHealthClient::new(channel(&agent.sockets.service).await);
    let stream = client.node_watch_resources(NodeWatchResourcesRequest {}).await.unwrap();
    let mut stream = stream.into_inner();
    let first = stream.next().await.unwrap().unwrap().devices;
    let id = first[0].device.clone().unwrap();
    assert_eq!((&*id.pool_name, &*id.device_name, first[0].health), ("node", "gpu-0", 1));
    assert!(first[0].last_updated_time > 1_700_000_000);
    assert_eq!(first[0].health_check_timeout_seconds, 30);

    node.cards.send_modify(|cards| {
        cards.cards[0].health = CardHealth::Unhealthy;
        cards.cards[0].message = "fell off the bus ".repeat(100);
    });
    let next = stream.next().await.unwrap().unwrap().devices;
    assert_eq!((next[0].health, next[0].message.len()), (2, 1024));

    let older = health_v1alpha1::dra_resource_health_client::DraResourceHealthClient::new(
        channel(&agent.sockets.service).await,
    );
    let request = health_v1alpha1::NodeWatchResourcesRequest {};
    let mut older = { older }.node_watch_resources(request).await.unwrap().into_inner();
    assert_eq!(older.next().await.unwrap().unwrap().devices[0].health, 2);

    // The agent's end ends the streams, and is not kept up by them.
    agent.terminate().await;
    assert!(stream.next().await.is_none_or(|message| message.is_err()));
    assert!(older.next().await.is_none_or(|message| message.is_err()));
}

#[tokio::test]
async fn a_node_that_must_not_be_used_has_no_claim_prepared_and_says_so_on_it() {
    let mut node = KubeletNode::new("refused");
    let (verdict, judged) = watch::channel(NodeVerdict::default());
    let (events, mut said) = EventQueue::new();
    let state = watch::channel(ClusterState::default()).1;
    node.cluster = Some(Cluster { verdict: judged, state, events });
    node.allocate("train", "uid-1");
    let agent = node.agent(None).await;
    let mut kubelet = FakeKubelet::at(&agent.sockets.service).await;
    let refused = kubelet.prepare(&[("train", "uid-1")]).await;
    assert_eq!(word(&refused, "uid-1"), "node-refused");
    assert!(refused["uid-1"].error.contains("node-not-looked"), "{refused:?}");
    assert_eq!((node.cdi_files(), node.daemon.ids().len()), (0, 0));
    let event = said.try_recv().unwrap();
    let (namespace, name, uid) = ("team".to_owned(), "train".to_owned(), "uid-1".to_owned());
    assert_eq!(event.about, EventObject::Claim { namespace, name, uid });
    assert_eq!((event.is_warning, &*event.note), (true, &*refused["uid-1"].error));

    // One card is sold by another driver, then none is.
    let sold = BTreeMap::from([(UUID.to_ascii_lowercase(), "gpu.nvidia.com".to_owned())]);
    verdict.send_replace(NodeVerdict { refusal: None, sold, notes: Vec::new() });
    let refused = kubelet.prepare(&[("train", "uid-1")]).await;
    assert!(refused["uid-1"].error.contains("gpu.nvidia.com"), "{refused:?}");
    verdict.send_modify(|verdict| verdict.sold.clear());
    let given = kubelet.prepare(&[("train", "uid-1")]).await;
    assert_eq!((&*given["uid-1"].error, node.daemon.ids().len()), ("", 1));
    kubelet.unprepare(&[("train", "uid-1")]).await;
    let counted = |call| {
        let mut counts = agent.counts.of(call);
        counts.retain(|(_, count)| *count > 0);
        counts
    };
    assert_eq!(counted(ClaimCall::Prepare), [("prepared", 1), ("node-refused", 2)]);
    assert_eq!(counted(ClaimCall::Unprepare), [("taken-back", 1)]);
    agent.terminate().await;
}

#[tokio::test]
async fn a_card_that_was_given_away_twice_is_full_until_the_others_end() {
    let node = KubeletNode::new("full");
    for number in 1..=4 {
        node.allocate(&format!("train-{number}"), &format!("uid-{number}"));
    }
    let agent = node.agent(None).await;
    let mut kubelet = FakeKubelet::at(&agent.sockets.service).await;
    let all =
        [("train-1", "uid-1"), ("train-2", "uid-2"), ("train-3", "uid-3"), ("train-4", "uid-4")];
    // 30 % each: of two schedulers one has allocated the fourth. In one batch or one after the other.
    let answers = kubelet.prepare(&all).await;
    let full: Vec<_> = all.iter().filter(|(_, uid)| word(&answers, uid) == "card-full").collect();
    assert_eq!(full, [&all[3]], "{answers:?}");
    assert!(answers["uid-4"].error.contains("cores 10"), "{}", answers["uid-4"].error);
    assert_eq!(node.daemon.ids().len(), 3);
    assert_eq!(word(&kubelet.prepare(&all[3..]).await, "uid-4"), "card-full");
    assert_eq!(kubelet.prepare(&all[..3]).await["uid-1"].error, "", "what is there stays");

    kubelet.unprepare(&all[1..2]).await;
    assert_eq!(kubelet.prepare(&all[3..]).await["uid-4"].error, "");
    assert_eq!(word(&kubelet.prepare(&all[1..2]).await, "uid-2"), "card-full");

    // A kubelet that has lost its state, whose claims are gone or not allocated any more, takes nothing back. A program that
    // runs keeps its share.
    node.daemon.held_bytes.store(1, SeqCst);
    node.claims.claims.lock().unwrap().remove("team/train-1");
    assert_eq!(word(&kubelet.prepare(&all[1..2]).await, "uid-2"), "card-full");
    node.daemon.held_bytes.store(0, SeqCst);
    assert_eq!(kubelet.prepare(&all[1..2]).await["uid-2"].error, "");
    assert_eq!(node.daemon.ids().len(), 3);
    let told = node.log.lines();
    assert!(
        told.iter().any(|line| line.starts_with("took back claim team/train-1 (uid-1)")),
        "{told:?}"
    );
    agent.terminate().await;
}

#[tokio::test]
async fn a_claim_in_another_allocation_is_another() {
    let node = KubeletNode::new("solo");
    let agent = node.agent(None).await;
    let mut kubelet = FakeKubelet::at(&agent.sockets.service).await;
    let allocate = |name: &str, share: &str, pool: &str| {
        node.allocate(name, name);
        let mut claims = node.claims.claims.lock().unwrap();
        let claim = claims.get_mut(&format!("team/{name}")).unwrap();
        let result = &mut claim["status"]["allocation"]["devices"]["results"][0];
        (result["shareID"], result["pool"]) = (json!(share), json!(pool));
        result["consumedCapacity"]["cores"] = json!("60");
    };
    let (solo, other) = ([("solo", "solo")], [("other", "other")]);
    allocate("solo", "first", "node");
    assert_eq!(kubelet.prepare(&solo).await["solo"].error, "");
    // Its pod was deleted by force and runs, and the claim was allocated again for another pod.
    allocate("solo", "second", "node");
    node.daemon.held_bytes.store(1, SeqCst);
    assert_eq!(word(&kubelet.prepare(&solo).await, "solo"), "card-full");
    assert_eq!(node.daemon.ids().len(), 1);
    node.daemon.held_bytes.store(0, SeqCst);
    let first = node.daemon.ids();
    assert_eq!(kubelet.prepare(&solo).await["solo"].error, "");
    assert_eq!(node.daemon.ids().len(), 1);
    assert_ne!(node.daemon.ids(), first);
    // A kubelet that has lost its state, and a claim that is on another node now.
    allocate("solo", "third", "elsewhere");
    allocate("other", "other", "node");
    assert_eq!(kubelet.prepare(&other).await["other"].error, "");
    assert_eq!(node.daemon.ids().len(), 1);
    agent.terminate().await;
}
