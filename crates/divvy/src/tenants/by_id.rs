//! Tenants that a daemon keeps by an id, on disk: made, changed and removed in steps of which none can be half done.
//!
//! Each user's lie in a folder that is that user's alone, `by-id/UID/ID` in the daemon's home; the directory of a tenant in
//! it lets in every user, since a container it is mounted into may run as any. A tenant's limits are its `config`, its id the
//! name of its directory, its user that of the folder. So there is no other record, and nothing to bring back after a
//! restart. A tenant is made whole in the daemon's own folder and then given its name; one that is removed loses its name
//! first and its files later, when nobody lives in it, and has its turns and limits until then.
//!
//! Promises: a daemon that is killed between any two steps leaves a tenant that is there or none, and what else it leaves
//! is swept; a folder of a user's is reached through what is open, never through a link, and what is found there must be
//! that user's. Nothing here waits for a tenant.
//!
//! Does not say who may ask, nor how many tenants a user may have: that is `daemon::by_id`'s.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use divvy_abi::config::Config;
use divvy_page::owner::Owner;
use divvy_page::{AttachError, Errno, now_ns, reader};

use crate::tenants::asked_limits::{AskedLimits, CallRefusal};
use crate::tenants::dir::Dir;
use crate::tenants::snapshot::Snapshot;
use crate::tenants::tenant_dir::{self, MEETING, private};
use crate::tenants::{limits, started};
use crate::wire::by_id::RefusalCode;

/// The folder in a daemon's home.
pub(crate) const FOLDER: &str = "by-id";
/// Beginnings of names that are no ids: of a tenant that is being made, and of one that is removed.
const NEW: &str = ".new.";
const REMOVED: &str = ".removed.";
/// Names looked at in a folder of a user's.
const MOST_NAMES: usize = 4096;
/// Mode of a tenant's directory: whoever can reach it may join.
const OPEN: u32 = 0o777;
/// Mode of the folder of folders, where users go through to their own.
const PASSED: u32 = 0o711;

/// The tenants by id of one daemon.
#[derive(Debug)]
pub(crate) struct TenantsById {
    all: Dir,
    path: PathBuf,
}

/// A tenant that was found by its id.
#[derive(Debug)]
pub(crate) struct TenantFound {
    pub(crate) id: String,
    pub(crate) uid: u32,
    pub(crate) path: PathBuf,
    pub(crate) dir: Dir,
}

/// A tenant that was removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) existed: bool,
    /// Processes that live in it.
    pub(crate) processes: u32,
}

fn failed(error: anyhow::Error) -> CallRefusal {
    CallRefusal::new(RefusalCode::Failed, format!("{error:#}"))
}

fn is_missing(error: &AttachError) -> bool {
    matches!(error, AttachError::Directory(Errno(ENOENT)))
}

const ENOENT: i32 = nix::errno::Errno::ENOENT as i32;

impl TenantsById {
    /// Those in `home`; `None` where none was ever made.
    pub(crate) fn open(home: &Path) -> Result<Option<Self>> {
        let home_dir = Dir::open(home)?;
        match home_dir.below(FOLDER.as_ref()) {
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} cannot be used", home.display())),
            Ok(all) if all.uid() != tenant_dir::uid() => {
                bail!("{} belongs to uid {}; remove it", home.join(FOLDER).display(), all.uid())
            }
            Ok(all) => Ok(Some(Self { all, path: home.join(FOLDER) })),
        }
    }

    /// The same, made where they are missing.
    pub(crate) fn make(home: &Path) -> Result<Self> {
        let all = private(&Dir::open(home)?, FOLDER)?;
        set_mode(&all, PASSED)?;
        Ok(Self { all, path: home.join(FOLDER) })
    }

    /// Folder of a user; made where it is missing and that is wanted.
    fn of_user(&self, uid: u32, is_made: bool) -> Result<Option<Dir>> {
        let (name, me) = (uid.to_string(), tenant_dir::uid());
        let path = self.path.join(&name);
        let opened = || self.all.below(name.as_ref());
        let folder = match opened() {
            Err(error) if is_missing(&error) && is_made => {
                self.all.make(name.as_ref())?;
                opened()
            }
            Err(error) if is_missing(&error) => return Ok(None),
            other => other,
        };
        let folder = folder.with_context(|| format!("{} cannot be used", path.display()))?;
        if folder.uid() == me && is_made {
            // New, or left by a daemon that was killed just here. The folder becomes the user's last of all.
            match folder.make(MEETING.as_ref()) {
                Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            give(folder.below(MEETING.as_ref())?, uid)?;
            give(&folder, uid)?;
            return Ok(Some(self.all.below(name.as_ref())?));
        }
        match folder.uid() == uid {
            true => Ok(Some(folder)),
            // The folder is not the user's yet: nothing was made in it.
            false if folder.uid() == me => Ok(None),
            false => bail!("{} belongs to uid {}; remove it", path.display(), folder.uid()),
        }
    }

    /// Path of a tenant's directory, whether it is there or not.
    pub(crate) fn path_of(&self, uid: u32, id: &str) -> PathBuf {
        self.path.join(uid.to_string()).join(id)
    }

    /// The tenant `id` of `uid`; `None` where there is none.
    pub(crate) fn find(&self, uid: u32, id: &str) -> Result<Option<TenantFound>, CallRefusal> {
        let folder = self.of_user(uid, false).map_err(failed)?;
        folder.map_or(Ok(None), |folder| self.find_in(&folder, uid, id))
    }

    fn find_in(
        &self,
        folder: &Dir,
        uid: u32,
        id: &str,
    ) -> Result<Option<TenantFound>, CallRefusal> {
        let path = self.path_of(uid, id);
        let refuse = |words: String| CallRefusal::new(RefusalCode::Failed, words);
        match folder.below(id.as_ref()) {
            Ok(dir) if dir.uid() == uid => {
                Ok(Some(TenantFound { id: id.to_owned(), uid, path, dir }))
            }
            Ok(dir) => Err(refuse(format!(
                "{} belongs to uid {}, not to uid {uid}: remove it",
                path.display(),
                dir.uid()
            ))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(refuse(format!("{} cannot be used: {error}", path.display()))),
        }
    }

    /// Users who have a folder.
    pub(crate) fn users(&self) -> Vec<u32> {
        let (names, _) = self.all.names(usize::MAX).unwrap_or_default();
        let mut users: Vec<u32> =
            names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        users.sort_unstable();
        users
    }

    /// Names in the folder of `uid`: of its tenants, and of what stands for one that is not gone yet.
    fn names_of(&self, uid: u32) -> Vec<String> {
        let Ok(Some(folder)) = self.of_user(uid, false) else { return Vec::new() };
        let (names, _) = folder.names(MOST_NAMES).unwrap_or_default();
        let mut names: Vec<String> =
            names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| name != MEETING);
        names.sort_unstable();
        names
    }

    /// Places that the tenants of `uid` take, with those that are removed and not gone.
    pub(crate) fn count_of(&self, uid: u32) -> usize {
        self.names_of(uid).len()
    }

    /// Each tenant of `uid`, in the order of their ids.
    pub(crate) fn each(&self, uid: u32) -> impl Iterator<Item = TenantFound> {
        let names = self.names_of(uid).into_iter().filter(|name| !name.starts_with('.'));
        names.filter_map(move |id| self.find(uid, &id).ok().flatten())
    }

    /// Makes the tenant `id` of `uid`, which is not there, with the limits of `config`.
    pub(crate) fn create(
        &self,
        uid: u32,
        id: &str,
        config: &Config,
    ) -> Result<TenantFound, CallRefusal> {
        let made = || -> Result<()> {
            let folder = self.of_user(uid, true)?.context("its folder is gone")?;
            let new = format!("{NEW}{}", now_ns());
            let new = OsStr::new(&new);
            self.all.make(new)?;
            let placed = self
                .fill(new, uid, config)
                .and_then(|()| Ok(self.all.rename_to(new, &folder, id.as_ref())?));
            if placed.is_err() {
                let _ = self.all.remove_all(new);
            }
            placed
        };
        let path = self.path_of(uid, id);
        made().with_context(|| format!("{} cannot be made", path.display())).map_err(failed)?;
        let gone = || failed(anyhow::anyhow!("{} has just gone", path.display()));
        self.find(uid, id)?.ok_or_else(gone)
    }

    /// Fills the directory `new`, which nobody else can reach yet.
    fn fill(&self, new: &OsStr, uid: u32, config: &Config) -> Result<()> {
        let dir = self.all.below(new)?;
        reader::write_config(&dir.tenant()?, config)?;
        let file = dir.file("config")?.context("its limits are gone")?;
        give(&file, uid)?;
        set_mode(&dir, OPEN)?;
        give(&dir, uid)
    }

    /// Removes the tenant `id` of `uid`: from here on nobody finds it by its id. [`TenantsById::sweep`] does the rest.
    pub(crate) fn remove(&self, uid: u32, id: &str) -> Result<Removal, CallRefusal> {
        let Some(folder) = self.of_user(uid, false).map_err(failed)? else {
            return Ok(Removal::default());
        };
        // An entry of any kind that has the name goes.
        let processes = folder.below(id.as_ref()).map_or(0, |dir| living(&dir));
        let aside = format!("{REMOVED}{}", now_ns());
        match folder.rename_to(id.as_ref(), &folder, aside.as_ref()) {
            Ok(()) => Ok(Removal { existed: true, processes }),
            Err(nix::errno::Errno::ENOENT) => Ok(Removal::default()),
            Err(errno) => {
                let path = self.path_of(uid, id);
                Err(failed(anyhow::anyhow!("{} cannot be removed: {errno}", path.display())))
            }
        }
    }

    /// Takes the files of tenants that are removed and in which nobody lives; whether some are left.
    pub(crate) fn sweep(&self) -> bool {
        let mut is_left = false;
        for uid in self.users() {
            let Ok(Some(folder)) = self.of_user(uid, false) else { continue };
            for name in self.names_of(uid).iter().filter(|name| name.starts_with(REMOVED)) {
                let lives = folder.below(name.as_ref()).is_ok_and(|dir| living(&dir) > 0);
                is_left |= lives || folder.remove_all(name.as_ref()).is_err();
            }
        }
        is_left
    }

    /// Takes what was being made when a daemon was killed. For one that makes nothing yet.
    pub(crate) fn sweep_unfinished(&self) {
        let (names, _) = self.all.names(usize::MAX).unwrap_or_default();
        for name in names.iter().filter(|name| name.to_str().is_some_and(|it| it.starts_with(NEW)))
        {
            let _ = self.all.remove_all(name);
        }
    }
}

impl TenantFound {
    /// Whether `config` asks for what the tenant was made with, or for what it has now.
    ///
    /// # Errors
    /// [`AttachError`], where its limits cannot be read.
    pub(crate) fn is_as(&self, config: &Config) -> Result<bool, AttachError> {
        let now = reader::read_config(&self.dir.tenant()?)?.ok_or(AttachError::NoConfig)?;
        let wanted = AskedLimits::of(config, None);
        let start = started::read(&self.dir, &now);
        Ok(wanted == AskedLimits::of(&now, None)
            || start.is_some_and(|start| wanted == AskedLimits::of(&now, Some(start))))
    }

    /// Gives it the limits of `config`. Returns the limits before, and those that hold now.
    pub(crate) fn set(&self, config: &Config) -> Result<(Config, Config), CallRefusal> {
        let cannot = |error: AttachError| {
            failed(anyhow::anyhow!("{} cannot be changed: {error}", self.path.display()))
        };
        let owner = self.dir.tenant().and_then(|dir| Owner::within(&dir)).map_err(cannot)?;
        let before = owner.read().map_err(cannot)?;
        let is_as_made = |one: &Config| one.flags & divvy_abi::config::FLAG_OVERSUBSCRIBE;
        if is_as_made(&before) != is_as_made(config) {
            let words = "whether its memory may leave the card is settled when a tenant is made: remove it and create it";
            return Err(CallRefusal::new(RefusalCode::Differs, words));
        }
        // Where this fails a repeated `create` compares with the limits that hold, and no longer with the first.
        let _ = started::keep(&self.dir, &before);
        let mut replaced = before;
        let changed = owner.update(|now| {
            replaced = now.clone();
            limits::replace(now, config);
        });
        changed.map(|changed| (replaced, changed)).map_err(cannot)
    }
}

/// Processes that live in a tenant, of whatever version; at least one where the files cannot be read and somebody does.
fn living(dir: &Dir) -> u32 {
    let lives = dir.tenant().is_ok_and(|tenant| tenant.is_inhabited());
    let counted = Snapshot::of(dir).map_or(0, |files| files.processes.len());
    u32::try_from(counted).unwrap_or(u32::MAX).max(u32::from(lives))
}

/// Makes a file of this process's the user's. One for itself needs no capability: a daemon that is given few serves root.
fn give(file: impl AsFd, uid: u32) -> Result<()> {
    if uid != tenant_dir::uid() {
        fchown(file, Some(uid), None).with_context(|| {
            format!("uid {uid} cannot be given a file (the daemon needs CAP_CHOWN for users other than root)")
        })?;
    }
    Ok(())
}

fn set_mode(dir: &Dir, mode: u32) -> Result<()> {
    let file = std::fs::File::from(dir.as_fd().try_clone_to_owned()?);
    Ok(file.set_permissions(Permissions::from_mode(mode))?)
}

#[cfg(test)]
mod tests;
