//! The instruction by which the kernel is called, and the one call that no test may be killed before.
//!
//! A preloaded library must not disturb its host's `errno`, must not call functions that the host or
//! a debugger interposes, and must load on old C libraries, whose versions of `fstat` and its kin
//! differ. So the kernel is asked directly.
//!
//! Does not say which calls there are: that is [`crate::sys`].

/// # Safety
/// The arguments must be what the kernel's call `number` expects; pointers must be valid for it.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn syscall6(number: libc::c_long, a: [usize; 6]) -> isize {
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

/// # Safety
/// The arguments must be what the kernel's call `number` expects; pointers must be valid for it.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn syscall6(number: libc::c_long, a: [usize; 6]) -> isize {
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

/// Dies as a killed process does.
#[cfg(debug_assertions)]
pub(crate) fn kill_self() {
    // SAFETY: no arguments, cannot fail.
    let pid = unsafe { syscall6(libc::SYS_getpid, [0; 6]) }.cast_unsigned();
    // SAFETY: numbers only.
    let _ = unsafe { syscall6(libc::SYS_kill, [pid, libc::SIGKILL as usize, 0, 0, 0, 0]) };
}
