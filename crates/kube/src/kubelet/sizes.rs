//! Claims that a plugin has prepared, and their sizes: the node's side of [`HeldClaims`] and [`SizedClaims`].
//!
//! Promises: it takes its turn with the kubelet's calls, so that a claim is not prepared and resized at once.

use k8s_openapi::api::resource::v1::ResourceClaim;
use tokio::sync::watch;
use tokio::time::Instant;

use super::plugin::{NodePlugin, lost};
use crate::cluster::{ClaimSource, HeldClaims, SizedClaims, allocated};
use crate::prepare::{
    ClaimSize, HeldClaim, NodeDaemon, NodeDisk, PrepareError, ResizeFailure, ResizedClaim,
};

impl<S, D, K> HeldClaims for NodePlugin<S, D, K>
where
    S: ClaimSource,
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    async fn held(&self) -> Result<Vec<HeldClaim>, PrepareError> {
        let core = self.core.clone();
        let reading = tokio::task::spawn_blocking(move || core.held());
        reading.await.unwrap_or_else(|_| Err(lost()))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl<S, D, K> SizedClaims for NodePlugin<S, D, K>
where
    S: ClaimSource,
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    async fn resize(
        &self,
        claim: ResourceClaim,
        size: Option<ClaimSize>,
    ) -> Result<ResizedClaim, ResizeFailure> {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        // A card that must not be used any more still has the pods that it had.
        let card_of = |device: &str| self.card(device);
        let claim = allocated(&claim, &uid, self.driver(), self.pool(), card_of)?;
        let deadline = Instant::now() + self.patience();
        self.in_turn(deadline, move |core| core.resize(&claim, size.as_ref())).await?
    }
}
