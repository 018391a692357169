//! Objects of the API as what is decided on. Pure.
//!
//! Promises: what is not understood is taken for the worse: a card that may not be had, a share that nothing frees, a wish that is
//! not judged, with the words why.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceConstraint, DeviceRequest, ResourceClaim, ResourceSlice,
};

use super::decide::{ClusterShares, HeldShare, HoldingPod, PodKey, WantedShare};
use crate::driver::DRIVER;
use crate::offers::{Amounts, cards};
use crate::quantity;

/// Devices that a pod may want and be judged.
const MOST_WANTS: usize = 32;

/// Pods, slices and claims as one. Claims must have been listed before pods: a holder that is none of the pods is gone.
pub(super) fn cluster_shares(
    slices: &[ResourceSlice],
    claims: &[ResourceClaim],
    pods: Vec<HoldingPod>,
) -> ClusterShares {
    let cards = cards(slices);
    let places: BTreeMap<(&str, &str), usize> = cards
        .iter()
        .enumerate()
        .map(|(at, card)| ((card.pool.as_str(), card.device.as_str()), at))
        .collect();
    let by_uid: BTreeMap<&str, usize> =
        pods.iter().enumerate().map(|(at, pod)| (pod.key.uid.as_str(), at)).collect();
    let mut shares = Vec::new();
    for claim in claims {
        let Some(status) = &claim.status else { continue };
        let allocation = status.allocation.as_ref().and_then(|it| it.devices.as_ref());
        let results = allocation.and_then(|it| it.results.as_deref()).unwrap_or_default();
        let mut holders = Vec::new();
        let mut is_free = false;
        let consumers = status.reserved_for.as_deref().unwrap_or_default();
        for consumer in consumers {
            match by_uid.get(consumer.uid.as_str()) {
                _ if consumer.resource != "pods" => is_free = true,
                Some(pod) => holders.push(*pod),
                // It has ended, and its reservation goes.
                None => holders.push(usize::MAX),
            }
        }
        if is_free {
            holders.clear();
        }
        for result in results.iter().filter(|result| result.driver == DRIVER) {
            let place = (result.pool.as_str(), result.device.as_str());
            let Some(card) = places.get(&place).copied() else { continue };
            let amounts = cards.get(card).map(|it| it.held(result)).unwrap_or_default();
            if result.admin_access != Some(true) {
                shares.push(HeldShare { card, holders: holders.clone(), amounts });
            }
        }
    }
    ClusterShares { cards, pods, shares }
}

/// A pod as what may hold shares.
pub(super) fn holding_pod(pod: &Pod) -> Option<HoldingPod> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref());
    let phase = status.and_then(|status| status.phase.as_deref());
    let created = pod.metadata.creation_timestamp.as_ref();
    Some(HoldingPod {
        key: key(pod)?,
        node: spec.node_name.clone().unwrap_or_default(),
        priority: spec.priority.unwrap_or(0),
        created_s: created.map_or(i64::MIN, |time| time.0.as_second()),
        is_ending: pod.metadata.deletion_timestamp.is_some()
            || phase == Some("Succeeded")
            || phase == Some("Failed"),
    })
}

/// How a pod is found again.
pub(super) fn key(pod: &Pod) -> Option<PodKey> {
    let metadata = &pod.metadata;
    Some(PodKey {
        namespace: metadata.namespace.clone()?,
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
    })
}

/// Shares that a pod wants; none where it wants none of ours.
///
/// # Errors
/// The reason why it is not judged.
pub(super) fn wants(
    pod: &Pod,
    claims: &BTreeMap<(&str, &str), &ResourceClaim>,
    is_class: &impl Fn(&str) -> bool,
) -> Result<Vec<WantedShare>, String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let made = pod.status.as_ref().and_then(|it| it.resource_claim_statuses.as_ref());
    let mut wants = Vec::new();
    let mut others = BTreeSet::new();
    for claim in spec.and_then(|spec| spec.resource_claims.as_ref()).into_iter().flatten() {
        let name = match &claim.resource_claim_name {
            Some(name) => name,
            None => {
                let made = made.into_iter().flatten().find(|it| it.name == claim.name);
                let Some(made) = made else {
                    return Err("a claim of it is not made yet".to_owned());
                };
                // Some pods need none of theirs.
                let Some(name) = &made.resource_claim_name else { continue };
                name
            }
        };
        let Some(found) = claims.get(&(namespace, name.as_str())) else {
            return Err(format!("claim {name} is not there yet"));
        };
        let devices = found.spec.devices.clone().unwrap_or_default();
        if !mentions(&devices, is_class) {
            let requests = devices.requests.iter().flatten().map(|request| request.name.clone());
            others.extend(requests);
            continue;
        }
        if found.status.as_ref().is_some_and(|status| status.allocation.is_some()) {
            return Err(format!("claim {name} is allocated already"));
        }
        wants_of(&devices, is_class, &mut wants, &mut others)
            .map_err(|why| format!("claim {name} {why}"))?;
    }
    if wants.is_empty() {
        return Ok(wants);
    }
    if let Some(request) = others.first() {
        return Err(format!("request {request} of it is for devices of others"));
    }
    if wants.len() > MOST_WANTS {
        return Err(format!("it wants {} devices, more than {MOST_WANTS}", wants.len()));
    }
    Ok(wants)
}

/// Whether a claim may get a device of these classes.
fn mentions(devices: &DeviceClaim, is_class: &impl Fn(&str) -> bool) -> bool {
    devices.requests.iter().flatten().any(|request| {
        let exactly = request.exactly.iter().map(|it| &it.device_class_name);
        let either = request.first_available.iter().flatten().map(|it| &it.device_class_name);
        exactly.chain(either).any(|class| is_class(class))
    })
}

fn wants_of(
    devices: &DeviceClaim,
    is_class: &impl Fn(&str) -> bool,
    wants: &mut Vec<WantedShare>,
    others: &mut BTreeSet<String>,
) -> Result<(), String> {
    // Groups of this claim have numbers of their own.
    let first = wants.iter().filter_map(|want| want.apart).max().map_or(0, |group| group + 1);
    let constraints = devices.constraints.as_deref().unwrap_or_default();
    for request in devices.requests.iter().flatten() {
        let Some(exactly) = &request.exactly else {
            return Err(format!("has alternatives in request {}", request.name));
        };
        if !is_class(&exactly.device_class_name) {
            others.insert(request.name.clone());
            continue;
        }
        let is_plain = exactly.selectors.as_ref().is_none_or(Vec::is_empty)
            && exactly.admin_access != Some(true)
            && exactly.allocation_mode.as_deref().unwrap_or("ExactCount") == "ExactCount";
        let count = usize::try_from(exactly.count.unwrap_or(1)).unwrap_or(usize::MAX);
        if !is_plain || count > MOST_WANTS {
            return Err(format!("selects devices in request {}", request.name));
        }
        let asked = exactly.capacity.as_ref().and_then(|it| it.requests.as_ref());
        let mut amounts = Amounts::new();
        for (name, text) in asked.into_iter().flatten() {
            let amount = quantity::whole_text(&text.0)
                .map_err(|why| format!("asks for {name}: {}, which {why}", text.0))?;
            amounts.insert(name.clone(), amount);
        }
        let apart = apart(request, constraints)?.map(|group| first + group);
        let want = WantedShare { amounts, apart };
        wants.extend(std::iter::repeat_n(want, count));
    }
    Ok(())
}

/// The constraint by which a request's devices are on different cards.
fn apart(
    request: &DeviceRequest,
    constraints: &[DeviceConstraint],
) -> Result<Option<usize>, String> {
    let mut found = None;
    for (at, constraint) in constraints.iter().enumerate() {
        let requests = constraint.requests.as_deref().unwrap_or_default();
        if !requests.is_empty() && !requests.contains(&request.name) {
            continue;
        }
        let distinct = constraint.distinct_attribute.as_deref();
        if distinct != Some(&format!("{DRIVER}/uuid")) || found.is_some() {
            return Err(format!("constrains the devices of request {}", request.name));
        }
        found = Some(at);
    }
    Ok(found)
}
