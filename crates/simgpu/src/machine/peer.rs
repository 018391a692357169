//! The process at the other end of a connection, and whether it is still the same program.
//!
//! A connection that drops means that the process died, replaced itself by `exec`, or closed its
//! descriptors. The first two free what it held at once; the third does not, as on the hardware, where
//! the mappings of the device keep a context alive. They are told apart by the process's auxiliary
//! vector, which a dying process no longer has and a new program has another one of.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process.
#[derive(Debug)]
pub struct Peer {
    /// The pid it is shown under: as the daemon sees it, or, from a pid namespace it cannot see into,
    /// as the process knows itself.
    pub pid: u32,
    /// Its pid as the daemon sees it.
    visible: Option<Pid>,
    /// Readable once the process has ended.
    pub pidfd: Option<OwnedFd>,
    image: Option<Vec<u8>>,
}

impl Peer {
    /// The process that opened this connection and calls itself `own_pid`.
    pub fn of(socket: BorrowedFd<'_>, own_pid: u32) -> Self {
        let visible = rustix::net::sockopt::socket_peercred(socket)
            .ok()
            .and_then(|peer| Pid::from_raw(peer.pid.as_raw_nonzero().get()));
        Self {
            pid: visible.map_or(own_pid, |pid| pid.as_raw_nonzero().get().cast_unsigned()),
            visible,
            pidfd: visible.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            image: visible.and_then(image),
        }
    }

    /// Whether the process lives and runs the program it ran when it connected.
    ///
    /// Without a pidfd nobody would tell us of its end, so the answer is no.
    pub fn lives_on(&self) -> bool {
        self.pidfd.is_some() && self.image.is_some() && self.visible.and_then(image) == self.image
    }
}

/// The auxiliary vector: it holds addresses that are random per `exec`.
fn image(pid: Pid) -> Option<Vec<u8>> {
    let bytes = std::fs::read(format!("/proc/{}/auxv", pid.as_raw_nonzero())).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}
