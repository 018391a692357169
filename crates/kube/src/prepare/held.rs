//! Claims that a node has, as its checkpoint tells of them.

use std::collections::BTreeSet;

use super::checkpoint::{ClaimCheckpoint, TenantLine};
use super::size::ClaimSize;

/// A claim that is prepared on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldClaim {
    /// Its UID.
    pub uid: String,
    /// Its namespace; empty where that is not known.
    pub namespace: String,
    /// Its name; empty where that is not known.
    pub name: String,
    /// Size of its shares, where another than claimed was asked for.
    pub size: Option<ClaimSize>,
    /// Ids of its shares, by which a device plugin knows its devices; empty where the checkpoint was lost.
    pub shares: BTreeSet<String>,
    /// Its tenants.
    pub tenants: Vec<HeldTenant>,
}

/// A tenant of a claim that is prepared here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldTenant {
    /// Its id at the daemon.
    pub id: String,
    /// The request that it answers; empty where that is not known.
    pub request: String,
    /// UUIDs of the cards that it has a share of; none where they are not known.
    pub cards: BTreeSet<String>,
}

impl ClaimCheckpoint {
    /// Claims that are not to go.
    pub(super) fn held(self) -> Vec<HeldClaim> {
        let lines = self.claims.into_iter().filter(|(_, line)| !line.removing);
        let held = lines.map(|(uid, mut line)| {
            let tenants = line.ids.into_iter().map(|id| {
                let TenantLine { request, cards } = line.tenants.remove(&id).unwrap_or_default();
                HeldTenant { id, request, cards }
            });
            HeldClaim {
                uid,
                namespace: line.namespace,
                name: line.name,
                size: line.size,
                shares: line.shares,
                tenants: tenants.collect(),
            }
        });
        held.collect()
    }
}
