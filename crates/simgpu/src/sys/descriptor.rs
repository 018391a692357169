//! Descriptors a program names by number, and those of memory files.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::fs::{fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;

/// A new descriptor for whatever the program calls `number`.
///
/// `cuMemImportFromShareableHandle` is given a plain number that may be closed, or mean something
/// else: the result is then an error, or a descriptor the daemon does not know.
pub fn duplicate(number: i32) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not -1, and the borrow ends with this call, in which the kernel checks
    // that the descriptor is open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 0)
}

/// A descriptor by the number a program handed over: the driver's to close once it has what it names.
#[derive(Debug)]
pub struct Handed(i32);

impl Handed {
    /// # Safety
    /// 1. `number` is none, or a descriptor that the program gives up with the call at hand.
    /// 2. No other `Handed` is made of it.
    pub(super) const unsafe fn new(number: i32) -> Self {
        Self(number)
    }

    /// As [`duplicate`].
    pub fn duplicate(&self) -> Result<OwnedFd, Errno> {
        duplicate(self.0)
    }

    /// The descriptor itself, which is the driver's from here on.
    pub fn take(self) -> Option<OwnedFd> {
        // SAFETY: the program gave it up (`new`), and it is taken once. The number is not -1.
        (self.0 >= 0).then(|| unsafe { OwnedFd::from_raw_fd(self.0) })
    }
}

/// A memory file of `bytes` zero bytes, none of them resident.
pub fn memory_file(bytes: u64) -> Result<OwnedFd, Errno> {
    let file = memfd_create("simgpu-block", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// The size and inode of a memory file.
pub fn file_identity(file: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let state = fstat(file)?;
    Ok((u64::try_from(state.st_size).unwrap_or(0), state.st_ino))
}

/// Closes every descriptor but the standard three: those the program that started the daemon left
/// open by accident would keep its pipes from ending.
///
/// To be called before anything else of this process opens one.
pub fn close_inherited() {
    let Ok(directory) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> = directory
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // SAFETY: the borrow ends with this call, in which the kernel checks that it is open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        if rustix::io::fcntl_getfd(borrowed).is_ok() {
            // SAFETY: nothing in this process owns a descriptor above 2 yet, and it is open: the
            // directory's own, closed by now, was left out by the check.
            unsafe { rustix::io::close(number) };
        }
    }
}

/// Another open file description of the file behind a descriptor.
pub fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn on_byte(at: u64) -> Result<libc::flock, Errno> {
    Ok(libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: i64::try_from(at).map_err(|_| Errno::INVAL)?,
        l_len: 1,
        l_pid: 0,
    })
}

fn errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(code.unwrap_or(libc::EIO))
}

/// Locks a byte for as long as a copy of this open file description is open.
pub fn lock(file: impl AsFd, at: u64) -> Result<(), Errno> {
    let record = on_byte(at)?;
    // SAFETY: the descriptor is open through the call, which reads one `struct flock`.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const record) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Whether another open file description of the same file has a lock on a byte.
pub fn is_locked(file: impl AsFd, at: u64) -> Result<bool, Errno> {
    let mut record = on_byte(at)?;
    // SAFETY: the descriptor is open through the call, which reads and writes one `struct flock`.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &raw mut record) } {
        0 => Ok(i32::from(record.l_type) != libc::F_UNLCK),
        _ => Err(errno()),
    }
}
