//! Where tenants lie: the places that `ps`, `set` and the daemon look into, and whose they must be.
//!
//! A directory with a `config` or a `usage` in it is taken for a tenant's, and whoever reads it judges
//! the files. In the places of users all of it must be the user's whose uid is in the place's name:
//! anybody can make a directory of any name in /dev/shm and /tmp. In places that an operator names
//! (`--root`) tenants may be anybody's, as the containers' that share one directory are.
//!
//! Promises: no link is followed below a place; what was found is opened through the directory it was
//! found in, and by no path again; no more names of a directory are looked at than the caller says.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use divvy_page::{AttachError, Errno};

use crate::tenants::by_id;
use crate::tenants::dir::{self, Dir, FileIdentity};
use crate::tenants::{reap, tenant_dir};

/// Names that commands look at in one directory of tenants.
const MOST_NAMES: usize = 16_384;
/// Names looked at in /tmp and its like at once; the next look goes on behind them.
const MOST_AT_ONCE: usize = 4096;
/// Users whose places are looked into.
const MOST_USERS: usize = 4096;

/// Where programs limited by HAMi-core's variables have their tenants, beside their files.
const HIDDEN: &str = ".divvy";
/// Begin of the name of a user's place for tenants of variables alone; the uid follows.
const OWNERLESS: &str = ".divvy-";

/// A directory that tenants lie in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TenantRoot {
    /// Target of the path.
    start: PathBuf,
    /// Names below it, each in the one before.
    below: Vec<OsString>,
    /// User to whom all below `start` must belong; any, if an operator has named the place.
    uid: Option<u32>,
}

/// Names that are looked at besides those that a listing comes to, by the directory they lie in.
pub(crate) type KnownNames = BTreeMap<PathBuf, Vec<OsString>>;

/// A directory that may be a tenant's.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    within: &'a Dir,
    name: &'a OsStr,
    uid: Option<u32>,
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// Its identity and owner at the time of the look.
    pub(crate) identity: FileIdentity,
    pub(crate) owner: u32,
}

/// Why a place or a directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    /// It cannot be opened as what it should be.
    #[error(transparent)]
    Closed(AttachError),
    /// It is not the user's whose it should be.
    #[error("{path} belongs to uid {uid}, not to uid {expected}: what lies there is left alone")]
    Foreign { path: PathBuf, uid: u32, expected: u32 },
    /// Another file system is mounted there, which may be a server of the user's own.
    #[error("another file system is mounted there: it is not looked into")]
    Mounted,
    /// More lies in it than is looked at.
    #[error("more than {most} names lie in it: the others are not looked at")]
    Crowded { most: usize },
}

impl From<AttachError> for Unusable {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Directory(Errno(EXDEV)) => Self::Mounted,
            error => Self::Closed(error),
        }
    }
}

impl TenantRoot {
    /// The tenants that `divvy run` makes in `base` for this user.
    pub(crate) fn of_user(base: &Path, uid: u32) -> Self {
        let below = vec![format!("divvy-{uid}").into(), "tenants".into()];
        Self { start: base.to_owned(), below, uid: Some(uid) }
    }

    /// The tenants by id that a daemon of the user's own has made there.
    pub(crate) fn by_id_of_user(base: &Path, uid: u32) -> Self {
        let names = [format!("divvy-{uid}"), by_id::FOLDER.to_owned(), uid.to_string()];
        Self { start: base.to_owned(), below: names.map(OsString::from).to_vec(), uid: Some(uid) }
    }

    /// The tenants by id of a user in a daemon's home, of which all above the user's folder is the daemon's.
    pub(crate) fn by_id(home: &Path, uid: u32) -> Self {
        let start = home.join(by_id::FOLDER);
        Self { start, below: vec![uid.to_string().into()], uid: Some(uid) }
    }

    /// Those of programs that are limited by environment variables alone.
    pub(crate) fn without_owner(base: &Path, uid: u32) -> Self {
        let below = vec![format!("{OWNERLESS}{uid}").into()];
        Self { start: base.to_owned(), below, uid: Some(uid) }
    }

    /// Those in a daemon's home, which is this user's.
    pub(crate) fn of_home(home: &Path) -> Self {
        let below = vec!["tenants".into()];
        Self { start: home.to_owned(), below, uid: Some(tenant_dir::uid()) }
    }

    /// Those in a directory that somebody has named.
    pub(crate) fn named(path: PathBuf) -> Self {
        Self { start: path, below: Vec::new(), uid: None }
    }

    /// User to whom all in it must belong, if it is one user's.
    pub(crate) fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> PathBuf {
        self.below.iter().fold(self.start.clone(), |path, name| path.join(name))
    }

    /// Removes tenants without an owner that have no process any more, where it is a place of such.
    pub(crate) fn reap(&self) {
        let name = self.below.first().map(|name| name.as_encoded_bytes());
        if self.uid.is_some()
            && name.is_some_and(|name| name.starts_with(OWNERLESS.as_bytes()))
            && let Ok(tenants) = self.open()
        {
            reap::without_processes(&tenants);
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`Unusable`]; a place that is not there is one that cannot be opened.
    pub(crate) fn open(&self) -> Result<Dir, Unusable> {
        let mut path = self.start.clone();
        let mut dir = Dir::open_through(&path)?;
        for name in &self.below {
            path.push(name);
            dir = dir.below(name)?;
            check(&dir, &path, self.uid)?;
        }
        Ok(dir)
    }

    /// Calls `each` with every directory that may be a tenant's: those in it and, where an operator has
    /// named it, itself and those in a `.divvy` in it or in one of those; `most` of a directory, and those
    /// of `known`. Whether these are all.
    ///
    /// # Errors
    /// As [`TenantRoot::open`].
    pub(crate) fn each(
        &self,
        most: usize,
        known: &KnownNames,
        mut each: impl FnMut(Candidate<'_>),
    ) -> Result<bool, Unusable> {
        let dir = self.open()?;
        let path = self.path();
        let mut is_all = children(&dir, &path, self.uid, most, known, &mut each)?;
        if self.uid.is_some() {
            return Ok(is_all);
        }
        let own = Candidate {
            within: &dir,
            name: OsStr::new("."),
            uid: None,
            path: path.clone(),
            identity: dir.identity(),
            owner: dir.uid(),
        };
        each(own);
        let (names, _) = dir.names(most)?;
        for name in [OsString::from(".")].into_iter().chain(names) {
            let inner = if name == "." { path.clone() } else { path.join(&name) };
            let hidden = dir.mounted_below(&name);
            let Ok(hidden) = hidden.and_then(|inner| inner.mounted_below(HIDDEN.as_ref())) else {
                continue;
            };
            is_all &= children(&hidden, &inner.join(HIDDEN), None, most, known, &mut each)?;
        }
        Ok(is_all)
    }
}

impl Candidate<'_> {
    /// User whose place it takes: the one in whose place it lies, else its owner.
    pub(crate) fn user(&self) -> u32 {
        self.uid.unwrap_or(self.owner)
    }

    /// Opens it; `None` where it is no tenant's.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(crate) fn open(&self) -> Result<Option<Dir>, Unusable> {
        let dir = match self.uid {
            Some(_) => self.within.below(self.name),
            None => self.within.mounted_below(self.name),
        }?;
        check(&dir, &self.path, self.uid)?;
        let is_tenant = ["config", "usage"].iter().any(|file| dir.identity_of(file).is_some());
        Ok(is_tenant.then_some(dir))
    }
}

fn check(dir: &Dir, path: &Path, expected: Option<u32>) -> Result<(), Unusable> {
    match expected {
        Some(expected) if expected != dir.uid() => {
            Err(Unusable::Foreign { path: path.to_owned(), uid: dir.uid(), expected })
        }
        _ => Ok(()),
    }
}

/// Up to `most` directories in `dir`; whether they are all.
fn children(
    dir: &Dir,
    path: &Path,
    uid: Option<u32>,
    most: usize,
    known: &KnownNames,
    each: &mut impl FnMut(Candidate<'_>),
) -> Result<bool, AttachError> {
    let (names, is_all) = dir.names(most)?;
    // Those that are known may lie behind what is listed; twice is once for whoever compares identities.
    let known = known.get(path).filter(|_| !is_all).into_iter().flatten();
    for name in names.iter().chain(known) {
        let status = match uid {
            Some(_) => dir.status(name),
            None => dir.mounted_status(name),
        };
        let Some(status) = status.filter(dir::is_dir) else { continue };
        let (identity, owner) = (dir::identity(&status), status.st_uid);
        each(Candidate { within: dir, name, uid, path: path.join(name), identity, owner });
    }
    Ok(is_all)
}

/// Every tenant directory of this user there is to see, those below `extra` included, each once; and the
/// places where somebody else's things lie instead.
pub(crate) fn tenants(extra: &[PathBuf]) -> (BTreeSet<PathBuf>, BTreeMap<PathBuf, Unusable>) {
    let uid = tenant_dir::uid();
    let mut places: Vec<TenantRoot> =
        tenant_dir::bases(uid).iter().flat_map(|base| of_user(base, uid)).collect();
    places
        .extend(tenant_dir::ownerless_base(uid).map(|base| TenantRoot::without_owner(&base, uid)));
    places.extend(extra.iter().cloned().chain(from_variable()).map(TenantRoot::named));
    let (mut found, mut seen, mut wrong) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    tenant_dir::sweep_all(uid);
    for place in &places {
        place.reap();
        let each = place.each(MOST_NAMES, &KnownNames::new(), |candidate| {
            if matches!(candidate.open(), Ok(Some(_))) && seen.insert(candidate.identity) {
                found.insert(candidate.path);
            }
        });
        match each {
            Ok(true) | Err(Unusable::Closed(AttachError::Directory(Errno(ENOENT)))) => {}
            Ok(false) => {
                wrong.insert(place.path(), Unusable::Crowded { most: MOST_NAMES });
            }
            Err(unusable) => {
                wrong.insert(place.path(), unusable);
            }
        }
    }
    if let Some(own) = std::env::var_os("DIVVY_TENANT") {
        found.insert(PathBuf::from(own));
    }
    (found, wrong)
}

const ENOENT: i32 = nix::errno::Errno::ENOENT as i32;
const EXDEV: i32 = nix::errno::Errno::EXDEV as i32;

/// The directories in `DIVVY_TENANT_ROOT`.
pub(crate) fn from_variable() -> Vec<PathBuf> {
    let list = std::env::var_os("DIVVY_TENANT_ROOT");
    list.map(|list| std::env::split_paths(&list).collect()).unwrap_or_default()
}

/// Whether the machine's daemon looks for this user's tenants in the home at `path`.
pub(crate) fn is_users(path: &Path, uid: u32) -> bool {
    let bases = ["/dev/shm".to_owned(), "/tmp".to_owned(), format!("/run/user/{uid}")];
    bases.iter().any(|base| Path::new(base).join(format!("divvy-{uid}")) == path)
}

/// The places of every user of the machine, found a part at a time.
#[derive(Debug, Default)]
pub(crate) struct Users {
    bases: [Base; 3],
}

/// Directories in which every user has a place by its uid.
const BASES: [&str; 3] = ["/dev/shm", "/tmp", "/run/user"];

/// One of them: what it was found to hold, and the look that goes on.
#[derive(Default)]
struct Base {
    found: BTreeSet<TenantRoot>,
    next: BTreeSet<TenantRoot>,
    listing: Option<Box<dyn Iterator<Item = OsString> + Send>>,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base").field("found", &self.found).finish_non_exhaustive()
    }
}

impl Users {
    /// The places known by now. Each call looks at some thousand names more; a place is forgotten when a
    /// whole look has not met it.
    pub(crate) fn places(&mut self) -> impl Iterator<Item = TenantRoot> {
        for (base, path) in self.bases.iter_mut().zip(BASES) {
            base.look(Path::new(path));
        }
        self.bases.iter().flat_map(|base| base.found.union(&base.next)).cloned()
    }
}

impl Base {
    fn look(&mut self, path: &Path) {
        if self.listing.is_none() {
            let opened = Dir::open_through(path).and_then(|dir| dir.listing());
            self.listing = opened.ok().map(|names| Box::new(names) as Box<_>);
        }
        let mut left = MOST_AT_ONCE;
        for name in self.listing.iter_mut().flatten() {
            if self.next.len() < MOST_USERS {
                self.next.extend(places_of(path, &name));
            }
            left -= 1;
            if left == 0 {
                return;
            }
        }
        self.listing = None;
        self.found = std::mem::take(&mut self.next);
    }
}

/// Places in `base` of one user's tenants: those of `divvy run`, and those by id.
fn of_user(base: &Path, uid: u32) -> [TenantRoot; 2] {
    [TenantRoot::of_user(base, uid), TenantRoot::by_id_of_user(base, uid)]
}

/// The user's places that `name` in one of [`BASES`] stands for.
fn places_of(base: &Path, name: &OsStr) -> Vec<TenantRoot> {
    let Some(name) = name.to_str() else { return Vec::new() };
    // One spelling only: a second one would be an alias.
    let uid_in = |digits: &str| {
        let uid = digits.parse::<u32>().ok()?;
        (uid.to_string() == digits).then_some(uid)
    };
    if base == Path::new("/run/user") {
        return uid_in(name).into_iter().flat_map(|uid| of_user(&base.join(name), uid)).collect();
    }
    match (name.strip_prefix("divvy-"), name.strip_prefix(OWNERLESS)) {
        (Some(digits), _) => {
            uid_in(digits).into_iter().flat_map(|uid| of_user(base, uid)).collect()
        }
        (_, Some(digits)) => {
            let place = |uid| TenantRoot::without_owner(base, uid);
            uid_in(digits).map(place).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn below(place: &TenantRoot) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let each = place.each(9, &KnownNames::new(), |candidate| {
            if candidate.open().unwrap().is_some() {
                found.insert(candidate.path);
            }
        });
        assert_eq!(each, Ok(true));
        found
    }

    #[test]
    fn tenants_are_found_beside_and_below() {
        let base = std::env::temp_dir().join(format!("divvy-discover-{}", std::process::id()));
        for tenant in ["one", "container/.divvy/x", ".divvy/y"] {
            std::fs::create_dir_all(base.join(tenant)).unwrap();
            std::fs::write(base.join(tenant).join("usage"), "").unwrap();
        }
        std::fs::create_dir_all(base.join("empty")).unwrap();
        symlink("one", base.join("alias")).unwrap();
        symlink("container", base.join("alias-of-a-container")).unwrap();
        let expected = [".divvy/y", "container/.divvy/x", "one"].map(|name| base.join(name));
        assert_eq!(below(&TenantRoot::named(base.clone())), BTreeSet::from(expected));
        assert!(TenantRoot::named(base.join("absent")).open().is_err());

        let me = tenant_dir::uid();
        let mine = TenantRoot::of_user(&base, me);
        std::fs::create_dir_all(mine.path().join("two/.divvy/z")).unwrap();
        std::fs::write(mine.path().join("two/config"), "").unwrap();
        std::fs::write(mine.path().join("two/.divvy/z/config"), "").unwrap();
        assert_eq!(below(&mine), BTreeSet::from([mine.path().join("two")]));
        let elses = TenantRoot::of_user(&base, me + 1);
        symlink(format!("divvy-{me}"), base.join(format!("divvy-{}", me + 1))).unwrap();
        assert!(elses.open().is_err(), "a link");
        std::fs::remove_file(base.join(format!("divvy-{}", me + 1))).unwrap();
        std::fs::create_dir_all(elses.path()).unwrap();
        let foreign = elses.open().unwrap_err().to_string();
        assert!(foreign.contains(&format!("uid {me}, not to uid {}", me + 1)), "{foreign}");
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_name_is_one_users_or_nobodys() {
        let places = |base: &str, name: &str| places_of(Path::new(base), OsStr::new(name));
        assert_eq!(places("/tmp", "divvy-7"), of_user(Path::new("/tmp"), 7));
        assert_eq!(places("/tmp", ".divvy-7"), [TenantRoot::without_owner(Path::new("/tmp"), 7)]);
        let paths: Vec<_> = places("/run/user", "7").iter().map(TenantRoot::path).collect();
        assert_eq!(
            paths,
            ["tenants", "by-id/7"].map(|it| Path::new("/run/user/7/divvy-7").join(it))
        );
        for name in ["divvy-07", "divvy-+7", "divvy-!", "divvy-", "divvy-4294967296", "x"] {
            assert_eq!(places("/dev/shm", name), [], "{name}");
        }
        assert!(is_users(Path::new("/run/user/7/divvy-7/"), 7));
        assert!(!is_users(Path::new("/run/user/7/divvy-8"), 7));
    }
}
