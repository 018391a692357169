//! Disks that are full or read-only, checkpoints of others, a library that is not there: an error in words, nothing by halves.

use nix::libc::{ENOSPC, EROFS};

use super::super::{CardOffer, PrepareReason};
use super::*;

/// The reason for each claim, which are all the same, and its words.
#[track_caller]
fn refused(core: &FakeCore, claims: &[AllocatedClaim]) -> (PrepareReason, String) {
    let answers = core.prepare(claims);
    assert_eq!(answers.len(), claims.len());
    let errors: Vec<_> = answers.into_iter().map(|it| it.result.unwrap_err()).collect();
    assert!(errors.iter().all(|error| error.reason == errors[0].reason), "{errors:?}");
    (errors[0].reason, errors[0].words.clone())
}

#[test]
fn a_cdi_folder_that_is_full_or_read_only_is_one_error_for_each_claim_and_no_half_file() {
    for (errno, part) in [(ENOSPC, "No space left"), (EROFS, "Read-only")] {
        let node = FakeNode::new("cdi");
        let broken = node.failing(&node.places.cdi, errno);
        let (reason, words) = refused(&broken, &[claim("a"), claim("b")]);
        assert_eq!(reason, PrepareReason::CdiFailed);
        assert!(words.contains("/cdi/divvy-claim.a.") && words.contains(part), "{words}");
        assert!(node.files().is_empty(), "{:?}", node.files());
        // Once it is mended the kubelet's next call does it, or takes it back.
        prepared(&node.core(), &[claim("a")]);
        unprepared(&node.core(), &["b"]);
        node.assert_holds(&[&claim("a")]);
        // A file that cannot be written anew stays whole.
        assert_eq!(refused(&broken, &[claim("a")]).0, PrepareReason::CdiFailed);
        node.assert_holds(&[&claim("a")]);
    }
}

#[test]
fn a_cdi_file_that_cannot_be_removed_is_an_error_and_its_tenant_goes_all_the_same() {
    let node = FakeNode::new("unremoved");
    prepared(&node.core(), &[claim("a")]);
    let answers =
        node.failing(&node.places.cdi, EROFS).unprepare(&["a".to_owned(), "b".to_owned()]);
    let error = answers[0].result.as_ref().unwrap_err();
    assert_eq!((error.reason, &answers[1].result), (PrepareReason::CdiFailed, &Ok(())));
    assert!(node.ids().is_empty());
    unprepared(&node.core(), &["a"]);
    node.assert_holds(&[]);
}

#[test]
fn a_checkpoint_that_cannot_be_written_keeps_all_from_being_made() {
    for errno in [ENOSPC, EROFS] {
        let node = FakeNode::new("state");
        let broken = node.failing(&node.places.state, errno);
        let (reason, words) = refused(&broken, &[claim("a"), claim("b")]);
        assert_eq!(reason, PrepareReason::CheckpointFailed);
        assert!(words.contains("checkpoint.json cannot be written"), "{words}");
        assert!(node.ids().is_empty() && node.files().is_empty());
        prepared(&node.core(), &[claim("a")]);
        let left = broken.unprepare(&["a".to_owned(), "b".to_owned()]);
        let reason = left[0].result.as_ref().unwrap_err().reason;
        assert_eq!((reason, &left[1].result), (PrepareReason::CheckpointFailed, &Ok(())));
        node.assert_holds(&[&claim("a")]);
    }
}

#[test]
fn a_checkpoint_of_a_newer_version_is_left_alone_and_named() {
    let node = FakeNode::new("newer");
    std::fs::create_dir_all(&node.places.state).unwrap();
    let newer = "{\"version\": 7, \"whatever\": true}";
    std::fs::write(node.places.checkpoint(), newer).unwrap();
    let (reason, words) = refused(&node.core(), &[claim("a")]);
    assert_eq!(reason, PrepareReason::CheckpointNewer);
    assert!(words.contains("version 7") && words.contains("knows 2"), "{words}");
    assert_eq!(std::fs::read_to_string(node.places.checkpoint()).unwrap(), newer);
    let answers = node.core().unprepare(&["a".to_owned()]);
    assert_eq!(answers[0].result.as_ref().unwrap_err().reason, PrepareReason::CheckpointNewer);
}

#[test]
fn folders_that_are_no_folders_are_named() {
    let node = FakeNode::new("folders");
    std::fs::write(&node.places.cdi, "").unwrap();
    let (reason, words) = refused(&node.core(), &[claim("a")]);
    assert_eq!(reason, PrepareReason::CdiFailed);
    assert!(words.contains("/cdi cannot be read"), "{words}");
    std::fs::remove_dir_all(&node.places.state).unwrap();
    std::fs::write(&node.places.state, "").unwrap();
    let (reason, words) = refused(&node.core(), &[claim("a")]);
    assert_eq!(reason, PrepareReason::CheckpointFailed);
    assert!(words.contains("checkpoint.lock cannot be locked"), "{words}");
}

#[test]
fn without_its_library_nothing_is_given_to_a_container() {
    let node = FakeNode::new("library");
    std::fs::remove_file(&node.places.library).unwrap();
    let (reason, words) = refused(&node.core(), &[claim("a")]);
    assert_eq!(reason, PrepareReason::NoLibrary);
    assert!(words.contains("libdivvy.so is not there"), "{words}");
    assert!(node.ids().is_empty() && node.files().is_empty());
}

#[test]
fn a_daemon_that_is_away_is_waited_for_once_in_a_batch() {
    let node = FakeNode::new("once");
    prepared(&node.core(), &[claim("z")]);
    node.known().is_away = true;
    let asked = node.known().asked;
    let batch: Vec<_> = (0..8).map(|number| claim(&format!("a-{number}"))).collect();
    assert_eq!(refused(&node.core(), &batch).0, PrepareReason::DaemonUnreachable);
    assert_eq!(node.known().asked, asked + 1);
}

#[test]
fn a_checkpoint_that_is_lost_is_made_again_of_the_cdi_folder_and_the_daemons_list() {
    let node = FakeNode::new("lost");
    let lost = [claim("listed"), claim("filed"), claim("both")];
    prepared(&node.core(), &lost);
    let id = |uid: &str| super::super::plan::of(&claim(uid), None).unwrap()["gpu"].id.clone();
    std::fs::remove_file(node.places.cdi_file(&id("listed"))).unwrap();
    node.known().tenants.remove(&id("filed"));
    node.known().tenants.insert("train".to_owned(), NodeTenantLimits::default());
    std::fs::write(node.places.cdi.join("divvy-train.json"), "").unwrap();
    std::fs::remove_file(node.places.checkpoint()).unwrap();
    // While the daemon is away that is not whole, and no pod's end waits for it.
    node.known().is_away = true;
    unprepared(&node.core(), &["listed"]);
    node.known().is_away = false;
    assert_eq!(node.core().sweep(), Ok(0));
    assert_eq!(node.claims(), ["both", "filed"]);
    unprepared(&node.core(), &["both", "filed"]);
    assert!(node.claims().is_empty());
    // Of others nothing is touched.
    assert_eq!(Vec::from_iter(node.ids()), ["train"]);
    assert_eq!(Vec::from_iter(node.files()), ["divvy-train.json"]);
}

#[test]
fn a_checkpoint_that_is_lost_is_no_room_on_a_card() {
    for cut in [true, false] {
        let node = FakeNode::new("lost-room");
        let asks = |uid: &str, gib: u64, cores: u32| {
            let mut asks = claim(uid);
            let share = &mut asks.shares[0];
            (share.memory_bytes, share.cores_percent) = (gib << 30, cores);
            share.offer = Some(CardOffer { memory_bytes: 80 << 30, slots: 3 });
            asks
        };
        prepared(&node.core(), &[asks("forced", 40, 60)]);
        assert_eq!(refused(&node.core(), &[asks("next", 8, 60)]).0, PrepareReason::CardFull);
        let path = node.places.checkpoint();
        let text = std::fs::read_to_string(&path).unwrap();
        if cut {
            std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        } else {
            // One that an agent of the first version wrote says nothing of parts.
            let mut first: serde_json::Value = serde_json::from_str(&text).unwrap();
            first["version"] = 1.into();
            first["claims"]["forced"].as_object_mut().unwrap().remove("taken");
            std::fs::write(&path, first.to_string()).unwrap();
        }
        // Time, memory and slots count as before, by the daemon's word.
        assert_eq!(refused(&node.core(), &[asks("next", 8, 60)]).0, PrepareReason::CardFull);
        assert_eq!(refused(&node.core(), &[asks("next", 41, 1)]).0, PrepareReason::CardFull);
        prepared(&node.core(), &[asks("next", 8, 40)]);
        unprepared(&node.core(), &["forced"]);
        prepared(&node.core(), &[asks("after", 40, 60)]);
    }
}
