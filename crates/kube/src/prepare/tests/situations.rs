//! Situations into which a kubelet brings a driver, one test for each, and bugs of kubelets by their numbers.

use super::super::PrepareReason;
use super::*;

#[test]
fn pod_admitted_is_answered_per_claim_and_one_failure_is_not_the_batchs() {
    let node = FakeNode::new("admitted");
    let (good, mut bad, refused, last) = (claim("a"), claim("b"), claim("c"), claim("d"));
    bad.config.push(parameters(ParametersOf::Claim, &json!({ "memory": "8Gi" })));
    let id = super::super::plan::of(&refused, None).unwrap()["gpu"].id.clone();
    node.known().refused.insert(id);
    let answers = node.core().prepare(&[good.clone(), bad, refused, last.clone()]);
    let uids: Vec<_> = answers.iter().map(|answer| &*answer.uid).collect();
    assert_eq!(uids, ["a", "b", "c", "d"]);
    let reason = |at: usize| answers[at].result.as_ref().err().map(|error| error.reason);
    assert_eq!([0, 3].map(reason), [None, None]);
    assert_eq!(reason(1), Some(PrepareReason::BadParameters));
    assert_eq!(reason(2), Some(PrepareReason::DaemonRefused));
    unprepared(&node.core(), &["b", "c"]);
    node.assert_holds(&[&good, &last]);
}

#[test]
fn error_is_text_with_a_reason_code() {
    let node = FakeNode::new("error");
    node.known().is_away = true;
    let [answer] = &node.core().prepare(&[claim("a")])[..] else { panic!() };
    let text = answer.result.as_ref().unwrap_err().to_string();
    assert_eq!(text, "daemon-unreachable: no daemon answers");
    node.known().is_away = false;
    prepared(&node.core(), &[claim("a")]);
    node.assert_holds(&[&claim("a")]);
}

#[test]
fn second_pod_of_the_same_claim_gets_the_same() {
    let node = FakeNode::new("second");
    let first = prepared(&node.core(), &[claim("a")]);
    assert_eq!(prepared(&node.core(), &[claim("a")]), first);
    node.assert_holds(&[&claim("a")]);
}

#[test]
fn kubelet_restart_verifies_and_rewrites_though_the_checkpoint_says_so() {
    let node = FakeNode::new("restart");
    let first = prepared(&node.core(), &[claim("a")]);
    let [id] = &Vec::from_iter(node.ids())[..] else { panic!() };
    std::fs::remove_dir_all(&node.places.cdi).unwrap();
    node.known().tenants.clear();
    assert_eq!(prepared(&node.core(), &[claim("a")]), first);
    node.assert_holds(&[&claim("a")]);
    // One that somebody has changed is as it should be; the tenant is the same one, which a process may be in.
    std::fs::write(node.places.cdi_file(id), "{}").unwrap();
    node.known().tenants.get_mut(id).unwrap().weight = 7;
    assert_eq!(prepared(&node.core(), &[claim("a")]), first);
    node.assert_holds(&[&claim("a")]);
}

#[test]
fn reboot_drops_what_the_last_boot_said_and_prepares_anew() {
    let mut node = FakeNode::new("reboot");
    prepared(&node.core(), &[claim("a"), claim("b")]);
    // A CDI folder that outlives the boot, as /etc/cdi; /run does not.
    node.known().tenants.clear();
    node.places.boot_id = "boot-2".to_owned();
    prepared(&node.core(), &[claim("a")]);
    node.assert_holds(&[&claim("a")]);
    // One that does not.
    std::fs::remove_dir_all(&node.places.cdi).unwrap();
    node.known().tenants.clear();
    node.places.boot_id = "boot-3".to_owned();
    assert_eq!(node.core().sweep(), Ok(0));
    assert!(node.claims().is_empty());
    prepared(&node.core(), &[claim("a"), claim("b")]);
    node.assert_holds(&[&claim("a"), &claim("b")]);
}

#[test]
fn plugin_restart_on_the_same_node_goes_on() {
    let node = FakeNode::new("plugin");
    prepared(&node.core(), &[claim("a")]);
    assert_eq!(node.core().sweep(), Ok(0));
    node.assert_holds(&[&claim("a")]);
    unprepared(&node.core(), &["a"]);
    node.assert_holds(&[]);
}

#[test]
fn unprepare_goes_by_the_uid_and_an_unknown_one_is_success() {
    let node = FakeNode::new("unprepare");
    prepared(&node.core(), &[claim("a")]);
    let asked = node.known().asked;
    // The daemon is not asked, so that it may be away.
    node.known().is_away = true;
    unprepared(&node.core(), &["b", "", "../x", "none"]);
    assert_eq!(node.known().asked, asked);
    node.assert_holds(&[&claim("a")]);
    node.known().is_away = false;
    unprepared(&node.core(), &["a", "a", "b"]);
    unprepared(&node.core(), &["a"]);
    node.assert_holds(&[]);
}

#[test]
fn unprepare_on_a_node_that_has_no_checkpoint_is_success() {
    let node = FakeNode::new("fresh");
    node.known().is_away = true;
    unprepared(&node.core(), &["a"]);
    node.known().is_away = false;
    assert_eq!(node.core().sweep(), Ok(0));
    assert!(node.claims().is_empty());
}

#[test]
fn force_delete_leaves_a_claim_of_the_same_name_and_both_are_themselves() {
    let node = FakeNode::new("force");
    let (old, new) = (claim("old"), claim("new"));
    assert_eq!((&old.namespace, &old.name), (&new.namespace, &new.name));
    prepared(&node.core(), std::slice::from_ref(&old));
    prepared(&node.core(), std::slice::from_ref(&new));
    node.assert_holds(&[&old, &new]);
    unprepared(&node.core(), &["old"]);
    node.assert_holds(&[&new]);
}

#[test]
fn unprepare_error_is_rare_a_daemon_that_is_away_blocks_no_pods_end() {
    let node = FakeNode::new("away");
    prepared(&node.core(), &[claim("a"), claim("b")]);
    node.known().is_away = true;
    unprepared(&node.core(), &["a"]);
    assert_eq!(node.files().len(), 1, "no container can be given it any more");
    assert_eq!(node.core().sweep(), Ok(1));
    node.known().is_away = false;
    // Any call does what was left.
    unprepared(&node.core(), &["unknown"]);
    node.assert_holds(&[&claim("b")]);
}

#[test]
fn unprepare_that_was_not_finished_is_forgotten_where_the_claim_comes_back() {
    let node = FakeNode::new("back");
    prepared(&node.core(), &[claim("a")]);
    node.known().is_away = true;
    unprepared(&node.core(), &["a"]);
    node.known().is_away = false;
    prepared(&node.core(), &[claim("a")]);
    assert_eq!(node.core().sweep(), Ok(0));
    node.assert_holds(&[&claim("a")]);
}

#[test]
fn rolling_update_has_two_instances_which_lose_nothing_of_one_another() {
    let node = FakeNode::new("rolling");
    let uids: Vec<String> = (0..24).map(|number| format!("claim-{number}")).collect();
    std::thread::scope(|scope| {
        for part in uids.chunks(6) {
            let core = node.core();
            scope.spawn(move || {
                for uid in part {
                    prepared(&core, &[claim(uid)]);
                    prepared(&core, &[claim(uid)]);
                    unprepared(&core, &[uid]);
                    prepared(&core, &[claim(uid)]);
                }
                unprepared(&core, &[&part[0]]);
            });
        }
    });
    let held: Vec<_> = uids.chunks(6).flat_map(|part| &part[1..]).map(|uid| claim(uid)).collect();
    node.assert_holds(&held.iter().collect::<Vec<_>>());
}

#[test]
fn issue_135919_of_several_claims_those_that_are_not_prepared_are() {
    let node = FakeNode::new("135919");
    prepared(&node.core(), &[claim("a")]);
    prepared(&node.core(), &[claim("a"), claim("b"), claim("c")]);
    node.assert_holds(&[&claim("a"), &claim("b"), &claim("c")]);
}

#[test]
fn issue_140527_prepare_and_unprepare_at_once_end_as_one_of_them() {
    for round in 0..20 {
        let node = FakeNode::new("140527");
        let (one, other) = (node.core(), node.core());
        std::thread::scope(|scope| {
            scope.spawn(|| prepared(&one, &[claim("a")]));
            scope.spawn(|| unprepared(&other, &["a"]));
        });
        match node.ids().is_empty() {
            true => node.assert_holds(&[]),
            false => node.assert_holds(&[&claim("a")]),
        }
        println!("round {round}");
    }
}

#[test]
fn issue_134520_a_share_without_an_id_goes_by_its_card() {
    let node = FakeNode::new("134520");
    let mut whole = claim("a");
    whole.shares[0].share_id = None;
    let [shares] = &prepared(&node.core(), std::slice::from_ref(&whole))[..] else { panic!() };
    assert_eq!(shares[0].share_id, None);
    node.assert_holds(&[&whole]);
}
