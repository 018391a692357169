//! Which devices are this daemon's: one daemon of a machine divides a device's time.
//!
//! A lock file for each device, named by its UUID, lies in a directory of the whole machine: that in
//! `DIVVY_DEVICE_LOCKS`, else /tmp/.divvy-devices. A daemon without the lock lets its tenants share the
//! device by count, and tries again.
//!
//! The machine's daemon comes first: it replaces a file that another could lock by one that only root
//! can, and a user's daemon then finds its own lock gone. It removes the file when it lets go, so that
//! users' daemons can divide the device again. Whoever owns the directory can remove what lies in it, so
//! the machine's daemon moves one that a user has made aside and makes its own. Among users the lock is
//! not defended: any of them can take it first, and what follows is less exact sharing, not none.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::place::{DaemonHome, HomeLock, PRIVATE, take};

/// Where daemons of one machine meet.
const MACHINE: &str = "/tmp/.divvy-devices";

/// The directory of lock files.
#[derive(Clone, Debug)]
pub(super) struct Locks {
    directory: PathBuf,
    is_system: bool,
}

/// The lock of a device that is ours.
#[derive(Debug)]
pub(super) struct DeviceLock {
    held: HomeLock,
    /// Set for a file that nobody but root could lock after us.
    is_system: bool,
}

impl Drop for DeviceLock {
    fn drop(&mut self) {
        if self.is_system {
            self.held.remove();
        }
    }
}

/// State of one device's lock.
#[derive(Debug)]
pub(super) enum Ownership {
    /// Ours.
    Ours(DeviceLock),
    /// Another daemon's.
    Others(PathBuf),
    /// It cannot be had.
    Unusable(String),
}

impl Locks {
    /// Those of the daemon in `home`.
    pub(super) fn of(home: &DaemonHome) -> Self {
        let named = std::env::var_os("DIVVY_DEVICE_LOCKS").filter(|value| !value.is_empty());
        let directory = named.map_or_else(|| PathBuf::from(MACHINE), PathBuf::from);
        Self { directory, is_system: home.is_system() }
    }

    /// Tries to make the device with this UUID ours.
    pub(super) fn take(&self, uuid: &str) -> Ownership {
        make(&self.directory);
        if self.is_system {
            make_roots(&self.directory);
        }
        let path = self.directory.join(format!("{uuid}.lock"));
        let private = |status: &Metadata| status.uid() == 0 && status.mode() & 0o777 == PRIVATE;
        if self.is_system && std::fs::symlink_metadata(&path).is_ok_and(|file| !private(&file)) {
            // Where this fails the lock is taken, or not, as by a user.
            let _ = std::fs::remove_file(&path);
        }
        match take(&path, if self.is_system { PRIVATE } else { 0o644 }) {
            Ok(Some(held)) => Ownership::Ours(DeviceLock { held, is_system: self.is_system }),
            Ok(None) => Ownership::Others(path),
            // Root's: the machine's daemon has made it.
            Err(error) if is_denied(&error) => Ownership::Others(path),
            Err(error) => Ownership::Unusable(format!("{error:#}")),
        }
    }
}

fn is_denied(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

impl Ownership {
    /// Whether it is ours, and its lock where others look for it.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(lock) if lock.held.is_in_place())
    }
}

/// Makes a directory that every user may lock files in; one that is there stays as it is.
fn make(directory: &Path) {
    if DirBuilder::new().mode(0o1777).create(directory).is_ok() {
        // The umask must not keep the others out. Where this fails they say so.
        let _ = std::fs::set_permissions(directory, Permissions::from_mode(0o1777));
    }
}

/// Puts a directory of root's in the place of a user's. Where that fails the user's serves as well as it
/// can; a link of a user's is never followed ([`take`]).
fn make_roots(directory: &Path) {
    let is_users = |status: &Metadata| status.uid() != 0;
    if !std::fs::symlink_metadata(directory).is_ok_and(|status| is_users(&status)) {
        return;
    }
    let aside = format!("{}.{}", directory.display(), divvy_page::now_ns());
    if std::fs::rename(directory, aside).is_ok() {
        make(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_owner() {
        let base = std::env::temp_dir().join(format!("divvy-owned-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let locks = |name: &str, is_system| Locks { directory: base.join(name), is_system };
        let users = locks("a", false);
        let first = users.take("GPU-1");
        assert!(first.is_ours());
        assert!(matches!(users.take("GPU-1"), Ownership::Others(_)));
        assert!(users.take("GPU-2").is_ours());
        std::fs::remove_file(base.join("a/GPU-1.lock")).unwrap();
        assert!(!first.is_ours());
        let second = users.take("GPU-1");
        assert!(second.is_ours());
        let mode = std::fs::metadata(base.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
        assert!(matches!(locks("no/such", false).take("GPU-1"), Ownership::Unusable(_)));
        if crate::tenants::tenant_dir::uid() == 0 {
            let machine = locks("a", true).take("GPU-1");
            assert!(machine.is_ours() && !second.is_ours());
            assert!(matches!(users.take("GPU-1"), Ownership::Others(_)));
            assert!(machine.is_ours());
            // A directory that is a user's, or leads where a user likes.
            let at = base.join("a");
            std::os::unix::fs::chown(&at, Some(65534), None).unwrap();
            assert!(locks("a", true).take("GPU-3").is_ours() && !machine.is_ours());
            assert_eq!(std::fs::metadata(&at).unwrap().uid(), 0);
            std::fs::rename(&at, base.join("aside")).unwrap();
            std::os::unix::fs::symlink("aside", &at).unwrap();
            std::os::unix::fs::lchown(&at, Some(65534), None).unwrap();
            assert!(matches!(users.take("GPU-4"), Ownership::Unusable(_)));
            assert!(locks("a", true).take("GPU-4").is_ours());
            assert!(!base.join("aside/GPU-4.lock").exists());
            drop(machine);
            assert!(users.take("GPU-1").is_ours(), "it leaves nothing that keeps users away");
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
