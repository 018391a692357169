//! The list of all files that `divvy install` wrote below a prefix: `divvy uninstall` removes exactly those.
//!
//! It lies among the files as `lib/divvy/installed.json`. Promises: a file is on the list before it is written, so an
//! installation that was interrupted can be removed too; a path leads nowhere but below the prefix.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::place::{Mode, fingerprint, place};

/// Where the list lies below the prefix.
pub(crate) const PLACE: &str = "lib/divvy/installed.json";

/// Content of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    /// A file, by the sum of its bytes in hexadecimal.
    Sum(String),
    /// A link, by the path that it leads to.
    Link(PathBuf),
}

impl Content {
    /// The content of a file with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::Sum(format!("{:016x}", fingerprint(bytes)))
    }

    /// Content of `path`; `None` where nothing lies there.
    pub(crate) fn at(path: &Path) -> Result<Option<Self>> {
        let read = match fs::read_link(path) {
            Ok(to) => return Ok(Some(Self::Link(to))),
            // A path that is no link is a file, or is missing.
            Err(_) => fs::read(path),
        };
        match read {
            Ok(bytes) => Ok(Some(Self::of(&bytes))),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }
}

/// A file or link, by its path below the prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct InstalledEntry {
    pub(crate) path: PathBuf,
    #[serde(flatten)]
    pub(crate) content: Content,
}

/// The list.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Record {
    /// Version of Divvy that wrote it last.
    pub(crate) version: String,
    /// While an installation is under way, a path may stand here twice: also with the content that it had before.
    pub(crate) files: BTreeSet<InstalledEntry>,
    /// Folders that were made.
    pub(crate) folders: BTreeSet<PathBuf>,
}

impl Record {
    /// The list of the files that are installed below `prefix`; `None` where it has no list.
    ///
    /// # Errors
    /// Where it cannot be read, or leads out of the prefix.
    pub(crate) fn read(prefix: &Path) -> Result<Option<Self>> {
        let path = prefix.join(PLACE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let damaged =
            || format!("{} is damaged: nothing was changed; install again", path.display());
        let record: Self = serde_json::from_slice(&bytes).with_context(damaged)?;
        let paths = record.files.iter().map(|entry| &entry.path).chain(&record.folders);
        for named in paths {
            let is_below = named.components().all(|part| matches!(part, Component::Normal(_)));
            ensure!(is_below, "{}: it names {}", damaged(), named.display());
        }
        Ok(Some(record))
    }

    /// Writes it below `prefix` in one step.
    pub(crate) fn write(&self, prefix: &Path) -> Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(self)?);
        place(text.as_bytes(), &prefix.join(PLACE), Mode::Text)
    }

    /// Adds the folders that must be made for `path`, which lies below `prefix`.
    pub(crate) fn add_folders(&mut self, prefix: &Path, path: &Path) {
        let missing = path
            .ancestors()
            .skip(1)
            .filter(|folder| !folder.as_os_str().is_empty() && !prefix.join(folder).exists());
        let missing: Vec<_> = missing.map(Path::to_owned).collect();
        self.folders.extend(missing);
    }

    /// Keeps of each path only the entry of the content that lies there now.
    pub(crate) fn settle(&mut self, prefix: &Path) {
        self.files.retain(|entry| {
            Content::at(&prefix.join(&entry.path))
                .is_ok_and(|now| now.as_ref() == Some(&entry.content))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_leads_elsewhere_is_refused() {
        let prefix = std::env::temp_dir().join(format!("divvy-record-{}", std::process::id()));
        fs::create_dir_all(prefix.join("lib/divvy")).unwrap();
        assert!(Record::read(&prefix).unwrap().is_none());
        for path in ["../etc/passwd", "/etc/passwd", "lib/../../x"] {
            let entry = InstalledEntry { path: path.into(), content: Content::of(b"") };
            let record = Record { files: [entry].into(), ..Record::default() };
            record.write(&prefix).unwrap();
            let error = format!("{:#}", Record::read(&prefix).unwrap_err());
            assert!(error.contains("is damaged") && error.contains(path), "{error}");
        }
        fs::write(prefix.join(PLACE), "{").unwrap();
        assert!(format!("{:#}", Record::read(&prefix).unwrap_err()).contains("is damaged"));
        fs::remove_dir_all(&prefix).unwrap();
    }
}
