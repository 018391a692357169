//! The promise of host memory: never more than there is, kept once it is given, and given again once it was given back.
#![cfg(not(loom))]

use divvy_policy::residence::{HostClaim, HostPlace, HostPromise, HostShortage};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn claim(held: u64, asked: u64) -> HostClaim {
    HostClaim { held_bytes: held * GIB, asked_bytes: asked * GIB, ..HostClaim::default() }
}

fn promise<const N: usize>(capacity: u64, rooms: &[u64], claims: &mut [HostClaim; N]) -> [bool; N] {
    settle(capacity, rooms, claims);
    claims.map(|claim| claim.is_refused)
}

fn places(rooms: &[u64]) -> Vec<HostPlace> {
    rooms.iter().map(|gib| HostPlace { room_bytes: gib * GIB }).collect()
}

fn settle(capacity: u64, rooms: &[u64], claims: &mut [HostClaim]) {
    let capacity_bytes = capacity * GIB;
    HostPromise { capacity_bytes, piece_bytes: 0, places: &places(rooms) }.settle(claims);
}

#[test]
fn what_may_have_to_leave_needs_room() {
    // Where all fits the host need hold nothing.
    assert_eq!(promise(100, &[0], &mut [claim(50, 20), claim(0, 30)]), [false, false]);
    // The first that asks has what there is.
    let mut both = [claim(60, 30), claim(20, 20)];
    assert_eq!(promise(100, &[10], &mut both), [false, true]);
    assert_eq!(both.map(|c| c.promised_bytes / GIB), [90, 20]);
    let mut both = [claim(60, 30), claim(20, 20)];
    let short = HostShortage { place: 0, needed_bytes: 30 * GIB, room_bytes: 10 * GIB };
    settle(100, &[10], &mut both);
    assert_eq!(both.map(|c| c.shortage), [None, Some(short)]);
    // What is promised stays, though the host has no room any more; more is not given.
    assert_eq!(promise(100, &[0], &mut both), [false, true]);
    both[0] = HostClaim { held_bytes: 90 * GIB, asked_bytes: GIB, ..both[0] };
    assert_eq!(promise(100, &[0], &mut both), [true, true]);
    // One that ends gives its promise back, and who asks again has it.
    both[0] = HostClaim::default();
    assert_eq!(promise(100, &[0], &mut both), [false, false]);
}

#[test]
fn a_group_has_room_for_its_own() {
    let within = |claim: HostClaim, places| HostClaim { places, ..claim };
    // 30 GiB may have to leave of either; of a small one no more than it has.
    let mut three = [within(claim(60, 10), 2), within(claim(50, 0), 0), within(claim(10, 0), 4)];
    assert_eq!(promise(100, &[100, 20, 10], &mut three), [true, false, false]);
    let mut three = [within(claim(60, 10), 2), within(claim(50, 0), 0), within(claim(10, 0), 4)];
    assert_eq!(promise(100, &[100, 30, 0], &mut three), [false, false, false]);
}

#[test]
fn what_is_frozen_needs_room_for_all_of_it() {
    let frozen = HostClaim { is_frozen: true, ..claim(40, 0) };
    assert_eq!(promise(100, &[40], &mut [frozen, claim(90, 10)]), [false, false]);
    assert_eq!(
        promise(100, &[40], &mut [frozen, claim(90, 10), claim(0, 1)]),
        [false, false, true]
    );
}

#[test]
fn a_claim_counts_no_further_than_the_device() {
    let liar = HostClaim { held_bytes: u64::MAX, asked_bytes: u64::MAX, ..HostClaim::default() };
    let mut both = [liar, claim(0, 50)];
    assert_eq!(promise(100, &[50], &mut both), [true, false]);
    assert_eq!(both[0].promised_bytes, 100 * GIB);
}

fn any_claim(capacity: u64) -> impl Strategy<Value = HostClaim> {
    let bytes = move || prop_oneof![8 => 0..=capacity, 1 => any::<u64>()];
    (bytes(), bytes(), prop::bool::weighted(0.1), 0_u64..8).prop_map(
        |(held_bytes, asked_bytes, is_frozen, places)| HostClaim {
            held_bytes,
            asked_bytes: if is_frozen { 0 } else { asked_bytes },
            is_frozen,
            places,
            ..HostClaim::default()
        },
    )
}

const CAPACITY: u64 = 1_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is claimed and however the host's room changes: an admission never makes a place owe more than it has,
    /// what was promised is not refused, and nothing is refused without need.
    #[test]
    fn no_more_is_promised_than_there_is(
        piece_bytes in 0_u64..200,
        steps in prop::collection::vec(
            (prop::collection::vec(any_claim(CAPACITY), 6), [0..3_000_u64, 0..3_000, 0..3_000], 1..=CAPACITY),
            1..20,
        ),
    ) {
        let mut claims = vec![HostClaim::default(); 6];
        for (news, rooms, capacity_bytes) in steps {
            for (claim, new) in claims.iter_mut().zip(news) {
                *claim = HostClaim { promised_bytes: claim.promised_bytes, ..new };
            }
            let places = rooms.map(|room_bytes| HostPlace { room_bytes });
            let promise = HostPromise { capacity_bytes, piece_bytes, places: &places };
            // Without anything new.
            let stood: Vec<_> = claims
                .iter()
                .map(|c| {
                    let held_bytes = c.held_bytes.min(c.promised_bytes.max(capacity_bytes));
                    let kept_bytes = c.promised_bytes.min(held_bytes.saturating_add(c.asked_bytes));
                    HostClaim { promised_bytes: held_bytes.max(kept_bytes), ..*c }
                })
                .collect();
            promise.settle(&mut claims);
            for (place, HostPlace { room_bytes }) in places.iter().enumerate() {
                let needed = promise.needed_bytes(place, &claims);
                let stands = promise.needed_bytes(place, &stood);
                prop_assert!(needed <= stands.max(*room_bytes), "{needed} of {room_bytes}, {stands} before");
            }
            for row in 0..claims.len() {
                let (claim, before) = (claims[row], stood[row]);
                let all_bytes = claim.held_bytes.saturating_add(claim.asked_bytes);
                prop_assert!(claim.promised_bytes >= before.promised_bytes, "taken back");
                prop_assert!(!claim.is_refused || claim.promised_bytes < all_bytes);
                prop_assert!(claim.is_refused || claim.asked_bytes == 0 || claim.promised_bytes == all_bytes);
                if claim.is_refused && all_bytes <= capacity_bytes {
                    let mut with = claims.clone();
                    with[row].promised_bytes = all_bytes;
                    let is_short = |place: usize| {
                        promise.needed_bytes(place, &with) > places[place].room_bytes
                    };
                    prop_assert!((0..places.len()).any(is_short), "refused without need");
                }
            }
        }
    }

    /// Nobody is kept out by promises that were given back: what fits the device is given once the others have gone.
    #[test]
    fn who_asks_again_is_served(
        mut claims in prop::collection::vec(any_claim(CAPACITY), 6),
        asked_bytes in 1..=CAPACITY,
        piece_bytes in 0_u64..200,
    ) {
        let places = [HostPlace::default(); 3];
        let promise = HostPromise { capacity_bytes: CAPACITY, piece_bytes, places: &places };
        promise.settle(&mut claims);
        for claim in &mut claims[1..] {
            *claim = HostClaim::default();
        }
        claims[0] = HostClaim { asked_bytes, held_bytes: 0, is_frozen: false, ..claims[0] };
        promise.settle(&mut claims);
        prop_assert!(!claims[0].is_refused);
    }
}
