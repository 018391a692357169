//! Claims that have another size than they have claimed: it holds from there on, whatever is killed or asked again.

use super::super::{ClaimSize, PrepareReason, ResizeFailure, plan};
use super::*;

const SMALL: u64 = 2 << 30;

fn size(memory_bytes: u64, cores_percent: u32) -> ClaimSize {
    let (memory_bytes, cores_percent) = (Some(memory_bytes), Some(cores_percent));
    ClaimSize { memory_bytes, cores_percent, ..ClaimSize::default() }
}

/// Asserts that the claim has limits by this size, and no others.
#[track_caller]
fn assert_size(node: &FakeNode, claim: &AllocatedClaim, size: Option<&ClaimSize>) {
    for tenant in plan::of(claim, size).unwrap().values() {
        assert_eq!(node.known().tenants[&tenant.id], tenant.limits);
    }
}

fn sizes(core: &FakeCore) -> Vec<Option<ClaimSize>> {
    core.held().unwrap().into_iter().map(|held| held.size).collect()
}

#[test]
fn a_size_is_the_tenants_and_survives_whatever_makes_it_again() {
    let (node, claim, small) = (FakeNode::new("size"), claim("a"), size(SMALL, 10));
    prepared(&node.core(), std::slice::from_ref(&claim));
    node.known().held_bytes = 3 << 30;
    let resized = node.core().resize(&claim, Some(&small)).unwrap();
    assert_eq!((resized.memory_bytes, resized.cores_percent), (Some(SMALL), Some(10)));
    assert!(resized.held[0].contains("3Gi of GPU-0101"), "{:?}", resized.held);
    assert_size(&node, &claim, Some(&small));
    let limits = node.known().tenants.values().next().unwrap().clone();
    assert_eq!((limits.devices[0].share_ppm, limits.weight), (100_000, 10));
    // A kubelet that was restarted, a reboot's folder, a daemon that has lost its tenants.
    prepared(&node.core(), std::slice::from_ref(&claim));
    assert_size(&node, &claim, Some(&small));
    std::fs::remove_dir_all(&node.places.cdi).unwrap();
    node.known().tenants.clear();
    prepared(&node.core(), std::slice::from_ref(&claim));
    assert_size(&node, &claim, Some(&small));
    assert_eq!(sizes(&node.core()), [Some(small)]);
    // Larger again; then what is claimed, which the tenant was made with.
    let larger = size(8 << 30, 30);
    node.core().resize(&claim, Some(&larger)).unwrap();
    assert_size(&node, &claim, Some(&larger));
    let resized = node.core().resize(&claim, None).unwrap();
    assert_eq!((resized.memory_bytes, resized.held), (Some(8 << 30), Vec::new()));
    node.assert_holds(&[&claim]);
    assert_eq!(sizes(&node.core()), [None]);
    unprepared(&node.core(), &["a"]);
    assert_eq!(node.core().held(), Ok(Vec::new()));
}

#[test]
fn what_does_not_fit_or_is_not_here_changes_nothing() {
    let (node, claim) = (FakeNode::new("sizes"), claim("a"));
    let elsewhere = node.core().resize(&claim, Some(&size(SMALL, 1)));
    let Err(ResizeFailure::Failed(error)) = elsewhere else { panic!("{elsewhere:?}") };
    assert_eq!(error.reason, PrepareReason::ClaimChanged);
    prepared(&node.core(), std::slice::from_ref(&claim));
    for bad in [size(SMALL, 31), size(9 << 30, 30), size(1, 30), size(SMALL, 0)] {
        let refused = node.core().resize(&claim, Some(&bad));
        assert!(matches!(refused, Err(ResizeFailure::Refused(_))), "{refused:?}");
    }
    node.assert_holds(&[&claim]);
    // Another allocation of the claim is another tenant, which is not here before it is prepared.
    let mut other = claim.clone();
    other.shares[0].share_id = Some("other".to_owned());
    assert!(matches!(
        node.core().resize(&other, Some(&size(SMALL, 1))),
        Err(ResizeFailure::Failed(_))
    ));
    // And where it has claimed less than the size, it has what it claims.
    node.core().resize(&claim, Some(&size(SMALL, 20))).unwrap();
    other.shares[0].cores_percent = 10;
    prepared(&node.core(), std::slice::from_ref(&other));
    node.assert_holds(&[&other]);
}

#[test]
fn cores_above_the_claim_are_a_cap_and_no_weight() {
    let (node, claim) = (FakeNode::new("above"), claim("a"));
    prepared(&node.core(), std::slice::from_ref(&claim));
    let above = ClaimSize { above: true, memory_bytes: None, ..size(0, 100) };
    assert_eq!(node.core().resize(&claim, Some(&above)).unwrap().cores_percent, Some(100));
    let limits = node.known().tenants.values().next().unwrap().clone();
    assert_eq!((limits.devices[0].share_ppm, limits.weight), (1_000_000, 30));
}

#[test]
fn an_instance_that_is_killed_anywhere_leaves_the_size_or_the_one_before() {
    let (small, smaller) = (size(SMALL, 10), size(SMALL / 2, 5));
    for (before, after) in
        [(None, Some(&small)), (Some(&small), None), (Some(&small), Some(&smaller))]
    {
        for effects in 0.. {
            let (node, claim) = (FakeNode::new("killed"), claim("a"));
            prepared(&node.core(), std::slice::from_ref(&claim));
            node.core().resize(&claim, before).unwrap();
            let life = Life::of(effects);
            let _ = node.living(&life).resize(&claim, after);
            // The checkpoint's word is what comes of it, when the claim is prepared again or the wish is heard again.
            let said = sizes(&node.core()).remove(0);
            assert!([before, after].contains(&said.as_ref()), "{said:?}");
            prepared(&node.core(), std::slice::from_ref(&claim));
            if said.is_some() {
                assert_size(&node, &claim, said.as_ref());
            }
            node.core().resize(&claim, after).unwrap();
            assert_size(&node, &claim, after);
            assert_eq!(sizes(&node.core()), [after.cloned()]);
            if !life.is_over() {
                assert!(effects >= 3, "{effects}");
                break;
            }
        }
    }
}

#[test]
fn on_a_node_that_sells_beyond_its_cards_all_memory_may_leave() {
    let (node, claim) = (FakeNode::new("beyond"), claim("a"));
    let leaves = || node.known().tenants.values().all(|limits| limits.oversubscribe);
    let beyond = || node.core().sold_beyond(true);
    prepared(&beyond(), std::slice::from_ref(&claim));
    assert!(leaves());
    beyond().resize(&claim, Some(&size(SMALL, 10))).unwrap();
    assert!(leaves());
    // An agent that was told otherwise: what is there stays as it was made, with the limits that are asked for.
    prepared(&node.core(), std::slice::from_ref(&claim));
    node.core().resize(&claim, Some(&size(SMALL, 20))).unwrap();
    assert!(leaves());
    assert_eq!(node.known().tenants.values().next().unwrap().weight, 20);
    unprepared(&node.core(), &["a"]);
    prepared(&node.core(), std::slice::from_ref(&claim));
    assert!(!leaves());
    prepared(&beyond(), &[claim]);
    assert!(!leaves());
}
