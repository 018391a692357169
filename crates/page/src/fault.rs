//! Places where a test kills the process: before every system call and every write to the ledger.
//!
//! Compiled only into debug builds; in release builds a place is nothing. The
//! n-th place passed after [`kill_at`] is the last thing the process does.

#[cfg(debug_assertions)]
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

#[cfg(debug_assertions)]
static LEFT: AtomicU32 = AtomicU32::new(0);

/// Lets the process die by SIGKILL at the `n`-th place from now; 0 lets it live.
#[cfg(debug_assertions)]
pub fn kill_at(n: u32) {
    LEFT.store(n, SeqCst);
}

/// Whether the place of [`kill_at`] is still ahead.
#[cfg(debug_assertions)]
pub fn is_ahead() -> bool {
    LEFT.load(SeqCst) != 0
}

/// One place.
#[inline]
pub(crate) fn point() {
    #[cfg(debug_assertions)]
    if LEFT.load(SeqCst) != 0 && LEFT.fetch_sub(1, SeqCst) == 1 {
        kill_self();
    }
}

/// Dies as a killed process does.
#[cfg(debug_assertions)]
fn kill_self() {
    use crate::kernel::syscall;

    // SAFETY: no arguments, cannot fail.
    let pid = unsafe { syscall(libc::SYS_getpid, [0; 6]) }.cast_unsigned();
    // SAFETY: numbers only.
    let _ = unsafe { syscall(libc::SYS_kill, [pid, libc::SIGKILL as usize, 0, 0, 0, 0]) };
}
