//! First limits of a tenant, which `divvy set … default` gives back.
//!
//! The first change of a tenant keeps its limits as they stood, in a file beside its config, before it
//! writes anything. Whether a config has been changed is told by its epoch: the library writes a new
//! tenant's with epoch 0, again whenever the tenant starts with no process left from before; `divvy run`
//! writes it with epoch 2; each change adds 2. Promises: the file is found by the directory's
//! descriptor and never through a link, is written whole or not at all, and is believed only as far as its
//! limits are understood. A tenant whose first change kept nothing (an older Divvy, a full disk) has no
//! start that is known.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use divvy_abi::config::{Config, Rule};
use divvy_policy::share;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::{Deserialize, Serialize};

use crate::tenants::limits;

/// The file.
const FILE: &str = "started";
/// Epochs of a config that was not changed.
const BY_LIBRARY: u64 = 0;
const BY_RUN: u64 = 2;
/// More is no file of ours: each limit takes some tens of bytes.
const MOST_BYTES: u64 = 64 << 10;

/// The limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) memory: Vec<Rule>,
    pub(crate) compute: Vec<Rule>,
    pub(crate) weight: u32,
    pub(crate) priority: i32,
    pub(crate) class: u32,
}

/// The same in the words of the command line, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    memory: Vec<String>,
    compute: Vec<String>,
    /// 0 is the default.
    weight: u32,
    priority: String,
    class: String,
}

/// Keeps what `config` says where it was not changed yet; called before the first change is written.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn keep(directory: &impl AsFd, config: &Config) -> Result<()> {
    // Half-way through being written, an epoch is odd.
    let epoch = config.epoch & !1;
    if epoch == BY_LIBRARY || (epoch == BY_RUN && open_kept(directory).is_none()) {
        write(directory, &Start::of(config))?;
    }
    Ok(())
}

/// First limits of the tenant; `None` if it was changed and they are not known.
pub(crate) fn read(directory: &impl AsFd, config: &Config) -> Option<Start> {
    if config.epoch & !1 == BY_LIBRARY {
        return Some(Start::of(config));
    }
    match open_kept(directory) {
        Some(file) => parse(file).ok(),
        None => (config.epoch & !1 == BY_RUN).then(|| Start::of(config)),
    }
}

fn open_kept(directory: &impl AsFd) -> Option<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(directory, FILE, flags, Mode::empty()).ok()?);
    file.metadata().is_ok_and(|status| status.is_file()).then_some(file)
}

fn parse(file: File) -> Result<Start> {
    let mut text = String::new();
    let bytes = file.take(MOST_BYTES + 1).read_to_string(&mut text)? as u64;
    ensure!(bytes <= MOST_BYTES, "it is too long");
    let kept: Kept = serde_json::from_str(&text)?;
    let words = |error: share::ShareError<'_>| anyhow::anyhow!("{error}");
    Ok(Start {
        memory: limits::rules(&kept.memory, &[])?.as_slice().to_vec(),
        compute: limits::compute_rules(&kept.compute, &[])?.as_slice().to_vec(),
        weight: match kept.weight {
            0 => 0,
            weight => share::parse_weight(&weight.to_string()).map_err(words)?,
        },
        priority: share::parse_priority(&kept.priority).map_err(words)?,
        class: share::parse_class(&kept.class).map_err(words)?,
    })
}

fn write(directory: &impl AsFd, start: &Start) -> Result<()> {
    let kept = Kept {
        memory: start.memory.iter().map(limits::text).collect(),
        compute: start.compute.iter().map(limits::text).collect(),
        weight: start.weight,
        priority: share::priority_word(start.priority).to_owned(),
        class: share::class_word(start.class).to_owned(),
    };
    let new = format!(".{FILE}.{}", std::process::id());
    // Left by a process of that number that was killed.
    let _ = unlinkat(directory, new.as_str(), UnlinkatFlags::NoRemoveDir);
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let written = (|| {
        let mut file = File::from(openat(directory, new.as_str(), flags | OFlag::O_CLOEXEC, mode)?);
        // The tenant's owner may read the file of the machine's daemon, whatever the umask.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        renameat(directory, new.as_str(), directory, FILE)?;
        anyhow::Ok(())
    })();
    if written.is_err() {
        let _ = unlinkat(directory, new.as_str(), UnlinkatFlags::NoRemoveDir);
    }
    written.context("what the tenant was started with cannot be kept")
}

impl Start {
    /// Limits of `config`.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            memory: config.rules().to_vec(),
            compute: config.compute_rules().to_vec(),
            weight: config.weight,
            priority: config.priority,
            class: config.class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenants::dir::Dir;

    fn base(name: &str) -> (std::path::PathBuf, Dir) {
        let path = std::env::temp_dir().join(format!("divvy-start-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let directory = Dir::open(&path).unwrap();
        (path, directory)
    }

    fn config(epoch: u64, weight: u32) -> Config {
        let rules = limits::rules(&["8GiB,1=12.5%,2=0,3=1025B".to_owned()], &[]).unwrap();
        let mut config = limits::config("x", &rules, false, false);
        (config.epoch, config.weight) = (epoch, weight);
        config
    }

    #[test]
    fn the_first_change_keeps_what_was_there() {
        let (path, directory) = base("first");
        assert_eq!(read(&directory, &config(4, 9)), None, "nobody kept it");
        assert_eq!(read(&directory, &config(2, 9)), Some(Start::of(&config(2, 9))));
        keep(&directory, &config(2, 7)).unwrap();
        keep(&directory, &config(4, 9)).unwrap();
        assert_eq!(read(&directory, &config(6, 9)), Some(Start::of(&config(0, 7))));
        // A tenant of variables that starts again, and is changed again.
        keep(&directory, &config(0, 3)).unwrap();
        assert_eq!(read(&directory, &config(2, 9)), Some(Start::of(&config(0, 3))));
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn what_is_no_file_of_ours_is_not_believed() {
        let (path, directory) = base("bad");
        let kept = path.join(FILE);
        for bad in ["", "{}", "[1]", &"x".repeat(70_000)] {
            std::fs::write(&kept, bad).unwrap();
            assert_eq!(read(&directory, &config(4, 1)), None, "{bad:.9}");
        }
        std::fs::remove_file(&kept).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &kept).unwrap();
        assert_eq!(read(&directory, &config(4, 1)), None);
        // The link is replaced, and what it leads to is left alone.
        keep(&directory, &config(0, 1)).unwrap();
        assert_eq!(read(&directory, &config(4, 1)), Some(Start::of(&config(0, 1))));
        assert!(std::fs::symlink_metadata(&kept).unwrap().is_file());
        nix::unistd::mkfifo(&path.join("fifo"), Mode::S_IRWXU).unwrap();
        std::fs::rename(path.join("fifo"), &kept).unwrap();
        assert_eq!(read(&directory, &config(4, 1)), None, "and nobody waits for a pipe");
        std::fs::remove_dir_all(path).unwrap();
    }
}
