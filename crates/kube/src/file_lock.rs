//! Locks of a node that are files: each ends with its process, however that ends.
//!
//! Promises: opening one never blocks, and what is no file is refused in words, a FIFO or a device that somebody has left in its
//! place. Does not wait: who has patience tries again.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::O_NONBLOCK;

/// A lock, held until this is dropped or its process ends.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: Flock<File>,
}

impl FileLock {
    /// Takes the lock for one alone; nothing where another has it.
    ///
    /// # Errors
    /// The system's, and of what is no file.
    pub(crate) fn try_alone(path: &Path) -> Result<Option<Self>> {
        Self::try_take(path, FlockArg::LockExclusiveNonblock)
    }

    /// Takes the lock beside others that do the same; nothing where one has it alone.
    ///
    /// # Errors
    /// As [`Self::try_alone`].
    pub(crate) fn try_shared(path: &Path) -> Result<Option<Self>> {
        Self::try_take(path, FlockArg::LockSharedNonblock)
    }

    fn try_take(path: &Path, how: FlockArg) -> Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open(&mut options, path)?;
        match Flock::lock(file, how) {
            Ok(file) => Ok(Some(Self { _file: file })),
            Err((_, Errno::EWOULDBLOCK | Errno::EINTR)) => Ok(None),
            Err((_, errno)) => Err(errno.into()),
        }
    }
}

/// Opens a file without waiting for anybody.
///
/// # Errors
/// The system's, and of a FIFO, a device or a folder in the place of a file.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let file = options.custom_flags(O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Error::other("it is no regular file; remove it")),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn it_is_one_alone_or_several_and_never_a_fifo() {
        let folder = std::env::temp_dir().join(format!("divvy-kube-lock-{}", std::process::id()));
        let path = folder.join("below/lock");
        let alone = FileLock::try_alone(&path).unwrap().unwrap();
        assert!(FileLock::try_shared(&path).unwrap().is_none());
        drop(alone);
        let both = [(); 2].map(|()| FileLock::try_shared(&path).unwrap().unwrap());
        assert!(FileLock::try_alone(&path).unwrap().is_none());
        drop(both);
        fs::remove_file(&path).unwrap();
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let refused = FileLock::try_alone(&path).unwrap_err().to_string();
        assert!(refused.contains("no regular file"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
