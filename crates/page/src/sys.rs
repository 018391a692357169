//! The system calls that this crate makes, each with a safe signature, and each a place of [`fault`].
//!
//! Nothing here waits without a bound. Why the kernel is asked directly: [`crate::kernel`].

use core::sync::atomic::AtomicU32;

pub(crate) use crate::errno::Errno;
use crate::fault;
use crate::kernel::{self, Descriptor};
pub(crate) use crate::kernel::{InChild, as_arg};

/// # Safety
/// 1. to 3. of [`kernel::syscall`].
pub(crate) unsafe fn call(number: libc::c_long, a: [usize; 6]) -> Result<usize, Errno> {
    fault::point();
    // SAFETY: passed on to our caller.
    unsafe { kernel::call(number, a) }
}

/// An open descriptor of ours; closed when dropped.
#[derive(Debug)]
pub(crate) struct Fd(pub(crate) Descriptor);

impl Fd {
    /// Of what a call that opens something has answered.
    ///
    /// # Safety
    /// 1. and 2. of [`Descriptor::of_answer`].
    pub(crate) unsafe fn of_answer(answer: usize) -> Self {
        // SAFETY: passed on to our caller.
        Self(unsafe { Descriptor::of_answer(answer) })
    }

    /// As an argument of a call, for as long as this lives.
    pub(crate) fn arg(&self) -> usize {
        self.0.arg()
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // Its descriptor is closed next.
        fault::point();
    }
}

/// Fields of `fstat` that are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) uid: u32,
    pub(crate) mode: u32,
    pub(crate) links: u64,
    pub(crate) size_bytes: u64,
}

/// Sets the mode of an open file, whatever the umask was.
pub(crate) fn chmod(fd: &Fd, mode: u32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    unsafe { call(libc::SYS_fchmod, [fd.arg(), mode as usize, 0, 0, 0, 0]) }?;
    Ok(())
}

/// Gives an open file to a user, where this process may.
pub(crate) fn chown(fd: &Fd, uid: u32) {
    // SAFETY: numbers only; the group stays.
    let _ = unsafe { call(libc::SYS_fchown, [fd.arg(), uid as usize, as_arg(-1), 0, 0, 0]) };
}

pub(crate) fn stat(fd: &Fd) -> Result<Stat, Errno> {
    stat_number(fd.0.number())
}

/// The same of a descriptor that is the program's, or none: it is looked at and never closed.
pub(crate) fn stat_number(descriptor: i32) -> Result<Stat, Errno> {
    let mut raw = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes one `struct stat` of this architecture into `raw`.
    unsafe {
        call(
            libc::SYS_fstat,
            [as_arg(descriptor), raw.as_mut_ptr().expose_provenance(), 0, 0, 0, 0],
        )
    }?;
    // SAFETY: zeroed is a valid `stat`, and the kernel filled it.
    let raw = unsafe { raw.assume_init() };
    Ok(Stat {
        device: raw.st_dev,
        inode: raw.st_ino,
        uid: raw.st_uid,
        mode: raw.st_mode,
        #[allow(clippy::useless_conversion, reason = "a u32 on arm64")]
        links: u64::from(raw.st_nlink),
        size_bytes: raw.st_size.cast_unsigned(),
    })
}

/// Reads at `offset` until `into` is full or the file ends; the count of bytes read.
pub(crate) fn read_at(fd: &Fd, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..)
        && !rest.is_empty()
    {
        let at = offset.saturating_add(done as u64);
        fault::point();
        match kernel::read_at(&fd.0, rest, at) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads a stream, such as a file under /proc, from its start.
pub(crate) fn read_all(fd: &Fd, into: &mut [u8]) -> Result<usize, Errno> {
    read_at(fd, into, 0)
}

/// Writes all of `from` at `offset`.
pub(crate) fn write_at(fd: &Fd, from: &[u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    while let Some(rest) = from.get(done..)
        && !rest.is_empty()
    {
        let at = offset.saturating_add(done as u64) as usize;
        // SAFETY: the kernel reads at most `rest.len()` bytes from `rest`.
        let put = unsafe {
            call(
                libc::SYS_pwrite64,
                [fd.arg(), rest.as_ptr().expose_provenance(), rest.len(), at, 0, 0],
            )
        };
        match put {
            Ok(0) => return Err(Errno(libc::ENOSPC)),
            Ok(count) => done += count,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sets the file's length; what is added reads as zero.
pub(crate) fn set_len(fd: &Fd, bytes: usize) -> Result<(), Errno> {
    // SAFETY: numbers only.
    unsafe { call(libc::SYS_ftruncate, [fd.arg(), bytes, 0, 0, 0, 0]) }?;
    Ok(())
}

/// Makes the range's blocks real, so that a full disk is an error here and not a SIGBUS later. A
/// file system that cannot (EOPNOTSUPP) gets them by writing zeros over zeros.
pub(crate) fn allocate(fd: &Fd, offset: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: numbers only.
    let result = unsafe { call(libc::SYS_fallocate, [fd.arg(), 0, offset, bytes, 0, 0]) };
    match result {
        Ok(_) => Ok(()),
        Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            let mut at = offset;
            while at < offset + bytes {
                let mut page = [0_u8; 4096];
                // Only pages nobody has written yet may be written: they read as zero.
                let got = read_at(fd, &mut page, at as u64)?;
                if page.iter().take(got).all(|byte| *byte == 0) {
                    write_at(fd, &page, at as u64)?;
                }
                at += page.len();
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Lock of an open file description (not of the process).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    Write,
    None,
}

fn flock(kind: i32, at: u64, bytes: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at.cast_signed(),
        l_len: bytes.cast_signed(),
        l_pid: 0,
    }
}

/// Takes or drops the lock of byte `at` without waiting: `Ok(false)` when another description has
/// it.
pub(crate) fn set_lock(fd: &Fd, at: u64, lock: Lock) -> Result<bool, Errno> {
    set_locks(fd, at, 1, lock)
}

/// The same of `bytes` bytes from `at` on: of all, or of none.
pub(crate) fn set_locks(fd: &Fd, at: u64, bytes: u64, lock: Lock) -> Result<bool, Errno> {
    let kind = match lock {
        Lock::Write => libc::F_WRLCK,
        Lock::None => libc::F_UNLCK,
    };
    let mut record = flock(kind, at, bytes);
    // SAFETY: F_OFD_SETLK reads one `struct flock`.
    let result = unsafe {
        call(
            libc::SYS_fcntl,
            [fd.arg(), as_arg(libc::F_OFD_SETLK), (&raw mut record).expose_provenance(), 0, 0, 0],
        )
    };
    match result {
        Ok(_) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether another description holds the lock of byte `at`.
pub(crate) fn is_locked(fd: &Fd, at: u64) -> Result<bool, Errno> {
    are_locked(fd, at, 1)
}

/// Whether another description holds the lock of any of `bytes` bytes from `at` on.
pub(crate) fn are_locked(fd: &Fd, at: u64, bytes: u64) -> Result<bool, Errno> {
    let mut record = flock(libc::F_WRLCK, at, bytes);
    // SAFETY: F_OFD_GETLK reads and writes one `struct flock`.
    unsafe {
        call(
            libc::SYS_fcntl,
            [fd.arg(), as_arg(libc::F_OFD_GETLK), (&raw mut record).expose_provenance(), 0, 0, 0],
        )
    }?;
    Ok(i32::from(record.l_type) != libc::F_UNLCK)
}

/// Maps the first `bytes` of a file, shared; the mapping stays until it is given to [`unmap`].
pub(crate) fn map_shared(fd: &Fd, bytes: usize, protection: i32) -> Result<*mut u8, Errno> {
    let arguments = [0, bytes, as_arg(protection), as_arg(libc::MAP_SHARED), fd.arg(), 0];
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let address = unsafe { call(libc::SYS_mmap, arguments) }?;
    Ok(core::ptr::with_exposed_provenance_mut(address))
}

/// Maps `bytes` of private zeroed memory.
pub(crate) fn map_private(bytes: usize) -> Result<*mut u8, Errno> {
    fault::point();
    kernel::map_private(bytes)
}

/// Takes a mapping of ours down.
///
/// # Safety
/// 1. and 2. of [`kernel::unmap`].
pub(crate) unsafe fn unmap(address: *mut u8, bytes: usize) {
    fault::point();
    // SAFETY: passed on to our caller.
    unsafe { kernel::unmap(address, bytes) };
}

/// Says what a forked child is to find in place of a mapping of ours.
///
/// # Safety
/// 1. and 2. of [`kernel::advise`].
pub(crate) unsafe fn advise(address: *mut u8, bytes: usize, child: InChild) -> Result<(), Errno> {
    fault::point();
    // SAFETY: passed on to our caller.
    unsafe { kernel::advise(address, bytes, child) }
}

/// Waits while `word` is `value`, until it is woken by one of `bits`, a signal comes, or CLOCK_MONOTONIC
/// reaches `deadline_ns`. The word's mapping may be read-only.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, deadline_ns: u64, bits: u32) {
    let time = libc::timespec {
        tv_sec: i64::try_from(deadline_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(deadline_ns % 1_000_000_000).unwrap_or(0),
    };
    // FUTEX_WAIT_BITSET takes an absolute time.
    let arguments = [
        word.as_ptr().expose_provenance(),
        as_arg(libc::FUTEX_WAIT_BITSET),
        value as usize,
        (&raw const time).expose_provenance(),
        0,
        bits as usize,
    ];
    // SAFETY: the word is borrowed through the call, in which the kernel only reads it, and one timespec.
    let _ = unsafe { call(libc::SYS_futex, arguments) };
}

/// Wakes all that wait for the word at `address`, which the kernel alone looks at, by one of `bits`.
pub(crate) fn futex_wake(address: *mut u8, bits: u32) {
    let all = i32::MAX as usize;
    let arguments =
        [address.expose_provenance(), as_arg(libc::FUTEX_WAKE_BITSET), all, 0, 0, bits as usize];
    // SAFETY: the kernel takes the address as a name, and where nothing is mapped answers so; it neither reads nor
    // writes through it. Who is woken without cause waits again, as for any futex.
    let _ = unsafe { call(libc::SYS_futex, arguments) };
}

/// CLOCK_MONOTONIC in nanoseconds.
///
/// Cost: a system call, some 100 ns.
pub fn now_ns() -> u64 {
    fault::point();
    kernel::now_ns()
}

/// Sleeps `ns` or until a signal.
pub(crate) fn sleep_ns(ns: u32) {
    fault::point();
    kernel::sleep_ns(ns);
}

pub(crate) fn effective_uid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    let uid = unsafe { call(libc::SYS_geteuid, [0; 6]) };
    uid.map_or(u32::MAX, |uid| u32::try_from(uid).unwrap_or(u32::MAX))
}

pub(crate) fn pid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    let pid = unsafe { call(libc::SYS_getpid, [0; 6]) };
    pid.map_or(0, |pid| u32::try_from(pid).unwrap_or(0))
}

/// The name of the calling thread, zero-padded.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes 16 bytes.
    let _ = unsafe {
        call(
            libc::SYS_prctl,
            [as_arg(libc::PR_GET_NAME), name.as_mut_ptr().expose_provenance(), 0, 0, 0, 0],
        )
    };
    name
}
