//! The panic handler that a library without `std` must have. Nothing reaches it.
//!
//! With the feature `prove-no-panic` it calls a function that exists nowhere: the release build then
//! links only if no code of ours can panic, which a test does.

use core::panic::PanicInfo;

#[cfg(feature = "prove-no-panic")]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn divvy_a_panic_is_reachable() -> !;
    }
    // SAFETY: it does not exist, so a library with this call does not either.
    unsafe { divvy_a_panic_is_reachable() }
}

/// Only a development build, whose arithmetic is checked, has a way here: it stops at the place.
#[cfg(not(feature = "prove-no-panic"))]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: an invalid instruction ends the process; nothing is read or written.
    unsafe {
        core::arch::asm!("ud2", options(noreturn, nomem, nostack))
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a trap ends the process; nothing is read or written.
    unsafe {
        core::arch::asm!("brk #1", options(noreturn, nomem, nostack))
    }
}

// Development builds do not collect all of `core`'s landing pads, which name the function that finds
// a handler for a panic. None is ever thrown here. Written in assembly, it is not exported.
core::arch::global_asm!(
    ".pushsection .text.rust_eh_personality, \"ax\"",
    ".hidden rust_eh_personality",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    #[cfg(target_arch = "x86_64")]
    "ud2",
    #[cfg(target_arch = "aarch64")]
    "brk #1",
    ".popsection",
);
