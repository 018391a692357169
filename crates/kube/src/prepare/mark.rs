//! Mark of the checkpoint: says whether another instance has changed the node since a call began.
//!
//! A call may come to its turn with news that is over, as which share a claim has: its process was stopped, and another instance has
//! prepared and taken back meanwhile. Such a call does nothing, however much time it has left. An instance's own calls come one after
//! the other, and none of them is news to the next.
//!
//! Promises: no clock is asked. A checkpoint that was lost begins to count again, and a call from before is not held up by it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::checkpoint::{ClaimCheckpoint, FoundCheckpoint};
use super::disk::NodeDisk;
use super::reason::{PrepareError, PrepareReason};
use super::spec::PreparePlaces;

/// State of the checkpoint at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointMark {
    writes: u64,
}

/// Instance, by which it knows its own changes.
#[derive(Debug)]
pub(super) struct InstanceMark {
    own: String,
    /// Number of the last change by another that was seen.
    foreign: AtomicU64,
}

impl InstanceMark {
    /// A name that no other instance has.
    pub(super) fn new() -> Self {
        let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
        let own = random.map_or_else(|_| std::process::id().to_string(), |it| it.trim().to_owned());
        Self { own, foreign: AtomicU64::new(0) }
    }

    /// The mark now, read without the lock: the file is exchanged whole.
    pub(super) fn now(&self, disk: &impl NodeDisk, places: &PreparePlaces) -> CheckpointMark {
        let bytes = disk.read(&places.checkpoint()).ok().flatten();
        let found = bytes.map(|bytes| ClaimCheckpoint::read(&bytes, &places.boot_id));
        match found {
            Some(FoundCheckpoint::Ours(found)) => CheckpointMark { writes: found.writes },
            _ => CheckpointMark::default(),
        }
    }

    /// Notes whose change the last one is, under the lock.
    pub(super) fn see(&self, checkpoint: &ClaimCheckpoint) {
        if checkpoint.writer != self.own {
            self.foreign.store(checkpoint.writes, Ordering::Relaxed);
        }
    }

    /// Checks that no other instance has changed anything since.
    pub(super) fn check(&self, since: CheckpointMark) -> Result<(), PrepareError> {
        if self.foreign.load(Ordering::Relaxed) <= since.writes {
            return Ok(());
        }
        let words = "another instance has changed the node since this was asked; asked again";
        Err(PrepareError::new(PrepareReason::Overtaken, words))
    }

    /// Signs a change.
    pub(super) fn sign(&self, checkpoint: &mut ClaimCheckpoint) {
        checkpoint.writes = checkpoint.writes.saturating_add(1);
        checkpoint.writer.clone_from(&self.own);
    }
}
