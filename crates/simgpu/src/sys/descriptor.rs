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

/// Closes every descriptor but the standard three: those the program that started the daemon left
/// open by accident would keep its pipes from ending.
///
/// To be called before anything else of this process opens one.
pub fn close_inherited() {
    let Ok(directory) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> = directory
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // SAFETY: the borrow ends with this call, in which the kernel checks that it is open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        if rustix::io::fcntl_getfd(borrowed).is_ok() {
            // SAFETY: nothing in this process owns a descriptor above 2 yet, and it is open: the
            // directory's own, closed by now, was left out by the check.
            unsafe { rustix::io::close(number) };
        }
    }
}
