//! The plugin and a kubelet over real sockets: registered, listed, allocated, taken back; either of them begins again.

use std::io::Write;
use std::time::Duration;

use super::super::service::GiveBy;
use super::books::{card, cards};
use super::node::{PluginTestNode, client, good_node, until};
use super::{A, B};
use crate::cards::{CardBook, CardHealth};
use crate::cluster::{NodeReason, NodeRefusal, PluginNode};
use crate::kubelet::wire::deviceplugin::{
    ContainerPreferredAllocationRequest, PreferredAllocationRequest,
};

const FIRST: &str = "0aaaaaaa-8g-30c-0";

#[tokio::test]
async fn a_container_has_its_share_until_its_pod_is_not_listed() {
    let node = PluginTestNode::new("share");
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    assert_eq!(kubelet.healthy("8g-30c", 6).await[0], FIRST);
    kubelet.healthy("40g-50c", 4).await;
    until("it is ready", async || plugin.missing("registered").await.is_none()).await;

    let answer = kubelet.admit("one", "40g-50c", &["0aaaaaaa-40g-50c-1"]).await;
    let ids = node.node.ids();
    let id = ids.first().unwrap();
    assert!(id.starts_with("claim.dp-0aaaaaaa-40g-50c-1."), "{id}");
    let devices: Vec<_> = answer.cdi_devices.iter().map(|it| it.name.clone()).collect();
    assert_eq!(devices, [format!("nvidia.com/gpu={A}"), format!("divvy.dev/share={id}")]);
    assert!(answer.envs.is_empty() && answer.mounts.is_empty());
    let limits = node.node.known().tenants[id].clone();
    assert_eq!((limits.devices[0].memory_bytes, limits.devices[0].share_ppm), (40 << 30, 500_000));
    let spec = node.node.spec(id)["devices"][0]["containerEdits"]["mounts"].to_string();
    assert!(spec.contains("/etc/ld.so.preload"), "{spec}");

    // The card's room is told of every size.
    assert_eq!(kubelet.healthy("8g-30c", 4).await[0], FIRST);
    kubelet.admit("two", "40g-50c", &["0aaaaaaa-40g-50c-0"]).await;
    kubelet.healthy("8g-30c", 3).await;
    assert_eq!(kubelet.told("8g-30c").unwrap().1, 6);
    let refused = kubelet.ask("8g-30c", &[FIRST]).await.unwrap_err();
    assert!(refused.message().contains("does not fit any more"), "{refused}");

    kubelet.listed(2).await;
    kubelet.end("one");
    kubelet.healthy("8g-30c", 4).await;
    kubelet.end("two");
    kubelet.healthy("8g-30c", 6).await;
    assert!(node.is_empty());
    plugin.terminate().await;
    assert!(!node.socket("8g-30c").exists());
}

#[tokio::test]
async fn a_runtime_without_cdi_is_given_variables_and_mounts() {
    let mut node = PluginTestNode::new("mounts");
    node.judged.send_replace(PluginNode { has_cdi: false, ..good_node() });
    for by in [GiveBy::Auto, GiveBy::Mounts, GiveBy::Cdi] {
        node.by = by;
        let kubelet = node.kubelet().await;
        let plugin = node.plugin();
        kubelet.healthy("8g-30c", 6).await;
        let answer = kubelet.admit("one", "8g-30c", &[FIRST, "0bbbbbbb-8g-30c-0"]).await;
        if by == GiveBy::Cdi {
            assert!(answer.mounts.is_empty() && answer.cdi_devices.len() == 3, "{answer:?}");
        } else {
            assert!(answer.cdi_devices.is_empty());
            let id = node.node.ids().first().unwrap().clone();
            assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], format!("{A},{B}"));
            assert_eq!(answer.envs["DIVVY_TENANT"], "/run/divvy/tenant");
            let mounts: Vec<_> =
                answer.mounts.iter().map(|it| (&*it.container_path, it.read_only)).collect();
            assert_eq!(
                mounts,
                [
                    ("/usr/local/divvy/libdivvy.so", true),
                    ("/etc/ld.so.preload", true),
                    ("/run/divvy/tenant", false)
                ]
            );
            assert_eq!(answer.mounts[2].host_path, format!("/run/divvy/by-id/0/{id}"));
        }
        // One tenant for both cards, which a process can be in.
        assert_eq!(node.node.ids().len(), 1);
        assert_eq!(node.node.known().tenants.values().next().unwrap().devices.len(), 2);
        kubelet.listed(2).await;
        kubelet.end("one");
        kubelet.healthy("8g-30c", 6).await;
        until("it is taken back", async || node.is_empty()).await;
        plugin.terminate().await;
    }
}

#[tokio::test]
async fn a_kubelet_that_restarts_or_stops_watching_is_registered_at_again() {
    let node = PluginTestNode::new("again");
    let mut kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    kubelet.healthy("40g-50c", 4).await;
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    for _ in 0..3 {
        let before = kubelet.registrations();
        kubelet.restart(&node, false).await;
        until("both register", async || kubelet.registrations() >= before + 2).await;
        kubelet.healthy("40g-50c", 3).await;
        assert_eq!(kubelet.healthy("8g-30c", 6).await[0], FIRST);
    }
    kubelet.forget_streams();
    kubelet.healthy("40g-50c", 3).await;
    kubelet.healthy("8g-30c", 6).await;
    // A socket that somebody removed.
    std::fs::remove_file(node.socket("8g-30c")).unwrap();
    until("it is bound again", async || node.socket("8g-30c").exists()).await;
    assert_eq!(node.node.ids().len(), 1, "nothing was taken back meanwhile");
    plugin.terminate().await;
}

#[tokio::test]
async fn a_plugin_that_begins_again_knows_what_pods_have_before_it_sells() {
    let node = PluginTestNode::new("restart");
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    kubelet.admit("one", "40g-50c", &["0aaaaaaa-40g-50c-0"]).await;
    kubelet.admit("two", "8g-30c", &[FIRST, "0bbbbbbb-8g-30c-1"]).await;
    plugin.kill().await;
    kubelet.forget_streams();
    let before = node.node.ids();

    kubelet.be_silent(true);
    let registrations = kubelet.registrations();
    let plugin = node.plugin();
    until("it waits", async || {
        plugin.missing("pods").await.is_some_and(|words| words.contains("not yet"))
    })
    .await;
    assert_eq!(kubelet.registrations(), registrations, "nothing is sold before");
    kubelet.be_silent(false);
    assert_eq!(kubelet.healthy("8g-30c", 2 + 2).await[0], FIRST);
    assert_eq!(kubelet.healthy("40g-50c", 2).await, ["0aaaaaaa-40g-50c-0", "0bbbbbbb-40g-50c-0"]);
    assert_eq!(node.node.ids(), before);
    plugin.kill().await;
    kubelet.forget_streams();

    // A pod that ends while no plugin is there, and a checkpoint that is lost.
    kubelet.end("one");
    std::fs::remove_file(node.node.places.state.join("checkpoint.json")).unwrap();
    let mut node = node;
    node.times.begins = Duration::from_millis(50);
    let plugin = node.plugin();
    kubelet.healthy("40g-50c", 2).await;
    until("one of two is taken back", async || node.node.ids().len() == 1).await;
    kubelet.end("two");
    kubelet.healthy("40g-50c", 4).await;
    until("all is taken back", async || node.is_empty()).await;
    plugin.terminate().await;
}

#[tokio::test]
async fn devices_of_a_pod_that_never_came_are_taken_back() {
    let mut node = PluginTestNode::new("never");
    node.times.unseen = Duration::from_millis(50);
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    kubelet.ask("8g-30c", &[FIRST]).await.unwrap();
    until("it is taken back", async || node.is_empty()).await;
    plugin.terminate().await;
}

#[tokio::test]
async fn a_kubelet_that_does_not_list_takes_nothing_back() {
    let mut node = PluginTestNode::new("silent");
    node.times.unseen = Duration::ZERO;
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    kubelet.be_silent(true);
    until("it is said", async || plugin.missing("pods").await.is_some()).await;
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    for _ in 0..20 {
        tokio::time::sleep(node.times.poll).await;
    }
    assert_eq!(node.node.ids().len(), 1);
    kubelet.be_silent(false);
    until("it is over", async || plugin.missing("pods").await.is_none()).await;
    assert_eq!(node.node.ids().len(), 1);
    plugin.terminate().await;
}

#[tokio::test]
async fn of_two_pods_at_the_same_moment_one_is_refused_in_words() {
    let node = PluginTestNode::new("race");
    node.cards.send_replace(cards(&[card(A, 80)]));
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 3).await;
    kubelet.healthy("40g-50c", 2).await;
    kubelet.admit("one", "40g-50c", &["0aaaaaaa-40g-50c-0"]).await;
    // Each fits, by what the kubelet was told; not both.
    let (one, other) = tokio::join!(
        kubelet.ask("40g-50c", &["0aaaaaaa-40g-50c-1"]),
        kubelet.ask("8g-30c", &["0aaaaaaa-8g-30c-2"])
    );
    assert_eq!(usize::from(one.is_ok()) + usize::from(other.is_ok()), 1);
    let refused = one.err().or(other.err()).unwrap();
    assert!(refused.message().contains("another pod was given them"), "{refused}");
    assert_eq!(node.node.ids().len(), 2);
    plugin.terminate().await;
}

#[tokio::test]
async fn a_daemon_that_is_away_is_waited_for_and_then_refused_in_words() {
    let mut node = PluginTestNode::new("away");
    node.times.patience = Duration::from_secs(60);
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    node.node.known().is_away = true;
    let asked = node.node.known().asked;
    let coming_back = async {
        until("the daemon is asked", async || node.node.known().asked > asked + 1).await;
        node.node.known().is_away = false;
    };
    let (answer, ()) = tokio::join!(kubelet.ask("8g-30c", &[FIRST]), coming_back);
    assert_eq!(answer.unwrap().cdi_devices.len(), 2);
    plugin.terminate().await;

    node.times.patience = Duration::ZERO;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    node.node.known().is_away = true;
    let refused = kubelet.ask("8g-30c", &["0bbbbbbb-8g-30c-0"]).await.unwrap_err();
    assert!(refused.message().starts_with("daemon-unreachable: "), "{refused}");
    // While it is away nothing is offered but what pods have.
    let gone = CardBook { doubt: Some("no daemon".to_owned()), ..node.cards.borrow().clone() };
    node.cards.send_replace(gone);
    kubelet.healthy("8g-30c", 1).await;
    assert_eq!(plugin.missing("cards").await.unwrap(), "no daemon");
    node.node.known().is_away = false;
    node.cards.send_replace(cards(&[card(A, 80), card(B, 80)]));
    kubelet.healthy("8g-30c", 6).await;
    until("only the first is there", async || node.node.ids().len() == 1).await;
    plugin.terminate().await;
}

#[tokio::test]
async fn a_node_whose_cards_another_sells_offers_nothing_and_recovers() {
    let node = PluginTestNode::new("refused");
    node.judged.send_replace(PluginNode::default());
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 0).await;
    assert!(plugin.missing("cards").await.unwrap().starts_with("node-not-looked: "));
    node.judged.send_replace(good_node());
    kubelet.healthy("8g-30c", 6).await;
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    let words = "nvidia.com/gpu: 8".to_owned();
    let refusal = NodeRefusal { reason: NodeReason::SoldByPlugin, words };
    node.judged.send_replace(PluginNode { refusal: Some(refusal), has_cdi: true });
    assert_eq!(kubelet.healthy("8g-30c", 1).await, [FIRST], "a pod has it");
    let refused = kubelet.ask("8g-30c", &["0bbbbbbb-8g-30c-0"]).await.unwrap_err();
    assert_eq!(refused.message(), "sold-by-plugin: nvidia.com/gpu: 8");
    node.judged.send_replace(good_node());
    kubelet.healthy("8g-30c", 6).await;
    // A card that fails.
    let mut ill = card(A, 80);
    ill.health = CardHealth::Unhealthy;
    node.cards.send_replace(cards(&[ill, card(B, 80)]));
    assert!(kubelet.healthy("8g-30c", 3).await.iter().all(|id| id.starts_with("0bbbbbbb")));
    assert_eq!(node.node.ids().len(), 1);
    plugin.terminate().await;
}

#[tokio::test]
async fn hostile_callers_get_errors_and_the_next_is_served() {
    let node = PluginTestNode::new("hostile");
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    let frames: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x09\x01\x04\0\0\0\x01\x83\x41\x04/a",
        &[0; 4096],
    ];
    for frame in frames {
        let mut stream = std::os::unix::net::UnixStream::connect(node.socket("8g-30c")).unwrap();
        let _ = stream.write_all(frame);
        tokio::task::yield_now().await;
    }
    let long = "a".repeat(1 << 20);
    let many: Vec<String> = (0..5000).map(|number| format!("0aaaaaaa-8g-30c-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for ids in [
        &[][..],
        &["../../etc/passwd"],
        &[&*long],
        &["0aaaaaaa-8g-30c-0\n"],
        &["0aaaaaaa-40g-50c-0"],
        &[FIRST, FIRST],
        &many,
    ] {
        let refused = kubelet.ask("8g-30c", ids).await.unwrap_err();
        assert!(!refused.message().is_empty() || ids.len() == 1, "{refused}");
    }
    let mut preferring = client(&node.socket("8g-30c")).await;
    let ask = |available: &[&str], must: &[&str], size| PreferredAllocationRequest {
        container_requests: vec![ContainerPreferredAllocationRequest {
            available_device_i_ds: available.iter().map(|&id| id.to_owned()).collect(),
            must_include_device_i_ds: must.iter().map(|&id| id.to_owned()).collect(),
            allocation_size: size,
        }],
    };
    for (request, expected) in [
        (ask(&["x", FIRST], &["y"], 2), &["y", FIRST][..]),
        (ask(&[FIRST], &[], -1), &[]),
        (ask(&[FIRST, FIRST], &[], i32::MAX), &[FIRST]),
    ] {
        let answer = preferring.get_preferred_allocation(request).await.unwrap().into_inner();
        assert_eq!(answer.container_responses[0].device_i_ds, expected);
    }
    assert!(node.node.ids().is_empty());
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    plugin.terminate().await;
}

#[tokio::test]
async fn the_next_pod_does_not_inherit_the_tenant_of_the_one_before() {
    let node = PluginTestNode::new("inherit");
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    kubelet.listed(3).await;
    // The kubelet takes devices back at once, and may give them to another pod before it was asked again.
    kubelet.be_silent(true);
    until("the list is not heard", async || plugin.missing("pods").await.is_some()).await;
    let before = node.node.known().made;
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    assert_eq!(node.node.known().made, before + 1);
    // The container after an init container has the same.
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    assert_eq!(node.node.known().made, before + 1);
    plugin.terminate().await;
}

#[tokio::test]
async fn pods_that_a_reboot_starts_again_find_what_they_were_given() {
    let mut node = PluginTestNode::new("reboot");
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    kubelet.admit("one", "8g-30c", &[FIRST, "0aaaaaaa-8g-30c-1"]).await;
    kubelet.admit("two", "40g-50c", &["0bbbbbbb-40g-50c-0"]).await;
    plugin.kill().await;
    kubelet.forget_streams();
    let (ids, files) = (node.node.ids(), node.node.files());
    node.node.known().tenants.clear();
    std::fs::remove_dir_all(&node.node.places.cdi).unwrap();
    node.node.places.boot_id = "boot-2".to_owned();
    // One of them does not come back.
    kubelet.end("two");
    let plugin = node.plugin();
    kubelet.healthy("40g-50c", 2).await;
    let is_one = |all: std::collections::BTreeSet<String>| {
        all.iter().all(|it| it.contains("-8g-30c-")) && all.len() == 1
    };
    assert!(is_one(node.node.ids()) && is_one(node.node.files()));
    assert!(
        node.node.ids().is_subset(&ids) && node.node.files().is_subset(&files),
        "by the same names"
    );
    assert_eq!(
        node.node.known().tenants.values().next().unwrap().devices[0].memory_bytes,
        16 << 30
    );
    // Files that are lost while it runs come back with the plugin.
    plugin.terminate().await;
    kubelet.forget_streams();
    std::fs::remove_dir_all(&node.node.places.cdi).unwrap();
    let plugin = node.plugin();
    kubelet.healthy("40g-50c", 2).await;
    assert_eq!(node.node.files().len(), 1);
    plugin.terminate().await;
}

#[tokio::test]
async fn a_kubelet_that_begins_and_knows_no_pods_takes_nothing_back() {
    let mut node = PluginTestNode::new("begins");
    // However short that is.
    (node.times.unseen, node.times.begins) = (Duration::ZERO, Duration::ZERO);
    let mut kubelet = node.kubelet().await;
    let plugin = node.plugin();
    kubelet.healthy("8g-30c", 6).await;
    kubelet.be_silent(true);
    kubelet.admit("one", "8g-30c", &[FIRST]).await;
    kubelet.be_silent(false);
    kubelet.listed(3).await;
    kubelet.restart(&node, true).await;
    kubelet.listed(5).await;
    assert_eq!(node.node.ids().len(), 1);
    kubelet.know_pods();
    kubelet.listed(3).await;
    kubelet.end("one");
    until("it is taken back", async || node.is_empty()).await;
    plugin.terminate().await;
}
