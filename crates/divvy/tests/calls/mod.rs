//! System calls that a process, or one thread of it, has made, as the kernel counts them.

use std::path::Path;

/// Calls of `read` and its kin that the process or thread at `of` in `/proc` has made.
pub(crate) fn reads(of: impl AsRef<Path>) -> u64 {
    let text = std::fs::read_to_string(of.as_ref().join("io")).unwrap();
    let calls = text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap();
    calls.parse().unwrap()
}
