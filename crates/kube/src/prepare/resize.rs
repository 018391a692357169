//! Resizing: gives the tenants of a prepared claim another size while their programs run.
//!
//! The checkpoint has a size before the daemon is told of it, and loses one after the daemon was told of its end. So whoever prepares
//! the claim again, or resizes it after an instance was killed in between, comes to the newer one.
//!
//! Does not know who wants it, nor whether a wish is of this claim.

use super::allocated::AllocatedClaim;
use super::checkpoint::{ClaimCheckpoint, FoundCheckpoint};
use super::core::{PrepareCore, of_file};
use super::daemon::NodeDaemon;
use super::disk::NodeDisk;
use super::held::HeldClaim;
use super::plan::{ClaimPlan, PlannedTenant};
use super::reason::{PrepareError, PrepareReason};
use super::size::{ClaimSize, SharePart};
use crate::quantity;

/// A claim whose shares have the size that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizedClaim {
    /// Bytes of a card's memory for each share; none where they differ.
    pub memory_bytes: Option<u64>,
    /// Percent of a card's time for each share; none where they differ.
    pub cores_percent: Option<u32>,
    /// A sentence for each card of which more is held than that.
    pub held: Vec<String>,
}

/// Failure of resizing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResizeFailure {
    /// The claim cannot have that size, in words. Nothing was changed.
    Refused(String),
    /// Something is missing; to be tried again.
    Failed(PrepareError),
}

impl From<PrepareError> for ResizeFailure {
    fn from(error: PrepareError) -> Self {
        Self::Failed(error)
    }
}

impl<D: NodeDaemon, K: NodeDisk> PrepareCore<D, K> {
    /// Claims that are prepared here, by the checkpoint alone. One that is not understood tells of none.
    ///
    /// # Errors
    /// [`PrepareReason::CheckpointFailed`].
    pub fn held(&self) -> Result<Vec<HeldClaim>, PrepareError> {
        let path = self.places.checkpoint();
        // A file is exchanged whole, so that it is read without the lock.
        let bytes = self.disk.read(&path);
        let bytes = bytes
            .map_err(|error| of_file(PrepareReason::CheckpointFailed, &path, "read", &error))?;
        let found = bytes.map(|bytes| ClaimCheckpoint::read(&bytes, &self.places.boot_id));
        let Some(FoundCheckpoint::Ours(found)) = found else { return Ok(Vec::new()) };
        Ok(found.held())
    }

    /// Gives the shares of a prepared claim this size, or what they have claimed where there is none. It may be done again and
    /// again, with no effect on the programs.
    ///
    /// # Errors
    /// [`ResizeFailure`].
    pub fn resize(
        &self,
        claim: &AllocatedClaim,
        size: Option<&ClaimSize>,
    ) -> Result<ResizedClaim, ResizeFailure> {
        size.map_or(Ok(()), |size| size.check(claim)).map_err(ResizeFailure::Refused)?;
        let plan = self.plan(claim, size)?;
        let mut open = self.open()?;
        let line = open.now.claims.get_mut(&claim.uid).filter(|line| {
            !line.removing && plan.values().all(|tenant| line.ids.contains(&tenant.id))
        });
        let Some(line) = line else {
            let words = format!(
                "claim {}/{} ({}) is not prepared on this node",
                claim.namespace, claim.name, claim.uid
            );
            return Err(PrepareError::new(PrepareReason::ClaimChanged, words).into());
        };
        if size.is_some() {
            line.size = size.cloned();
            self.save(&mut open)?;
        }
        for tenant in plan.values() {
            self.set(&tenant.id, &tenant.limits)?;
        }
        if size.is_none()
            && let Some(line) = open.now.claims.get_mut(&claim.uid)
        {
            line.size = None;
            self.save(&mut open)?;
        }
        Ok(self.resized(claim, size, &plan))
    }

    fn resized(
        &self,
        claim: &AllocatedClaim,
        size: Option<&ClaimSize>,
        plan: &ClaimPlan,
    ) -> ResizedClaim {
        let parts: Vec<_> = claim.shares.iter().map(|share| SharePart::of(share, size)).collect();
        ResizedClaim {
            memory_bytes: of_all(parts.iter().map(|part| part.memory_bytes)),
            cores_percent: of_all(parts.iter().map(|part| part.most_cores)),
            held: plan.values().flat_map(|tenant| self.above(tenant)).collect(),
        }
    }

    /// Cards of which a tenant holds more than it may have, in words. What cannot be asked is not told of: limits hold as they are.
    fn above(&self, tenant: &PlannedTenant) -> Vec<String> {
        let held = self.daemon.held(&tenant.id).unwrap_or_default();
        let above = tenant.limits.devices.iter().filter_map(|card| {
            let held = held.get(&card.uuid).filter(|held| **held > card.memory_bytes)?;
            Some(format!(
                "{} of {} were held, above {}: they stay, and more is refused until less is held",
                quantity::binary(*held),
                card.uuid,
                quantity::binary(card.memory_bytes)
            ))
        });
        above.collect()
    }
}

/// The value that all have; none where they differ.
fn of_all<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
