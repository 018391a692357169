//! Asking a daemon: what `ps` and `set` do. A daemon that does not answer costs a moment, no more.
//!
//! A socket's name can be anybody's: /tmp is. So nothing is said before it is known who listens: the
//! directory and the socket must be this user's, or root's for the machine's daemon, and so must be the
//! process at the other end. All of an exchange has one deadline.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::sys::stat::SFlag;

use super::place::{Home, SOCKET};
use super::timed::Timed;
use super::wire::{self, Answer, Call, Change, MAX_FRAME_BYTES, Request, Response, VERSION, View};
use crate::dir::Dir;
use crate::tenant_dir;

/// How long an answer may take, from the first step to the last: it is read from memory.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a change may take: it waits for other writers of the same limits.
const CHANGE: Duration = Duration::from_secs(3);

/// Connects to the daemon of `home`, if it is one to be trusted.
fn reach(home: &Home, deadline: Instant) -> Result<UnixStream> {
    let uid = if home.is_system() { 0 } else { tenant_dir::uid() };
    let trust = |what: &Path, found: u32| {
        if found == uid {
            return Ok(());
        }
        bail!("{} is uid {found}'s, not uid {uid}'s: it is not spoken to", what.display())
    };
    let (directory, path) = (home.directory(), home.socket());
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
        std::thread::sleep(Duration::from_millis(2));
    }
    trust(&path, getsockopt(&stream, PeerCredentials)?.uid())?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Asks the daemon of `home`.
///
/// # Errors
/// In words: there is none, it is another user's, it does not answer in time, or what it answered.
pub(crate) fn ask(home: &Home, call: Call) -> Result<Answer> {
    let patience = if matches!(call, Call::Set { .. }) { CHANGE } else { PATIENCE };
    let deadline = Instant::now() + patience;
    let stream = reach(home, deadline)?;
    let mut timed = Timed::until(&stream, deadline);
    wire::write(&mut timed, &Request { version: VERSION, call })?;
    let response: Response = wire::read(&mut timed, MAX_FRAME_BYTES)?;
    match response.answer {
        Answer::Error { message } => Err(anyhow!(message)),
        answer => Ok(answer),
    }
}

/// Whether anybody to be trusted takes connections in `home`.
pub(super) fn is_answered(home: &Home) -> bool {
    reach(home, Instant::now() + PATIENCE).is_ok()
}

/// What the daemon of `home` sees; `None` where none answers.
pub(crate) fn view(home: &Home) -> Option<View> {
    match ask(home, Call::List) {
        Ok(Answer::List(view)) => Some(View { system: home.is_system(), ..*view }),
        _ => None,
    }
}

/// What all daemons see that may serve this user's tenants.
pub(crate) fn views() -> Vec<View> {
    Home::all().iter().filter_map(view).collect()
}

/// The tenants that the machine's daemon tells this user of and that are not among `own`: for root,
/// the other users'.
pub(crate) fn of_others(views: &[View], own: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let machines = views.iter().filter(|view| view.system).flat_map(|view| &view.tenants);
    let directories = machines.map(|tenant| PathBuf::from(&tenant.directory));
    directories.filter(|directory| !own.contains(directory)).collect()
}

/// Asks the machine's daemon for a change; `None` where there is no such daemon.
pub(crate) fn set(directory: &Path, change: &Change) -> Option<Result<Vec<String>>> {
    let home = Home::of_system();
    view(&home)?;
    let tenant = directory.display().to_string();
    let answer = ask(&home, Call::Set { tenant, change: change.clone() });
    Some(answer.map(|answer| match answer {
        Answer::Done { notes } => notes,
        _ => Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixListener;

    use super::*;

    struct Base(PathBuf);

    impl Base {
        /// A home with a socket that somebody listens on.
        fn new(name: &str) -> (Self, Home, UnixListener) {
            let path =
                std::env::temp_dir().join(format!("divvy-ask-{name}-{}", std::process::id()));
            let home = Home::at(path.clone()).unwrap();
            let listener = UnixListener::bind(home.socket()).unwrap();
            (Self(path), home, listener)
        }
    }

    impl Drop for Base {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_answer_that_drips_is_given_up() {
        let (_base, home, listener) = Base::new("drip");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The length of a frame, and a byte of it now and then, for as long as anybody reads.
            let mut next: &[u8] = &[0, 0, 1, 0];
            while stream.write_all(next).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
                next = b" ";
            }
        });
        let error = ask(&home, Call::Hello).unwrap_err().to_string();
        assert!(error.contains("the connection failed"), "{error}");
    }

    #[test]
    fn a_socket_that_takes_nobody_is_given_up() {
        let (_base, home, _listener) = Base::new("full");
        let mut waiting = Vec::new();
        while let Ok(stream) = reach(&home, Instant::now()) {
            waiting.push(stream);
        }
        assert!(waiting.len() > 2, "there is a queue");
        assert!(ask(&home, Call::Hello).is_err());
        assert!(!is_answered(&home));
    }

    #[test]
    fn nothing_is_said_to_another_users_socket() {
        let (base, home, listener) = Base::new("foreign");
        listener.set_nonblocking(true).unwrap();
        assert!(is_answered(&home) && listener.accept().is_ok());
        let refused = |why: &str| {
            let error = ask(&home, Call::Hello).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(listener.accept().is_err(), "nobody came");
        };
        if nix::unistd::geteuid().is_root() {
            chown(home.socket(), Some(65534), None).unwrap();
            refused("uid 65534's, not uid 0's");
            chown(home.socket(), Some(0), None).unwrap();
            chown(&base.0, Some(65534), None).unwrap();
            refused("uid 65534's, not uid 0's");
            chown(&base.0, Some(0), None).unwrap();
        }
        std::fs::rename(home.socket(), base.0.join("other")).unwrap();
        std::os::unix::fs::symlink("other", home.socket()).unwrap();
        refused("is no socket");
        std::fs::remove_file(home.socket()).unwrap();
        refused("there is no socket");
    }
}
