//! What a process writes about itself for people: pid, start time, namespace, name.
//!
//! None of it decides anything; liveness is the slot's lock.

use crate::sys;

/// This process, for display.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) pid_namespace: u64,
    pub(crate) comm: [u8; 16],
}

impl Identity {
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

/// Field 22 of /proc/self/stat, counted after the last `)`: a name may hold anything.
fn start_ticks() -> Option<u64> {
    let fd = sys::open(c"/proc/self/stat", libc::O_RDONLY, 0).ok()?;
    let mut bytes = [0_u8; 512];
    let got = sys::read_all(&fd, &mut bytes).ok()?;
    let text = bytes.get(..got)?;
    let after = text.iter().rposition(|byte| *byte == b')')?;
    let field = text.get(after + 2..)?.split(|byte| *byte == b' ').nth(19)?;
    core::str::from_utf8(field).ok()?.parse().ok()
}

/// Inode of the calling process's pid namespace; `None` where /proc is missing.
pub fn pid_namespace() -> Option<u64> {
    sys::link_inode(c"/proc/self/ns/pid").ok()
}

/// The calling process's effective user.
pub fn effective_uid() -> u32 {
    sys::effective_uid()
}
