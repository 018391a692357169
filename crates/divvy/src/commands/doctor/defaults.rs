//! Files of defaults: which there are, what each key gives, and what comes before it.
//!
//! Reads the files as [`crate::defaults`] does for this user. Does not know what a command line says, which comes
//! before all of them.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::defaults::{self, Found, Readers};
use crate::output::reason::Reason;

/// One key of a file.
#[derive(Debug, serde::Serialize)]
pub(super) struct Setting {
    file: PathBuf,
    line: usize,
    key: &'static str,
    value: Vec<String>,
    /// The variable or file that comes before it; absent where it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    overridden_by: Option<String>,
}

pub(super) fn look() -> (Vec<Finding>, Vec<Setting>) {
    of(&defaults::files(Readers::User))
}

fn of(found: &[Found]) -> (Vec<Finding>, Vec<Setting>) {
    let (mut findings, mut settings) = (Vec::new(), Vec::new());
    let mut absent = Vec::new();
    for file in found {
        match &file.read {
            Err(error) => {
                let fix = "correct it: divvy run and new daemons start nothing until then";
                findings.push(Finding::bad(Reason::DefaultsFile, format!("{error:#}"), fix));
            }
            Ok(None) => absent.push(file.path.display().to_string()),
            Ok(Some(read)) => {
                let first = settings.len();
                settings.extend(read.entries.iter().map(|entry| Setting {
                    file: file.path.clone(),
                    line: entry.line,
                    key: entry.key.name,
                    value: entry.words.clone(),
                    overridden_by: before(found, &file.path, entry),
                }));
                let keys = settings.iter().skip(first).map(Setting::words).collect::<Vec<_>>();
                let keys = if keys.is_empty() { "no key".to_owned() } else { keys.join(", ") };
                let found = format!("{}: {keys}", file.path.display());
                findings.push(Finding::ok(Reason::DefaultsFile, found));
            }
        }
    }
    if findings.is_empty() {
        let found = format!("no defaults: there is no {}", absent.join(" and no "));
        findings.push(Finding::ok(Reason::DefaultsFile, found));
    }
    (findings, settings)
}

/// The variable or file that comes before an entry of the file at `path`.
fn before(found: &[Found], path: &Path, entry: &defaults::DefaultsEntry) -> Option<String> {
    if defaults::is_in_environment(entry.key) {
        return entry.key.variable.map(str::to_owned);
    }
    defaults::beaten_by(found, path, entry.key.name).map(|path| path.display().to_string())
}

impl Setting {
    fn words(&self) -> String {
        let value = self.value.join(" ");
        match &self.overridden_by {
            None => format!("{} {value}", self.key),
            Some(other) => format!("{} {value} (overridden by {other})", self.key),
        }
    }
}
