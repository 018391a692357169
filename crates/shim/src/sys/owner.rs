//! Owner of a file.
//!
//! Promises: asks the kernel directly, opens nothing. Does not look at the contents.

use core::ffi::CStr;

use divvy_page::kernel;

/// Whether there is such a file, of this process's user or of root.
pub(crate) fn is_own_or_roots(path: &CStr) -> bool {
    let is_ours = |uid| uid == 0 || uid == divvy_page::effective_uid();
    kernel::stat(path).is_ok_and(|stat| is_ours(stat.st_uid))
}
