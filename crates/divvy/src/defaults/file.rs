//! One file of defaults: opened, judged by its owner and mode, and read key by key.
//!
//! Promises: whatever is wrong is one usage error that names file, line, key and value where there are any, and the fix.
//! A pipe in the file's place is not waited for; what another user could have written is not read.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::libc::O_NONBLOCK;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Form, KEYS, Key};
use crate::output::failure::usage;

/// Bytes of a file at most.
const MOST_BYTES: u64 = 64 << 10;
/// How alike two names are from which on one is taken for the other, 1 being the same.
const ALIKE: f64 = 0.6;

/// Owners and modes of a file that is believed.
#[derive(Debug)]
pub(super) struct Trust {
    owners: Vec<u32>,
    /// Bits of the mode that must not be set.
    foreign_bits: u32,
}

impl Trust {
    /// For the file of the user `uid`: theirs or root's. A group may write it, since many users have one of their own.
    pub(super) fn user(uid: u32) -> Self {
        Self { owners: vec![uid, 0], foreign_bits: 0o002 }
    }

    /// For the machine's file.
    pub(super) fn machine() -> Self {
        Self { owners: vec![0], foreign_bits: 0o022 }
    }

    fn judge(&self, status: &Metadata) -> Result<(), String> {
        if !status.is_file() {
            return Err("it is no regular file; remove it".to_owned());
        }
        let me = nix::unistd::geteuid();
        if !self.owners.contains(&status.uid()) {
            let owner = status.uid();
            let root =
                if self.owners == [0, 0] { ", or run sudo -H to have root's own" } else { "" };
            let wanted = self.owners.first().unwrap_or(&0);
            return Err(format!(
                "it belongs to uid {owner}, and uid {me} does not believe it; chown it to uid {wanted}{root}"
            ));
        }
        if status.mode() & self.foreign_bits != 0 {
            let mode = status.mode() & 0o7777;
            return Err(format!("others may write it (mode {mode:o}); chmod go-w it"));
        }
        if status.len() > MOST_BYTES {
            return Err(format!("it has {} bytes; {MOST_BYTES} are read at most", status.len()));
        }
        Ok(())
    }
}

/// A file's keys.
#[derive(Debug)]
pub(crate) struct DefaultsFile {
    /// Its keys, in the order of their lines.
    pub(crate) entries: Vec<DefaultsEntry>,
}

/// One key of a file.
#[derive(Debug)]
pub(crate) struct DefaultsEntry {
    /// The key.
    pub(crate) key: &'static Key,
    /// Its value, as the option's words.
    pub(crate) words: Vec<String>,
    /// Line of the file.
    pub(crate) line: usize,
    path: PathBuf,
}

impl DefaultsEntry {
    /// Its place, in words.
    pub(crate) fn origin(&self) -> String {
        format!("{}, line {}", self.path.display(), self.line)
    }
}

impl DefaultsFile {
    /// The entry of the key that is called `name`.
    pub(crate) fn entry(&self, name: &str) -> Option<&DefaultsEntry> {
        self.entries.iter().find(|entry| entry.key.name == name)
    }

    /// Reads `text`, the content of the file at `path`.
    ///
    /// # Errors
    /// A usage error for the first thing that is not understood.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self> {
        let reading = Reading { text, path };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.lines().nth(reading.line(at) - 1).unwrap_or_default().trim();
            reading.wrong(at, &format!("{line:?}: {}; write it as TOML has it", error.message()))
        })?;
        let mut entries = Vec::new();
        for (section, inner) in table.get_ref() {
            let at = section.span().start;
            let name: &str = section.get_ref();
            let Some(inner) = inner.get_ref().as_table().filter(|_| is_section(name)) else {
                return Err(reading.unknown(at, name));
            };
            for (key, value) in inner {
                entries.push(reading.entry(name, key, value)?);
            }
        }
        entries.sort_by_key(|entry| entry.line);
        Ok(Self { entries })
    }
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.split('.').next() == Some(name))
}

/// Reads the file at `path`; `None` where there is none, or where its directory may not be looked into.
///
/// # Errors
/// A usage error for a file that is not believed, not readable or not understood.
pub(super) fn read(path: &Path, trust: &Trust) -> Result<Option<DefaultsFile>> {
    let wrong = |words: &dyn std::fmt::Display| usage(format!("{}: {words}", path.display()));
    // A pipe must not be waited for.
    let mut file = match File::options().read(true).custom_flags(O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) => {
            let is_there = path.symlink_metadata().is_ok();
            return match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory if !is_there => Ok(None),
                ErrorKind::PermissionDenied if !is_there => Ok(None),
                _ => Err(wrong(&format!("it cannot be read: {error}; correct or remove it"))),
            };
        }
    };
    let status = file.metadata().map_err(|error| wrong(&error))?;
    trust.judge(&status).map_err(|words| wrong(&words))?;
    let mut text = String::new();
    let read = (&mut file).take(MOST_BYTES).read_to_string(&mut text);
    read.map_err(|error| wrong(&format!("it cannot be read: {error}; correct or remove it")))?;
    DefaultsFile::parse(&text, path).map(Some)
}

/// A text that is read, for errors in it.
struct Reading<'a> {
    text: &'a str,
    path: &'a Path,
}

impl Reading<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().iter().take(at);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    fn wrong(&self, at: usize, words: &str) -> anyhow::Error {
        usage(format!("{}, line {}: {words}", self.path.display(), self.line(at)))
    }

    fn unknown(&self, at: usize, name: &str) -> anyhow::Error {
        let likeness = |key: &&Key| {
            let bare = key.name.split_once('.').map_or(key.name, |(_, bare)| bare);
            let like = |known| strsim::normalized_damerau_levenshtein(name, known);
            like(key.name).max(like(bare))
        };
        let meant = KEYS.iter().filter(|key| likeness(key) >= ALIKE);
        let fix = match meant.max_by(|a, b| likeness(a).total_cmp(&likeness(b))) {
            Some(key) => {
                let (section, bare) = key.name.split_once('.').unwrap_or(("", key.name));
                format!("did you mean {bare} in the section [{section}]?")
            }
            None => {
                let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                format!("there are {}", names.join(", "))
            }
        };
        self.wrong(at, &format!("{name} is no key; {fix}"))
    }

    fn entry(
        &self,
        section: &str,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<DefaultsEntry> {
        let full = format!("{section}.{}", name.get_ref());
        let at = name.span().start;
        let Some(key) = KEYS.iter().find(|key| key.name == full) else {
            return Err(self.unknown(at, &full));
        };
        let written = self.text.get(value.span()).unwrap_or_default();
        let Some(words) = words(key.form, value.get_ref()) else {
            let (wanted, example) = (key.form.wanted(), key.example);
            let words = format!("{full} = {written}: {wanted} is wanted, such as {example}");
            return Err(self.wrong(at, &words));
        };
        for word in &words {
            (key.judge)(word).map_err(|error| {
                self.wrong(
                    at,
                    &format!("{full} = {written}: {error}; correct it, such as {}", key.example),
                )
            })?;
        }
        Ok(DefaultsEntry { key, words, line: self.line(at), path: self.path.to_owned() })
    }
}

/// The words of a value; `None` where it is not of this form.
fn words(form: Form, value: &DeValue<'_>) -> Option<Vec<String>> {
    let text = |value: &DeValue<'_>| value.as_str().map(str::to_owned);
    match form {
        Form::Text => Some(vec![text(value)?]),
        Form::Texts => match value.as_array() {
            // An empty list could be taken for "no limit".
            Some(list) if list.is_empty() => None,
            Some(list) => list.iter().map(|each| text(each.get_ref())).collect(),
            None => Some(vec![text(value)?]),
        },
        Form::Number => {
            let number = value.as_integer().filter(|number| number.radix() == 10)?;
            Some(vec![number.as_str().to_owned()])
        }
        Form::Switch => Some(vec![value.as_bool()?.to_string()]),
    }
}
