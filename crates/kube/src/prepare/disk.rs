//! Files of the node, as the prepare core touches them; tests have some that fail or end at any step.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::ids;
use crate::file_lock;

/// Mode of what is written: a runtime of another user reads it, programs read the list of what to preload.
const MODE: u32 = 0o644;

/// Files of a node.
pub trait NodeDisk {
    /// Bytes of a file; `None` where it is not there.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>>;

    /// Writes a new file, in the place of one that was left there, and waits until it is on the disk.
    ///
    /// # Errors
    /// The system's.
    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<()>;

    /// Renames a file over another.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file; one that is not there is removed.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Names in a folder; none where it is not there.
    ///
    /// # Errors
    /// The system's.
    fn names(&self, folder: &Path) -> Result<Vec<String>>;

    /// Whether a file can be reached.
    fn is_file(&self, path: &Path) -> bool;
}

/// Writes a file in one step for whoever reads it. The folder is not synchronised: after a loss of power nothing of it counts.
pub(super) fn replace(disk: &impl NodeDisk, path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let new = path.with_file_name(ids::aside(name));
    let written = disk.write_new(&new, bytes).and_then(|()| disk.rename(&new, path));
    if written.is_err() {
        // Of a failure the first counts.
        let _ = disk.remove(&new);
    }
    written
}

/// The host's own files.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDisk;

fn missing_is<T>(result: Result<T>, value: T) -> Result<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(value),
        other => other,
    }
}

impl NodeDisk for HostDisk {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let opened = file_lock::open(OpenOptions::new().read(true), path);
        let Some(mut file) = missing_is(opened.map(Some), None)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map(|_| Some(bytes))
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        if let Some(folder) = path.parent() {
            // A reboot empties /var/run.
            fs::create_dir_all(folder)?;
        }
        self.remove(path)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
        file.write_all(bytes)?;
        // The umask must not keep readers out.
        file.set_permissions(Permissions::from_mode(MODE))?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            // On what is read-only that is said of what is not there, too.
            Err(error) => match fs::symlink_metadata(path) {
                Err(looked) if looked.kind() == ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            },
            Ok(()) => Ok(()),
        }
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let Some(entries) = missing_is(fs::read_dir(folder).map(Some), None)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is no text is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn what_is_no_file_is_refused_and_never_waited_for() {
        let folder = std::env::temp_dir().join(format!("divvy-kube-disk-{}", std::process::id()));
        let path = folder.join("checkpoint.json");
        assert_eq!(HostDisk.read(&path).unwrap(), None);
        HostDisk.write_new(&path, b"{}").unwrap();
        assert_eq!(HostDisk.read(&path).unwrap(), Some(b"{}".to_vec()));
        fs::remove_file(&path).unwrap();
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let refused = HostDisk.read(&path).unwrap_err().to_string();
        assert!(refused.contains("no regular file"), "{refused}");
        assert!(HostDisk.read(&folder).is_err(), "a folder is none either");
        fs::remove_dir_all(&folder).unwrap();
    }
}
