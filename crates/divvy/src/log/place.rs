//! Where logs lie.
//!
//! A user's log is kept over a reboot: in `XDG_STATE_HOME`, else in `~/.local/state`. Where `XDG_RUNTIME_DIR` names another
//! directory than the system's own for this user, programs under it are kept apart from the rest, and their log lies there. The
//! machine's daemon writes into `/var/log/divvy`. Each place is a list: the first folder that can be written has the log, and
//! readers look into all.
//!
//! Promises: a variable counts only where it names a directory that this user owns. With a variable that `sudo` has kept, root
//! would write into another user's home.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::tenants::tenant_dir;

/// The machine's log.
const MACHINE: &str = "/var/log/divvy";
/// Where it lies if that cannot be written: in a container with a root that is read-only.
const MACHINE_HOME: &str = "/run/divvy";

/// Folders of this user's log, the best first; `home` is the home of a daemon that is not the user's usual one.
pub(crate) fn of_user(home: Option<&Path>) -> Vec<PathBuf> {
    let uid = tenant_dir::uid();
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        (path.is_absolute() && is_own(&path, uid)).then_some(path)
    };
    let roots = tenant_dir::roots(uid);
    let systems = PathBuf::from(format!("/run/user/{uid}"));
    let apart = absolute("XDG_RUNTIME_DIR").filter(|path| *path != systems);
    let state = absolute("XDG_STATE_HOME").map(|path| path.join("divvy"));
    let apart = apart.map(|path| path.join(format!("divvy-{uid}")));
    let at_home = absolute("HOME").map(|home| home.join(".local/state/divvy"));
    // Logs that are kept apart: the user's others are then neither written nor read.
    let usual = if apart.is_some() { Vec::new() } else { roots };
    let best = state.or_else(|| apart.clone()).or(at_home);
    let all = best.into_iter().chain(apart).chain(home.map(Path::to_owned)).chain(usual);
    all.fold(Vec::new(), |mut folders, folder| {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
        folders
    })
}

/// Folders of the machine's log.
pub(crate) fn of_machine() -> Vec<PathBuf> {
    [MACHINE, MACHINE_HOME].map(PathBuf::from).to_vec()
}

/// Whether this user owns the part of `path` that exists.
fn is_own(path: &Path, uid: u32) -> bool {
    let there = path.ancestors().find_map(|part| std::fs::metadata(part).ok());
    there.is_some_and(|status| status.uid() == uid && status.is_dir())
}
