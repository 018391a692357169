//! System calls that take names: all of them relative to a directory that is open, where there is one.
//!
//! Promises: what is opened here is closed in programs that are executed, and no link in the last place
//! of a name is followed, but by [`open_any`]. A name without a slash under an open directory therefore
//! leads into that directory, whoever renames what meanwhile.

use core::ffi::CStr;

use crate::sys::{self, Errno, Fd, as_arg, call};
use crate::{fault, kernel};

/// The directory that names are relative to; without one they are paths of this process.
pub(crate) type At<'a> = Option<&'a Fd>;

fn at_arg(at: At<'_>) -> usize {
    at.map_or(as_arg(libc::AT_FDCWD), Fd::arg)
}

fn name_arg(name: &CStr) -> usize {
    name.as_ptr().expose_provenance()
}

/// Opens `name`, never through a symbolic link in its last place.
#[inline(never)]
pub(crate) fn open(at: At<'_>, name: &CStr, flags: i32, mode: u32) -> Result<Fd, Errno> {
    fault::point();
    kernel::open(at.map(|at| &at.0), name, flags | libc::O_NOFOLLOW, mode).map(Fd)
}

/// Opens `name` in `at` on the owner's side: through no link, and nothing that is mounted there, which may
/// be a server of a user's own that never answers. Kernels before 5.6, and filters of system calls that do
/// not know this one, only leave the link alone.
pub(crate) fn open_here(at: &Fd, name: &CStr, flags: i32) -> Result<Fd, Errno> {
    // A `struct open_how`: flags, mode, resolve.
    let how =
        [(flags | libc::O_CLOEXEC) as u64, 0, libc::RESOLVE_NO_XDEV | libc::RESOLVE_NO_SYMLINKS];
    let arguments =
        [at.arg(), name_arg(name), how.as_ptr().expose_provenance(), size_of_val(&how), 0, 0];
    // SAFETY: `name` is a NUL-terminated string, and the kernel reads three words of `how`.
    match unsafe { call(libc::SYS_openat2, arguments) } {
        Err(Errno(libc::ENOSYS | libc::EPERM)) => open(Some(at), name, flags, 0),
        // SAFETY: just opened, for us alone.
        opened => opened.map(|fd| unsafe { Fd::of_answer(fd) }),
    }
}

/// Opens `path`; a link in its last place is followed.
pub(crate) fn open_any(path: &CStr, flags: i32) -> Result<Fd, Errno> {
    fault::point();
    kernel::open(None, path, flags, 0).map(Fd)
}

/// Makes a directory with `mode`, less the umask.
fn mkdir(at: At<'_>, name: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: `name` is a NUL-terminated string that lives through the call.
    unsafe { call(libc::SYS_mkdirat, [at_arg(at), name_arg(name), mode as usize, 0, 0, 0]) }?;
    Ok(())
}

/// Inode of what `path` leads to, links followed.
pub(crate) fn link_inode(path: &CStr) -> Result<u64, Errno> {
    fault::point();
    kernel::stat(path).map(|stat| stat.st_ino)
}

/// Names [`make`] tries.
const MAKING_NAMES: u64 = 64;

/// Kind of file that [`make`] makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum New {
    Directory,
    /// A file without bytes.
    File,
}

impl New {
    /// Makes it under that name, which nothing has, and opens it.
    fn open(self, at: &Fd, name: &CStr, mode: u32) -> Result<Fd, Errno> {
        match self {
            Self::Directory => {
                mkdir(Some(at), name, mode)?;
                open(Some(at), name, libc::O_RDONLY | libc::O_DIRECTORY, 0)
            }
            Self::File => open(Some(at), name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, mode),
        }
    }

    const fn removal(self) -> i32 {
        match self {
            Self::Directory => libc::AT_REMOVEDIR,
            Self::File => 0,
        }
    }
}

/// Makes something with `mode`, whatever the umask says: under another name, so that nobody finds it under its
/// own with less, and who is killed meanwhile keeps nobody out. What he leaves has that other name.
///
/// # Errors
/// `EEXIST` where something has the name, `EBUSY` where the names it could be made under are all taken.
#[inline(never)]
pub(crate) fn make(at: &Fd, name: &CStr, what: New, mode: u32) -> Result<Fd, Errno> {
    let number = sys::now_ns() ^ u64::from(sys::pid()).rotate_left(16);
    make_under(at, name, what, mode, number)
}

/// The same, under the first free one of the names with `number` and those behind it: another thread may have begun
/// in the same nanosecond, and another machine's process of the same number may share the directory.
fn make_under(at: &Fd, name: &CStr, what: New, mode: u32, number: u64) -> Result<Fd, Errno> {
    for number in (0..MAKING_NAMES).map(|step| number.wrapping_add(step)) {
        let new = numbered(*b".making.00000000\0", number);
        let new = CStr::from_bytes_with_nul(&new).unwrap_or(c".making");
        let fd = match what.open(at, new, 0o700) {
            Err(Errno(libc::EEXIST)) => continue,
            opened => opened?,
        };
        let made =
            sys::chmod(&fd, mode).and_then(|()| rename(at, new, name, libc::RENAME_NOREPLACE));
        if made.is_err() {
            remove(at, new, what.removal());
        }
        return match made {
            // A file system that knows no such step: who looks before the mode is set looks again.
            Err(Errno(libc::EINVAL | libc::ENOSYS)) => {
                let fd = what.open(at, name, mode)?;
                sys::chmod(&fd, mode).map(|()| fd)
            }
            made => made.map(|()| fd),
        };
    }
    Err(Errno(libc::EBUSY))
}

/// A name whose last eight characters, before the end, are a number's.
pub(crate) fn numbered<const BYTES: usize>(mut name: [u8; BYTES], number: u64) -> [u8; BYTES] {
    let digits = name.iter_mut().rev().skip(1).take(8).enumerate();
    for (place, to) in digits {
        let digit = u32::try_from((number >> (4 * place)) & 15).unwrap_or(0);
        *to = char::from_digit(digit, 16).map_or(b'0', |c| c as u8);
    }
    name
}

/// Gives what is in the directory another name there in one step: with no flags over what has that name.
pub(crate) fn rename(at: &Fd, from: &CStr, to: &CStr, flags: u32) -> Result<(), Errno> {
    let arguments = [at.arg(), name_arg(from), at.arg(), name_arg(to), flags as usize, 0];
    // SAFETY: both are NUL-terminated strings that live through the call.
    unsafe { call(libc::SYS_renameat2, arguments) }?;
    Ok(())
}

/// Removes a file's name.
pub(crate) fn unlink(at: &Fd, name: &CStr) {
    remove(at, name, 0);
}

fn remove(at: &Fd, name: &CStr, flags: i32) {
    let arguments = [at.arg(), name_arg(name), as_arg(flags), 0, 0, 0];
    // SAFETY: a NUL-terminated string that lives through the call.
    let _ = unsafe { call(libc::SYS_unlinkat, arguments) };
}

/// Another descriptor of what this process has open as `number`, with a number from `lowest` on.
pub(crate) fn duplicate(number: i32, lowest: usize) -> Result<Fd, Errno> {
    let arguments = [as_arg(number), as_arg(libc::F_DUPFD_CLOEXEC), lowest, 0, 0, 0];
    // SAFETY: numbers only; a number that is no descriptor is an error.
    let fd = unsafe { call(libc::SYS_fcntl, arguments) }?;
    // SAFETY: just opened, for us alone.
    Ok(unsafe { Fd::of_answer(fd) })
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    /// A directory of the test's own, removed with all that is in it.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("divvy-at-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn open(&self) -> Fd {
            use std::os::unix::ffi::OsStrExt;
            let path = std::ffi::CString::new(self.0.as_os_str().as_bytes()).unwrap();
            open(None, &path, libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Two threads that made one tenant in the same nanosecond took the other's name for a tenant that was there,
    /// and found none.
    #[test]
    fn a_name_that_another_is_making_is_left_to_it() {
        let scratch = Scratch::new("making");
        let at = scratch.open();
        for (what, theirs) in [(New::File, 7), (New::Directory, 0x1_ffff_ffff_u64)] {
            let begun = numbered(*b".making.00000000\0", theirs);
            let begun = CStr::from_bytes_with_nul(&begun).unwrap();
            what.open(&at, begun, 0o700).unwrap();
            let name = if what == New::File { c"file" } else { c"directory" };
            make_under(&at, name, what, 0o755, theirs).unwrap();
            let again = make_under(&at, name, what, 0o755, theirs).map(|_| ());
            assert_eq!(again, Err(Errno(libc::EEXIST)), "{name:?}");
        }
        let left = [".making.00000007", ".making.ffffffff", "directory", "file"];
        assert_eq!(scratch.names(), left);
    }

    #[test]
    fn names_that_are_all_taken_are_said_to_be() {
        let scratch = Scratch::new("making-all");
        let at = scratch.open();
        for number in 0..MAKING_NAMES {
            let name = numbered(*b".making.00000000\0", number);
            New::File.open(&at, CStr::from_bytes_with_nul(&name).unwrap(), 0o700).unwrap();
        }
        let made = make_under(&at, c"file", New::File, 0o644, 0).map(|_| ());
        assert_eq!(made, Err(Errno(libc::EBUSY)));
    }
}
