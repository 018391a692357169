//! How long a process that cannot join its tenant waits for what others do to its files at this moment.
//!
//! Promises: an error that no one else's work explains is given at once, any other after a second at most.

use crate::error::{AttachError, TenantFile};
use crate::sys::{self, Errno};

/// Looks at a directory or file that denies access, and the time between them, until it is believed: for as
/// long as the admission lock is waited for, since who is to set the mode may have lost its processor.
const LOOKS: u32 = 500;
const LOOK_NS: u32 = 2_000_000;
const _: () = assert!(LOOKS as u64 * LOOK_NS as u64 == crate::admission::PATIENCE_NS);
const EACCES: Errno = Errno(libc::EACCES);

/// Looks that are left.
#[derive(Debug)]
pub(crate) struct Patience(u32);

impl Patience {
    /// All of it.
    pub(crate) fn new() -> Self {
        Self(LOOKS)
    }

    /// Waits a moment where the error may pass by itself; whether it is worth another look.
    pub(crate) fn lasts(&mut self, error: &AttachError) -> bool {
        let may_pass = match error {
            // Files that another user's first process makes may let us in a moment later: the mode comes after the name
            // where the file system knows no renaming that replaces nothing, and with older libraries.
            AttachError::Directory(EACCES) | AttachError::Open(_, EACCES) => true,
            // The tenant was removed meanwhile, having had no process: it is made again.
            AttachError::Open(TenantFile::Usage, Errno(libc::ENOENT)) => true,
            // Another process is just removing it, and may have lost its processor; or it is full.
            AttachError::NoSlot => true,
            _ => false,
        };
        let Some(left) = self.0.checked_sub(1).filter(|_| may_pass) else { return false };
        self.0 = left;
        sys::sleep_ns(LOOK_NS);
        true
    }
}
