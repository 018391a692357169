//! A tenant's directory that is open: its files are opened relative to it, and judged by it.
//!
//! Promises: a path is walked once, when the directory is opened, and never again; so who exchanges the
//! directory, or one above it, for a link changes nothing for whoever has it open. A file must be a
//! regular one; opening waits for nobody, whatever lies there.
//!
//! Root could write anybody's files, and must not be led to do it by somebody else: of another user's
//! directory it takes only files that this user could have written himself ([`Directory::judge`]). All
//! others are held to what the kernel lets them open.
//!
//! Does not say whose a directory must be: that is [`crate::trust`]'s for processes that join, and the
//! caller's on the owner's side.

use core::ffi::CStr;

use divvy_abi::{layout, usage};

use crate::at;
use crate::error::{AttachError, TenantFile};
use crate::sys::{self, Errno, Fd, Stat};

/// Reading and writing, for those who are neither owner nor of the group.
const OTHERS_READ_AND_WRITE: u32 = 0o006;

/// A directory, open.
#[derive(Debug)]
pub struct Directory {
    fd: Fd,
    stat: Stat,
}

impl Directory {
    /// Opens the directory at `path`; a link in its last place is not followed.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub fn open(path: &CStr) -> Result<Self, AttachError> {
        Self::open_raw(path).and_then(Self::of).map_err(AttachError::Directory)
    }

    /// The directory that this process has open as descriptor `number`, by a descriptor of its own. For
    /// callers that have walked to it themselves; a number that is no directory's is an error.
    ///
    /// # Errors
    /// [`AttachError::Directory`].
    pub fn of_descriptor(number: i32) -> Result<Self, AttachError> {
        at::duplicate(number, 0).and_then(Self::of).map_err(AttachError::Directory)
    }

    pub(crate) fn open_raw(path: &CStr) -> Result<Fd, Errno> {
        at::open(None, path, libc::O_RDONLY | libc::O_DIRECTORY, 0)
    }

    pub(crate) fn of(fd: Fd) -> Result<Self, Errno> {
        let stat = sys::stat(&fd)?;
        if stat.mode & libc::S_IFMT == libc::S_IFDIR {
            Ok(Self { fd, stat })
        } else {
            Err(Errno(libc::ENOTDIR))
        }
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Opens a file in it, without waiting for anybody: not for the other end of a pipe, nor for who
    /// holds a lease.
    #[inline(never)]
    pub(crate) fn open_file(&self, name: &CStr, flags: i32, mode: u32) -> Result<Fd, Errno> {
        at::open(Some(&self.fd), name, flags | libc::O_NONBLOCK, mode)
    }

    /// Opens a file in it, on the owner's side; `None` where there is none.
    pub(crate) fn open_judged(
        &self,
        file: TenantFile,
        flags: i32,
    ) -> Result<Option<Fd>, AttachError> {
        let fd = match at::open_here(&self.fd, file.name(), flags | libc::O_NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(errno) => return Err(AttachError::Open(file, errno)),
        };
        let stat = sys::stat(&fd).map_err(AttachError::System)?;
        self.judge(file, &stat, sys::effective_uid())?;
        Ok(Some(fd))
    }

    /// Whether a process of the tenant lives, of whatever version its library and the tenant's files are.
    ///
    /// Cost: three system calls.
    pub fn is_inhabited(&self) -> bool {
        let usage = self.open_judged(TenantFile::Usage, libc::O_RDONLY).ok().flatten();
        usage.is_some_and(|fd| {
            sys::are_locked(&fd, usage::SLOT_LOCKS_AT, layout::SLOT_LOCKS).unwrap_or(true)
        })
    }

    /// Judges a file of this directory for a reader or writer of user `me`.
    fn judge(&self, file: TenantFile, stat: &Stat, me: u32) -> Result<(), AttachError> {
        if stat.mode & libc::S_IFMT != libc::S_IFREG {
            return Err(AttachError::NotAFile(file));
        }
        let is_his = stat.uid == self.stat.uid;
        // In root's own directory lies what root lets others put there; what also lies elsewhere is
        // somebody's whom root did not ask.
        let is_roots = self.stat.uid == 0 && stat.links == 1;
        let is_everybodys = stat.mode & OTHERS_READ_AND_WRITE == OTHERS_READ_AND_WRITE;
        if me != 0 || is_his || is_roots || is_everybodys {
            Ok(())
        } else {
            Err(AttachError::ForeignFile { file, uid: stat.uid })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(uid: u32, mode: u32, links: u64) -> Stat {
        Stat { device: 1, inode: 1, uid, mode: libc::S_IFREG | mode, links, size_bytes: 0 }
    }

    fn judged(directory_uid: u32, file: Stat, me: u32) -> Result<(), AttachError> {
        let mut directory = Directory::open(c"/").expect("there is a root");
        directory.stat.uid = directory_uid;
        directory.judge(TenantFile::Config, &file, me)
    }

    #[test]
    fn root_takes_of_a_user_what_that_user_could_write() {
        let foreign = Err(AttachError::ForeignFile { file: TenantFile::Config, uid: 7 });
        assert_eq!(judged(5, stat(5, 0o600, 2), 0), Ok(()));
        assert_eq!(judged(5, stat(7, 0o644, 1), 0), foreign);
        assert_eq!(judged(5, stat(7, 0o664, 1), 0), foreign);
        assert_eq!(judged(5, stat(7, 0o666, 1), 0), Ok(()));
        assert_eq!(judged(0, stat(7, 0o600, 1), 0), Ok(()));
        assert_eq!(judged(0, stat(7, 0o600, 2), 0), foreign, "it lies elsewhere too");
        assert_eq!(judged(5, stat(7, 0o644, 1), 5), Ok(()), "the kernel judges for users");
        let pipe = Stat { mode: libc::S_IFIFO | 0o600, ..stat(5, 0, 1) };
        assert_eq!(judged(5, pipe, 5), Err(AttachError::NotAFile(TenantFile::Config)));
    }

    #[test]
    fn a_descriptor_that_is_no_directorys_is_an_error() {
        assert_eq!(
            Directory::of_descriptor(-1).err(),
            Some(AttachError::Directory(Errno(libc::EBADF)))
        );
        let file = Directory::open(c"/proc").expect("there is one").fd;
        assert!(Directory::of_descriptor(file.arg() as i32).is_ok());
    }
}
