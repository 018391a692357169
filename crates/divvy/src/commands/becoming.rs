//! Commands that are other programs: this process becomes one of them.
//!
//! Promises: arguments, environment, streams, signals and exit code are that program's own.
//!
//! Does not look for programs.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use nix::unistd::execv;

/// Becomes the program at `path`, with these words behind its name.
///
/// # Errors
/// Where it cannot be started.
pub(super) fn become_program(
    path: &Path,
    words: impl Iterator<Item = OsString>,
) -> Result<Infallible> {
    let words = [path.as_os_str().to_owned()].into_iter().chain(words);
    let words = words.map(|word| CString::new(word.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    // Not execvp, which the standard library's `exec` calls: that gives a file cut short to a shell, as an empty script.
    execv(&words[0], &words).with_context(|| format!("{} cannot be started", path.display()))
}
