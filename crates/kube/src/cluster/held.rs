//! Claims that a node holds, as the cluster's side asks for them; the kubelet's side has them.

use std::future::Future;

use k8s_openapi::api::resource::v1::ResourceClaim;
use tokio::sync::watch;

use crate::prepare::{ClaimSize, HeldClaim, PrepareError, ResizeFailure, ResizedClaim};

/// Claims that a node holds.
pub trait HeldClaims: Send + Sync + 'static {
    /// Claims that are prepared here.
    fn held(&self) -> impl Future<Output = Result<Vec<HeldClaim>, PrepareError>> + Send;

    /// A number that changes with them.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Claims of a node, whose shares can be given another size.
pub trait SizedClaims: HeldClaims {
    /// Gives the shares of a claim that is prepared here this size, or what they have claimed where there is none.
    fn resize(
        &self,
        claim: ResourceClaim,
        size: Option<ClaimSize>,
    ) -> impl Future<Output = Result<ResizedClaim, ResizeFailure>> + Send;
}
