//! Slices as cards. Pure.
//!
//! Promises: what is not understood is taken for the worse: a card that may not be had.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::card::{AllowedAmounts, Card, CardCapacity};
use crate::driver::DRIVER;
use crate::quantity;

/// Devices that claims may get, of whole pools of the newest generation.
pub(crate) fn cards(slices: &[ResourceSlice]) -> Vec<Card> {
    let mut pools: BTreeMap<&str, Vec<&ResourceSlice>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.spec.driver == DRIVER) {
        pools.entry(&slice.spec.pool.name).or_default().push(slice);
    }
    let mut cards = Vec::new();
    for (name, slices) in pools {
        let newest = slices.iter().map(|slice| slice.spec.pool.generation).max();
        let slices = slices.iter().filter(|it| Some(it.spec.pool.generation) == newest);
        let slices: Vec<_> = slices.collect();
        let is_whole = |slice: &ResourceSlice| {
            usize::try_from(slice.spec.pool.resource_slice_count).ok() == Some(slices.len())
        };
        for slice in slices.iter().filter(|slice| is_whole(slice)) {
            let Some(node) = &slice.spec.node_name else { continue };
            let devices = slice.spec.devices.iter().flatten();
            cards.extend(devices.filter_map(|device| card(node, name, device)));
        }
    }
    cards
}

fn card(node: &str, pool: &str, device: &Device) -> Option<Card> {
    let is_odd = device.taints.as_ref().is_some_and(|it| !it.is_empty())
        || device.consumes_counters.as_ref().is_some_and(|it| !it.is_empty())
        || device.binding_conditions.as_ref().is_some_and(|it| !it.is_empty())
        || device.node_name.is_some()
        || device.node_selector.is_some();
    if is_odd {
        return None;
    }
    let amount = |text: &Quantity| quantity::whole_text(&text.0).ok();
    let mut capacities = BTreeMap::new();
    for (name, capacity) in device.capacity.iter().flatten() {
        let value = amount(&capacity.value)?;
        let policy = capacity.request_policy.as_ref();
        let default = policy.and_then(|it| it.default.as_ref()).map_or(Some(value), amount)?;
        let range = policy.and_then(|it| it.valid_range.as_ref());
        let values = policy.and_then(|it| it.valid_values.as_ref());
        let optional = |it: &Option<Quantity>| match it {
            Some(text) => amount(text).map(Some),
            None => Some(None),
        };
        let allowed = match (range, values) {
            (Some(range), _) => AllowedAmounts::Range {
                least: amount(&range.min)?,
                step: optional(&range.step)?,
                most: optional(&range.max)?,
            },
            (None, Some(values)) => {
                let mut values = values.iter().map(amount).collect::<Option<Vec<u64>>>()?;
                values.sort_unstable();
                AllowedAmounts::Values(values)
            }
            (None, None) => AllowedAmounts::Any,
        };
        capacities.insert(name.clone(), CardCapacity { value, default, allowed });
    }
    Some(Card {
        node: node.to_owned(),
        pool: pool.to_owned(),
        device: device.name.clone(),
        product: device.attributes.as_ref().and_then(|it| it.get("productName")?.string.clone()),
        is_shared: device.allow_multiple_allocations == Some(true),
        capacities,
    })
}
