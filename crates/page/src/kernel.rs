//! The kernel, asked directly: the one home of the system call, of this crate and of the library's unsafe room.
//!
//! A preloaded library must not disturb its host's `errno`, must not call functions that the host or
//! a debugger interposes, and must load on old C libraries, whose versions of `fstat` and its kin
//! differ. So no function of the C library is called, and what others bring with them is brought here once.
//!
//! Promises: each function is one system call, made once: an interrupted one is its caller's to repeat. The safe ones
//! can harm no memory, whatever they are given.
//!
//! Is no place of [`crate::fault`]: this crate's own calls are, in `sys`; the library's are not.

use core::ffi::CStr;

use crate::errno::Errno;

/// Makes the system call `number`; what the kernel answers, an error number below zero included.
///
/// # Safety
/// 1. The arguments are what this call of the kernel's expects.
/// 2. Each pointer among them is valid for what the kernel reads and writes through it, until the call returns.
/// 3. What the call does to memory is borne by everybody who refers to it: nobody counts on what it unmaps or
///    replaces.
#[cfg(target_arch = "x86_64")]
pub unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the x86-64 system call convention; rcx and r11 are clobbered by it, memory may be
    // written through the pointers that the caller vouches for.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes the system call `number`; what the kernel answers, an error number below zero included.
///
/// # Safety
/// 1. The arguments are what this call of the kernel's expects.
/// 2. Each pointer among them is valid for what the kernel reads and writes through it, until the call returns.
/// 3. What the call does to memory is borne by everybody who refers to it: nobody counts on what it unmaps or
///    replaces.
#[cfg(target_arch = "aarch64")]
pub unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the arm64 system call convention; memory may be written through the pointers that the
    // caller vouches for.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number as usize,
            inlateout("x0") a[0] as isize => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

/// The same, with the kernel's errors told apart from its answers.
///
/// # Safety
/// 1. to 3. of [`syscall`].
///
/// # Errors
/// The kernel's.
pub unsafe fn call(number: libc::c_long, a: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on to our caller.
    let result = unsafe { syscall(number, a) };
    if (-4095..0).contains(&result) {
        Err(Errno(i32::try_from(-result).unwrap_or(libc::EINVAL)))
    } else {
        Ok(result.cast_unsigned())
    }
}

/// A number as an argument of a call, its sign kept.
pub const fn as_arg(value: i32) -> usize {
    (value as isize).cast_unsigned()
}

/// An open descriptor, closed when dropped.
#[derive(Debug)]
pub struct Descriptor(i32);

impl Descriptor {
    /// Of what a call that opens something has answered.
    ///
    /// # Safety
    /// 1. `answer` is an open descriptor's number.
    /// 2. Nobody else closes it: whoever gets the number next would lose what it opened.
    pub unsafe fn of_answer(answer: usize) -> Self {
        Self(i32::try_from(answer).unwrap_or(-1))
    }

    /// Its number, open for as long as this lives.
    pub const fn number(&self) -> i32 {
        self.0
    }

    /// As an argument of a call, for as long as this lives.
    pub const fn arg(&self) -> usize {
        as_arg(self.0)
    }
}

impl Drop for Descriptor {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: closing a number touches no memory, and the number is ours (`of_answer`).
        let _ = unsafe { syscall(libc::SYS_close, [self.arg(), 0, 0, 0, 0, 0]) };
    }
}

/// Opens `name`, below the directory `at` where it is no path from the root, closed in programs that are executed.
///
/// # Errors
/// The kernel's.
pub fn open(
    at: Option<&Descriptor>,
    name: &CStr,
    flags: i32,
    mode: u32,
) -> Result<Descriptor, Errno> {
    let at = at.map_or(as_arg(libc::AT_FDCWD), Descriptor::arg);
    let name = name.as_ptr().expose_provenance();
    let flags = as_arg(flags | libc::O_CLOEXEC);
    // SAFETY: a NUL-terminated string that lives through the call.
    let fd = unsafe { call(libc::SYS_openat, [at, name, flags, mode as usize, 0, 0]) }?;
    // SAFETY: just opened, for us alone.
    Ok(unsafe { Descriptor::of_answer(fd) })
}

/// Reads at `offset`; the count of bytes read, 0 at the end of the file.
///
/// # Errors
/// The kernel's.
pub fn read_at(fd: &Descriptor, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let place = into.as_mut_ptr().expose_provenance();
    let arguments = [fd.arg(), place, into.len(), offset as usize, 0, 0];
    // SAFETY: the kernel writes at most `into.len()` bytes into `into`.
    unsafe { call(libc::SYS_pread64, arguments) }
}

/// Status of the file that `path` leads to, links followed.
///
/// # Errors
/// The kernel's.
#[inline(never)]
pub fn stat(path: &CStr) -> Result<libc::stat, Errno> {
    let mut raw = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let into = raw.as_mut_ptr().expose_provenance();
    let path = path.as_ptr().expose_provenance();
    // SAFETY: `path` is NUL-terminated; the kernel writes one `struct stat` of this architecture into `raw`.
    unsafe { call(libc::SYS_newfstatat, [as_arg(libc::AT_FDCWD), path, into, 0, 0, 0]) }?;
    // SAFETY: zeroed is a valid `stat`, and the kernel filled it.
    Ok(unsafe { raw.assume_init() })
}

/// Maps `bytes` of private zeroed memory, which stays until it is given to [`unmap`].
///
/// # Errors
/// The kernel's.
pub fn map_private(bytes: usize) -> Result<*mut u8, Errno> {
    let protection = as_arg(libc::PROT_READ | libc::PROT_WRITE);
    let flags = as_arg(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let address = unsafe { call(libc::SYS_mmap, [0, bytes, protection, flags, as_arg(-1), 0]) }?;
    Ok(core::ptr::with_exposed_provenance_mut(address))
}

/// Takes a mapping down.
///
/// # Safety
/// 1. The range is a mapping of the caller's, whole or in whole pages.
/// 2. Nothing refers to it any more, and nobody will.
pub unsafe fn unmap(address: *mut u8, bytes: usize) {
    // SAFETY: the caller vouches for the range.
    let _ = unsafe { syscall(libc::SYS_munmap, [address.expose_provenance(), bytes, 0, 0, 0, 0]) };
}

/// Contents of a mapping in a forked child, other than a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InChild {
    /// Zeroes (Linux 4.14).
    Zeroes,
    /// Nothing is mapped there.
    Nothing,
}

/// Says what a forked child is to find in place of a mapping.
///
/// # Safety
/// 1. The range is a mapping of the caller's, in whole pages.
/// 2. In a child nothing refers to it (for [`InChild::Nothing`]), or what refers to it may find any of its bytes zero
///    (for [`InChild::Zeroes`]).
///
/// # Errors
/// The kernel's: `EINVAL` where it does not know the advice.
pub unsafe fn advise(address: *mut u8, bytes: usize, child: InChild) -> Result<(), Errno> {
    let advice = match child {
        InChild::Zeroes => libc::MADV_WIPEONFORK,
        InChild::Nothing => libc::MADV_DONTFORK,
    };
    let arguments = [address.expose_provenance(), bytes, as_arg(advice), 0, 0, 0];
    // SAFETY: the two advices change what a forked child sees, for which the caller vouches, not this process's memory.
    unsafe { call(libc::SYS_madvise, arguments) }.map(|_| ())
}

/// CLOCK_MONOTONIC in nanoseconds.
///
/// Cost: a system call, some 100 ns.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let place = (&raw mut time).expose_provenance();
    let arguments = [as_arg(libc::CLOCK_MONOTONIC), place, 0, 0, 0, 0];
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { syscall(libc::SYS_clock_gettime, arguments) };
    let seconds_ns = time.tv_sec.cast_unsigned().saturating_mul(1_000_000_000);
    seconds_ns.saturating_add(time.tv_nsec.cast_unsigned())
}

/// Sleeps `ns`, or until a signal.
pub fn sleep_ns(ns: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(ns) };
    let place = (&raw const time).expose_provenance();
    // SAFETY: the kernel reads one timespec; no remainder is asked for.
    let _ = unsafe { syscall(libc::SYS_nanosleep, [place, 0, 0, 0, 0, 0]) };
}
