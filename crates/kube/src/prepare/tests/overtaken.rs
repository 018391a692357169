//! Calls that were told something before another instance changed the node: they do nothing.

use super::super::PrepareReason;
use super::*;

#[track_caller]
fn reasons(answers: Vec<super::super::PreparedClaim>) -> Vec<Option<PrepareReason>> {
    answers.into_iter().map(|answer| answer.result.err().map(|error| error.reason)).collect()
}

#[test]
fn a_call_from_before_anothers_change_does_nothing() {
    let node = FakeNode::new("overtaken");
    let (old, new) = (node.core(), node.core());
    let (mine, other) = (claim("a"), claim("b"));
    prepared(&old, std::slice::from_ref(&mine));
    // Changes by an instance itself overtake none of its calls.
    let since = old.mark();
    prepared(&old, &[claim("c")]);
    assert_eq!(reasons(old.prepare_since(&[claim("d")], since)), [None]);
    unprepared(&old, &["c", "d"]);

    let since = old.mark();
    prepared(&new, std::slice::from_ref(&other));
    unprepared(&new, &["a"]);
    let overtaken = Some(PrepareReason::Overtaken);
    assert_eq!(reasons(old.prepare_since(std::slice::from_ref(&mine), since)), [overtaken]);
    let uids = ["b".to_owned()];
    let back = old.unprepare_since(&uids, since).remove(0).result.unwrap_err();
    assert_eq!(back.reason, PrepareReason::Overtaken);
    let held = old.held().unwrap();
    assert_eq!(old.unprepare_idle(&held, since), []);
    node.assert_holds(&[&other]);
    // Also by a change of its own behind the other's.
    prepared(&old, &[claim("c")]);
    assert_eq!(reasons(old.prepare_since(std::slice::from_ref(&mine), since)), [overtaken]);
    unprepared(&old, &["c"]);
    node.assert_holds(&[&other]);
    // Asked again.
    prepared(&old, std::slice::from_ref(&mine));
    node.assert_holds(&[&mine, &other]);
}

#[test]
fn a_checkpoint_that_was_lost_holds_nobody_up() {
    let node = FakeNode::new("overtaken-lost");
    let (old, new) = (node.core(), node.core());
    for uid in ["a", "b", "c"] {
        prepared(&new, &[claim(uid)]);
    }
    prepared(&old, &[claim("d")]);
    std::fs::remove_file(node.places.checkpoint()).unwrap();
    for core in [&old, &new, &old] {
        prepared(core, &[claim("a")]);
    }
    unprepared(&old, &["a", "b", "c", "d"]);
    node.assert_holds(&[]);
}
