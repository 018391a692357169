//! System calls of the library, beside those it shares with page: `errno` stays the program's, and no
//! interposed function is met.
//!
//! Promises: safe to call with anything. Does not hold the system call itself ([`divvy_page::kernel`]).

use core::sync::atomic::AtomicU32;

pub(crate) use divvy_page::kernel::sleep_ns;
use divvy_page::kernel::{self, Descriptor};
pub(super) use divvy_page::kernel::{InChild, advise, map_private, now_ns, unmap};

/// Where the calling thread's control block lies: its own for as long as it lives, at the end of its stack
/// but for the first thread's.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads one word; by the ABI for thread-local storage the first of the control block is its
    // own address, in every thread.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register that the ABI keeps for this.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

/// The calling thread.
pub(crate) fn thread() -> u32 {
    // SAFETY: no arguments, cannot fail.
    let thread = unsafe { kernel::syscall(libc::SYS_gettid, [0; 6]) };
    u32::try_from(thread).unwrap_or(0)
}

/// Names the calling thread, for people.
pub(super) fn name_thread(name: &core::ffi::CStr) {
    let arguments =
        [kernel::as_arg(libc::PR_SET_NAME), name.as_ptr().expose_provenance(), 0, 0, 0, 0];
    // SAFETY: the kernel reads a NUL-terminated string, at most 16 bytes of it.
    unsafe { kernel::syscall(libc::SYS_prctl, arguments) };
}

/// Runs `act` while all signals of the calling thread are blocked.
pub(super) fn without_signals<R>(act: impl FnOnce() -> R) -> R {
    let mask = |set: &u64, old: Option<&mut u64>| {
        let into = old.map_or(0, |old| (&raw mut *old).expose_provenance());
        let how = kernel::as_arg(libc::SIG_SETMASK);
        let arguments = [how, (&raw const *set).expose_provenance(), into, 8, 0, 0];
        // SAFETY: the kernel reads one set of its own eight bytes, and writes one where it is asked for the old one.
        unsafe { kernel::syscall(libc::SYS_rt_sigprocmask, arguments) };
    };
    let mut before = 0;
    mask(&u64::MAX, Some(&mut before));
    let result = act();
    mask(&before, None);
    result
}

/// Says that a mapping is best made of huge pages. Touches nothing of it.
pub(super) fn prefer_huge(address: *mut u8, bytes: usize) {
    let advice = kernel::as_arg(libc::MADV_HUGEPAGE);
    // SAFETY: the advice changes how memory is backed, and no byte of it, whoever's it is.
    unsafe {
        kernel::syscall(libc::SYS_madvise, [address.expose_provenance(), bytes, advice, 0, 0, 0])
    };
}

/// Makes the pages of a mapping of this library's own, whose bytes are zero yet; false without memory for them. Does
/// nothing where the kernel does not know how (before Linux 5.14).
pub(super) fn populate(address: *mut u8, bytes: usize) -> bool {
    /// `MADV_POPULATE_WRITE`.
    const POPULATE_WRITE: i32 = 23;
    let arguments = [address.expose_provenance(), bytes, kernel::as_arg(POPULATE_WRITE), 0, 0, 0];
    // SAFETY: pages are made; no byte changes.
    let result = unsafe { kernel::syscall(libc::SYS_madvise, arguments) };
    result == 0 || result == -i64::from(libc::EINVAL) as isize
}

/// Waits while `word`, one of this process's own, is `value`: until it is woken, a signal comes or `ns` have passed.
pub(crate) fn wait(word: &AtomicU32, value: u32, ns: u64) {
    let time = libc::timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
    };
    let arguments = [
        word.as_ptr().expose_provenance(),
        kernel::as_arg(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG),
        value as usize,
        (&raw const time).expose_provenance(),
        0,
        0,
    ];
    // SAFETY: the word is borrowed through the call, in which the kernel only reads it, and one timespec.
    unsafe { kernel::syscall(libc::SYS_futex, arguments) };
}

/// Wakes all threads of this process that wait for `word`.
pub(crate) fn wake(word: &AtomicU32) {
    let arguments = [
        word.as_ptr().expose_provenance(),
        kernel::as_arg(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG),
        i32::MAX as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel takes the address as a name.
    unsafe { kernel::syscall(libc::SYS_futex, arguments) };
}

/// Writes to standard error, once and without waiting for the rest to fit.
pub(super) fn write_stderr(text: &[u8]) {
    // SAFETY: the kernel reads `text.len()` bytes of `text`.
    unsafe {
        kernel::syscall(
            libc::SYS_write,
            [2, text.as_ptr().expose_provenance(), text.len(), 0, 0, 0],
        )
    };
}

/// A file open for reading.
pub(super) struct File(Descriptor);

impl File {
    /// Opens it, close-on-exec.
    pub(super) fn open(path: &core::ffi::CStr) -> Option<Self> {
        kernel::open(None, path, libc::O_RDONLY, 0).ok().map(Self)
    }

    /// Its length.
    pub(super) fn length(&self) -> Option<usize> {
        let end = kernel::as_arg(libc::SEEK_END);
        // SAFETY: numbers only.
        unsafe { kernel::call(libc::SYS_lseek, [self.0.arg(), 0, end, 0, 0, 0]) }.ok()
    }

    /// Reads its first bytes; false if there are fewer.
    pub(super) fn read(&self, into: &mut [u8]) -> bool {
        let mut done = 0_usize;
        while let Some(rest) = into.get_mut(done..)
            && !rest.is_empty()
        {
            match kernel::read_at(&self.0, rest, done as u64) {
                Ok(0) | Err(_) => return false,
                Ok(count) => done = done.saturating_add(count),
            }
        }
        true
    }
}
