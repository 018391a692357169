//! Socket of a path: bound where none answers, and removed by whoever bound it.
//!
//! Promises: what a killed instance left is removed; a socket on which somebody answers, or a file of another kind, never is.
//! Two instances that begin in the same moment on one path are not told apart: a DaemonSet starts one, or gives each pod its
//! own path.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio::net::{UnixListener, UnixStream};

/// A file, known from another that takes its path.
#[derive(Debug)]
pub(crate) struct PinnedFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// The file itself, though not open for anything: as long as this is held, no other gets its inode.
    pin: File,
}

impl PinnedFile {
    /// The file that is at `path`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
        let pin = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let found = pin.metadata()?;
        Ok(Self { path: path.to_owned(), identity: (found.dev(), found.ino()), pin })
    }

    /// How long it has been there, by the clock; none where that cannot be.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.pin.metadata().ok()?.modified().ok()?.elapsed().ok()
    }

    /// Whether the path still leads here.
    pub(crate) fn is_there(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }
}

/// A bound socket's file, which is removed with this.
#[derive(Debug)]
pub(super) struct SocketFile(PinnedFile);

/// Binds `path`, in a folder that is made.
///
/// # Errors
/// In words, with the path.
pub(super) async fn bind(path: &Path) -> Result<(UnixListener, SocketFile), String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("{shown} cannot be bound: {error}");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(format!("{shown} is no socket; remove it, or name another driver"));
        }
        Ok(_) => match UnixStream::connect(path).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(cannot)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // A listener whose queue is full says WouldBlock.
            Ok(_) | Err(_) => {
                return Err(format!(
                    "another process answers on {shown}; end it, or set POD_UID where two agents are to run"
                ));
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(error)),
    }
    let listener = UnixListener::bind(path).map_err(cannot)?;
    // The kubelet is root; nobody else is to ask.
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(cannot)?;
    let file = PinnedFile::of(path).map_err(cannot)?;
    Ok((listener, SocketFile(file)))
}

impl SocketFile {
    /// Whether the path still leads here.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_there()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.0.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_left_is_removed_and_what_answers_is_not() {
        let folder = std::env::temp_dir().join(format!("divvy-kube-bind-{}", std::process::id()));
        let path = folder.join("below/a.sock");
        let (listener, file) = bind(&path).await.unwrap();
        let error = bind(&path).await.unwrap_err();
        assert!(error.contains("answers on") && error.contains("a.sock"), "{error}");
        assert!(file.is_there());

        // A killed instance closes its listener and leaves the file.
        drop(listener);
        let (_listener, next) = bind(&path).await.unwrap();
        assert!(!file.is_there());
        drop(file);
        assert!(next.is_there());
        drop(next);
        assert!(!path.exists());

        fs::write(&path, "a file").unwrap();
        assert!(bind(&path).await.unwrap_err().contains("no socket"));
        assert!(bind(&path.join("x")).await.unwrap_err().contains("cannot be bound"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
