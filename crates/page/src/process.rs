//! Particulars of a process, for people: pid, start time, namespace, name.
//!
//! None of it decides anything; liveness is the slot's lock.

use crate::{at, sys};

/// This process, for display.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) pid_namespace: u64,
    pub(crate) comm: [u8; 16],
}

impl ProcessIdentity {
    /// Reads it; what cannot be read (no /proc, no descriptors left) is zero.
    pub(crate) fn of_self() -> Self {
        Self {
            pid: sys::pid(),
            start_ticks: start_ticks().unwrap_or(0),
            pid_namespace: pid_namespace().unwrap_or(0),
            comm: sys::thread_name(),
        }
    }
}

fn start_ticks() -> Option<u64> {
    let fd = at::open(None, c"/proc/self/stat", libc::O_RDONLY, 0).ok()?;
    let mut bytes = [0_u8; 512];
    let got = sys::read_all(&fd, &mut bytes).ok()?;
    start_ticks_in(bytes.get(..got)?)
}

/// Field 22 of a /proc/PID/stat, counted after the last `)`: a program's name may hold anything.
fn start_ticks_in(stat: &[u8]) -> Option<u64> {
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let field = stat.get(after + 2..)?.split(|byte| *byte == b' ').nth(19)?;
    core::str::from_utf8(field).ok()?.parse().ok()
}

/// Inode of the calling process's pid namespace; `None` where /proc is missing.
pub fn pid_namespace() -> Option<u64> {
    at::link_inode(c"/proc/self/ns/pid").ok()
}

/// The calling process's effective user.
pub fn effective_uid() -> u32 {
    sys::effective_uid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_shifts_no_field() {
        let rest = b" S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        for name in [&b"7 (ray Xworker)"[..], b"7 (my Zoo)", b"7 (a) Z 1 (b)", b"7 ())"] {
            assert_eq!(start_ticks_in(&[name, rest].concat()), Some(4242));
        }
        for short in [&b""[..], b"7 (x", b"7 (x)", b"7 (x) S 1 2", b"\xff"] {
            assert_eq!(start_ticks_in(short), None);
        }
    }

    #[test]
    fn this_process_has_a_start_and_a_name() {
        let identity = ProcessIdentity::of_self();
        assert!(identity.pid != 0 && identity.start_ticks != 0 && identity.comm[0] != 0);
        let namespace = std::fs::metadata("/proc/self/ns/pid").expect("a namespace");
        assert_eq!(pid_namespace(), Some(std::os::unix::fs::MetadataExt::ino(&namespace)));
    }
}
