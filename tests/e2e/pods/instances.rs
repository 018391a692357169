//! Instances of a partitioned card (MIG): the daemon tells of them, and a claim's limit in bytes holds on the instance that
//! it has, beside claims on it and on another.

use serde_json::{Value, json};

use super::node::{CARD, Node, claim};
use super::{begun, says};
use crate::harness::{Machine, Talk, finish, podman_works};

const SMALL: &str = "MIG-513d9a0b-7e42-4c11-9f20-d177e5000100";
const LARGE: &str = "MIG-513d9a0b-7e42-4c11-9f20-d177e5000200";

fn node() -> Node {
    let machine = Machine::new().native();
    let machine = machine.with("SIMGPU_MEMORY", "64GiB").with("SIMGPU_MIG_0", "1g.8gb,3g.32gb");
    let node = Node::on(machine);
    [SMALL, LARGE].into_iter().for_each(|uuid| node.describe_card(uuid));
    node
}

/// A program in a pod with a claim on an instance.
fn on(node: &Node, uid: &str, gib: u64, instance: &str) -> Talk {
    let mut claim = claim(uid, gib);
    claim.shares[0].gpu_uuid = instance.to_owned();
    begun(node, &node.prepare(&claim))
}

#[test]
fn the_daemon_tells_of_instances_and_their_part_of_the_card() {
    let node = node();
    let told = node.divvy(&["tenant", "cards", "--json"]).expect("the daemon answers");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let [card] = &told["cards"].as_array().expect("cards")[..] else { panic!("{told}") };
    let instance = |uuid: &str, profile: &str, gib: u64| json!({ "uuid": uuid, "profile": profile, "memory_bytes": gib << 30 });
    assert_eq!((&card["uuid"], &card["mig"]), (&json!(CARD), &json!(true)));
    let expected = [instance(SMALL, "1g.8gb", 8), instance(LARGE, "3g.32gb", 32)];
    assert_eq!(card["instances"], json!(expected));
}

#[test]
fn limits_hold_on_instances_beside_each_other() {
    if !podman_works("limits_hold_on_instances_beside_each_other") {
        return;
    }
    let node = node();
    let mut first = on(&node, "first", 4, SMALL);
    let mut beside = on(&node, "beside", 3, SMALL);
    let mut other = on(&node, "other", 20, LARGE);
    for (program, limit) in [(&mut first, 4096), (&mut beside, 3072), (&mut other, 20480)] {
        says(program, "total", &format!("total {limit}"));
        let most = limit - 600;
        says(program, &format!("alloc {most}"), "alloc 0");
        says(program, "alloc 100", "alloc 2");
    }
    first.ends_well();
    beside.ends_well();
    other.ends_well();
    // A tenant has memory of its instance alone: on another it gets nothing.
    let devices = node.prepare(&{
        let mut claim = claim("elsewhere", 4);
        claim.shares[0].gpu_uuid = SMALL.to_owned();
        claim
    });
    let line = format!("CUDA_VISIBLE_DEVICES={LARGE} exec /program obeys");
    let told = finish(&mut node.container(&devices).runs(&line));
    assert!(!told.out.contains("ready"), "{told}");
}
