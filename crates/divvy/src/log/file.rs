//! The file of the log: appended to by several processes at once, rotated by size.
//!
//! Promises: a line is appended by one write of fewer bytes than a page, in a file opened for appending, so that lines of two
//! writers never mix; a file is rotated under a lock by renames, and a line that is written meanwhile is in one of the files;
//! only their owner may read the files; a link in the file's place is not followed, and a pipe is not waited for. After a line
//! that was cut, as by a full disk, the next line begins on its own.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK};

/// Name of the file that is written.
pub(crate) const NAME: &str = "events.log";
/// The lock under which files are renamed; it is never removed.
const LOCK: &str = "events.lock";
/// A file of this size is rotated: some five thousand lines, months of an ordinary machine, read in a blink.
pub(crate) const MOST_BYTES: u64 = 1 << 20;
/// Files that are kept beside it: 4 MiB in all, which any home or tmpfs has.
pub(crate) const KEPT: u32 = 3;

/// The files in `folder`, the oldest first.
pub(crate) fn all(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let folder = folder.to_owned();
    (0..=KEPT).rev().map(move |age| aged(&folder, age))
}

fn aged(folder: &Path, age: u32) -> PathBuf {
    let mut name = OsString::from(NAME);
    if age > 0 {
        name.push(format!(".{age}"));
    }
    folder.join(name)
}

/// Appends lines to the log in the first of `folders` that can be written.
///
/// # Errors
/// In words, where none can.
pub(crate) fn append(folders: &[PathBuf], lines: &[String]) -> Result<PathBuf> {
    let mut last = None;
    for folder in folders {
        match open(folder) {
            Ok(mut file) => {
                for line in lines {
                    write(&mut file, line).with_context(|| {
                        format!("{} cannot be written", aged(folder, 0).display())
                    })?;
                }
                rotate(folder, &file);
                return Ok(folder.clone());
            }
            Err(error) => last = last.or(Some(error)),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("there is no place for a log")))
}

fn open(folder: &Path) -> Result<File> {
    let path = aged(folder, 0);
    let cannot = || format!("{} cannot be opened", path.display());
    let options = || {
        let mut options = OpenOptions::new();
        options.append(true).read(true).mode(0o600);
        options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        options
    };
    let opened = options().open(&path).or_else(|_| {
        if let Some(parent) = folder.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        options().create(true).open(&path)
    });
    let file = opened.with_context(cannot)?;
    let status = file.metadata().with_context(cannot)?;
    let me = crate::tenants::tenant_dir::uid();
    ensure!(status.is_file(), "{} is no file; remove it", path.display());
    ensure!(status.uid() == me, "{} belongs to uid {}; remove it", path.display(), status.uid());
    Ok(file)
}

fn write(file: &mut File, line: &str) -> Result<()> {
    let end = file.metadata()?.len();
    let mut last = [0_u8];
    let is_cut = end > 0 && file.read_exact_at(&mut last, end - 1).is_ok() && last != *b"\n";
    let text = if is_cut { format!("\n{line}") } else { line.to_owned() };
    let written = file.write(text.as_bytes())?;
    if written < text.len() {
        bail!("no room is left for a whole line");
    }
    Ok(())
}

/// Begins a new file where the open one has grown too large. If another process rotates, or this fails, a later line does it.
fn rotate(folder: &Path, file: &File) {
    let is_full = |status: &std::fs::Metadata| status.len() >= MOST_BYTES;
    let Ok(ours) = file.metadata() else { return };
    if !is_full(&ours) {
        return;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    let Ok(lock) = options.open(folder.join(LOCK)) else { return };
    let Ok(_held) = Flock::lock(lock, FlockArg::LockExclusiveNonblock) else { return };
    let there = std::fs::symlink_metadata(aged(folder, 0));
    if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
        return;
    }
    for age in (0..KEPT).rev() {
        let _ = std::fs::rename(aged(folder, age), aged(folder, age + 1));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::stage::Scratch;

    fn line(number: usize) -> String {
        format!("{{\"n\":{number},\"pad\":\"{}\"}}\n", "x".repeat(2000))
    }

    #[test]
    fn writers_at_once_lose_no_line_and_mix_none() {
        let scratch = Scratch::make("log-writers").unwrap();
        let folders = [scratch.path().join("a/b")];
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let folders = &folders;
                scope.spawn(move || {
                    for number in 0..400 {
                        append(folders, &[line(writer * 1000 + number)]).unwrap();
                    }
                });
            }
        });
        let files: Vec<String> =
            all(&folders[0]).filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        assert!(files.len() > 2, "it was rotated");
        let mut numbers: Vec<u64> = files
            .iter()
            .flat_map(|text| text.lines())
            // While another process writes, a line may look cut: an empty line then comes before the next.
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["n"].as_u64().unwrap())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 1600);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folders[0].join(NAME)), mode(&folders[0])), (0o600, 0o700));
    }

    #[test]
    fn a_cut_line_does_not_take_the_next_one_with_it() {
        let scratch = Scratch::make("log-cut").unwrap();
        let folder = scratch.path().to_owned();
        std::fs::write(folder.join(NAME), "{\"cut").unwrap();
        append(std::slice::from_ref(&folder), &["{\"n\":1}\n".to_owned()]).unwrap();
        append(std::slice::from_ref(&folder), &["{\"n\":2}\n".to_owned()]).unwrap();
        let text = std::fs::read_to_string(folder.join(NAME)).unwrap();
        assert_eq!(text, "{\"cut\n{\"n\":1}\n{\"n\":2}\n");
    }

    #[test]
    fn links_pipes_and_files_of_others_are_not_written() {
        let scratch = Scratch::make("log-planted").unwrap();
        let (bad, good) = (scratch.path().join("bad"), scratch.path().join("good"));
        std::fs::create_dir(&bad).unwrap();
        let target = scratch.path().join("target");
        std::fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, bad.join(NAME)).unwrap();
        let folders = [bad.clone(), good.clone()];
        let lines = ["{}\n".to_owned()];
        assert_eq!(append(&folders, &lines).unwrap(), good);
        std::fs::remove_file(bad.join(NAME)).unwrap();
        nix::unistd::mkfifo(&bad.join(NAME), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(append(&folders, &lines).unwrap(), good);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
        assert!(append(&[bad], &lines).unwrap_err().to_string().contains("is no file"));
    }
}
