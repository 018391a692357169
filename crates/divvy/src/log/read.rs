//! Reads logs: all files of a log, with those that were rotated, in the order of their times.
//!
//! Promises: a line that is cut, or is something else, is passed over and counted. A file that is rotated while it is read costs
//! no line that was there before, since a line that is met twice counts once.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use super::file;
use super::line::LogLine;

/// Bytes of one file that are read: as many as it can have, and a line of each of many writers.
const MOST_BYTES: u64 = 2 * file::MOST_BYTES;

/// Lines that were found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The lines, by time.
    pub(crate) lines: Vec<LogLine>,
    /// Lines that are cut, or are something else.
    pub(crate) unread: usize,
    /// Folders in which there is a log.
    pub(crate) folders: Vec<PathBuf>,
    /// Logs that this user may not read.
    pub(crate) denied: Vec<PathBuf>,
    /// Words about where the log was found.
    pub(crate) notes: Vec<String>,
}

/// Lines that are asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Name or directory of a tenant.
    pub(crate) tenant: Option<String>,
    /// No line before this time.
    pub(crate) since: Option<Timestamp>,
    /// Lines of this user's tenants alone.
    pub(crate) owner: Option<u32>,
}

impl Wanted {
    /// Whether `line` is asked for.
    pub(crate) fn takes(&self, line: &LogLine) -> bool {
        let named = |name: &String| {
            let base = line.directory.as_deref().and_then(|path| Path::new(path).file_name());
            line.tenant.as_ref() == Some(name)
                || line.directory.as_ref() == Some(name)
                || base.is_some_and(|base| base == name.as_str())
        };
        self.tenant.as_ref().is_none_or(named)
            && self.since.is_none_or(|since| line.at().is_some_and(|at| at >= since))
            && self.owner.is_none_or(|owner| line.owner == Some(owner))
    }
}

impl Found {
    /// Adds the lines in the logs of `folders` that are `wanted`.
    pub(crate) fn add(&mut self, folders: &[PathBuf], wanted: &Wanted) {
        let mut seen = BTreeSet::new();
        for folder in folders {
            // The newest first: lines of a file that is rotated meanwhile are met again, not missed.
            let files: Vec<PathBuf> = file::all(folder).collect();
            let mut is_any = false;
            for path in files.iter().rev() {
                match text(path) {
                    Ok(text) => {
                        is_any = true;
                        self.take(&text, wanted, &mut seen);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                        self.denied.push(path.clone());
                        break;
                    }
                    Err(_) => {}
                }
            }
            if is_any {
                self.folders.push(folder.clone());
            }
        }
        self.sort();
    }

    /// Adds the lines of `text`.
    pub(crate) fn take(&mut self, text: &str, wanted: &Wanted, seen: &mut BTreeSet<String>) {
        let mut lines = Vec::new();
        for text in text.lines().filter(|text| !text.is_empty()) {
            match LogLine::parse(text) {
                Some(line) if wanted.takes(&line) => lines.push((text, line)),
                Some(_) => {}
                None => self.unread += 1,
            }
        }
        // Two lines alike in one file are two events; in another file such a line was met before.
        self.lines.extend(
            lines.iter().filter(|(text, _)| !seen.contains(*text)).map(|(_, line)| line.clone()),
        );
        seen.extend(lines.into_iter().map(|(text, _)| text.to_owned()));
    }

    /// Puts lines in the order of their times.
    pub(crate) fn sort(&mut self) {
        self.lines.sort_by_key(LogLine::at);
    }
}

/// Why nothing can be read of the log in `folder`; none where it can be.
pub(crate) fn why_unread(folder: &Path) -> Option<std::io::Error> {
    text(&folder.join(file::NAME)).err()
}

fn text(path: &Path) -> std::io::Result<String> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::Event;
    use crate::stage::Scratch;

    fn line(time: &str, tenant: &str, owner: u32) -> LogLine {
        LogLine {
            time: time.to_owned(),
            tenant: Some(tenant.to_owned()),
            owner: Some(owner),
            ..LogLine::new(Event::Adopted)
        }
    }

    #[test]
    fn rotated_files_are_read_in_order_and_cut_lines_are_counted() {
        let scratch = Scratch::make("log-read").unwrap();
        let folder = scratch.path().to_owned();
        let files: Vec<PathBuf> = file::all(&folder).collect();
        let old = line("2026-11-29T10:00:00.000Z", "a", 1).text();
        let new = line("2026-11-30T10:00:00.000Z", "b", 2).text();
        std::fs::write(&files[1], format!("{old}{{\"time\":\"20")).unwrap();
        // The same line in two files is what a rotation under way looks like.
        std::fs::write(&files[3], format!("{new}not json\n{old}")).unwrap();
        let found = |wanted: &Wanted| {
            let mut found = Found::default();
            found.add(std::slice::from_ref(&folder), wanted);
            let names = found.lines.iter().map(|line| line.tenant.clone().unwrap());
            (names.collect::<Vec<_>>(), found.unread)
        };
        assert_eq!(found(&Wanted::default()), (vec!["a".to_owned(), "b".to_owned()], 2));
        let since = Some("2026-11-30T00:00:00Z".parse().unwrap());
        assert_eq!(found(&Wanted { since, ..Wanted::default() }).0, ["b"]);
        assert_eq!(found(&Wanted { owner: Some(1), ..Wanted::default() }).0, ["a"]);
        assert_eq!(found(&Wanted { tenant: Some("b".to_owned()), ..Wanted::default() }).0, ["b"]);
    }
}
