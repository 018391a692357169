//! System calls, made directly: `errno` stays the program's, and no interposed function is met.

/// # Safety
/// The arguments must be what the kernel's call `number` expects; pointers must be valid for it.
#[cfg(target_arch = "x86_64")]
unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the x86-64 system call convention; memory may be written through the pointers that
    // the caller vouches for.
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

/// # Safety
/// The arguments must be what the kernel's call `number` expects; pointers must be valid for it.
#[cfg(target_arch = "aarch64")]
unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
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

fn worked(result: isize) -> Option<usize> {
    (!(-4095..0).contains(&result)).then_some(result.cast_unsigned())
}

fn as_arg(value: i32) -> usize {
    (value as isize).cast_unsigned()
}

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

/// `bytes` of private zeroed memory.
pub(super) fn map(bytes: usize) -> Option<*mut u8> {
    let protection = as_arg(libc::PROT_READ | libc::PROT_WRITE);
    let flags = as_arg(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let result = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, as_arg(-1), 0]) };
    worked(result).map(core::ptr::with_exposed_provenance_mut)
}

/// Takes a mapping of ours down.
///
/// # Safety
/// Nothing may refer to the range any more.
pub(super) unsafe fn unmap(address: *mut u8, bytes: usize) {
    // SAFETY: the caller vouches for the range.
    unsafe { syscall(libc::SYS_munmap, [address.addr(), bytes, 0, 0, 0, 0]) };
}

/// Asks for zeroes in place of this page in a forked child; false on kernels before 4.14.
pub(super) fn wipe_on_fork(address: *mut u8, bytes: usize) -> bool {
    let arguments = [address.addr(), bytes, as_arg(libc::MADV_WIPEONFORK), 0, 0, 0];
    // SAFETY: changes what a forked child sees, not this process's memory.
    worked(unsafe { syscall(libc::SYS_madvise, arguments) }).is_some()
}

/// Sleeps `ns`, or until a signal.
pub(super) fn sleep_ns(ns: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(ns) };
    // SAFETY: the kernel reads one timespec; no remainder is asked for.
    unsafe { syscall(libc::SYS_nanosleep, [(&raw const time).addr(), 0, 0, 0, 0, 0]) };
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [as_arg(libc::CLOCK_MONOTONIC), (&raw mut time).addr(), 0, 0, 0, 0];
    // SAFETY: the kernel writes one timespec.
    unsafe { syscall(libc::SYS_clock_gettime, arguments) };
    let seconds_ns = time.tv_sec.cast_unsigned().saturating_mul(1_000_000_000);
    seconds_ns.saturating_add(time.tv_nsec.cast_unsigned())
}

/// The calling thread.
pub(crate) fn thread() -> u32 {
    // SAFETY: no arguments, cannot fail.
    let thread = unsafe { syscall(libc::SYS_gettid, [0; 6]) };
    u32::try_from(thread).unwrap_or(0)
}

/// Writes to standard error, once and without waiting for the rest to fit.
pub(super) fn write_stderr(text: &[u8]) {
    // SAFETY: the kernel reads `text.len()` bytes of `text`.
    unsafe { syscall(libc::SYS_write, [2, text.as_ptr().addr(), text.len(), 0, 0, 0]) };
}

/// Asks what a file is; false, and nothing written, if there is none.
pub(super) fn stat(path: &core::ffi::CStr, into: &mut core::mem::MaybeUninit<libc::stat>) -> bool {
    let arguments = [
        as_arg(libc::AT_FDCWD),
        path.as_ptr().expose_provenance(),
        into.as_mut_ptr().expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: a NUL-terminated string that lives through the call, and room for what the kernel writes.
    worked(unsafe { syscall(libc::SYS_newfstatat, arguments) }).is_some()
}

/// A file open for reading.
pub(super) struct File(usize);

impl File {
    /// Opens it, close-on-exec.
    pub(super) fn open(path: &core::ffi::CStr) -> Option<Self> {
        let flags = as_arg(libc::O_RDONLY | libc::O_CLOEXEC);
        let path = path.as_ptr().expose_provenance();
        // SAFETY: a NUL-terminated string that lives through the call.
        let fd =
            unsafe { syscall(libc::SYS_openat, [as_arg(libc::AT_FDCWD), path, flags, 0, 0, 0]) };
        worked(fd).map(Self)
    }

    /// Its length.
    pub(super) fn length(&self) -> Option<usize> {
        let end = as_arg(libc::SEEK_END);
        // SAFETY: numbers only.
        worked(unsafe { syscall(libc::SYS_lseek, [self.0, 0, end, 0, 0, 0]) })
    }

    /// Reads its first bytes; false if there are fewer.
    pub(super) fn read(&self, into: &mut [u8]) -> bool {
        let mut done = 0_usize;
        while let Some(rest) = into.get_mut(done..)
            && !rest.is_empty()
        {
            let place = rest.as_mut_ptr().expose_provenance();
            // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`.
            let got =
                unsafe { syscall(libc::SYS_pread64, [self.0, place, rest.len(), done, 0, 0]) };
            match worked(got) {
                Some(0) | None => return false,
                Some(count) => done = done.saturating_add(count),
            }
        }
        true
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: closing a number touches no memory; the number is ours since `open`.
        unsafe { syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}
