//! Plan for a claim: its tenants, with limits and names, before anything is done. Pure.

use std::collections::BTreeMap;

use super::allocated::{AllocatedClaim, AllocatedShare};
use super::daemon::{CardLimits, NodeTenantLimits, PPM_OF_PERCENT};
use super::ids;
use super::reason::{PrepareError, PrepareReason};
use super::settings::{self, PreloadBy, ShareSettings};
use super::size::{ClaimSize, SharePart};

/// The tenant of a request's shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedTenant {
    pub(super) id: String,
    pub(super) limits: NodeTenantLimits,
    pub(super) preload: PreloadBy,
}

/// Tenants of a claim, by request.
pub(super) type ClaimPlan = BTreeMap<String, PlannedTenant>;

/// Plan by what is claimed, or by a size that fits the claim; names are those of any size.
///
/// # Errors
/// [`PrepareReason::BadClaim`], and those of the settings.
pub(super) fn of(
    claim: &AllocatedClaim,
    size: Option<&ClaimSize>,
) -> Result<ClaimPlan, PrepareError> {
    let bad = |words: String| PrepareError::new(PrepareReason::BadClaim, words);
    if !ids::is_uid(&claim.uid) {
        return Err(bad(format!("the claim's UID {:?} is none", claim.uid)));
    }
    if claim.shares.is_empty() {
        return Err(bad("no device of this driver is allocated to it".to_owned()));
    }
    let mut requests: BTreeMap<&str, Vec<&AllocatedShare>> = BTreeMap::new();
    for share in &claim.shares {
        check(share).map_err(|why| bad(format!("request {:?}: {why}", share.request)))?;
        let shares = requests.entry(&share.request).or_default();
        if shares.iter().any(|other| is_same(other, share)) {
            return Err(bad(format!("request {:?}: one share twice", share.request)));
        }
        shares.push(share);
    }
    let mut plan = ClaimPlan::new();
    for (request, shares) in requests {
        let settings = settings::merge(&claim.config, request)?;
        // A card that is not shared has no id of a share; its own stands for it.
        let keys = shares.iter().map(|share| share.share_id.as_ref().unwrap_or(&share.gpu_uuid));
        let id = ids::tenant_id(&claim.uid, request, keys.map(String::as_str));
        if plan.values().any(|other| other.id == id) {
            return Err(bad(format!(
                "request {request:?}: another has the same id {id}; rename it"
            )));
        }
        let limits = limits(&shares, settings, size)
            .map_err(|why| bad(format!("request {request:?}: {why}")))?;
        let preload = settings.preload;
        plan.insert(request.to_owned(), PlannedTenant { id, limits, preload });
    }
    Ok(plan)
}

fn is_same(one: &AllocatedShare, other: &AllocatedShare) -> bool {
    one.share_id == other.share_id && (one.share_id.is_some() || one.gpu_uuid == other.gpu_uuid)
}

fn check(share: &AllocatedShare) -> Result<(), String> {
    let AllocatedShare { request, gpu_uuid, memory_bytes, cores_percent, .. } = share;
    if request.is_empty() {
        return Err("a request without a name".to_owned());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_card = gpu_uuid.starts_with("GPU-") || gpu_uuid.starts_with("MIG-");
    if !is_card || gpu_uuid.len() > 64 || !gpu_uuid.bytes().all(plain) {
        return Err(format!("the UUID {gpu_uuid:?} is no card's"));
    }
    if *memory_bytes == 0 {
        return Err("no memory; it needs a byte at least".to_owned());
    }
    if !(1..=100).contains(cores_percent) {
        return Err(format!("cores {cores_percent}: there are 1 to 100"));
    }
    Ok(())
}

/// Limits of the tenant: those of a card are what its shares have together.
fn limits(
    shares: &[&AllocatedShare],
    settings: ShareSettings,
    size: Option<&ClaimSize>,
) -> Result<NodeTenantLimits, String> {
    let mut cards: BTreeMap<&str, SharePart> = BTreeMap::new();
    for share in shares {
        let part = SharePart::of(share, size);
        let nothing = SharePart { memory_bytes: 0, due_cores: 0, most_cores: 0 };
        let all = cards.entry(&share.gpu_uuid).or_insert(nothing);
        all.memory_bytes = all
            .memory_bytes
            .checked_add(part.memory_bytes)
            .ok_or_else(|| format!("memory of {} is more than can be counted", share.gpu_uuid))?;
        all.due_cores = all.due_cores.saturating_add(part.due_cores).min(100);
        all.most_cores = all.most_cores.saturating_add(part.most_cores).min(100);
    }
    let devices = cards.iter().map(|(uuid, all)| CardLimits {
        uuid: (*uuid).to_owned(),
        memory_bytes: all.memory_bytes,
        share_ppm: PPM_OF_PERCENT * settings.burst_cores.unwrap_or(0).max(all.most_cores),
    });
    Ok(NodeTenantLimits {
        devices: devices.collect(),
        // A burst is at the cost of nobody: where others want the card, each is due what it has claimed. The weight is one
        // for all cards; the least of them takes nothing from anybody.
        weight: cards.values().map(|all| all.due_cores).min().unwrap_or(1),
        priority: settings.priority.word().to_owned(),
        class: settings.class.word().to_owned(),
        oversubscribe: settings.oversubscribe,
    })
}
