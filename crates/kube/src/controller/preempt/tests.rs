//! The decision against all decisions that there are, on small clusters; and objects of the API as what is decided on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decide::*;
use super::read;
use crate::claim::Ask;
use crate::driver::DRIVER;
use crate::offers::{AllowedAmounts, Amounts, Card, CardCapacity, CardLoad};
use crate::yaml;

fn amounts(memory: u64, cores: u64) -> Amounts {
    Amounts::from([("memory".to_owned(), memory), ("cores".to_owned(), cores)])
}

fn card(node: usize, number: usize) -> Card {
    let capacity = |value| CardCapacity { value, default: value, allowed: AllowedAmounts::Any };
    Card {
        node: format!("n{node}"),
        pool: format!("n{node}"),
        device: format!("gpu-{number}"),
        product: None,
        is_shared: true,
        capacities: BTreeMap::from([
            ("memory".to_owned(), capacity(8)),
            ("cores".to_owned(), capacity(10)),
        ]),
    }
}

fn holding(number: usize, node: &str, priority: i32, is_ending: bool) -> HoldingPod {
    let uid = format!("uid-{number}");
    HoldingPod {
        key: PodKey { namespace: "team".to_owned(), name: format!("pod-{number}"), uid },
        node: node.to_owned(),
        priority,
        created_s: i64::try_from(number * 7 % 5).unwrap(),
        is_ending,
    }
}

/// A cluster of full cards: each share is taken where it fits.
fn cluster(cards: &[usize], pods: &[(usize, u64, u64, i32, bool, bool)]) -> ClusterShares {
    let mut made = ClusterShares::default();
    for (node, count) in cards.iter().enumerate() {
        made.cards.extend((0..*count).map(|number| card(node, number)));
    }
    let mut loads = vec![CardLoad::default(); made.cards.len()];
    for (number, (at, memory, cores, priority, is_ending, is_stuck)) in pods.iter().enumerate() {
        let card = at % made.cards.len();
        let amounts = amounts(*memory, *cores);
        if !made.cards[card].has_room(&loads[card], &amounts) {
            continue;
        }
        loads[card].add(&amounts);
        let node = made.cards[card].node.clone();
        let holders = if *is_stuck { Vec::new() } else { vec![made.pods.len()] };
        made.pods.push(holding(number, &node, *priority, *is_ending));
        made.shares.push(HeldShare { card, holders, amounts });
    }
    made
}

/// Whether all wants have places on the node's cards when these are gone: every way is tried, by other code than the decision's.
fn fits(shares: &ClusterShares, node: &str, wants: &[WantedShare], gone: &BTreeSet<usize>) -> bool {
    let cards: Vec<usize> =
        (0..shares.cards.len()).filter(|at| shares.cards[*at].node == node).collect();
    if cards.is_empty() {
        return wants.is_empty();
    }
    let ways = cards.len().pow(u32::try_from(wants.len()).unwrap());
    (0..ways).any(|way| {
        let chosen: Vec<usize> = (0..wants.len())
            .map(|at| cards[way / cards.len().pow(u32::try_from(at).unwrap()) % cards.len()])
            .collect();
        let apart = wants.iter().enumerate().all(|(a, one)| {
            wants.iter().enumerate().all(|(b, two)| {
                a == b || one.apart.is_none() || one.apart != two.apart || chosen[a] != chosen[b]
            })
        });
        apart
            && cards.iter().all(|card| {
                let is_gone = |at: &usize| gone.contains(at) || shares.pods[*at].is_ending;
                let held = shares.shares.iter().filter(|share| share.card == *card);
                let held =
                    held.filter(|it| it.holders.is_empty() || !it.holders.iter().all(is_gone));
                let asked = wants
                    .iter()
                    .zip(&chosen)
                    .filter(|(_, at)| *at == card)
                    .map(|(want, _)| &want.amounts);
                let all: Vec<&Amounts> = held.map(|share| &share.amounts).chain(asked).collect();
                let sum = |name: &str| {
                    all.iter()
                        .map(|amounts| {
                            amounts.get(name).copied().unwrap_or(if name == "memory" {
                                8
                            } else {
                                10
                            })
                        })
                        .sum::<u64>()
                };
                sum("memory") <= 8 && sum("cores") <= 10
            })
    })
}

fn eligible(
    shares: &ClusterShares,
    node: &str,
    priority: i32,
    spared: &BTreeSet<String>,
) -> Vec<usize> {
    let may = |at: &usize| {
        let pod = &shares.pods[*at];
        let holds = shares.shares.iter().any(|share| share.holders.contains(at));
        holds
            && pod.node == node
            && pod.priority < priority
            && !pod.is_ending
            && !spared.contains(&pod.key.uid)
    };
    (0..shares.pods.len()).filter(may).collect()
}

fn dearest(shares: &ClusterShares, victims: &[usize]) -> i32 {
    victims.iter().map(|at| shares.pods[*at].priority).max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Compared with every set of victims of every node.
    #[test]
    fn the_decision_is_the_best_there_is(
        cards in proptest::collection::vec(1..3_usize, 1..3),
        pods in proptest::collection::vec(
            (0..4_usize, 1..6_u64, 0..6_u64, -2..3_i32, prop::bool::weighted(0.1), prop::bool::weighted(0.1)), 0..10),
        wants in proptest::collection::vec((1..9_u64, 0..11_u64, any::<bool>(), prop::bool::weighted(0.1)), 1..4),
        priority in -1..4_i32,
        spared in proptest::collection::btree_set(0..10_usize, 0..3),
        shut in any::<bool>(),
    ) {
        let shares = cluster(&cards, &pods);
        let want = |(memory, cores, apart, is_whole): &(u64, u64, bool, bool)| WantedShare {
            amounts: if *is_whole { Amounts::new() } else { amounts(*memory, *cores) },
            apart: apart.then_some(0),
        };
        let wants: Vec<_> = wants.iter().map(want).collect();
        let nodes: BTreeSet<String> =
            (usize::from(shut)..cards.len()).map(|node| format!("n{node}")).collect();
        let spared: BTreeSet<String> = spared.iter().map(|number| format!("uid-{number}")).collect();
        let wish = PodWish { priority, wants: wants.clone(), nodes: nodes.clone() };
        let decided = decide(&shares, &wish, &[], &spared);

        let fits_already = nodes.iter().any(|node| fits(&shares, node, &wants, &BTreeSet::new()));
        let mut best: Option<(i32, usize)> = None;
        for node in &nodes {
            let may = eligible(&shares, node, priority, &spared);
            for set in 1..1_usize << may.len() {
                let victims: Vec<usize> =
                    may.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1).map(|(_, at)| *at).collect();
                let cost = (dearest(&shares, &victims), victims.len());
                if best.is_none_or(|known| cost < known)
                    && fits(&shares, node, &wants, &victims.iter().copied().collect())
                {
                    best = Some(cost);
                }
            }
        }
        match decided {
            Preemption::Fits => prop_assert!(fits_already),
            Preemption::Nothing => prop_assert!(!fits_already && best.is_none(), "{best:?}"),
            Preemption::Evict { node, victims } => {
                prop_assert!(!fits_already && nodes.contains(&node));
                let may = eligible(&shares, &node, priority, &spared);
                prop_assert!(victims.iter().all(|at| may.contains(at)), "{victims:?} of {may:?}");
                let gone: BTreeSet<usize> = victims.iter().copied().collect();
                prop_assert_eq!(gone.len(), victims.len());
                prop_assert!(fits(&shares, &node, &wants, &gone), "it would not fit");
                for at in &victims {
                    let mut less = gone.clone();
                    less.remove(at);
                    prop_assert!(!fits(&shares, &node, &wants, &less), "{at} is needless");
                }
                let (level, count) = best.unwrap();
                prop_assert_eq!(dearest(&shares, &victims), level);
                prop_assert!(victims.len() == count || count > MOST_TRIED, "{} for {count}", victims.len());
                // Once they are ending, nobody else is asked to go.
                let mut later = shares.clone();
                victims.iter().for_each(|at| later.pods[*at].is_ending = true);
                prop_assert_eq!(decide(&later, &wish, &[], &spared), Preemption::Fits);
            }
        }
    }

    /// Room that was made for another is not given away to one of no higher priority, nor asked back from its own.
    #[test]
    fn room_that_is_kept_stays(
        pods in proptest::collection::vec((0..2_usize, 1..6_u64, 0..6_u64, 0..3_i32, any::<bool>(), Just(false)), 0..8),
        memory in 1..9_u64, other in 1..9_u64, priority in 1..5_i32, other_priority in 1..5_i32,
    ) {
        let shares = cluster(&[2], &pods);
        let wants = |memory| vec![WantedShare { amounts: amounts(memory, 1), apart: None }];
        let kept = KeptRoom { node: "n0".to_owned(), priority: other_priority, wants: wants(other) };
        let wish = PodWish { priority, wants: wants(memory), nodes: BTreeSet::from(["n0".to_owned()]) };
        let spared = BTreeSet::new();
        let with = decide(&shares, &wish, std::slice::from_ref(&kept), &spared);
        if priority > other_priority {
            prop_assert_eq!(with, decide(&shares, &wish, &[], &spared));
            return Ok(());
        }
        let both = [wants(other), wants(memory)].concat();
        let gone = match with {
            Preemption::Nothing => return Ok(()),
            Preemption::Fits => BTreeSet::new(),
            Preemption::Evict { victims, .. } => victims.into_iter().collect(),
        };
        prop_assert!(fits(&shares, "n0", &both, &gone));
    }
}

#[test]
fn many_victims_are_none_too_many() {
    let pods: Vec<_> = (0..8).map(|_| (0, 1, 1, 0, false, false)).collect();
    let shares = cluster(&[1], &pods);
    let want = WantedShare { amounts: amounts(6, 6), apart: None };
    let wish = PodWish { priority: 1, wants: vec![want], nodes: BTreeSet::from(["n0".to_owned()]) };
    let Preemption::Evict { victims, .. } = decide(&shares, &wish, &[], &BTreeSet::new()) else {
        panic!("nobody goes")
    };
    assert_eq!(victims.len(), 6);
}

#[test]
fn the_youngest_of_equals_goes() {
    let shares = cluster(&[1], &[(0, 4, 1, 0, false, false), (0, 4, 1, 0, false, false)]);
    let want = WantedShare { amounts: amounts(4, 1), apart: None };
    let wish = PodWish { priority: 1, wants: vec![want], nodes: BTreeSet::from(["n0".to_owned()]) };
    let victims = match decide(&shares, &wish, &[], &BTreeSet::new()) {
        Preemption::Evict { victims, .. } => victims,
        other => panic!("{other:?}"),
    };
    assert_eq!(victims, [1], "created at 2, the other at 0");
}

fn slice(generation: i64, count: i64, device: Value) -> ResourceSlice {
    serde_json::from_value(json!({ "metadata": {}, "spec": {
        "driver": DRIVER, "nodeName": "n1", "devices": [device],
        "pool": { "name": "n1", "generation": generation, "resourceSliceCount": count } } }))
    .unwrap()
}

fn device() -> Value {
    json!({ "name": "gpu-0", "allowMultipleAllocations": true, "capacity": {
        "memory": { "value": "80Gi", "requestPolicy": {
            "default": "80Gi", "validRange": { "min": "64Mi", "step": "1Mi", "max": "80Gi" } } },
        "slots": { "value": "16", "requestPolicy": { "default": "1", "validValues": ["1"] } } } })
}

fn claim(name: &str, spec: &Value, status: &Value) -> ResourceClaim {
    let metadata = json!({ "namespace": "team", "name": name });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
}

#[test]
fn objects_are_read_for_the_worse() {
    let odd = |key: &str, value: Value| {
        let mut odd = device();
        odd[key] = value;
        odd
    };
    for (what, slices, count) in [
        ("a card", vec![slice(1, 1, device())], 1),
        (
            "an older generation",
            vec![slice(1, 1, device()), slice(2, 1, odd("name", json!("gpu-1")))],
            1,
        ),
        ("a part of a pool", vec![slice(1, 2, device())], 0),
        (
            "a tainted one",
            vec![slice(1, 1, odd("taints", json!([{ "key": "a", "effect": "NoSchedule" }])))],
            0,
        ),
        (
            "no amount",
            vec![slice(1, 1, odd("capacity", json!({ "memory": { "value": "1.5" } })))],
            0,
        ),
    ] {
        assert_eq!(read::cluster_shares(&slices, &[], Vec::new()).cards.len(), count, "{what}");
    }

    let result = json!({ "request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0",
        "consumedCapacity": { "memory": "8Gi", "slots": "1" } });
    let reserved = |consumers: Value| json!({ "allocation": { "devices": { "results": [result] } }, "reservedFor": consumers });
    let consumer =
        |resource: &str, uid: &str| json!({ "resource": resource, "name": "p", "uid": uid });
    let pods = vec![holding(0, "n1", 0, false)];
    for (what, consumers, holders) in [
        ("its pod", json!([consumer("pods", "uid-0")]), vec![0]),
        ("one that has ended", json!([consumer("pods", "uid-9")]), vec![usize::MAX]),
        ("two", json!([consumer("pods", "uid-0"), consumer("pods", "uid-9")]), vec![0, usize::MAX]),
        ("something else", json!([consumer("pods", "uid-0"), consumer("jobs", "uid-1")]), vec![]),
        ("nobody", json!([]), vec![]),
    ] {
        let claims = [claim("c", &json!({}), &reserved(consumers))];
        let read = read::cluster_shares(&[slice(1, 1, device())], &claims, pods.clone());
        assert_eq!(read.shares.len(), 1, "{what}");
        assert_eq!(read.shares[0].holders, holders, "{what}");
        assert_eq!(read.shares[0].amounts["memory"], 8 << 30, "{what}");
    }
}

#[test]
fn wishes_are_those_that_templates_make() {
    let spec = |name: &str| {
        yaml::json(&Ask::of_name(name).unwrap().template("team"))["spec"]["spec"].clone()
    };
    let pod = |claims: &[&str]| -> Pod {
        let claims = claims.iter().map(|name| json!({ "name": name, "resourceClaimName": name }));
        let spec = json!({ "containers": [], "resourceClaims": claims.collect::<Vec<_>>() });
        serde_json::from_value(
            json!({ "metadata": { "namespace": "team", "name": "p", "uid": "u" }, "spec": spec }),
        )
        .unwrap()
    };
    let wants = |names: &[&str], claims: &[ResourceClaim]| {
        let known: BTreeMap<(&str, &str), &ResourceClaim> = claims
            .iter()
            .map(|claim| (("team", claim.metadata.name.as_deref().unwrap()), claim))
            .collect();
        read::wants(&pod(names), &known, &|class| class == DRIVER)
    };
    let one = |spec: Value| wants(&["c"], &[claim("c", &spec, &json!({}))]);
    let two = one(spec("gpu-2x-8192mi-30c")).unwrap();
    let each = WantedShare {
        amounts: Amounts::from([("memory".to_owned(), 8 << 30), ("cores".to_owned(), 30)]),
        apart: Some(0),
    };
    assert_eq!(two, [each.clone(), each.clone()]);
    assert_eq!(
        one(spec("gpu-whole")).unwrap(),
        [WantedShare { amounts: Amounts::new(), apart: None }]
    );
    let both = [
        claim("a", &spec("gpu-2x-8192mi-30c"), &json!({})),
        claim("b", &spec("gpu-2x-8192mi-30c"), &json!({})),
    ];
    let groups: Vec<_> = wants(&["a", "b"], &both).unwrap().iter().map(|want| want.apart).collect();
    assert_eq!(groups, [Some(0), Some(0), Some(1), Some(1)], "apart within a claim");

    let changed = |pointer: &str, value: Value| {
        let mut spec = spec("gpu-8192mi-30c");
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[key] = value;
        spec
    };
    let exactly = "/devices/requests/0/exactly";
    let other = json!({ "devices": { "requests": [{ "name": "nic", "exactly": { "deviceClassName": "nic" } }] } });
    assert_eq!(one(other.clone()), Ok(Vec::new()), "nothing of ours");
    for (why, part) in [
        (
            one(changed(
                &format!("{exactly}/selectors"),
                json!([{ "cel": { "expression": "true" } }]),
            )),
            "selects",
        ),
        (one(changed(&format!("{exactly}/allocationMode"), json!("All"))), "selects"),
        (one(changed(&format!("{exactly}/adminAccess"), json!(true))), "selects"),
        (one(changed("/devices/constraints", json!([{ "matchAttribute": "a/b" }]))), "constrains"),
        (
            one(changed(
                &format!("{exactly}/capacity"),
                json!({ "requests": { "memory": "1.5" } }),
            )),
            "1.5",
        ),
        (
            one(json!({ "devices": { "requests": [{ "name": "gpu", "firstAvailable": [
            { "name": "a", "deviceClassName": DRIVER }] }] } })),
            "alternatives",
        ),
        (wants(&["c"], &[]), "not there"),
        (wants(&["c"], &[claim("c", &spec("gpu-8mi"), &json!({ "allocation": {} }))]), "allocated"),
        (
            wants(
                &["c", "d"],
                &[claim("c", &spec("gpu-8mi"), &json!({})), claim("d", &other, &json!({}))],
            ),
            "nic",
        ),
        (
            wants(
                &["c", "d"],
                &[
                    claim("c", &spec("gpu-32x-8mi"), &json!({})),
                    claim("d", &spec("gpu-8mi"), &json!({})),
                ],
            ),
            "33",
        ),
    ] {
        assert!(why.as_ref().unwrap_err().contains(part), "{why:?}");
    }
}
