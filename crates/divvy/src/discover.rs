//! Where tenants lie: the directories that `ps`, `set` and the daemon look into.
//!
//! Looks at names only: a directory with a `config` or a `usage` in it is taken for a tenant's, and
//! whoever reads it judges it. Does not follow a link that leads to a tenant, only one that leads to
//! a directory of tenants.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::tenant_dir;

/// Every tenant directory of this user there is to see, those below `extra` included; each once.
pub(crate) fn tenants(extra: &[PathBuf]) -> BTreeSet<PathBuf> {
    let uid = tenant_dir::uid();
    let mut parents: Vec<PathBuf> =
        tenant_dir::roots(uid).into_iter().map(|root| root.join("tenants")).collect();
    parents.push(without_owner(uid));
    parents.extend(extra.iter().cloned());
    parents.extend(from_variable());
    let mut found = below(&parents);
    if let Some(own) = std::env::var_os("DIVVY_TENANT") {
        found.insert(PathBuf::from(own));
    }
    found
}

/// Where programs limited by environment variables alone have their tenants.
pub(crate) fn without_owner(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/.divvy-{uid}"))
}

/// The directories in `DIVVY_TENANT_ROOT`.
pub(crate) fn from_variable() -> Vec<PathBuf> {
    let list = std::env::var_os("DIVVY_TENANT_ROOT");
    list.map(|list| std::env::split_paths(&list).collect()).unwrap_or_default()
}

/// The directories of tenants of every user of the machine.
pub(crate) fn of_every_user() -> Vec<PathBuf> {
    let mut parents = Vec::new();
    for base in ["/dev/shm", "/tmp"] {
        for path in inside(Path::new(base)) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            match name.as_deref() {
                Some(name) if name.starts_with("divvy-") => parents.push(path.join("tenants")),
                Some(name) if name.starts_with(".divvy-") => parents.push(path),
                _ => {}
            }
        }
    }
    for user in inside(Path::new("/run/user")) {
        let uid = user.file_name().map(|name| name.to_string_lossy().into_owned());
        parents.push(user.join(format!("divvy-{}", uid.unwrap_or_default())).join("tenants"));
    }
    parents
}

/// The tenants in `parents`: themselves, their sub-directories, and those in a `.divvy` beside the
/// files of them or of a sub-directory, where programs limited by HAMi-core's variables have theirs.
pub(crate) fn below(parents: &[PathBuf]) -> BTreeSet<PathBuf> {
    parents.iter().flat_map(|parent| tenants_in(parent)).collect()
}

fn tenants_in(parent: &Path) -> Vec<PathBuf> {
    let children = inside(parent);
    let hidden = std::iter::once(parent)
        .chain(children.iter().map(PathBuf::as_path))
        .flat_map(|path| inside(&path.join(".divvy")));
    let is_tenant = |path: &PathBuf| path.join("config").exists() || path.join("usage").exists();
    let all = std::iter::once(parent.to_owned()).chain(children.iter().cloned()).chain(hidden);
    all.filter(is_tenant).collect()
}

fn inside(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_found_beside_and_below() {
        let base = std::env::temp_dir().join(format!("divvy-discover-{}", std::process::id()));
        for tenant in ["one", "container/.divvy/x", ".divvy/y"] {
            std::fs::create_dir_all(base.join(tenant)).unwrap();
            std::fs::write(base.join(tenant).join("usage"), "").unwrap();
        }
        std::fs::create_dir_all(base.join("empty")).unwrap();
        let found = below(&[base.clone(), base.join("absent")]);
        let expected = [".divvy/y", "container/.divvy/x", "one"].map(|name| base.join(name));
        assert_eq!(found, BTreeSet::from(expected));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
