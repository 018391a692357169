//! Which devices are this daemon's: one daemon of a machine divides a device's time.
//!
//! A lock file for each device, named by its UUID, lies in a directory of the whole machine: that in
//! `DIVVY_DEVICE_LOCKS`, else /tmp/.divvy-devices; the machine's daemon also holds one in /run/divvy.
//! A daemon without the lock lets its tenants share the device by count, and tries again.
//!
//! Does not defend the lock: any user can take it first, and what follows is less exact sharing, not
//! none.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::place::{Held, Home, take};

/// Where daemons of one machine meet.
const MACHINE: &str = "/tmp/.divvy-devices";

/// The directories of lock files.
#[derive(Clone, Debug)]
pub(super) struct Locks {
    directories: Vec<PathBuf>,
}

/// What is known of one device's lock.
#[derive(Debug)]
pub(super) enum Ownership {
    /// Ours.
    Ours(Vec<Held>),
    /// Another daemon's.
    Others(PathBuf),
    /// It cannot be had.
    Unusable(String),
}

impl Locks {
    /// Those of the daemon in `home`.
    pub(super) fn of(home: &Home) -> Self {
        let machine = std::env::var_os("DIVVY_DEVICE_LOCKS").filter(|value| !value.is_empty());
        let mut directories = vec![machine.map_or_else(|| PathBuf::from(MACHINE), PathBuf::from)];
        if home.is_system() {
            directories.push(home.directory().join("devices"));
        }
        Self { directories }
    }

    /// Tries to make the device with this UUID ours.
    pub(super) fn take(&self, uuid: &str) -> Ownership {
        let mut held = Vec::new();
        for directory in &self.directories {
            make(directory);
            let path = directory.join(format!("{uuid}.lock"));
            match take(&path) {
                Ok(Some(lock)) => held.push(lock),
                Ok(None) => return Ownership::Others(path),
                Err(error) => return Ownership::Unusable(format!("{error:#}")),
            }
        }
        Ownership::Ours(held)
    }
}

impl Ownership {
    /// Whether it is ours, and its lock where others look for it.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(held) if held.iter().all(Held::is_in_place))
    }
}

/// Makes a directory that every user may lock files in; one that is there stays as it is.
fn make(directory: &Path) {
    if DirBuilder::new().mode(0o1777).create(directory).is_ok() {
        // The umask must not keep the others out. Where this fails they say so.
        let _ = std::fs::set_permissions(directory, Permissions::from_mode(0o1777));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_owner() {
        let base = std::env::temp_dir().join(format!("divvy-owned-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let locks = Locks { directories: vec![base.join("a"), base.join("b")] };
        let first = locks.take("GPU-1");
        assert!(first.is_ours());
        assert!(matches!(locks.take("GPU-1"), Ownership::Others(_)));
        assert!(locks.take("GPU-2").is_ours());
        std::fs::remove_file(base.join("b/GPU-1.lock")).unwrap();
        assert!(!first.is_ours());
        drop(first);
        assert!(locks.take("GPU-1").is_ours());
        let mode = std::fs::metadata(base.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
        let nowhere = Locks { directories: vec![base.join("no/such")] };
        assert!(matches!(nowhere.take("GPU-1"), Ownership::Unusable(_)));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
