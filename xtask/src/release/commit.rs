//! The commit that a release is made of: its name and its time, which is the time of every file in it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::output;

/// A commit.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    /// Its hash.
    pub(super) hash: String,
    /// Seconds since 1970: `SOURCE_DATE_EPOCH` where that is set, which says it for a tree of another day.
    pub(super) epoch_s: u64,
    /// Whether the tracked files are those of the commit.
    pub(super) is_clean: bool,
}

impl Commit {
    /// The commit that is checked out at `root`.
    pub(super) fn head(root: &Path) -> Result<Self> {
        let git =
            |arguments: &[&str]| output(Command::new("git").current_dir(root).args(arguments));
        let text = git(&["log", "-1", "--format=%H %ct"])
            .context("a release is made of a git checkout")?;
        let (hash, time) = text.trim().split_once(' ').context("git log says no hash and time")?;
        let chosen = std::env::var("SOURCE_DATE_EPOCH");
        let epoch_s = chosen.as_deref().unwrap_or(time);
        Ok(Self {
            hash: hash.to_owned(),
            epoch_s: epoch_s.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {epoch_s}"))?,
            is_clean: git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
        })
    }
}
