//! Connecting to a daemon's socket, once it is known who listens there.
//!
//! A socket's name can be anybody's: /tmp is. So nothing is said before: the directory and the socket
//! must be this user's, or root's for the machine's daemon, and so must be the process at the other end.
//! Promises: no wait beyond the deadline.
//!
//! Does not speak to it: that is [`super::client`]; nor say where daemons live: [`super::place`].

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::sys::stat::SFlag;

use crate::pause::pause;
use crate::tenants::dir::Dir;
use crate::tenants::tenant_dir;

/// The socket in a daemon's directory.
pub(super) const SOCKET: &str = "daemon.sock";
/// How long an answer may take, from the first step to the last: it is read from memory.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Connects to the daemon in `directory`, if it is one to be trusted: this user's, or root's where it
/// `is_system`.
pub(super) fn reach(directory: &Path, is_system: bool, deadline: Instant) -> Result<UnixStream> {
    let uid = if is_system { 0 } else { tenant_dir::uid() };
    let trust = |what: &Path, found: u32| {
        if found == uid {
            return Ok(());
        }
        bail!("{} is uid {found}'s, not uid {uid}'s: it is not spoken to", what.display())
    };
    let path = directory.join(SOCKET);
    let dir = Dir::open(directory)?;
    trust(directory, dir.uid())?;
    let status = dir.status(OsStr::new(SOCKET)).context("there is no socket")?;
    if status.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFSOCK.bits() {
        bail!("{} is no socket", path.display());
    }
    trust(&path, status.st_uid)?;
    // Never waiting: a listener that takes no connections would be waited for.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream = UnixStream::from(socket(AddressFamily::Unix, SockType::Stream, flags, None)?);
    let address = UnixAddr::new(&path)?;
    while let Err(errno) = connect(stream.as_raw_fd(), &address) {
        if errno != Errno::EAGAIN || Instant::now() >= deadline {
            return Err(errno.into());
        }
        pause(Duration::from_millis(2));
    }
    trust(&path, getsockopt(&stream, PeerCredentials)?.uid())?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Whether anybody to be trusted takes connections in `directory`.
pub(super) fn is_answered(directory: &Path, is_system: bool) -> bool {
    reach(directory, is_system, Instant::now() + PATIENCE).is_ok()
}
