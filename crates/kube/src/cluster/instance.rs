//! Publisher's lock: one instance of the agent on a node writes its slices.
//!
//! In a rolling update two run at once, perhaps of versions that publish different things, and would undo each other's writes
//! for as long as both live. The one that has the lock writes, the other looks on; a lock ends with its process, however
//! that ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// The lock, held until this is dropped or its process ends.
#[derive(Debug)]
pub(super) struct PublisherLock {
    _file: Flock<File>,
}

impl PublisherLock {
    /// Takes it, unless another instance has it.
    pub(super) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self { _file: file })),
            Err((_, Errno::EWOULDBLOCK | Errno::EINTR)) => Ok(None),
            Err((_, errno)) => Err(errno.into()),
        }
    }
}
