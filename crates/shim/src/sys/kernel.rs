//! System calls of the library, beside those it shares with page: `errno` stays the program's, and no
//! interposed function is met.
//!
//! Promises: safe to call with anything. Does not hold the system call itself ([`divvy_page::kernel`]).

use divvy_page::kernel::{self, Descriptor};
pub(super) use divvy_page::kernel::{InChild, advise, map_private, now_ns, sleep_ns, unmap};

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
