//! The tenant's admission lock: an OFD lock on a byte of the usage file.
//!
//! Each holder opens a description of its own, so threads exclude each other as processes do; the
//! kernel drops the lock when its holder dies, so there is nothing to recover and nothing that could
//! be posted twice. It is never held across a driver call. Waiting ends at an absolute deadline,
//! fresh for each wait.

use crate::error::AttachError;
use crate::sys::{self, Fd, Lock};

/// Longest wait for the lock, in nanoseconds. Its holder is at it for microseconds, but may be kept from a
/// processor for long where many processes start at once, and who gives up is refused all memory.
pub(crate) const PATIENCE_NS: u64 = 1_000_000_000;

/// The lock, held until dropped.
#[derive(Debug)]
pub(crate) struct AdmissionGuard<'fd>(&'fd Fd);

impl<'fd> AdmissionGuard<'fd> {
    /// Takes the lock on `fd`'s description if nobody has it.
    pub(crate) fn at_once(fd: &'fd Fd) -> Option<Self> {
        let at = divvy_abi::usage::ADMISSION_LOCK_AT;
        sys::set_lock(fd, at, Lock::Write).is_ok_and(|got| got).then_some(Self(fd))
    }

    /// Takes the lock on `fd`'s description.
    pub(crate) fn on(fd: &'fd Fd) -> Result<Self, AttachError> {
        let at = divvy_abi::usage::ADMISSION_LOCK_AT;
        let deadline_ns = sys::now_ns().saturating_add(PATIENCE_NS);
        let mut nap_ns = 20_000;
        loop {
            if sys::set_lock(fd, at, Lock::Write).map_err(AttachError::System)? {
                return Ok(Self(fd));
            }
            if sys::now_ns() >= deadline_ns {
                return Err(AttachError::LockTimeout);
            }
            sys::sleep_ns(nap_ns);
            nap_ns = (nap_ns * 2).min(500_000);
        }
    }
}

impl Drop for AdmissionGuard<'_> {
    fn drop(&mut self) {
        let _ = sys::set_lock(self.0, divvy_abi::usage::ADMISSION_LOCK_AT, Lock::None);
    }
}
