//! Descriptors a program names by number.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// A new descriptor for whatever the program calls `number`.
///
/// `cuMemImportFromShareableHandle` is given a plain number that may be closed, or mean something
/// else: the result is then an error, or a descriptor the daemon does not know.
pub fn duplicate(number: i32) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not -1, and the borrow ends with this call, in which the kernel checks
    // that the descriptor is open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 0)
}
