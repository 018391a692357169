//! Memory of the host, before device memory is copied there: what the machine has, and what groups of processes may take.
//!
//! A process that takes more than its group may have is ended by the kernel, and its device memory is lost with it. So
//! it is looked at before. What others take meanwhile is not known. Groups are found where systems mount them, of both
//! versions of the kernel's interface (`cgroups(7)`); of the first one limits of groups above count as the second has it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::output::exit_codes::NOT_AS_EXPECTED;
use crate::output::failure::with_code;
use crate::output::sizes;

/// Memory that is left to the machine and to each group, in bytes.
const SLACK_BYTES: u64 = 512 << 20;

/// Checks that `needed_bytes` more fit the machine, and the control groups of these processes.
///
/// # Errors
/// Says what is short, and by how much. What cannot be read is not short.
pub(crate) fn check(needed_bytes: u64, pids: impl Iterator<Item = u32>) -> Result<()> {
    if needed_bytes == 0 {
        return Ok(());
    }
    let groups = pids.filter_map(|pid| Some(("a control group of the program", room_of(pid)?)));
    let machine = available().map(|bytes| ("the machine", bytes));
    let least = groups.chain(machine).min_by_key(|(_, bytes)| *bytes);
    let Some((whose, bytes)) = least else { return Ok(()) };
    let wanted = needed_bytes.saturating_add(SLACK_BYTES);
    if bytes >= wanted {
        return Ok(());
    }
    let text = format!(
        "{} of device memory do not fit the host: {whose} has {} free, and {} are left to it; nothing was moved",
        sizes::text(needed_bytes),
        sizes::text(bytes),
        sizes::text(SLACK_BYTES)
    );
    Err(with_code(NOT_AS_EXPECTED, text))
}

/// Memory that the machine, and the control groups of these processes, can still give, in bytes; `None` where nothing of
/// it can be read.
pub(crate) fn room(pids: impl Iterator<Item = u32>) -> Option<u64> {
    let least = pids.filter_map(room_of).chain(available()).min()?;
    Some(least.saturating_sub(SLACK_BYTES))
}

/// Memory that the machine can give without swapping.
pub fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Memory that a process's control group, or one above it, can still take; `None` where none has a limit.
pub(crate) fn room_of(pid: u32) -> Option<u64> {
    groups_of(pid).into_iter().map(|(_, bytes)| bytes).min()
}

/// Control groups with a limit that a process is in: their directories, and the memory that each can still take.
pub(crate) fn groups_of(pid: u32) -> Vec<(PathBuf, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let Some((files, path)) = group_in(&text) else { return Vec::new() };
    let root = Path::new(files.root);
    let group = root.join(path);
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| Some((group.to_owned(), files.room_in(group)?))).collect()
}

/// Interface of the kernel to groups of one version.
struct GroupFiles {
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Name in `memory.stat` of what was read and is not in use, of the group and those below it.
    files: &'static str,
}

const FIRST: GroupFiles = GroupFiles {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: "total_inactive_file ",
};
const SECOND: GroupFiles = GroupFiles {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    files: "inactive_file ",
};

/// The group in `/proc/PID/cgroup` that bounds memory, from the root on. Where both versions are there, memory is in the
/// first one's hands if that names it.
fn group_in(text: &str) -> Option<(&'static GroupFiles, &str)> {
    let groups = text.lines().filter_map(|line| {
        let (_, group) = line.split_once(':')?;
        group.split_once(":/")
    });
    let bounds_memory = |controllers: &str| controllers.split(',').any(|one| one == "memory");
    let first = groups.clone().find(|(controllers, _)| bounds_memory(controllers));
    let second = groups.clone().find(|(controllers, _)| controllers.is_empty());
    let first = first.map(|(_, path)| (&FIRST, path));
    first.or_else(|| second.map(|(_, path)| (&SECOND, path)))
}

/// Memory of the host that a process has.
pub(crate) fn held_by(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// A limit that is none, in the first version's words: all pages that a counter can count.
const NO_LIMIT_BYTES: u64 = 1 << 62;

impl GroupFiles {
    /// The same of one group. Files that were read and are not in use are given up for it.
    fn room_in(&self, group: &Path) -> Option<u64> {
        let read = |name: &str| fs::read_to_string(group.join(name)).ok();
        let number = |name: &str| -> Option<u64> { read(name)?.trim().parse().ok() };
        let limit_bytes = number(self.limit).filter(|bytes| *bytes < NO_LIMIT_BYTES)?;
        let room_bytes = limit_bytes.saturating_sub(number(self.used)?);
        let files = read("memory.stat").and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix(self.files))?.trim().parse().ok()
        });
        Some(room_bytes.saturating_add(files.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_room_for_little_and_none_for_everything() {
        assert!(available().is_some_and(|bytes| bytes > 0));
        assert!(held_by(std::process::id()).is_some_and(|bytes| bytes > 0));
        assert!(check(0, std::iter::empty()).is_ok());
        let short = check(1 << 60, [std::process::id()].into_iter()).unwrap_err().to_string();
        assert!(short.contains("nothing was moved") && short.contains("free"), "{short}");
    }

    #[test]
    fn a_group_has_what_its_limit_leaves() {
        let group = std::env::temp_dir().join(format!("divvy-group-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        for (files, none) in [(&FIRST, "9223372036854771712\n"), (&SECOND, "max\n")] {
            let write = |name: &str, text: &str| fs::write(group.join(name), text).unwrap();
            let room = || files.room_in(&group);
            assert_eq!(room(), None);
            write(files.limit, none);
            write(files.used, "300\n");
            assert_eq!(room(), None, "without a limit there is no end");
            write(files.limit, "1000\n");
            assert_eq!(room(), Some(700));
            write("memory.stat", &format!("anon 100\n{}150\n", files.files));
            assert_eq!(room(), Some(850), "what was read is given up");
            fs::remove_file(group.join("memory.stat")).unwrap();
            write(files.used, "2000\n");
            assert_eq!(room(), Some(0));
        }
        fs::remove_dir_all(group).unwrap();
    }

    #[test]
    fn the_group_that_bounds_memory_is_found_in_both_versions() {
        let of = |text| group_in(text).map(|(files, path)| (files.root, path));
        assert_eq!(of("0::/user.slice/a.scope\n"), Some((SECOND.root, "user.slice/a.scope")));
        let both = "9:name=systemd:/x\n4:cpu,memory:/pods/a:b\n0::/y\n";
        assert_eq!(of(both), Some((FIRST.root, "pods/a:b")));
        assert_eq!(of("4:cpu:/pods\n0::/\n"), Some((SECOND.root, "")));
        for foreign in ["", "\n", "4:memory", "cpu:/x"] {
            assert_eq!(of(foreign), None, "{foreign}");
        }
    }
}
