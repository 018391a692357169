//! System calls that take names: all of them relative to a directory that is open, where there is one.
//!
//! Promises: what is opened here is closed in programs that are executed, and no link in the last place
//! of a name is followed, but by [`open_any`]. A name without a slash under an open directory therefore
//! leads into that directory, whoever renames what meanwhile.

use core::ffi::CStr;

use crate::sys::{Errno, Fd, as_arg, call};

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
    let flags = as_arg(flags | libc::O_CLOEXEC | libc::O_NOFOLLOW);
    // SAFETY: `name` is a NUL-terminated string that lives through the call.
    let fd = unsafe {
        call(libc::SYS_openat, [at_arg(at), name_arg(name), flags, mode as usize, 0, 0])
    }?;
    Ok(Fd::of_answer(fd))
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
        opened => opened.map(Fd::of_answer),
    }
}

/// Opens `path`; a link in its last place is followed.
pub(crate) fn open_any(path: &CStr, flags: i32) -> Result<Fd, Errno> {
    let flags = as_arg(flags | libc::O_CLOEXEC);
    // SAFETY: `path` is a NUL-terminated string that lives through the call.
    let fd = unsafe { call(libc::SYS_openat, [at_arg(None), name_arg(path), flags, 0, 0, 0]) }?;
    Ok(Fd::of_answer(fd))
}

/// Makes a directory with `mode`, less the umask.
pub(crate) fn mkdir(at: At<'_>, name: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: `name` is a NUL-terminated string that lives through the call.
    unsafe { call(libc::SYS_mkdirat, [at_arg(at), name_arg(name), mode as usize, 0, 0, 0]) }?;
    Ok(())
}

/// Inode of what `path` leads to, links followed.
pub(crate) fn link_inode(path: &CStr) -> Result<u64, Errno> {
    let mut raw = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let into = raw.as_mut_ptr().expose_provenance();
    // SAFETY: `path` is NUL-terminated; the kernel writes one `struct stat` into `raw`.
    unsafe { call(libc::SYS_newfstatat, [at_arg(None), name_arg(path), into, 0, 0, 0]) }?;
    // SAFETY: zeroed is a valid `stat`, and the kernel filled it.
    Ok(unsafe { raw.assume_init() }.st_ino)
}

/// Gives a file of the directory another name there in one step, over what has that name.
pub(crate) fn rename(at: &Fd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    let arguments = [at.arg(), name_arg(from), at.arg(), name_arg(to), 0, 0];
    // SAFETY: both are NUL-terminated strings that live through the call.
    unsafe { call(libc::SYS_renameat2, arguments) }?;
    Ok(())
}

/// Removes a file's name.
pub(crate) fn unlink(at: &Fd, name: &CStr) {
    // SAFETY: a NUL-terminated string that lives through the call.
    let _ = unsafe { call(libc::SYS_unlinkat, [at.arg(), name_arg(name), 0, 0, 0, 0]) };
}

/// Another descriptor of what this process has open as `number`.
pub(crate) fn duplicate(number: i32) -> Result<Fd, Errno> {
    let arguments = [as_arg(number), as_arg(libc::F_DUPFD_CLOEXEC), 0, 0, 0, 0];
    // SAFETY: numbers only; a number that is no descriptor is an error.
    let fd = unsafe { call(libc::SYS_fcntl, arguments) }?;
    Ok(Fd::of_answer(fd))
}
