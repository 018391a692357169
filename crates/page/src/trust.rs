//! Owners that a tenant's directory and files may have.
//!
//! A directory is trusted when it is ours or root's. Another user's is trusted where it lies in a
//! trusted directory that is no common place, such as /tmp: whoever owns that one chose who may make
//! directories in it (containers of several uids in one mounted directory). So is what a runtime has
//! mounted into a container whose root is nobody on the host: the host's root is nobody there, and
//! the place of the mount is the container's, sticky or not. In a trusted directory without the
//! sticky bit files may be anybody's, for the same reason; with it, ours, root's or the directory's
//! owner's.
//!
//! A directory we make takes its parent's mode, so that it lets in whom the parent lets in; in a
//! sticky one, such as /tmp, it is ours alone. Nothing is made in a directory that is not trusted,
//! unless it is root's.
//!
//! Does not look further up than three directories, nor follow a link in the last component.

use core::ffi::CStr;

use crate::at::{self, New};
use crate::directory::Directory;
use crate::error::{AttachError, TenantFile};
use crate::path::Path;
use crate::sys::{self, Errno, Fd, Stat};

/// Directories looked at above a foreign one.
const ABOVE: u32 = 2;
/// Writing, for those who are not the owner.
const OTHERS_WRITE: u32 = 0o022;

/// Owners that the files may have, learnt from the directory.
#[derive(Debug)]
pub(crate) struct Trust {
    me: u32,
    directory: Directory,
}

impl Trust {
    /// Judges the directory at `path`; makes it, and its parent, where they are missing and `make` says
    /// so.
    pub(crate) fn of(path: &CStr, make: bool) -> Result<Self, AttachError> {
        let me = sys::effective_uid();
        let fd = match Directory::open_raw(path) {
            Err(Errno(libc::ENOENT)) if make => make_one(path, me, 1),
            other => other.map_err(AttachError::Directory),
        }?;
        let directory = Directory::of(fd).map_err(AttachError::Directory)?;
        if is_trusted(directory.fd(), directory.stat(), me, ABOVE) {
            Ok(Self { me, directory })
        } else {
            Err(AttachError::ForeignDirectory { uid: directory.stat().uid })
        }
    }

    /// The directory that was judged.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The mode of a file made here: readable and writable for those whom the directory lets in.
    pub(crate) fn file_mode(&self) -> u32 {
        // As it is now: who opened it while it was being made has seen another mode.
        match sys::stat(self.directory.fd()) {
            Ok(directory) if !is_sticky(&directory) => directory.mode & 0o666 | 0o600,
            _ => 0o600,
        }
    }

    /// Judges a file of the directory by its kind and owner.
    pub(crate) fn judge(&self, file: TenantFile, stat: &Stat) -> Result<(), AttachError> {
        if stat.mode & libc::S_IFMT != libc::S_IFREG {
            return Err(AttachError::NotAFile(file));
        }
        let directory = self.directory.stat();
        let known = [self.me, 0, directory.uid].contains(&stat.uid);
        if known || !is_sticky(directory) {
            Ok(())
        } else {
            Err(AttachError::ForeignFile { file, uid: stat.uid })
        }
    }
}

fn is_sticky(stat: &Stat) -> bool {
    stat.mode & libc::S_ISVTX != 0
}

/// Whether it is a place where others than its owner make files of their own: sticky, and they may write it. A sticky one
/// that they may not write, as crun makes for mounts, is its owner's alone.
fn is_common(stat: &Stat) -> bool {
    is_sticky(stat) && stat.mode & OTHERS_WRITE != 0
}

/// Whether an open directory is trusted: by its owner, or by what it lies in now, whatever its path
/// leads to meanwhile.
fn is_trusted(fd: &Fd, stat: &Stat, me: u32, above: u32) -> bool {
    if stat.uid == me || stat.uid == 0 {
        return true;
    }
    let Some(above) = above.checked_sub(1) else { return false };
    let Ok(parent) = at::open(Some(fd), c"..", libc::O_RDONLY | libc::O_DIRECTORY, 0) else {
        return false;
    };
    sys::stat(&parent).is_ok_and(|parent_stat| {
        !is_common(&parent_stat) && is_trusted(&parent, &parent_stat, me, above)
    })
}

/// Makes a directory, and `parents` missing ones above it.
fn make_one(directory: &CStr, me: u32, parents: u32) -> Result<Fd, AttachError> {
    let parent = Path::parent(directory)?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let parent_fd = match at::open_any(parent.as_c_str(), flags) {
        Err(Errno(libc::ENOENT)) if parents > 0 => make_one(parent.as_c_str(), me, parents - 1),
        other => other.map_err(AttachError::Directory),
    }?;
    let stat = sys::stat(&parent_fd).map_err(AttachError::Directory)?;
    if !is_trusted(&parent_fd, &stat, me, ABOVE) {
        return Err(AttachError::ForeignDirectory { uid: stat.uid });
    }
    let mode = if is_sticky(&stat) { 0o700 } else { stat.mode & 0o777 | 0o700 };
    // The umask is the program's; who shares the parent shares this, from when it has its name: a directory that
    // is made in it takes its mode.
    match at::make(&parent_fd, Path::last(directory)?.as_c_str(), New::Directory, mode) {
        // Another process was faster.
        Ok(_) | Err(Errno(libc::EEXIST)) => {}
        Err(errno) => return Err(AttachError::Directory(errno)),
    }
    Directory::open_raw(directory).map_err(AttachError::Directory)
}
