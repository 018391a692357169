//! Sizes: objects of our own, by which people give a running claim's shares another size.
//!
//! A `ShareSize` has the name and the namespace of its claim, so that no two are about one. [`SizeTask`] watches all of them, since
//! none says which node it is for, and applies those of claims that are prepared here; what came of it is the object's status.
//! [`object`] reads one, [`verdict`] is what becomes its status, [`run`] asks and writes.
//!
//! Promises: an object of an earlier claim of the same name is not applied; one that is not understood changes nothing, and says so
//! in its status; an object that goes gives back what is claimed. At most one write of a status for each change, none where it is
//! right. Neither claims nor pods are watched: a claim is read, by its name, when its size is to change.
//!
//! Does not resize: that is the node's, by [`SizedClaims`].

mod object;
mod run;
mod verdict;

use std::future::Future;

use k8s_openapi::api::resource::v1::ResourceClaim;
use tokio::sync::watch;

pub use self::run::SizeTask;
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
