//! Files and links that come to their places in one step.
//!
//! Promises: the file that lay there stays whole for a process that has it open or mapped. Does not say which file belongs
//! where.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A program, or a library.
    Program,
    /// A text.
    Text,
}

/// FNV-1a: it names a content, and does not withstand an attacker.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A name beside `path` that nothing looks for.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new-{}", std::process::id()))
}

/// Puts `bytes` at `path` in one step.
pub(crate) fn place(bytes: &[u8], path: &Path, mode: Mode) -> Result<()> {
    let cannot = || format!("{} cannot be written", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    let new = aside(path);
    let mode = if mode == Mode::Program { 0o755 } else { 0o644 };
    let written = fs::write(&new, bytes)
        .and_then(|()| fs::set_permissions(&new, Permissions::from_mode(mode)))
        .and_then(|()| fs::File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.with_context(cannot)
}

/// Makes `link` lead to `to` in one step, whatever lies there.
pub(crate) fn relink(link: &Path, to: &Path) -> Result<()> {
    if fs::read_link(link).is_ok_and(|now| now == to) {
        return Ok(());
    }
    if let Some(folder) = link.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    let new = aside(link);
    let _ = fs::remove_file(&new);
    let linked = symlink(to, &new).and_then(|()| fs::rename(&new, link));
    linked.with_context(|| format!("{} cannot be made a link to {}", link.display(), to.display()))
}
