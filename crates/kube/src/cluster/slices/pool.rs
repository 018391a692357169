//! Pool of a node: its devices in the words of `resource.k8s.io/v1`. Pure.
//!
//! A card is one device that many claims share: `memory` in bytes, `cores` in percent and `slots`, each with what a claim has
//! that does not say. An instance of a partitioned card (MIG) is such a device too, of which the cores are percent of the
//! instance; the card itself is none. An unhealthy card leaves the pool, rather than being tainted: taints are an alpha
//! feature before 1.36, and an API server without them drops them, so that the card would be given away. Claims that have it
//! already keep it.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceAttribute, DeviceCapacity,
    ResourcePool, ResourceSlice, ResourceSliceSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::cards::{BookedDevice, CardBook, CardHealth, CardTerms, DeviceKind};
use crate::cluster::verdict::NodeVerdict;
use crate::driver::DRIVER;
use crate::quantity;

/// Slices that a node may have, by the policy `divvy-own-node`.
const MOST_SLICES: usize = 8;
/// Devices that a slice may have.
pub(super) const MOST_DEVICES: usize = 128;
/// Step of what is published of a card's memory, and the least that a claim may have.
const MEMORY_STEP: u64 = 1 << 20;
const LEAST_MEMORY: u64 = 64 << 20;
/// The longest text of an attribute.
const MOST_TEXT_BYTES: usize = 64;
/// The longest node name in a slice's: the whole has 253 bytes at most.
const MOST_NODE_BYTES: usize = 200;

/// Pool that is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cluster) struct NodePool {
    /// The node, after which the pool is named.
    pub(in crate::cluster) node: String,
    /// UID of the node, which owns the slices.
    pub(in crate::cluster) uid: String,
    /// Devices by slice.
    pub(in crate::cluster) devices: Vec<Vec<Device>>,
}

impl NodePool {
    /// The pool of these cards, of those that may be used, each shared on these terms.
    pub(in crate::cluster) fn of(
        node: &str,
        uid: &str,
        book: &CardBook,
        verdict: &NodeVerdict,
        terms: CardTerms,
    ) -> Self {
        // Of all cards, also of those that fail for a while: what was placed on the others stays within their slots.
        let terms = terms.on_node_of(book.devices.len());
        let is_offered = |device: &&BookedDevice| {
            device.health != CardHealth::Unhealthy
                && terms.most_memory(device.memory_bytes) >= LEAST_MEMORY
                && verdict.check_device(device).is_ok()
        };
        let offered = book.devices.iter().filter(is_offered);
        let driver = book.driver.as_deref();
        let devices: Vec<Device> = offered.map(|it| device(it, driver, terms)).collect();
        Self {
            node: node.to_owned(),
            uid: uid.to_owned(),
            devices: devices
                .chunks(MOST_DEVICES)
                .take(MOST_SLICES)
                .map(<[Device]>::to_vec)
                .collect(),
        }
    }

    /// Name of the slice at this place: the policy `divvy-own-node` knows these. A node with a long name has its UID there.
    pub(super) fn name(&self, at: usize) -> String {
        let is_short = self.node.len() <= MOST_NODE_BYTES;
        let base = if is_short { &self.node } else { &self.uid };
        format!("{base}-{DRIVER}-{at}")
    }

    /// The slice at this place, in this generation.
    pub(in crate::cluster) fn slice(&self, at: usize, generation: i64) -> Option<ResourceSlice> {
        let devices = self.devices.get(at)?.clone();
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        };
        Some(ResourceSlice {
            metadata: ObjectMeta {
                name: Some(self.name(at)),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: ResourceSliceSpec {
                driver: DRIVER.to_owned(),
                node_name: Some(self.node.clone()),
                pool: ResourcePool {
                    name: self.node.clone(),
                    generation,
                    resource_slice_count: i64::try_from(self.devices.len()).ok()?,
                },
                devices: Some(devices),
                ..ResourceSliceSpec::default()
            },
        })
    }

    /// How many devices there are.
    pub(in crate::cluster) fn count(&self) -> usize {
        self.devices.iter().map(Vec::len).sum()
    }
}

fn device(booked: &BookedDevice, driver: Option<&str>, terms: CardTerms) -> Device {
    let mut attributes = BTreeMap::from([("uuid".to_owned(), text(&booked.uuid))]);
    let mut put = |name: &str, value: Option<DeviceAttribute>| {
        if let Some(value) = value {
            attributes.insert(name.to_owned(), value);
        }
    };
    put("productName", some_text(&booked.product));
    put("architecture", booked.architecture.as_deref().and_then(some_text));
    put("cudaComputeCapability", booked.capability.as_deref().and_then(version));
    put("driverVersion", driver.and_then(version));
    put("resource.kubernetes.io/pcieRoot", booked.pcie_root.as_deref().and_then(some_text));
    let number =
        |number: u32| DeviceAttribute { int: Some(number.into()), ..DeviceAttribute::default() };
    put("resource.kubernetes.io/numaNode", booked.numa_node.map(number));
    put("memoryPercent", Some(number(terms.memory_percent)));
    let kind = match booked.kind {
        DeviceKind::Card => "gpu",
        DeviceKind::Instance { .. } => "mig",
    };
    put("type", some_text(kind));
    if let DeviceKind::Instance { parent, profile } = &booked.kind {
        put("parentUUID", some_text(parent));
        put("profile", profile.as_deref().and_then(some_text));
    }
    Device {
        name: booked.name.clone(),
        allow_multiple_allocations: Some(true),
        attributes: Some(attributes),
        capacity: Some(shared_capacity(booked.memory_bytes, terms)),
        ..Device::default()
    }
}

/// Capacities, and what a claim may have of each.
///
/// Nothing is rounded to a step: with one the scheduler's sum overflows for a request of 2^63 bytes, and it takes the card for
/// empty from then on (kubernetes#140441). A fraction that a claim has is left by the agent.
fn shared_capacity(memory_bytes: u64, terms: CardTerms) -> BTreeMap<String, DeviceCapacity> {
    let in_steps = |memory_bytes: u64| bytes(memory_bytes / MEMORY_STEP * MEMORY_STEP);
    let most = in_steps(terms.most_memory(memory_bytes));
    let range = |min: Quantity, max: Quantity| {
        Some(CapacityRequestPolicyRange { min, step: None, max: Some(max) })
    };
    let count = |count: u32| Quantity(count.to_string());
    let policy = |default: Quantity, valid_range, valid_values| {
        Some(CapacityRequestPolicy { default: Some(default), valid_range, valid_values })
    };
    let of_memory = range(bytes(LEAST_MEMORY), most.clone());
    BTreeMap::from([
        (
            "memory".to_owned(),
            DeviceCapacity {
                request_policy: policy(most, of_memory, None),
                value: in_steps(terms.memory_sold(memory_bytes)),
            },
        ),
        (
            "cores".to_owned(),
            DeviceCapacity {
                request_policy: policy(count(100), range(count(1), count(100)), None),
                value: count(100),
            },
        ),
        (
            "slots".to_owned(),
            DeviceCapacity {
                request_policy: policy(count(1), None, Some(vec![count(1)])),
                value: count(terms.slots.max(1)),
            },
        ),
    ])
}

/// A quantity as the API server writes it.
fn bytes(count: u64) -> Quantity {
    Quantity(quantity::binary(count))
}

fn some_text(value: &str) -> Option<DeviceAttribute> {
    (!value.is_empty()).then(|| text(value))
}

/// An attribute of text, which is cut where it is longer than one may be.
fn text(value: &str) -> DeviceAttribute {
    let mut end = value.len().min(MOST_TEXT_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    let string = value.get(..end).map(str::to_owned);
    DeviceAttribute { string, ..DeviceAttribute::default() }
}

/// A version of three numbers without zeros in front, which is what the API server takes: `580.82.7` of `580.82.07`.
fn version(text: &str) -> Option<DeviceAttribute> {
    let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
    let mut next = || parts.next().unwrap_or(Some(0));
    let (major, minor, patch) = (next()?, next()?, next()?);
    let version = Some(format!("{major}.{minor}.{patch}"));
    Some(DeviceAttribute { version, ..DeviceAttribute::default() })
}
