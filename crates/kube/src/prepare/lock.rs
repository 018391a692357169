//! Lock of the checkpoint: one instance at a time, and none for longer than it lives.
//!
//! A file of its own, since the checkpoint is another file after each change.

use std::path::Path;
use std::time::{Duration, Instant};

use super::reason::{PrepareError, PrepareReason};
use crate::file_lock::FileLock;

/// How long another instance is waited for. The kubelet gives a call 45 seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(2);

/// The lock, held until this is dropped or its process ends.
#[derive(Debug)]
pub(super) struct CheckpointLock {
    _file: FileLock,
}

impl CheckpointLock {
    /// Takes the lock, waiting for whoever has it.
    pub(super) fn take(path: &Path) -> Result<Self, PrepareError> {
        Self::take_within(path, PATIENCE)
    }

    fn take_within(path: &Path, patience: Duration) -> Result<Self, PrepareError> {
        let cannot = |why: &dyn std::fmt::Display| {
            let words = format!("{} cannot be locked: {why}", path.display());
            PrepareError::new(PrepareReason::CheckpointFailed, words)
        };
        let give_up = Instant::now() + patience;
        loop {
            if let Some(file) = FileLock::try_alone(path).map_err(|error| cannot(&error))? {
                return Ok(Self { _file: file });
            }
            std::thread::sleep(PAUSE);
            // Behind the pause: a process that was stopped in it does nothing late, since another one may have done it meanwhile.
            if Instant::now() >= give_up {
                let words =
                    format!("another instance has held {} for {patience:?}", path.display());
                return Err(PrepareError::new(PrepareReason::Locked, words));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_instances_and_given_up_in_words() {
        let folder =
            std::env::temp_dir().join(format!("divvy-kube-checkpoint-lock-{}", std::process::id()));
        let path = folder.join("lock");
        let held = CheckpointLock::take(&path).unwrap();
        let refused = CheckpointLock::take_within(&path, Duration::ZERO).unwrap_err();
        assert_eq!(refused.reason, PrepareReason::Locked);
        drop(held);
        CheckpointLock::take_within(&path, Duration::ZERO).unwrap();
        let below = CheckpointLock::take_within(&path.join("x"), Duration::ZERO).unwrap_err();
        assert_eq!(below.reason, PrepareReason::CheckpointFailed);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
