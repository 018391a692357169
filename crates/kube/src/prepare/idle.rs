//! Claims that nobody asks for any more: taken back where no program holds memory of a card.
//!
//! Does not know whether a claim is gone; whoever asks does.

use super::back::Unprepared;
use super::core::PrepareCore;
use super::daemon::NodeDaemon;
use super::disk::NodeDisk;
use super::held::HeldClaim;
use super::mark::CheckpointMark;

impl<D: NodeDaemon, K: NodeDisk> PrepareCore<D, K> {
    /// Takes those of these claims back of which no program holds memory; which they were. A daemon that does not answer knows of none, and
    /// none are where another instance has changed the node since the mark.
    pub fn unprepare_idle(&self, claims: &[HeldClaim], since: CheckpointMark) -> Vec<HeldClaim> {
        let is_idle = |claim: &&HeldClaim| {
            claim.tenants.iter().all(|tenant| match self.daemon.held(&tenant.id) {
                Ok(held) => held.values().all(|bytes| *bytes == 0),
                Err(error) => error.is_unknown_tenant(),
            })
        };
        let idle: Vec<HeldClaim> = claims.iter().filter(is_idle).cloned().collect();
        let uids: Vec<String> = idle.iter().map(|claim| claim.uid.clone()).collect();
        let taken = self.unprepare_since(&uids, since);
        let is_taken = |(_, answer): &(HeldClaim, Unprepared)| answer.result.is_ok();
        idle.into_iter().zip(taken).filter(is_taken).map(|(claim, _)| claim).collect()
    }
}
