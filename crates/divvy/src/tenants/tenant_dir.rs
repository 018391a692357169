//! Tenant directories: where they lie, who made them, when they can go.
//!
//! `divvy run` makes one directory for each program it starts and keeps `owner` in it locked while it
//! runs, so that a directory whose owner was killed is told from one in use. Directories lie on a
//! tmpfs where there is one: XDG_RUNTIME_DIR, else /dev/shm, else /tmp. What is in a directory is reached
//! through it ([`crate::tenants::dir`]), and so is what is removed.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use divvy_policy::variables::ONLY_RUNTIME_DIR;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::output::failure::usage;
use crate::tenants::dir::{self, Dir};

/// Longest path the shim accepts.
pub(crate) const PATH_BYTES: usize = 200;
/// The file an owner keeps locked.
const OWNER: &str = "owner";
/// Where tenants meet that have no daemon, beside their directories; no tenant's name begins so.
pub(crate) const MEETING: &str = ".meet";

/// Contents of `owner`, for `divvy ps`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct OwnerNote {
    /// The `divvy run` that made the tenant.
    pub pid: u32,
    /// Its command.
    pub command: Vec<String>,
}

/// The longest text of an owner that is read: a command line may have megabytes.
const MOST_OWNER_BYTES: u64 = 4 << 20;

/// A directory of ours, and the lock that says so.
#[derive(Debug)]
pub struct TenantDir {
    path: PathBuf,
    dir: Dir,
    /// Directory it lies in, and its name there.
    tenants: Dir,
    name: OsString,
    _lock: Flock<File>,
}

/// Directories in which tenants of `uid` may lie; new ones are made in the first.
///
/// XDG_RUNTIME_DIR is one where it is this user's or root's: a program that was started for another user
/// may have kept the variable of the one who started it. Where [`ONLY_RUNTIME_DIR`] says so it is the only one.
pub(crate) fn bases(uid: u32) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|status| [0, uid].contains(&status.uid()))
    };
    let others = (!is_apart()).then_some(["/dev/shm", "/tmp"]);
    let bases = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && is_ours(path))
        .into_iter()
        .chain(others.into_iter().flatten().map(PathBuf::from));
    bases.filter(|base| base.is_dir()).collect()
}

/// Whether this user's tenants are looked for in XDG_RUNTIME_DIR alone: a test does not see those of its machine.
pub(crate) fn is_apart() -> bool {
    std::env::var_os(ONLY_RUNTIME_DIR).is_some_and(|value| !value.is_empty())
}

/// Directory in which a user's tenants of variables alone have their place.
pub(crate) fn ownerless_base(uid: u32) -> Option<PathBuf> {
    if is_apart() { bases(uid).into_iter().next() } else { Some(PathBuf::from("/tmp")) }
}

/// This user's directories in them.
pub fn roots(uid: u32) -> Vec<PathBuf> {
    bases(uid).iter().map(|base| base.join(format!("divvy-{uid}"))).collect()
}

/// This user.
pub fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// A tenant's name must be a file's name and readable in a table.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // One that begins with '-' is an option that took this one's place, and `divvy set` could not name it.
    let begins_badly = name.starts_with(['.', '-']);
    if name.is_empty() || name.len() > 40 || begins_badly || !name.chars().all(plain) {
        return Err(usage(format!(
            "--name {name:?}: write 1 to 40 of the letters a-z, A-Z, 0-9, '.', '_' and '-', not \
             beginning with '.' or '-'"
        )));
    }
    Ok(())
}

/// A name made of the program's.
pub(crate) fn name_of(program: &str) -> String {
    let base = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = base.unwrap_or_default().chars().take(40).map(plain).collect();
    match name.strip_prefix('-') {
        Some(rest) => format!("_{rest}"),
        None if name.is_empty() => "tenant".to_owned(),
        None => name,
    }
}

impl TenantDir {
    /// Makes a directory for `name` and locks it. Removes what killed owners left, first.
    pub fn make(name: &str, owner: &OwnerNote) -> Result<Self> {
        let uid = uid();
        let mut last = None;
        for root in roots(uid) {
            match Self::make_in(&root, uid, name, owner) {
                Ok(made) => return Ok(made),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("there is no /dev/shm and no /tmp")))
            .context("no tenant directory can be made; set XDG_RUNTIME_DIR to a directory of yours")
    }

    fn make_in(root: &Path, uid: u32, name: &str, owner: &OwnerNote) -> Result<Self> {
        let tenants = make_private(root, uid).and_then(|root| private(&root, "tenants"))?;
        // Without it tenants run all the same, beside each other.
        let _ = private(&tenants, MEETING);
        sweep_home(root);
        let parent = root.join("tenants");
        let mut name_of = format!("{name}-{}", owner.pid);
        let mut attempt = 0;
        while let Err(errno) = tenants.make(name_of.as_ref()) {
            // Left by a process of another pid namespace that had the same number, or by threads.
            if errno != Errno::EEXIST || attempt == 100 {
                let path = parent.join(&name_of);
                return Err(errno).with_context(|| format!("{} cannot be made", path.display()));
            }
            attempt += 1;
            name_of = format!("{name}-{}.{attempt}", owner.pid);
        }
        let (path, name) = (parent.join(&name_of), OsString::from(name_of));
        let bytes = path.as_os_str().len();
        if bytes > PATH_BYTES {
            let _ = tenants.remove_all(&name);
            bail!("{} has {bytes} bytes, more than {PATH_BYTES}", path.display());
        }
        let dir = tenants.below(&name)?;
        let lock = hold(&dir, owner).with_context(|| format!("in {}", path.display()))?;
        Ok(Self { path, dir, tenants, name, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, unless processes of the tenant still run in it (a program may leave
    /// some behind); the next `divvy run` then removes it. Says whether it is gone.
    pub fn remove(self) -> bool {
        if anybody_lives(&self.dir) {
            return false;
        }
        let there = self.tenants.status(&self.name).map(|status| dir::identity(&status));
        there == Some(self.dir.identity()) && self.tenants.remove_all(&self.name).is_ok()
    }
}

/// Whether the tenant in `path` has a directory in which it can meet others without a daemon.
pub(crate) fn can_meet(path: &Path) -> bool {
    path.join("..").join(MEETING).is_dir()
}

/// Makes a directory for this user alone, or finds that it is one.
pub(crate) fn make_private(path: &Path, uid: u32) -> Result<Dir> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("{} cannot be made", path.display()));
        }
        _ => {}
    }
    let is_ours = |dir: &Dir| dir.uid() == uid;
    match Dir::open(path) {
        Ok(dir) if is_ours(&dir) => Ok(dir),
        _ => bail!("{} is not a directory of uid {uid}; remove it", path.display()),
    }
}

/// The same in a directory that is open.
pub(crate) fn private(within: &Dir, name: &str) -> Result<Dir> {
    match within.make(name.as_ref()) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno).with_context(|| format!("{name} cannot be made")),
    }
    let dir = within.below(name.as_ref()).with_context(|| format!("{name} cannot be used"))?;
    match dir.uid() == within.uid() {
        true => Ok(dir),
        false => bail!("{name} belongs to uid {}; remove it", dir.uid()),
    }
}

/// Maker of the tenant in `dir`, and true if that `divvy run` still runs; `None` if there is no note of it.
///
/// # Errors
/// In words, where the file that should say it is none, or says something else.
pub(crate) fn owner(dir: &Dir) -> Result<Option<(OwnerNote, bool)>> {
    let wrong = || format!("the tenant's {OWNER} file cannot be read");
    let Some(file) = dir.file(OWNER).with_context(wrong)? else { return Ok(None) };
    let mut text = Vec::new();
    (&file).take(MOST_OWNER_BYTES).read_to_end(&mut text).with_context(wrong)?;
    if text.is_empty() {
        // It is just being made.
        return Ok(None);
    }
    let owner = serde_json::from_slice(&text).with_context(wrong)?;
    Ok(Some((owner, Flock::lock(file, FlockArg::LockSharedNonblock).is_err())))
}

/// Whether a `divvy run` holds the tenant in `dir`. Whatever the file says is not read.
pub(crate) fn is_owner_alive(dir: &Dir) -> bool {
    let Ok(Some(file)) = dir.file(OWNER) else { return false };
    // An empty one is just being made, and its maker must be able to lock it.
    file.metadata().is_ok_and(|status| status.len() == 0)
        || Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}

/// Files of any version count: a directory that this version cannot read is not removed while a process of it lives.
fn anybody_lives(dir: &Dir) -> bool {
    dir.tenant().is_ok_and(|tenant| tenant.is_inhabited())
}

/// Removes in this user's places what commands have left that were killed: tenants without a process, and the places in
/// which demonstrations and benchmarks kept their files.
pub(crate) fn sweep_all(uid: u32) {
    for root in roots(uid) {
        sweep_home(&root);
    }
}

/// Does so in one of them.
pub(crate) fn sweep_home(root: &Path) {
    let Ok(dir) = Dir::open(root) else { return };
    if dir.uid() != uid() {
        return;
    }
    sweep(&dir, root);
    if let Ok(tenants) = dir.below("tenants".as_ref()) {
        sweep(&tenants, &root.join("tenants"));
    }
}

/// Removes the directories in `within`, which lies at `path`, that have neither an owner nor a process any more.
fn sweep(within: &Dir, path: &Path) {
    for name in within.names(usize::MAX).map(|(names, _)| names).unwrap_or_default() {
        let Ok(dir) = within.below(&name) else { continue };
        // No readable owner: it is just being made.
        let is_left = matches!(owner(&dir), Ok(Some((_, false)))) && !anybody_lives(&dir);
        // A program that has not come to its first driver call still counts on it.
        if is_left && !is_expected(&path.join(&name)) {
            let _ = within.remove_all(&name);
        }
    }
}

/// Whether a process of this user is to join the tenant at `path`.
fn is_expected(path: &Path) -> bool {
    let entry = [b"DIVVY_TENANT=", path.as_os_str().as_encoded_bytes()].concat();
    let has_it = |process: &std::fs::DirEntry| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == entry)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().any(|process| has_it(&process))
}

/// Makes the file that says that this process holds `dir`, and locks it until the lock is dropped.
pub(crate) fn hold(dir: &Dir, owner: &OwnerNote) -> Result<Flock<File>> {
    let lock = dir.make_file(OWNER).with_context(|| format!("{OWNER} cannot be made"))?;
    let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno)
        .with_context(|| format!("{OWNER} cannot be locked"))?;
    serde_json::to_writer(&*lock, owner)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_files_names() {
        for good in ["a", "train-1", "A.b_c"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "é", ".hidden", "--memory", "-", &"x".repeat(41)]
        {
            let error = check_name(bad).unwrap_err();
            assert_eq!(crate::output::failure::code_of(&error), 2);
            assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        }
        assert_eq!(name_of("/usr/bin/python3.11"), "python3_11");
        assert_eq!(name_of("/"), "tenant");
        for program in ["weird name é", "-bash", "--", "."] {
            assert!(check_name(&name_of(program)).is_ok(), "{program}");
        }
    }

    #[test]
    fn a_directory_is_private_owned_and_swept_when_its_owner_is_gone() {
        let base = std::env::temp_dir().join(format!("divvy-test-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let root = base.join("root");
        let me = OwnerNote { pid: std::process::id(), command: vec!["x".to_owned()] };
        let first = TenantDir::make_in(&root, uid(), "a", &me).unwrap();
        let second = TenantDir::make_in(&root, uid(), "a", &me).unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(std::fs::metadata(first.path()).unwrap().mode() & 0o777, 0o700);
        let owner = |path: &Path| owner(&Dir::open(path).unwrap()).unwrap().unwrap();
        assert!(owner(first.path()).1);
        assert!(can_meet(first.path()) && !can_meet(&root));
        let orphan = first.path().to_owned();
        drop(first);
        assert!(!owner(&orphan).1);
        let third = TenantDir::make_in(&root, uid(), "b", &me).unwrap();
        assert!(!orphan.exists() && second.path().exists());
        assert!(third.remove());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
