//! Plugins that are killed after each effect of an allocation: nothing leaks, and nothing that a pod has is lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::book::{DeviceOffer, PodList};
use super::super::desk::ShareDesk;
use super::super::ids::DeviceGroup;
use super::super::times::PluginTimes;
use super::books::{card, cards, group};
use super::node::{good_node, quick};
use super::{A, B, size};
use crate::cards::CardTerms;
use crate::event::EventLog;
use crate::prepare::tests::{FakeCore, FakeDaemon, FakeDisk, FakeNode, Life};

const BOTH: [&str; 2] = ["0aaaaaaa-8g-30c-0", "0bbbbbbb-8g-30c-0"];

type TestDesk = ShareDesk<FakeDaemon, FakeDisk>;

/// A list with one pod more than those that have something.
fn list(groups: &[DeviceGroup]) -> PodList {
    PodList { pods: groups.len() + 1, groups: groups.to_vec() }
}

/// A desk that has heard a list twice.
async fn desk(core: FakeCore, listed: &[DeviceGroup], unseen: Duration) -> TestDesk {
    let times = PluginTimes { unseen, begins: unseen, ..quick() };
    let desk = ShareDesk::new(
        core,
        &[size("8g-30c"), size("40g-50c")],
        CardTerms::default(),
        times,
        EventLog::memory(),
    );
    desk.enter_cards(&cards(&[card(A, 80), card(B, 80)]), &good_node()).await;
    let began = Instant::now();
    let _ = desk.recover(&list(listed), began).await;
    let turn = desk.turn().await;
    desk.hear(&list(listed), turn, began).await;
    desk
}

fn healthy(desk: &TestDesk, of: &str) -> usize {
    desk.list(size(of)).borrow().iter().filter(|it: &&DeviceOffer| it.is_healthy).count()
}

async fn give(desk: &TestDesk, ids: &[&str]) -> bool {
    let ids: Vec<_> = ids.iter().map(|&id| id.to_owned()).collect();
    desk.give(size("8g-30c"), &ids).await.is_ok()
}

fn nothing_is_left(node: &FakeNode) {
    assert_eq!(
        (node.ids(), node.files(), node.claims()),
        (BTreeSet::new(), BTreeSet::new(), Vec::new())
    );
}

#[tokio::test]
async fn an_allocation_that_is_killed_anywhere_leaks_nothing() {
    for effects in 1.. {
        let node = FakeNode::new("given");
        let life = Life::of(effects);
        let given = give(&desk(node.living(&life), &[], Duration::MAX).await, &BOTH).await;
        let is_whole = !life.is_over();
        println!("killed after {effects} effects: {given}, {:?}", node.files());
        assert!(given || !is_whole);
        // The kubelet has refused the pod, so no list names its devices.
        let next = desk(node.core(), &[], Duration::ZERO).await;
        nothing_is_left(&node);
        assert_eq!((healthy(&next, "8g-30c"), healthy(&next, "40g-50c")), (6, 4));
        if is_whole {
            assert!(effects > 6, "{effects}");
            return;
        }
    }
}

#[tokio::test]
async fn a_plugin_that_is_killed_anywhere_in_taking_back_is_finished_by_the_next() {
    let both = group(&BOTH);
    for effects in 1.. {
        let node = FakeNode::new("taken");
        assert!(give(&desk(node.core(), &[], Duration::MAX).await, &BOTH).await);
        let (life, began) = (Life::of(effects), Instant::now());
        let dying = desk(node.living(&life), std::slice::from_ref(&both), Duration::MAX).await;
        for _ in 0..2 {
            let turn = dying.turn().await;
            dying.hear(&list(&[]), turn, began).await;
        }
        let is_whole = !life.is_over();
        let next = desk(node.core(), &[], Duration::ZERO).await;
        nothing_is_left(&node);
        assert_eq!(healthy(&next, "40g-50c"), 4);
        if is_whole {
            return;
        }
    }
}

#[tokio::test]
async fn a_share_that_a_pod_has_outlives_a_plugin_that_is_killed_anywhere() {
    let both = group(&BOTH);
    for effects in 1.. {
        let node = FakeNode::new("kept");
        assert!(give(&desk(node.core(), &[], Duration::MAX).await, &BOTH).await);
        let (ids, files) = (node.ids(), node.files());
        let life = Life::of(effects);
        let dying = desk(node.living(&life), std::slice::from_ref(&both), Duration::ZERO).await;
        let _ = give(&dying, &["0aaaaaaa-8g-30c-1"]).await;
        let is_whole = !life.is_over();
        let next = desk(node.core(), std::slice::from_ref(&both), Duration::ZERO).await;
        assert_eq!((node.ids(), node.files()), (ids, files));
        assert_eq!((healthy(&next, "8g-30c"), healthy(&next, "40g-50c")), (6, 2));
        if is_whole {
            return;
        }
    }
}

#[tokio::test]
async fn init_containers_and_those_after_them_have_tenants_of_their_own() {
    let node = FakeNode::new("init");
    let desk = desk(node.core(), &[], Duration::MAX).await;
    assert!(give(&desk, &BOTH).await && give(&desk, &BOTH[..1]).await);
    assert_eq!(node.ids().len(), 2, "of two devices, and of one of them");
    assert_eq!(healthy(&desk, "40g-50c"), 2, "but counted once");
    // The container that runs is listed; the one before it is not.
    let (one, began) = (group(&BOTH[..1]), Instant::now());
    for _ in 0..3 {
        let turn = desk.turn().await;
        desk.hear(&list(std::slice::from_ref(&one)), turn, began).await;
    }
    assert_eq!(node.ids().len(), 2, "until it is sure that none has it");
}
