//! Whose a file is.
//!
//! Promises: asks the kernel directly, opens nothing. Does not say what the file is.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use super::kernel;

/// Whether there is such a file, of this process's user or of root.
pub(crate) fn is_own_or_roots(path: &CStr) -> bool {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    if !kernel::stat(path, &mut status) {
        return false;
    }
    // SAFETY: the kernel has written it.
    let uid = unsafe { status.assume_init() }.st_uid;
    uid == 0 || uid == divvy_page::effective_uid()
}
