//! Directories that are open, and what lies in them, reached through them.
//!
//! Tenants lie in directories of all users, and who owns a directory can exchange it for a link to
//! another's at any instant. So a path is walked once, place by place, and what was judged is held open:
//! all that follows names files of it, and nothing is looked up by a path again.
//!
//! Promises: on the way to a directory no link is followed but root's and this user's own; below a
//! directory none at all, nor into another file system ([`Dir::below`]), where a user's own server could
//! keep whoever reads waiting. Nothing here waits for anybody.
//!
//! Does not say whose a directory must be: callers compare [`Dir::uid`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use divvy_page::{AttachError, Directory};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, Flock, FlockArg, OFlag, OpenHow, ResolveFlag};
use nix::fcntl::{openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use rustix::fs::{RenameFlags, renameat_with};

/// Links followed on the way to a directory; the kernel's own bound.
const MOST_LINKS: u32 = 40;
/// Directories in each other that are open while a tree is removed.
const DEEPEST: u32 = 32;

/// Device and inode: what a file or directory is, whatever it is called.
pub(crate) type FileIdentity = (u64, u64);

/// A directory, open.
#[derive(Debug)]
pub(crate) struct Dir {
    file: File,
    uid: u32,
    identity: FileIdentity,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Dir {
    /// Opens the directory at `path`; a link in its last place is not followed.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub(crate) fn open(path: &Path) -> Result<Self, AttachError> {
        Self::walked(path, false)
    }

    /// The same of a directory in which others lie: a link of root's or of this user's is followed.
    ///
    /// # Errors
    /// As [`Dir::open`].
    pub(crate) fn open_through(path: &Path) -> Result<Self, AttachError> {
        Self::walked(path, true)
    }

    fn walked(path: &Path, to_the_end: bool) -> Result<Self, AttachError> {
        let me = nix::unistd::geteuid().as_raw();
        let here = openat(AT_FDCWD, ".", place(), Mode::empty());
        let mut links = MOST_LINKS;
        here.and_then(|here| walk(here, path, to_the_end, me, &mut links))
            .and_then(|last| openat(last, ".", reading(), Mode::empty()))
            .and_then(Self::of)
            .map_err(wrong)
    }

    fn of(fd: OwnedFd) -> nix::Result<Self> {
        let status = fstat(&fd)?;
        Ok(Self { file: File::from(fd), uid: status.st_uid, identity: identity(&status) })
    }

    /// Locks the directory for this process alone, until the lock is dropped; `None` while somebody else
    /// has it locked.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub(crate) fn lock(&self) -> Result<Option<Flock<File>>, AttachError> {
        let file = self.as_fd().try_clone_to_owned().map(File::from);
        let file =
            file.map_err(|error| wrong(Errno::from_raw(error.raw_os_error().unwrap_or(0))))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(lock)),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(wrong(errno)),
        }
    }

    /// Its owner.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Identity of the file.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The same for what reads and writes tenants' files.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub(crate) fn tenant(&self) -> Result<Directory, AttachError> {
        Directory::of_descriptor(self.as_fd().as_raw_fd())
    }

    /// Opens the directory called `name` in it, in the same file system and never through a link.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub(crate) fn below(&self, name: &OsStr) -> Result<Dir, AttachError> {
        let dir = self.here(name, reading()).and_then(Dir::of).map_err(wrong)?;
        if dir.identity.0 == self.identity.0 { Ok(dir) } else { Err(wrong(Errno::EXDEV)) }
    }

    /// Opens what is called `name` in it, through no link and nothing that is mounted there.
    fn here(&self, name: &OsStr, flags: OFlag) -> nix::Result<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS;
        let how = OpenHow::new().flags(flags).resolve(resolve);
        match openat2(self, name, how) {
            // Linux before 5.6, or a filter of system calls that does not know this one.
            Err(Errno::ENOSYS | Errno::EPERM) => openat(self, name, flags, Mode::empty()),
            opened => opened,
        }
    }

    /// The same where another file system may be mounted on it, as in a place that an operator has named.
    ///
    /// # Errors
    /// As [`Dir::below`].
    pub(crate) fn mounted_below(&self, name: &OsStr) -> Result<Dir, AttachError> {
        openat(self, name, reading(), Mode::empty()).and_then(Dir::of).map_err(wrong)
    }

    /// Status of `name` in it, of the link itself if it is one; not of a mount there.
    pub(crate) fn status(&self, name: &OsStr) -> Option<FileStat> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        fstat(self.here(name, flags).ok()?).ok()
    }

    /// The same where another file system may be mounted on it.
    pub(crate) fn mounted_status(&self, name: &OsStr) -> Option<FileStat> {
        fstatat(self, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    /// The same, as far as it tells one from another.
    pub(crate) fn identity_of(&self, name: &str) -> Option<FileIdentity> {
        self.status(OsStr::new(name)).as_ref().map(identity)
    }

    /// Up to `most` names in it, in no order; and whether those are all.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub(crate) fn names(&self, most: usize) -> Result<(Vec<OsString>, bool), AttachError> {
        let mut all = self.listing()?.filter(|name| !matches!(name.as_bytes(), b"." | b".."));
        let names: Vec<OsString> = all.by_ref().take(most).collect();
        Ok((names, all.next().is_none()))
    }

    /// The names in it, read while they are asked for.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub(crate) fn listing(
        &self,
    ) -> Result<impl Iterator<Item = OsString> + Send + use<>, AttachError> {
        let listing = nix::dir::Dir::openat(self, ".", reading(), Mode::empty()).map_err(wrong)?;
        let name =
            |entry: nix::dir::Entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_os_string();
        Ok(listing.into_iter().map_while(Result::ok).map(name))
    }

    /// Opens the regular file called `name` in it; `None` where there is none. Neither the other end of a
    /// pipe nor the holder of a lease is waited for.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn file(&self, name: &str) -> std::io::Result<Option<File>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match self.here(OsStr::new(name), flags) {
            Ok(fd) => File::from(fd),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => return Err(no_file("a link")),
            Err(errno) => return Err(errno.into()),
        };
        if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(no_file("no regular file")) }
    }

    /// Makes a file called `name` in it for this user alone; there must be none.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn make_file(&self, name: &str) -> std::io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        Ok(File::from(openat(self, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?))
    }

    /// Makes a directory called `name` in it for this user alone.
    ///
    /// # Errors
    /// The system's; [`Errno::EEXIST`] where something has that name.
    pub(crate) fn make(&self, name: &OsStr) -> nix::Result<()> {
        mkdirat(self, name, Mode::S_IRWXU)
    }

    /// Gives what is called `name` in it the name `new` in `to`, where nothing has that name.
    ///
    /// # Errors
    /// The system's; [`Errno::EEXIST`] where something has that name.
    pub(crate) fn rename_to(&self, name: &OsStr, to: &Dir, new: &OsStr) -> nix::Result<()> {
        // The system call itself: glibc has had a function for it since 2.28, and releases start on older ones.
        renameat_with(self, name, to, new, RenameFlags::NOREPLACE)
            .map_err(|error| Errno::from_raw(error.raw_os_error()))
    }

    /// Removes what is called `name` in it and is no directory; success where there is nothing.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn remove_file(&self, name: &OsStr) -> nix::Result<()> {
        match unlinkat(self, name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::ENOENT) => Ok(()),
            done => done,
        }
    }

    /// Removes the directory called `name` in it, which must be empty.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn remove_empty(&self, name: &OsStr) -> nix::Result<()> {
        unlinkat(self, name, UnlinkatFlags::RemoveDir)
    }

    /// Removes what is called `name` in it, with all that lies there; no link is followed.
    ///
    /// # Errors
    /// The system's; what was removed by then is gone.
    pub(crate) fn remove_all(&self, name: &OsStr) -> Result<(), AttachError> {
        let mut removal = TreeRemoval { top: self, name, deep: Vec::new(), moved: 0 };
        removal.remove(self, name, DEEPEST)?;
        while let Some(deep) = removal.deep.pop() {
            removal.remove(self, &deep, DEEPEST)?;
        }
        Ok(())
    }
}

/// A tree that is being removed. A directory too deep in it to hold all above it open is moved to the top first.
struct TreeRemoval<'a> {
    top: &'a Dir,
    name: &'a OsStr,
    /// Directories that were moved there.
    deep: Vec<OsString>,
    moved: u32,
}

impl TreeRemoval<'_> {
    fn remove(&mut self, from: &Dir, name: &OsStr, depth: u32) -> Result<(), AttachError> {
        match unlinkat(from, name, UnlinkatFlags::NoRemoveDir) {
            // Linux says EISDIR, POSIX EPERM.
            Err(Errno::EISDIR | Errno::EPERM) => {}
            done => return done.map_err(wrong),
        }
        let Some(below) = depth.checked_sub(1) else { return self.move_up(from, name) };
        let dir = from.below(name)?;
        for inner in dir.names(usize::MAX)?.0 {
            self.remove(&dir, &inner, below)?;
        }
        unlinkat(from, name, UnlinkatFlags::RemoveDir).map_err(wrong)
    }

    fn move_up(&mut self, from: &Dir, name: &OsStr) -> Result<(), AttachError> {
        loop {
            let mut aside = self.name.to_owned();
            aside.push(format!(".{}", self.moved));
            self.moved = self.moved.wrapping_add(1);
            match from.rename_to(name, self.top, &aside) {
                Ok(()) => {
                    self.deep.push(aside);
                    return Ok(());
                }
                // Left by a removal that was cut off.
                Err(Errno::EEXIST) if self.moved != 0 => {}
                Err(errno) => return Err(wrong(errno)),
            }
        }
    }
}

/// Walks from the directory `here` along `path`, and returns what it leads to, open as a place only.
fn walk(
    mut here: OwnedFd,
    path: &Path,
    to_the_end: bool,
    me: u32,
    links: &mut u32,
) -> nix::Result<OwnedFd> {
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let name = match component {
            Component::RootDir => OsStr::new("/"),
            Component::CurDir | Component::Prefix(_) => continue,
            Component::ParentDir => OsStr::new(".."),
            Component::Normal(name) => name,
        };
        let next = openat(&here, name, place() & !OFlag::O_DIRECTORY, Mode::empty())?;
        let status = fstat(&next)?;
        here = match kind(&status) {
            SFlag::S_IFDIR => next,
            SFlag::S_IFLNK => {
                let is_last = components.peek().is_none();
                let target = readlinkat(&next, "")?;
                // Links that the kernel makes up, as under /proc, do not lead to the text they read as.
                let is_plain = usize::try_from(status.st_size) == Ok(target.len());
                let is_trusted = [0, me].contains(&status.st_uid) && is_plain;
                if *links == 0 || !is_trusted || (is_last && !to_the_end) {
                    return Err(Errno::ELOOP);
                }
                *links -= 1;
                walk(here, Path::new(&target), true, me, links)?
            }
            _ => return Err(Errno::ENOTDIR),
        };
    }
    Ok(here)
}

/// How a directory is opened that is only gone through.
fn place() -> OFlag {
    OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// How one is opened that is read.
fn reading() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC
}

/// Whether it is a directory.
pub(crate) fn is_dir(status: &FileStat) -> bool {
    kind(status) == SFlag::S_IFDIR
}

fn kind(status: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits())
}

pub(crate) fn identity(status: &FileStat) -> FileIdentity {
    (status.st_dev, status.st_ino)
}

fn wrong(errno: Errno) -> AttachError {
    AttachError::Directory(divvy_page::Errno(errno as i32))
}

fn no_file(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidInput, format!("it is {what}; remove it"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    struct Base(std::path::PathBuf);

    impl Base {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("divvy-dir-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("real/inner")).unwrap();
            Self(path)
        }
    }

    impl Drop for Base {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn errno(result: Result<Dir, AttachError>) -> Option<Errno> {
        match result {
            Err(AttachError::Directory(errno)) => Some(Errno::from_raw(errno.0)),
            _ => None,
        }
    }

    #[test]
    fn our_own_links_are_followed_on_the_way_and_nobody_elses() {
        let base = Base::new("links");
        let real = Dir::open(&base.0.join("real/inner")).unwrap().identity();
        symlink("real", base.0.join("link")).unwrap();
        symlink(base.0.join("link/inner"), base.0.join("far")).unwrap();
        symlink("loop", base.0.join("loop")).unwrap();
        for path in ["link/inner", "real/../link/./inner/", "real/inner"] {
            assert_eq!(Dir::open(&base.0.join(path)).unwrap().identity(), real, "{path}");
        }
        assert_eq!(errno(Dir::open(&base.0.join("far"))), Some(Errno::ELOOP));
        assert_eq!(Dir::open_through(&base.0.join("far")).unwrap().identity(), real);
        assert_eq!(errno(Dir::open(&base.0.join("loop/x"))), Some(Errno::ELOOP));
        assert_eq!(errno(Dir::open(Path::new("/proc/self/root/tmp"))), Some(Errno::ELOOP));
        assert_eq!(errno(Dir::open(&base.0.join("none"))), Some(Errno::ENOENT));
        std::fs::write(base.0.join("file"), "").unwrap();
        assert_eq!(errno(Dir::open(&base.0.join("file/x"))), Some(Errno::ENOTDIR));
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::lchown(base.0.join("link"), Some(65534), None).unwrap();
            assert_eq!(errno(Dir::open(&base.0.join("link/inner"))), Some(Errno::ELOOP));
            assert_eq!(errno(Dir::open_through(&base.0.join("far"))), Some(Errno::ELOOP));
        }
    }

    #[test]
    fn what_is_open_stays_what_it_is_when_its_name_is_anothers() {
        let base = Base::new("renamed");
        std::fs::write(base.0.join("real/inner/file"), "mine").unwrap();
        let dir = Dir::open(&base.0.join("real")).unwrap();
        std::fs::rename(base.0.join("real"), base.0.join("aside")).unwrap();
        symlink("/etc", base.0.join("real")).unwrap();
        let inner = dir.below(OsStr::new("inner")).unwrap();
        assert!(inner.file("file").unwrap().is_some() && inner.file("none").unwrap().is_none());
        symlink("inner", base.0.join("aside/link")).unwrap();
        assert_eq!(errno(dir.below(OsStr::new("link"))), Some(Errno::ENOTDIR));
        assert!(dir.file("link").is_err() && dir.file("inner").is_err());
        assert_eq!(dir.names(9).unwrap().0.len(), 2);
        assert_eq!((dir.names(1).unwrap().1, dir.names(2).unwrap().1), (false, true));
    }

    #[test]
    fn a_tree_is_removed_and_what_its_links_lead_to_is_not() {
        let base = Base::new("removed");
        std::fs::create_dir_all(base.0.join("gone/deep/deeper")).unwrap();
        std::fs::write(base.0.join("gone/deep/file"), "").unwrap();
        symlink(base.0.join("real"), base.0.join("gone/deep/link")).unwrap();
        let dir = Dir::open(&base.0).unwrap();
        dir.remove_all(OsStr::new("gone")).unwrap();
        assert!(!base.0.join("gone").exists() && base.0.join("real/inner").is_dir());
        assert!(dir.remove_all(OsStr::new("gone")).is_err());

        // Deeper than descriptors reach, twice; a name that it takes on the way is there already.
        for side in ["a", "b"] {
            let mut deep = base.0.join("gone").join(side);
            (0..3 * DEEPEST).for_each(|_| deep.push("deep"));
            std::fs::create_dir_all(&deep).unwrap();
            std::fs::write(deep.join("file"), "").unwrap();
        }
        std::fs::write(base.0.join("gone.0"), "kept").unwrap();
        dir.remove_all(OsStr::new("gone")).unwrap();
        let mut left = dir.names(9).unwrap().0;
        left.sort();
        assert_eq!(left, ["gone.0", "real"]);
    }

    #[test]
    fn owners_are_told_and_a_lock_is_one_holders() {
        let base = Base::new("owner");
        let real = base.0.join("real");
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o755)).unwrap();
        if nix::unistd::geteuid().is_root() {
            chown(&real, Some(65534), None).unwrap();
            assert_eq!(Dir::open(&real).unwrap().uid(), 65534);
        }
        let (first, second) = (Dir::open(&real).unwrap(), Dir::open(&real).unwrap());
        let lock = first.lock().unwrap().unwrap();
        assert!(second.lock().unwrap().is_none());
        drop(lock);
        assert!(second.lock().unwrap().is_some(), "though the first is open");
        assert!(first.tenant().is_ok());
    }
}
