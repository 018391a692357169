//! Comparison of a slice that is wanted with one that the API server has. Pure.
//!
//! The API server writes quantities in a form of its own, and leaves empty lists out; neither is a difference.

use k8s_openapi::api::resource::v1::{Device, ResourceSlice, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity;

/// Whether `seen` has all of `wanted`, and no more that counts.
pub(super) fn is_same(seen: &ResourceSlice, wanted: &ResourceSlice) -> bool {
    let owners = |slice: &ResourceSlice| -> Vec<(String, String)> {
        let owners = slice.metadata.owner_references.iter().flatten();
        owners.map(|owner| (owner.kind.clone(), owner.uid.clone())).collect()
    };
    normal(&seen.spec) == normal(&wanted.spec) && owners(seen) == owners(wanted)
}

/// Whether `seen` lacks what makes a device of `wanted` shared: an API server without the feature drops it.
pub(in crate::cluster) fn drops_shares(seen: &ResourceSlice, wanted: &ResourceSlice) -> bool {
    let shared = |slice: &ResourceSlice| {
        let devices = slice.spec.devices.iter().flatten();
        devices.filter(|device| device.allow_multiple_allocations == Some(true)).count()
    };
    let policies = |slice: &ResourceSlice| {
        let capacities =
            slice.spec.devices.iter().flatten().flat_map(|device| device.capacity.iter().flatten());
        capacities.filter(|(_, capacity)| capacity.request_policy.is_some()).count()
    };
    shared(seen) < shared(wanted) || policies(seen) < policies(wanted)
}

fn normal(spec: &ResourceSliceSpec) -> ResourceSliceSpec {
    let mut spec = spec.clone();
    for flag in [&mut spec.all_nodes, &mut spec.per_device_node_selection] {
        *flag = flag.filter(|flag| *flag);
    }
    spec.shared_counters = spec.shared_counters.filter(|list| !list.is_empty());
    for device in spec.devices.iter_mut().flatten() {
        normalise(device);
    }
    spec.devices = spec.devices.filter(|list| !list.is_empty());
    spec
}

fn normalise(device: &mut Device) {
    for flag in
        [&mut device.all_nodes, &mut device.allow_multiple_allocations, &mut device.binds_to_node]
    {
        *flag = flag.filter(|flag| *flag);
    }
    for list in [&mut device.binding_conditions, &mut device.binding_failure_conditions] {
        *list = list.take().filter(|list| !list.is_empty());
    }
    device.consumes_counters = device.consumes_counters.take().filter(|list| !list.is_empty());
    device.taints = device.taints.take().filter(|list| !list.is_empty());
    device.attributes = device.attributes.take().filter(|map| !map.is_empty());
    for capacity in device.capacity.iter_mut().flat_map(|map| map.values_mut()) {
        plain(&mut capacity.value);
        let Some(policy) = &mut capacity.request_policy else { continue };
        policy.default.iter_mut().for_each(plain);
        policy.valid_values.iter_mut().flatten().for_each(plain);
        if let Some(range) = &mut policy.valid_range {
            plain(&mut range.min);
            range.max.iter_mut().chain(&mut range.step).for_each(plain);
        }
    }
    device.capacity = device.capacity.take().filter(|map| !map.is_empty());
}

/// A whole number is written as one.
fn plain(quantity: &mut Quantity) {
    if let Ok(count) = quantity::whole_text(&quantity.0) {
        quantity.0 = count.to_string();
    }
}
