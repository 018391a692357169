//! Roots of other systems, and commands in them.
//!
//! A command sees a copy in memory that goes with it: root, `/proc`, `/dev`, a `/dev/shm` of its own, and the artefacts in
//! `/artefacts`; all mounts are in a namespace of the command's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::artefacts::{Scratch, has_tool, named, said};

/// A mirror that says nothing for so long is not there.
const PATIENCE_S: &str = "170";

/// What a namespace begins with: `$1` the root, `$2` the artefacts, `$3` the script, in a directory that is empty.
const ENTER: &str = r#"set -e
mount -t tmpfs tmpfs .
cd "$PWD"
mkdir upper work all
mount -t overlay -o "lowerdir=$1,upperdir=upper,workdir=work" overlay all
[ ! -L all/proc ] || rm all/proc
mkdir -p all/proc all/dev all/artefacts all/tmp all/run
mount -t proc proc all/proc
mount --rbind /dev all/dev
mount -t tmpfs -o mode=1777 tmpfs all/dev/shm
mount --bind "$2" all/artefacts
echo entered
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C chroot all /bin/sh -ec "$3"
"#;

/// A system's root.
pub(crate) struct Root(PathBuf);

/// How much of a system is wanted.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// Installed, with its package manager.
    Bare,
    /// Unpacked alone: enough for its C library and its shell.
    Unpacked,
}

/// A system that can be had.
#[derive(Clone, Copy)]
pub(crate) struct System {
    /// Name by which debootstrap knows it.
    suite: &'static str,
    /// Mirror and SHA-256 of the signed list of its packages, where this system has no key to check the list by: it is that
    /// of a suite that no longer changes.
    pinned: Option<(&'static str, &'static str)>,
}

/// Debian 12, with glibc 2.36.
pub(crate) const BOOKWORM: System = System { suite: "bookworm", pinned: None };
/// Debian 11, with glibc 2.31.
pub(crate) const BULLSEYE: System = System { suite: "bullseye", pinned: None };
/// Ubuntu 16.04, with glibc 2.23: the oldest that is on a distribution's mirror.
pub(crate) const XENIAL: System = System {
    suite: "xenial",
    pinned: Some((
        "http://archive.ubuntu.com/ubuntu",
        "30e9ff343d9ec0b64d28d27010bf472090bb3399b4b6bc5aee077085e920e89b",
    )),
};

/// The root of a system; none after a skip was said.
pub(crate) fn root_of(test: &str, system: System, extent: Extent) -> Option<Root> {
    let suite = system.suite;
    let skip = |why: &str| {
        println!("SKIPPED {test}: {why}");
        None
    };
    let roots = roots();
    let place = roots.join(suite);
    if !is_root() {
        return skip("a root can be made and entered by root alone");
    }
    if place.join(".whole").exists() {
        return Some(Root(place));
    }
    if !has_tool(test, "debootstrap", "debootstrap") {
        return None;
    }
    fs::create_dir_all(&roots).expect("a folder of roots");
    let new = roots.join(format!("{suite}.new-{}", std::process::id()));
    let _ = fs::remove_dir_all(&new);
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE_S, "debootstrap", "--variant=minbase"]);
    if matches!(extent, Extent::Unpacked) {
        command.arg("--foreign");
    }
    if system.pinned.is_some() {
        command.arg("--no-check-gpg");
    }
    command.arg(suite).arg(&new).args(system.pinned.map(|(mirror, _)| mirror));
    let output = command.output().expect("timeout is of coreutils");
    if !output.status.success() {
        let _ = fs::remove_dir_all(&new);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let last =
            said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word").to_owned();
        return skip(&format!("debootstrap made no root of {suite} ({}): {last}", output.status));
    }
    if let Some((_, expected)) = system.pinned {
        assert_eq!(list_sha256(&new), expected, "{suite}: not the list that it was released with");
    }
    fs::write(new.join(".whole"), "").expect("a mark");
    // Another run may have been faster.
    if fs::rename(&new, &place).is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    Some(Root(place))
}

/// SHA-256 of the list, by which debootstrap has checked the packages.
fn list_sha256(root: &Path) -> String {
    let lists = root.join("var/lib/apt/lists");
    let list = named(&lists, "", "_InRelease");
    said(Command::new("sha256sum").arg(list)).split_whitespace().next().unwrap_or("").to_owned()
}

fn roots() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(target).join("roots")
}

/// Whether this process is root.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
}

impl Root {
    /// Runs a shell's script in it; what it printed, or none after a skip where nothing may be mounted.
    pub(crate) fn runs(&self, test: &str, artefacts: &Path, script: &str) -> Option<String> {
        let scratch = Scratch::new(&format!("root-{test}"));
        let begin = Instant::now();
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"]);
        unshare.arg(self.0.canonicalize().expect("a root"));
        unshare.arg(artefacts.canonicalize().expect("artefacts")).arg(script);
        let output = unshare.current_dir(&scratch.0).output().expect("unshare is of util-linux");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let Some(text) = text.strip_prefix("entered\n") else {
            println!("SKIPPED {test}: nothing may be mounted here: {}", text.trim());
            return None;
        };
        assert!(output.status.success(), "{}\n{text}", output.status);
        println!("{test}: {:?} in {}", round(begin.elapsed()), self.0.display());
        Some(text.to_owned())
    }

    /// Version of its C library, such as `2.36`.
    pub(crate) fn glibc(&self) -> String {
        let folder = self.0.join("lib/x86_64-linux-gnu/libc.so.6");
        let bytes = fs::read(folder).expect("its C library");
        let text = String::from_utf8_lossy(&bytes);
        let at = text.find("stable release version ").expect("glibc says its version");
        let rest = &text[at + "stable release version ".len()..];
        rest.chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect::<String>()
            .trim_end_matches('.')
            .to_owned()
    }
}

fn round(time: Duration) -> Duration {
    Duration::from_millis(time.as_millis() as u64)
}
