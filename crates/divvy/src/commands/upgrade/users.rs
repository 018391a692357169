//! Processes that use installed files: by what they have mapped, run, or name in their environment.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::machine::install;

/// A process, and what it uses.
#[derive(Debug)]
struct User {
    pid: u32,
    program: String,
    /// Device and inode of the file that it runs.
    runs: Option<(u64, u64)>,
    /// Inodes of mapped files that have a name of the library's.
    mapped: Vec<u64>,
    environment: Vec<u8>,
}

/// A file that a process uses.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct InUse {
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) path: PathBuf,
}

/// The machine's processes.
#[derive(Debug, Default)]
pub(crate) struct Users {
    users: Vec<User>,
    /// A process that may not be looked into.
    closed: Option<u32>,
}

impl Users {
    /// Looks into every process.
    pub(crate) fn look(proc: &Path) -> Result<Self> {
        let mut found = Self::default();
        for entry in fs::read_dir(proc).with_context(|| format!("{}", proc.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Ok(pid) = name.parse::<u32>() else { continue };
            if pid == std::process::id() {
                continue;
            }
            let [maps, environment] = ["maps", "environ"].map(|file| fs::read(path.join(file)));
            for read in [&maps, &environment] {
                if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
                    found.closed = Some(pid);
                }
            }
            // A process that has ended meanwhile uses no file.
            let maps = String::from_utf8_lossy(maps.as_deref().unwrap_or_default()).into_owned();
            found.users.push(User {
                pid,
                program: name_of(&path),
                runs: fs::metadata(path.join("exe"))
                    .ok()
                    .map(|status| (status.dev(), status.ino())),
                mapped: maps.lines().filter_map(library_inode).collect(),
                environment: environment.unwrap_or_default(),
            });
        }
        Ok(found)
    }

    /// The processes, if each of them could be looked into.
    ///
    /// # Errors
    /// Where one could not: it may use any library.
    pub(crate) fn all(self) -> Result<Self> {
        if let Some(pid) = self.closed {
            bail!(
                "process {pid} cannot be looked into, and may use any library: nothing was removed; \
                 run `divvy install PREFIX --clean` as root"
            );
        }
        Ok(self)
    }

    /// Whether some process could not be looked into.
    pub(crate) fn are_hidden(&self) -> bool {
        self.closed.is_some()
    }

    /// Processes that use the file.
    pub(crate) fn of(&self, file: &Path) -> Vec<InUse> {
        let name = file.file_name().unwrap_or_default();
        let is_library = name.to_str().is_some_and(install::is_library_name);
        let name = name.as_encoded_bytes();
        // In a container the file has another path; only its inode identifies it.
        let own = fs::metadata(file).map(|status| (status.dev(), status.ino())).ok();
        let is_named = |text: &[u8]| text.windows(name.len()).any(|part| part == name);
        let uses = |user: &&User| {
            own.is_some_and(|own| user.runs == Some(own) || user.mapped.contains(&own.1))
                || (is_library && is_named(&user.environment))
        };
        let told = |user: &User| InUse {
            pid: user.pid,
            program: user.program.clone(),
            path: file.to_owned(),
        };
        self.users.iter().filter(uses).map(told).collect()
    }

    /// Whether any process uses the file.
    pub(crate) fn has(&self, file: &Path) -> bool {
        !self.of(file).is_empty()
    }
}

/// Name of the program of a process, as it was started: a daemon of ours is `exe` to the kernel.
fn name_of(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first).into_owned();
    Path::new(&first).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The inode in a line of `/proc/PID/maps`, where the file may be a library of ours.
fn library_inode(line: &str) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let inode = fields.nth(4)?.parse().ok()?;
    let name = Path::new(fields.next()?).file_name()?.to_str()?;
    install::is_library_name(name).then_some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_ours_are_told_by_their_names() {
        let line = |path: &str| format!("7f00-7f01 r-xp 00000000 08:01 1234   {path}");
        for name in
            ["/a/libdivvy.so", "/libvgpu.so", "/libnvshare.so", "/x/libdivvy-0.1.0-5f.so (deleted)"]
        {
            assert_eq!(library_inode(&line(name)), Some(1234), "{name}");
        }
        for name in ["/usr/lib/libc.so.6", "[heap]", ""] {
            assert_eq!(library_inode(&line(name)), None, "{name}");
        }
    }
}
