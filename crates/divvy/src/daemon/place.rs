//! Where a daemon keeps its lock and its socket, and how it is known to run.
//!
//! A user's daemon lives beside the tenants it serves, in the directory that `divvy run` made for this
//! user alone; the machine's in /run/divvy. Its lock is the kernel's, so a daemon that was killed
//! leaves nothing to clean up: the files it leaves behind mean nothing by themselves.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::Mode;

use divvy_page::AttachError;

use super::reach::{self, SOCKET};
use crate::pause::pause;
use crate::tenants::dir::Dir;
use crate::tenants::{discover, tenant_dir};

/// The machine's daemon's directory.
const SYSTEM: &str = "/run/divvy";

/// The lock in it of whoever serves.
const LOCK: &str = "daemon.lock";

/// Mode of a file that only its owner may lock.
pub(crate) const PRIVATE: u32 = 0o600;

/// More than a pid has.
const MOST_PID_BYTES: u64 = 32;

/// Longest wait for another starter, which waits for the daemon it has started.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// A daemon's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonHome {
    directory: PathBuf,
    is_system: bool,
}

/// A lock of a daemon's, held until dropped.
#[derive(Debug)]
pub(crate) struct HomeLock {
    file: Flock<File>,
    path: PathBuf,
}

impl DaemonHome {
    /// This user's: the first place where tenants can be made.
    pub(crate) fn of_user() -> Result<Self> {
        let uid = tenant_dir::uid();
        let mut last = None;
        for root in tenant_dir::roots(uid) {
            match tenant_dir::make_private(&root, uid) {
                Ok(_) => return Ok(Self { directory: root, is_system: false }),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("there is no /dev/shm and no /tmp"))).context(
            "there is no place for the daemon; set XDG_RUNTIME_DIR to a directory of yours",
        )
    }

    /// The machine's.
    pub(crate) fn of_system() -> Self {
        Self { directory: PathBuf::from(SYSTEM), is_system: true }
    }

    /// The same, made where it is missing. Nobody but root may write there: users trust its socket.
    pub(crate) fn make_system() -> Result<Self> {
        let home = Self::of_system();
        if tenant_dir::uid() != 0 {
            bail!("the machine's daemon writes the tenants of all users: run it as root");
        }
        std::fs::create_dir_all(&home.directory)
            .with_context(|| format!("{SYSTEM} cannot be made"))?;
        let status = std::fs::symlink_metadata(&home.directory)?;
        if !status.is_dir() || status.uid() != 0 {
            bail!("{SYSTEM} is not a directory of root's; remove it");
        }
        std::fs::set_permissions(&home.directory, Permissions::from_mode(0o755))
            .with_context(|| format!("{SYSTEM} cannot be closed to others"))?;
        Ok(home)
    }

    /// That in `directory`, which must be this user's alone.
    pub(crate) fn at(directory: PathBuf) -> Result<Self> {
        tenant_dir::make_private(&directory, tenant_dir::uid())?;
        Ok(Self { directory, is_system: false })
    }

    /// That of the daemon that serves the tenant in `directory`, which `divvy run` made.
    pub(crate) fn of_tenant(directory: &Path) -> Option<Self> {
        let root = directory.parent().and_then(Path::parent)?;
        Some(Self { directory: root.to_owned(), is_system: false })
    }

    /// Every one that this user's tenants may be served from.
    pub(crate) fn all() -> Vec<Self> {
        let users = tenant_dir::roots(tenant_dir::uid()).into_iter();
        let users = users.map(|directory| Self { directory, is_system: false });
        let system = (!tenant_dir::is_apart()).then(Self::of_system);
        system.into_iter().chain(users).collect()
    }

    /// Whether the machine's daemon serves the tenants of this home, so that no other is to.
    pub(crate) fn is_machines(&self) -> bool {
        discover::is_users(&self.directory, tenant_dir::uid()) && Self::of_system().is_served()
    }

    /// Whether it is the machine's.
    pub(crate) fn is_system(&self) -> bool {
        self.is_system
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// Log of a daemon that was started on demand.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("daemon.log")
    }

    fn lock_path(&self) -> PathBuf {
        self.directory.join(LOCK)
    }

    /// Becomes this home's daemon; `None` while another one is.
    pub(crate) fn lock(&self) -> Result<Option<HomeLock>> {
        // A process that looks for a running daemon has the lock for an instant.
        for _ in 0..10 {
            if let Some(mut held) = take(&self.lock_path(), PRIVATE)? {
                let pid = format!("{}\n", std::process::id());
                let written =
                    held.file.set_len(0).and_then(|()| held.file.write_all(pid.as_bytes()));
                written
                    .with_context(|| format!("{} cannot be written", self.lock_path().display()))?;
                return Ok(Some(held));
            }
            pause(Duration::from_millis(5));
        }
        Ok(None)
    }

    /// Whether a daemon runs here.
    pub(crate) fn is_served(&self) -> bool {
        if self.is_system {
            // The lock is root's alone to look at: else any user could hold it.
            return reach::is_answered(&self.directory, self.is_system);
        }
        let file = Dir::open(&self.directory).map(|dir| dir.file(LOCK));
        let Ok(Ok(Some(file))) = file else { return false };
        Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
    }

    /// Pid of the process that has the lock, where this user may know it.
    pub(crate) fn holder(&self) -> Option<u32> {
        let file = Dir::open(&self.directory).ok()?.file(LOCK).ok()??;
        let mut text = String::new();
        (&file).take(MOST_PID_BYTES).read_to_string(&mut text).ok()?;
        // A lock that can be had is nobody's.
        Flock::lock(file, FlockArg::LockSharedNonblock)
            .is_err()
            .then(|| text.trim().parse().ok())?
    }

    /// Words for a home in which no daemon answers: none runs, or one hangs.
    pub(crate) fn silence(&self) -> String {
        let directory = self.directory.display();
        match self.holder() {
            Some(pid) => format!(
                "pid {pid} holds {directory}/{LOCK} and does not answer: `kill -KILL {pid}` ends it, tenants go on"
            ),
            None => format!("no daemon answers in {directory}"),
        }
    }

    /// Takes the lock that whoever starts a daemon holds, and a daemon that ends of its own accord.
    pub(crate) fn start_lock(&self) -> Result<HomeLock> {
        let give_up = Instant::now() + START_PATIENCE;
        loop {
            if let Some(held) = self.try_start_lock()? {
                return Ok(held);
            }
            if Instant::now() >= give_up {
                bail!(
                    "somebody has been starting a daemon in {} for 5 s",
                    self.directory.display()
                );
            }
            pause(Duration::from_millis(2));
        }
    }

    /// The same without waiting.
    pub(crate) fn try_start_lock(&self) -> Result<Option<HomeLock>> {
        take(&self.directory.join("daemon.start"), PRIVATE)
    }
}

impl HomeLock {
    /// Whether the file is still where others look for it.
    pub(crate) fn is_in_place(&self) -> bool {
        is_same(&self.file, &self.path)
    }

    /// Removes the file, where it is still the one that is locked.
    pub(crate) fn remove(&self) {
        if self.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Takes the lock of the file at `path`, making it with `mode` where it is missing; `None` while
/// another has it. Whoever may read the file may lock it. Of links in the directory's place root's and
/// this user's own are followed, of one in the file's none.
pub(crate) fn take(path: &Path, mode: u32) -> Result<Option<HomeLock>> {
    let cannot = || format!("{} cannot be locked", path.display());
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        bail!("{} names no file", path.display())
    };
    let dir = match Dir::open_through(directory) {
        // An error of a tenant's directory would speak of that.
        Err(AttachError::Directory(errno)) => {
            bail!("{}: {} cannot be opened: {errno}", cannot(), directory.display())
        }
        other => other.with_context(cannot)?,
    };
    let open = |flags: OFlag| -> std::io::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&dir, name, flags, Mode::from_bits_truncate(mode))?))
    };
    for _ in 0..3 {
        // Another user's file can be locked too, and must not be opened for creation: the kernel
        // forbids that in directories such as /tmp.
        let opened = match open(OFlag::O_RDWR) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => open(OFlag::O_RDONLY),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                open(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)
            }
            other => other,
        };
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            other => other.with_context(cannot)?,
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) if is_same(&file, path) => {
                return Ok(Some(HomeLock { file, path: path.to_owned() }));
            }
            // Removed or replaced meanwhile.
            Ok(_) => {}
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(errno).with_context(cannot),
        }
    }
    bail!("{} is replaced again and again", path.display())
}

fn is_same(file: &File, path: &Path) -> bool {
    let ours = file.metadata().map(|status| (status.dev(), status.ino()));
    let there = std::fs::symlink_metadata(path).map(|status| (status.dev(), status.ino()));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_one_daemon_and_a_replaced_lock_is_noticed() {
        let directory = std::env::temp_dir().join(format!("divvy-home-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let home = DaemonHome { directory: directory.clone(), is_system: false };
        assert!(!home.is_served());
        let held = home.lock().unwrap().unwrap();
        assert!(home.is_served() && held.is_in_place());
        assert!(home.lock().unwrap().is_none());
        std::fs::remove_file(home.lock_path()).unwrap();
        assert!(!held.is_in_place());
        drop(held);
        assert!(home.lock().unwrap().is_some());
        std::os::unix::fs::symlink("/etc/passwd", directory.join("link")).unwrap();
        assert!(take(&directory.join("link"), PRIVATE).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
