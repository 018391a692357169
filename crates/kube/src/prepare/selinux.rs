//! SELinux: whether containers may use what is mounted into them.
//!
//! A bind mount keeps the label that its file has on the host, and the Container Device Interface has no word for another. A
//! container that may not read the list of what to preload starts all the same, since the loader passes over a list that it
//! cannot read: without a limit. So what is to be mounted is looked at first, and a claim is refused where its files have no
//! label for containers.
//!
//! Promises: what cannot be read is refused; where SELinux enforces nothing, nothing is asked. Changes no label, for which an
//! agent without privileges has no right.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Types that containers read and write.
const WRITABLE: [&str; 2] = ["container_file_t", "svirt_sandbox_file_t"];
/// Those that they only read.
const READABLE: [&str; 2] = ["container_ro_file_t", "container_share_t"];
/// Where a label is kept.
const ATTRIBUTE: &str = "security.selinux";
/// The longest label that is looked at.
const MOST_BYTES: usize = 4096;

/// Use that a container makes of what is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelUse {
    Reads,
    Writes,
}

/// Whether SELinux enforces a policy on the machine whose file system is at `root`. In a container its own file system may be
/// missing, so that nobody says whether it enforces: then it does.
pub fn selinux_enforces(root: &Path) -> bool {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let is_there = text("proc/filesystems").lines().any(|line| line.ends_with("selinuxfs"));
    let is_permissive = text("sys/fs/selinux/enforce").trim() == "0";
    is_there && has_policy(&text("proc/self/attr/current")) && !is_permissive
}

/// Whether a process with this label runs under a policy: before one is loaded it has but a word.
fn has_policy(label: &str) -> bool {
    label.trim_end_matches(['\0', '\n']).split(':').count() >= 3
}

/// Fails, in words, where containers have no use of `path` by its label.
pub(super) fn check(path: &Path, wanted: LabelUse) -> std::result::Result<(), String> {
    let label = label_of(path).map_err(|error| format!("its label cannot be read: {error}"))?;
    is_for_containers(&label, wanted)
}

fn is_for_containers(label: &str, wanted: LabelUse) -> std::result::Result<(), String> {
    let mut parts = label.splitn(4, ':').skip(2);
    let kind = parts.next().unwrap_or_default();
    let level = parts.next().unwrap_or_default();
    if !WRITABLE.contains(&kind) && (wanted == LabelUse::Writes || !READABLE.contains(&kind)) {
        return Err(format!("its label is {label:?}"));
    }
    if level.contains(':') {
        return Err(format!("its label {label:?} is for the containers of one pod"));
    }
    Ok(())
}

fn label_of(path: &Path) -> Result<String> {
    let mut bytes = vec![0; MOST_BYTES];
    let length = rustix::fs::getxattr(path, ATTRIBUTE, &mut bytes[..])?;
    bytes.truncate(length);
    let label = String::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error));
    Ok(label?.trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file system in which these files are.
    fn enforces(name: &str, files: &[(&str, &str)]) -> bool {
        let own = format!("divvy-selinux-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(own);
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = selinux_enforces(&root);
        let _ = std::fs::remove_dir_all(&root);
        found
    }

    #[test]
    fn it_enforces_unless_it_says_that_it_does_not() {
        let known = ("proc/filesystems", "nodev\tsysfs\nnodev\tselinuxfs\n");
        let label = ("proc/self/attr/current", "system_u:system_r:container_t:s0:c1,c2\0");
        assert!(enforces("hidden", &[known, label]));
        assert!(enforces("on", &[known, label, ("sys/fs/selinux/enforce", "1")]));
        assert!(!enforces("permissive", &[known, label, ("sys/fs/selinux/enforce", "0")]));
        assert!(!enforces("no-policy", &[known, ("proc/self/attr/current", "kernel\0")]));
        let other = ("proc/filesystems", "nodev\tsysfs\n");
        let apparmor = ("proc/self/attr/current", "docker-default (enforce)\n");
        assert!(!enforces("apparmor", &[other, apparmor]));
        assert!(!enforces("none", &[]));
    }

    #[test]
    fn a_label_is_for_all_containers_or_refused() {
        use LabelUse::{Reads, Writes};
        let takes = |label: &str, wanted| is_for_containers(label, wanted).is_ok();
        for (label, reads, writes) in [
            ("system_u:object_r:container_file_t:s0", true, true),
            ("system_u:object_r:container_file_t", true, true),
            ("system_u:object_r:svirt_sandbox_file_t:s0", true, true),
            ("system_u:object_r:container_ro_file_t:s0", true, false),
            ("system_u:object_r:container_share_t:s0", true, false),
            ("system_u:object_r:container_file_t:s0:c1,c2", false, false),
            ("system_u:object_r:var_run_t:s0", false, false),
            ("unconfined_u:object_r:usr_t:s0", false, false),
            ("container_file_t", false, false),
            ("", false, false),
        ] {
            assert_eq!((takes(label, Reads), takes(label, Writes)), (reads, writes), "{label:?}");
        }
        assert!(check(Path::new("/nonexistent"), Reads).unwrap_err().contains("cannot be read"));
    }

    proptest! {
        #[test]
        fn no_label_panics(label in "\\PC*") {
            let _ = (is_for_containers(&label, LabelUse::Reads), has_policy(&label));
        }
    }
}
