//! Claims that a kubelet has forgotten: found where they keep a card from another claim.
//!
//! A kubelet takes back what it has prepared, unless its state was lost while the machine went on. Then nobody ever names the claim
//! again. So where a card has no room for a claim, the others on the node are looked at: one that the API server does not know any
//! more, or not as allocated here with these shares, and of which no program holds memory, is taken back.
//!
//! Promises: an API server or a daemon that does not answer takes nothing back, and a program that holds memory keeps its share; one
//! that has not come to its card yet finds no tenant. Asks only where a card was full, once for each claim of the node.

use k8s_openapi::api::resource::v1::ResourceClaim;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::plugin::NodePlugin;
use crate::cluster::ClaimSource;
use crate::prepare::{HeldClaim, NodeDaemon, NodeDisk, PrepareReason};

impl<S, D, K> NodePlugin<S, D, K>
where
    S: ClaimSource,
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    /// Takes back claims that are gone and idle; how many there were.
    pub(super) async fn take_back_gone(&self, deadline: Instant) -> usize {
        let held = self.in_turn(deadline, |core| (core.mark(), core.held())).await;
        let Ok((since, Ok(held))) = held else { return 0 };
        let mut asking = JoinSet::new();
        for claim in held.into_iter().filter(|claim| !claim.name.is_empty()) {
            let claims = self.claims().clone();
            let of = (self.driver().to_owned(), self.pool().to_owned());
            asking.spawn(async move {
                let got = timeout_at(deadline, claims.get(&claim.namespace, &claim.name)).await;
                let is_gone = match got {
                    Ok(Ok(found)) => !is_as_held(&found, &claim, &of),
                    Ok(Err(error)) => error.reason == PrepareReason::ClaimChanged,
                    Err(_) => false,
                };
                is_gone.then_some(claim)
            });
        }
        let mut gone = Vec::new();
        while let Some(one) = asking.join_next().await {
            gone.extend(one.ok().flatten());
        }
        if gone.is_empty() {
            return 0;
        }
        let taken = self.in_turn(deadline, move |core| core.unprepare_idle(&gone, since)).await;
        let taken: Vec<HeldClaim> = taken.unwrap_or_default();
        for claim in &taken {
            let HeldClaim { uid, namespace, name, .. } = claim;
            self.log().say(&format!("took back claim {namespace}/{name} ({uid}): no pod has it, and the kubelet has forgotten it"));
        }
        taken.len()
    }
}

/// Whether a claim is that of this UID, and allocated to this driver and pool with a share that is held; which they are is not known of a
/// checkpoint that was lost.
fn is_as_held(found: &ResourceClaim, held: &HeldClaim, (driver, pool): &(String, String)) -> bool {
    let status = found.status.as_ref();
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    let mut results = devices.and_then(|devices| devices.results.as_ref()).into_iter().flatten();
    found.metadata.uid.as_ref() == Some(&held.uid)
        && results.any(|result| {
            let share = result.share_id.as_ref();
            let is_held = share.is_none_or(|id| held.shares.is_empty() || held.shares.contains(id));
            result.driver == *driver && result.pool == *pool && is_held
        })
}
