//! Files as they will lie on a machine, and archives of them that are the same whoever makes them.
//!
//! Promises: entries in the order of their names, owned by root, all of one time, folders before what is in them. Reads
//! no clock and no file's owner or mode.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

/// A file or a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TreeEntry {
    File { bytes: Vec<u8>, is_program: bool },
    Link(String),
}

impl TreeEntry {
    /// A text that is read.
    pub(super) fn text(bytes: impl Into<Vec<u8>>) -> Self {
        Self::File { bytes: bytes.into(), is_program: false }
    }

    /// A program, or a library.
    pub(super) fn program(bytes: Vec<u8>) -> Self {
        Self::File { bytes, is_program: true }
    }

    /// Its permissions.
    pub(super) fn mode(&self) -> u32 {
        match self {
            Self::File { is_program: false, .. } => 0o644,
            Self::File { .. } => 0o755,
            Self::Link(_) => 0o777,
        }
    }

    /// The bytes of a file.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            Self::Link(_) => None,
        }
    }
}

/// Files by their paths below some root, which begin with no slash.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree(BTreeMap<String, TreeEntry>);

impl Tree {
    /// Puts an entry at `path`, which had none.
    pub(super) fn put(&mut self, path: impl Into<String>, entry: TreeEntry) {
        let path = path.into();
        assert!(!path.starts_with('/'), "{path}");
        self.0.insert(path, entry);
    }

    /// Takes an entry out.
    pub(super) fn take(&mut self, path: &str) -> Option<TreeEntry> {
        self.0.remove(path)
    }

    /// All of it, sorted.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &TreeEntry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The same below the folder `name`.
    pub(super) fn below(self, name: &str) -> Self {
        Self(self.0.into_iter().map(|(path, entry)| (format!("{name}/{path}"), entry)).collect())
    }

    /// Folders that hold the entries, each after those that it lies in.
    pub(super) fn folders(&self) -> Vec<&str> {
        let mut found = std::collections::BTreeSet::new();
        for path in self.0.keys() {
            found.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
        }
        found.into_iter().collect()
    }

    /// Bytes of all files.
    pub(super) fn len_bytes(&self) -> u64 {
        self.0.values().filter_map(TreeEntry::bytes).map(|bytes| bytes.len() as u64).sum()
    }

    /// A tar file; each path with `prefix` before it.
    pub(super) fn tar(&self, prefix: &str, epoch_s: u64) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        if !prefix.is_empty() {
            append(&mut archive, prefix, EntryType::Directory, 0o755, epoch_s, &[])?;
        }
        for folder in self.folders() {
            let path = format!("{prefix}{folder}/");
            append(&mut archive, &path, EntryType::Directory, 0o755, epoch_s, &[])?;
        }
        for (path, entry) in self.entries() {
            let path = format!("{prefix}{path}");
            match entry {
                TreeEntry::File { bytes, .. } => {
                    append(&mut archive, &path, EntryType::Regular, entry.mode(), epoch_s, bytes)?;
                }
                TreeEntry::Link(to) => {
                    let mut header = header(EntryType::Symlink, entry.mode(), epoch_s, 0);
                    header.set_link_name(to).context(path.clone())?;
                    append_as(&mut archive, header, &path, &[])?;
                }
            }
        }
        Ok(archive.into_inner()?)
    }
}

fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    kind: EntryType,
    mode: u32,
    epoch_s: u64,
    bytes: &[u8],
) -> Result<()> {
    append_as(archive, header(kind, mode, epoch_s, bytes.len() as u64), path, bytes)
}

/// The path is written as it stands: [`Header::set_path`] takes a `./` away, with which dpkg's own archives begin and by
/// which files are taken out of them.
fn append_as(
    archive: &mut tar::Builder<Vec<u8>>,
    mut header: Header,
    path: &str,
    bytes: &[u8],
) -> Result<()> {
    let name = &mut header.as_old_mut().name;
    let room = name.get_mut(..path.len()).with_context(|| format!("{path}: over 100 bytes"))?;
    room.copy_from_slice(path.as_bytes());
    header.set_cksum();
    archive.append(&header, bytes).with_context(|| path.to_owned())
}

fn header(kind: EntryType, mode: u32, epoch_s: u64, len_bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(epoch_s);
    header.set_size(len_bytes);
    header
}

/// `bytes` compressed, without a name and a time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_sorted_and_says_nothing_of_its_maker() {
        let mut tree = Tree::default();
        tree.put("lib/b", TreeEntry::Link("a".into()));
        tree.put("lib/a", TreeEntry::program(vec![1]));
        tree.put("bin/c", TreeEntry::text("x"));
        assert_eq!(tree.folders(), ["bin", "lib"]);
        let bytes = tree.tar("./", 7).unwrap();
        assert_eq!(bytes, tree.clone().tar("./", 7).unwrap());
        let mut archive = tar::Archive::new(&*bytes);
        let seen: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!(
                    (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()),
                    (0, 0, 7)
                );
                let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
                (path, header.mode().unwrap())
            })
            .collect();
        let path = |at: usize| (seen[at].0.as_str(), seen[at].1);
        assert_eq!(path(0), ("./", 0o755));
        assert_eq!(path(1), ("./bin/", 0o755));
        assert_eq!(path(2), ("./lib/", 0o755));
        assert_eq!(path(3), ("./bin/c", 0o644));
        assert_eq!(path(4), ("./lib/a", 0o755));
        assert_eq!(path(5), ("./lib/b", 0o777));
        assert_eq!(gzip(&bytes).unwrap(), gzip(&bytes).unwrap());
    }
}
