//! Memory of the host, before device memory is copied there: what the machine has, and what groups of processes may take.
//!
//! A process that takes more than its group may have is ended by the kernel, and its device memory is lost with it. So
//! it is looked at before. What others take meanwhile is not known.

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
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Vec::new();
    };
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(path);
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| Some((group.to_owned(), room_in(group)?))).collect()
}

/// Memory of the host that a process has.
pub(crate) fn held_by(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The same of one group. Files that were read and are not in use are given up for it.
fn room_in(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| -> Option<u64> { read(name)?.trim().parse().ok() };
    let room_bytes = number("memory.max")?.saturating_sub(number("memory.current")?);
    let files = read("memory.stat").and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
    });
    Some(room_bytes.saturating_add(files.unwrap_or(0)))
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
        assert_eq!(room_in(&group), None);
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(group.join("memory.current"), "300\n").unwrap();
        assert_eq!(room_in(&group), None, "without a limit there is no end");
        fs::write(group.join("memory.max"), "1000\n").unwrap();
        assert_eq!(room_in(&group), Some(700));
        fs::write(group.join("memory.stat"), "anon 100\ninactive_file 150\n").unwrap();
        assert_eq!(room_in(&group), Some(850), "what was read is given up");
        fs::remove_file(group.join("memory.stat")).unwrap();
        fs::write(group.join("memory.current"), "2000\n").unwrap();
        assert_eq!(room_in(&group), Some(0));
        fs::remove_dir_all(group).unwrap();
    }
}
