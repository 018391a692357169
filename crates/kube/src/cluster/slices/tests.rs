//! Pools and decisions: the shape of a slice, and properties over pools, wipes and edits.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use proptest::prelude::*;
use serde_json::json;

use super::decide::{DecidedSet, SliceWrite, WriteVerb, decide};
use super::pool::{MOST_DEVICES, NodePool};
use super::same::{drops_shares, is_same};
use crate::cards::{BookedDevice, CardBook, CardHealth, CardTerms, DeviceKind, name_of};
use crate::cluster::verdict::NodeVerdict;
use crate::driver::DRIVER;

fn good() -> NodeVerdict {
    NodeVerdict { refusal: None, ..NodeVerdict::default() }
}

fn card(uuid: &str) -> BookedDevice {
    BookedDevice {
        name: name_of(uuid).unwrap(),
        uuid: uuid.to_owned(),
        product: "NVIDIA H200".to_owned(),
        memory_bytes: (140 << 30) + 4711,
        capability: Some("9.0".to_owned()),
        architecture: Some("Hopper".to_owned()),
        pcie_root: Some("pci0000:17".to_owned()),
        numa_node: Some(0),
        kind: DeviceKind::Card,
        health: CardHealth::Healthy,
        message: String::new(),
    }
}

fn book(devices: &[BookedDevice]) -> CardBook {
    let driver = Some("580.159.04".to_owned());
    CardBook { devices: devices.to_vec(), driver, is_known: true, ..CardBook::default() }
}

fn pool(devices: &[BookedDevice]) -> NodePool {
    NodePool::of("n1", "u-1", &book(devices), &good(), CardTerms::default())
}

#[test]
fn a_card_is_a_device_that_claims_share() {
    let slice = pool(&[card("GPU-0A")]).slice(0, 3).unwrap();
    let expected = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": { "name": "n1-gpu.divvy.dev-0", "ownerReferences": [
            { "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u-1", "controller": true }] },
        "spec": { "driver": "gpu.divvy.dev", "nodeName": "n1",
            "pool": { "name": "n1", "generation": 3, "resourceSliceCount": 1 },
            "devices": [{ "name": "gpu-0a", "allowMultipleAllocations": true,
                "attributes": {
                    "uuid": { "string": "GPU-0A" }, "type": { "string": "gpu" },
                    "productName": { "string": "NVIDIA H200" }, "architecture": { "string": "Hopper" },
                    "cudaComputeCapability": { "version": "9.0.0" }, "driverVersion": { "version": "580.159.4" },
                    "resource.kubernetes.io/pcieRoot": { "string": "pci0000:17" },
                    "resource.kubernetes.io/numaNode": { "int": 0 }, "memoryPercent": { "int": 100 } },
                "capacity": {
                    "memory": { "value": "140Gi", "requestPolicy": { "default": "140Gi",
                        "validRange": { "min": "64Mi", "max": "140Gi" } } },
                    "cores": { "value": "100", "requestPolicy": { "default": "100",
                        "validRange": { "min": "1", "max": "100" } } },
                    "slots": { "value": "16", "requestPolicy": { "default": "1", "validValues": ["1"] } } } }] } });
    assert_eq!(serde_json::to_value(&slice).unwrap(), expected);
}

#[test]
fn an_instance_is_shared_as_a_card_is() {
    let parent = "GPU-0b".to_owned();
    let kind = DeviceKind::Instance { parent: parent.clone(), profile: Some("1g.18gb".to_owned()) };
    let instance = BookedDevice { kind, memory_bytes: (16 << 30) + 1, ..card("MIG-1") };
    let slice = pool(std::slice::from_ref(&instance)).slice(0, 1).unwrap();
    let device = serde_json::to_value(&slice.spec.devices.unwrap()[0]).unwrap();
    assert_eq!(device["allowMultipleAllocations"], true);
    let value = |name: &str| device["capacity"][name]["value"].as_str().unwrap().to_owned();
    assert_eq!(["memory", "cores", "slots"].map(value), ["16Gi", "100", "16"]);
    assert_eq!(device["attributes"]["type"], json!({ "string": "mig" }));
    assert_eq!(device["attributes"]["profile"], json!({ "string": "1g.18gb" }));
    assert_eq!(device["attributes"]["parentUUID"], json!({ "string": "GPU-0b" }));
    // Where another driver sells the card, its instances are sold with it.
    let sold = BTreeMap::from([(parent.to_ascii_lowercase(), "gpu.nvidia.com".to_owned())]);
    let verdict = NodeVerdict { sold, ..good() };
    assert_eq!(
        NodePool::of("n1", "u", &book(&[instance]), &verdict, CardTerms::default()).count(),
        0
    );
}

#[test]
fn a_card_is_sold_beyond_its_memory_and_a_claim_has_no_more_than_the_card() {
    let sold = |memory_percent| {
        let terms = CardTerms { memory_percent, ..CardTerms::default() };
        let odd = BookedDevice { memory_bytes: (81 << 20) + 1, ..card("GPU-1") };
        let pool = NodePool::of("n1", "u", &book(&[odd]), &good(), terms);
        let devices = pool.slice(0, 1).and_then(|slice| slice.spec.devices);
        let device = serde_json::to_value(&devices?[0]).unwrap();
        let memory = &device["capacity"]["memory"];
        let policy = &memory["requestPolicy"];
        assert_eq!(policy["default"], policy["validRange"]["max"]);
        assert_eq!(device["attributes"]["memoryPercent"]["int"], memory_percent);
        Some([&memory["value"], &policy["default"]].map(|it| it.as_str().unwrap().to_owned()))
    };
    assert_eq!(sold(100).unwrap(), ["81Mi", "81Mi"]);
    assert_eq!(sold(150).unwrap(), ["121Mi", "81Mi"]);
    assert_eq!(sold(80).unwrap(), ["64Mi", "64Mi"]);
    assert_eq!(sold(79), None, "less than the least share is left of it");
}

#[test]
fn cards_that_may_not_be_used_are_not_offered() {
    let mut ill = card("GPU-2");
    ill.health = CardHealth::Unhealthy;
    let mut unknown = card("GPU-3");
    unknown.health = CardHealth::Unknown;
    let tiny = BookedDevice { memory_bytes: 1 << 20, ..card("GPU-4") };
    let all = [card("GPU-1"), ill, unknown, tiny, card("GPU-5")];
    let sold = BTreeMap::from([("gpu-5".to_owned(), "gpu.nvidia.com".to_owned())]);
    let pool =
        NodePool::of("n1", "u", &book(&all), &NodeVerdict { sold, ..good() }, CardTerms::default());
    let names: Vec<_> = pool.devices.iter().flatten().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["gpu-1", "gpu-3"]);
    assert_eq!(
        NodePool::of("n1", "u", &book(&all), &NodeVerdict::default(), CardTerms::default()).count(),
        0
    );
}

#[test]
fn what_the_api_server_does_not_take_is_left_out() {
    let odd = BookedDevice {
        product: "é".repeat(40),
        capability: Some("new".to_owned()),
        architecture: Some(String::new()),
        pcie_root: None,
        numa_node: None,
        ..card("GPU-1")
    };
    let device = pool(&[odd]).devices[0][0].clone();
    let attributes = device.attributes.unwrap();
    assert_eq!(attributes["productName"].string.as_ref().unwrap().len(), 64);
    let names: Vec<_> = attributes.keys().map(String::as_str).collect();
    assert_eq!(names, ["driverVersion", "memoryPercent", "productName", "type", "uuid"]);
    for node in ["n".repeat(253), format!("{}.x", "n".repeat(199))] {
        let pool = NodePool { node, ..pool(&[card("GPU-1")]) };
        let name = pool.slice(0, 1).unwrap().metadata.name.unwrap();
        assert!(name.len() <= 253 && name.ends_with("-gpu.divvy.dev-0"), "{name}");
    }
    // The policy knows these names, of which a long node's has its UID.
    let long = NodePool { node: "n".repeat(201), ..pool(&[card("GPU-1")]) };
    assert_eq!(long.name(7), format!("{}-gpu.divvy.dev-7", long.uid));
}

#[test]
fn the_api_servers_own_writing_is_no_difference() {
    let wanted = pool(&[card("GPU-1")]).slice(0, 1).unwrap();
    let edit = |path: &str, value: serde_json::Value| -> ResourceSlice {
        let mut text = serde_json::to_value(&wanted).unwrap();
        *text.pointer_mut(path).unwrap() = value;
        serde_json::from_value(text).unwrap()
    };
    let memory = "/spec/devices/0/capacity/memory/value";
    assert!(is_same(&edit(memory, json!("143360Mi")), &wanted));
    assert!(!is_same(&edit(memory, json!("141Gi")), &wanted));
    assert!(!is_same(&edit("/metadata/ownerReferences", json!([])), &wanted));
    let plain = edit("/spec/devices/0/allowMultipleAllocations", json!(false));
    assert!(!is_same(&plain, &wanted) && drops_shares(&plain, &wanted));
    let no_policy = edit(memory.trim_end_matches("/value"), json!({ "value": "140Gi" }));
    assert!(drops_shares(&no_policy, &wanted) && !drops_shares(&wanted, &wanted));
}

/// API server's slices, and what the scheduler would take of them.
#[derive(Clone, Debug, Default)]
struct Model {
    slices: BTreeMap<String, ResourceSlice>,
    version: u64,
}

impl Model {
    fn put(&mut self, mut slice: ResourceSlice) {
        self.version += 1;
        slice.metadata.resource_version = Some(self.version.to_string());
        self.slices.insert(slice.metadata.name.clone().unwrap(), slice);
    }

    fn do_it(&mut self, write: SliceWrite) {
        let name = write.slice.metadata.name.clone().unwrap();
        let version = self.slices.get(&name).map(|slice| &slice.metadata.resource_version);
        match write.verb {
            WriteVerb::Create => assert_eq!(version, None, "{name} is there"),
            _ => assert_eq!(version, Some(&write.slice.metadata.resource_version)),
        }
        match write.verb {
            WriteVerb::Delete => drop(self.slices.remove(&name)),
            _ => self.put(write.slice),
        }
    }

    fn top(&self) -> i64 {
        self.slices.values().map(|slice| slice.spec.pool.generation).max().unwrap_or(0)
    }

    /// Names of the devices in the scheduler's eyes; none where the pool is not whole.
    fn scheduled(&self) -> Option<Vec<String>> {
        let top: Vec<_> =
            self.slices.values().filter(|slice| slice.spec.pool.generation == self.top()).collect();
        let is_whole = |slice: &&ResourceSlice| {
            usize::try_from(slice.spec.pool.resource_slice_count) == Ok(top.len())
        };
        if !top.iter().all(is_whole) {
            return None;
        }
        let devices = top.iter().flat_map(|slice| slice.spec.devices.iter().flatten());
        let mut names: Vec<_> = devices.map(|device| device.name.clone()).collect();
        names.sort();
        Some(names)
    }

    /// Decides and writes until nothing is left; each step is judged by `look`.
    fn settle(
        &mut self,
        pool: &NodePool,
        last: &mut Option<DecidedSet>,
        mut look: impl FnMut(&Self),
    ) -> usize {
        for count in 0..1000 {
            let decision = decide(pool, self.slices.iter(), last.as_ref());
            *last = Some(decision.set);
            let Some(write) = decision.writes.into_iter().next() else { return count };
            self.do_it(write);
            look(self);
        }
        panic!("never settled")
    }
}

/// A pool of this many devices in slices of two, beginning at this number.
fn small(first: usize, count: usize) -> NodePool {
    let device = |at: usize| Device { name: format!("gpu-{at}"), ..Device::default() };
    let devices: Vec<Device> = (first..first + count).map(device).collect();
    NodePool {
        node: "n1".to_owned(),
        uid: "u-1".to_owned(),
        devices: devices.chunks(2).map(<[Device]>::to_vec).collect(),
    }
}

fn names(pool: &NodePool) -> Vec<String> {
    let mut names: Vec<_> = pool.devices.iter().flatten().map(|it| it.name.clone()).collect();
    names.sort();
    names
}

#[test]
fn more_devices_than_a_slice_takes_are_in_several() {
    let cards: Vec<_> = (0..MOST_DEVICES + 1).map(|at| card(&format!("GPU-{at}"))).collect();
    let (mut model, mut last) = (Model::default(), None);
    let writes = model.settle(&pool(&cards), &mut last, |_| {});
    assert_eq!((writes, model.top()), (2, 1));
    assert_eq!(model.scheduled().unwrap().len(), MOST_DEVICES + 1);
    // One card goes: both are written, in the next generation.
    let writes = model.settle(&pool(&cards[1..]), &mut last, |_| {});
    assert_eq!((writes, model.top(), model.slices.len()), (2, 2, 1));
    // All go, and come back in a generation that nobody has seen.
    assert_eq!(model.settle(&pool(&[]), &mut last, |_| {}), 1);
    model.settle(&pool(&cards[..1]), &mut last, |_| {});
    assert_eq!(model.top(), 4);
}

#[test]
fn a_restarted_agent_takes_over_what_it_finds() {
    let mut model = Model::default();
    model.settle(&small(0, 5), &mut None, |_| {});
    let before = model.slices.clone();
    assert_eq!(model.settle(&small(0, 5), &mut None, |_| {}), 0);
    assert_eq!(model.slices, before);
    let of_another_pool = |slice: &ResourceSlice| {
        let mut slice = slice.clone();
        slice.metadata.name = Some("old".to_owned());
        slice.spec.pool.name = "other".to_owned();
        slice.spec.pool.generation = 99;
        slice
    };
    model.put(of_another_pool(before.values().next().unwrap()));
    assert_eq!(model.settle(&small(0, 5), &mut None, |_| {}), 1);
    assert_eq!(model.top(), 1);
}

#[test]
fn a_slice_that_is_going_is_waited_for() {
    let (mut model, mut last) = (Model::default(), None);
    model.settle(&small(0, 1), &mut last, |_| {});
    let slice = model.slices.values_mut().next().unwrap();
    let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
    slice.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    assert_eq!(model.settle(&small(0, 1), &mut last, |_| {}), 0);
    assert_eq!(model.settle(&small(0, 0), &mut last, |_| {}), 0);
}

proptest! {
    /// A change of the set: settled in as many writes as there are slices, in the next generation, and what the scheduler
    /// sees meanwhile is the old set, the new one, or no whole pool.
    #[test]
    fn a_change_is_never_seen_half(
        (first, count) in (0_usize..4, 0_usize..9), (then, more) in (0_usize..4, 0_usize..9),
    ) {
        let (old, new) = (small(first, count), small(then, more));
        let (mut model, mut last) = (Model::default(), None);
        model.settle(&old, &mut last, |_| {});
        let top = model.top();
        let allowed = [names(&old), names(&new)];
        let writes = model.settle(&new, &mut last, |model| {
            let seen = model.scheduled();
            assert!(seen.is_none_or(|seen| allowed.contains(&seen)));
        });
        prop_assert_eq!(model.scheduled(), Some(names(&new)));
        prop_assert!(writes <= old.devices.len().max(new.devices.len()));
        if old.devices == new.devices {
            prop_assert_eq!(writes, 0);
        } else if !new.devices.is_empty() && !old.devices.is_empty() {
            prop_assert_eq!(model.top(), top + 1);
        }
    }

    /// Slices wiped or edited by others: as before, in the same generation, and only those are written.
    #[test]
    fn what_others_do_is_repaired_in_the_same_generation(
        count in 1_usize..9, what in prop::collection::vec(0_u8..5, 5),
    ) {
        let pool = small(0, count);
        let (mut model, mut last) = (Model::default(), None);
        model.settle(&pool, &mut last, |_| {});
        let before = model.top();
        let mut touched = 0;
        for (slice, what) in model.slices.clone().into_values().zip(what) {
            let mut edited = slice.clone();
            match what {
                0 => continue,
                1 => edited.spec.devices = None,
                2 => edited.metadata.owner_references = None,
                3 => edited.spec.pool.resource_slice_count += 1,
                _ => drop(model.slices.remove(slice.metadata.name.as_ref().unwrap())),
            }
            touched += 1;
            if what < 4 {
                model.put(edited);
            }
        }
        prop_assert_eq!(model.settle(&pool, &mut last, |_| {}), touched);
        prop_assert_eq!((model.top(), model.scheduled()), (before, Some(names(&pool))));
    }

    /// Slices that are found at a start, of whichever generation: settled, and never in a generation below it.
    #[test]
    fn any_slices_are_settled(
        count in 0_usize..7,
        found in prop::collection::vec((0_usize..5, 0_i64..4, 0_usize..5, any::<bool>()), 0..6),
    ) {
        let pool = small(0, count);
        let mut model = Model::default();
        for (at, generation, first, is_ours) in found {
            let Some(mut slice) = small(first, 8).slice(at.min(3), generation) else { continue };
            if !is_ours {
                slice.metadata.name = Some(format!("other-{at}"));
            }
            slice.spec.driver = DRIVER.to_owned();
            model.put(slice);
        }
        let top = model.top();
        model.settle(&pool, &mut None, |_| {});
        prop_assert_eq!(model.scheduled(), Some(names(&pool)));
        prop_assert!(count == 0 || model.top() >= top);
    }
}
