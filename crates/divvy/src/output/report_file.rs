//! The file of `divvy run --report`.
//!
//! Promises: a file that cannot be written is found before the program starts, and a pipe without a reader holds nothing up.
//! Does not decide the contents.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::libc::O_NONBLOCK;

/// The file of `--report`, open before the program starts, so that a file that cannot be written is found then.
pub(crate) struct Report {
    file: File,
    path: PathBuf,
}

impl Report {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // A pipe without a reader must not hold the program up.
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false).custom_flags(O_NONBLOCK);
        let file = options.open(path).with_context(|| Self::cannot(path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    fn cannot(path: &Path) -> String {
        format!("--report {} cannot be written", path.display())
    }

    /// Writes the report in place of what is there.
    pub(crate) fn write(mut self, text: &str) -> Result<()> {
        let is_file = self.file.metadata().is_ok_and(|status| status.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        emptied
            .and_then(|()| self.file.write_all(format!("{text}\n").as_bytes()))
            .with_context(|| Self::cannot(&self.path))
    }
}
