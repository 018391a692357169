//! Asking a daemon: what `ps` and `set` do. A daemon that does not answer costs a moment, no more.
//!
//! Nothing is said before it is known who listens: that is [`super::reach`]'s. All of an exchange has one
//! deadline.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::place::DaemonHome;
use super::reach::{PATIENCE, reach};
use super::timed::Timed;
use crate::log::read::Wanted;
use crate::wire::{
    self, Answer, Call, LimitChange, MAX_FRAME_BYTES, Request, Response, VERSION, View,
};

/// How long a change may take: it waits for other writers of the same limits.
const CHANGE: Duration = Duration::from_secs(3);

/// A daemon's refusal.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct DaemonRefusal {
    /// The word of a [`wire::by_id::RefusalCode`], where it has one.
    pub(crate) code: Option<String>,
    /// The reason in words.
    pub(crate) message: String,
}

/// Asks the daemon of `home`.
///
/// # Errors
/// In words: there is none, it is another user's, it does not answer in time, or a [`DaemonRefusal`].
pub(crate) fn ask(home: &DaemonHome, call: Call) -> Result<Answer> {
    let patience = if matches!(call, Call::Set { .. } | Call::Tenant(_) | Call::Log { .. }) {
        CHANGE
    } else {
        PATIENCE
    };
    let deadline = Instant::now() + patience;
    let stream = reach(home.directory(), home.is_system(), deadline)?;
    let mut timed = Timed::until(&stream, deadline);
    wire::write(&mut timed, &Request { version: VERSION, call })?;
    let response: Response = wire::read(&mut timed, MAX_FRAME_BYTES)?;
    match response.answer {
        Answer::Error { message, code } => Err(DaemonRefusal { code, message }.into()),
        answer => Ok(answer),
    }
}

/// View of the daemon of `home`; `None` if none answers.
pub(crate) fn view(home: &DaemonHome) -> Option<View> {
    match ask(home, Call::List) {
        Ok(Answer::List(view)) => Some(View { system: home.is_system(), ..*view }),
        _ => None,
    }
}

/// Views of all daemons that may serve this user's tenants.
pub(crate) fn views() -> Vec<View> {
    DaemonHome::all().iter().filter_map(view).collect()
}

/// The tenants that the machine's daemon tells this user of and that are not among `own`: for root,
/// the other users'.
pub(crate) fn of_others(views: &[View], own: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let machines = views.iter().filter(|view| view.system).flat_map(|view| &view.tenants);
    let directories = machines.map(|tenant| PathBuf::from(&tenant.directory));
    directories.filter(|directory| !own.contains(directory)).collect()
}

/// Asks the machine's daemon for a change; `None` where there is no such daemon.
pub(crate) fn set(directory: &Path, change: &LimitChange) -> Option<Result<Vec<String>>> {
    let home = DaemonHome::of_system();
    view(&home)?;
    let tenant = directory.display().to_string();
    let answer = ask(&home, Call::Set { tenant, change: change.clone() });
    Some(answer.map(|answer| match answer {
        Answer::Done { notes } => notes,
        _ => Vec::new(),
    }))
}

/// Folder of the machine's log, and the lines that its daemon tells this user; `None` where no daemon answers.
pub(crate) fn log(wanted: &Wanted) -> Option<(PathBuf, String)> {
    let call = Call::Log {
        tenant: wanted.tenant.clone(),
        since: wanted.since.map(|since| since.to_string()),
    };
    match ask(&DaemonHome::of_system(), call) {
        Ok(Answer::Log { folder, lines }) => Some((PathBuf::from(folder), lines.concat())),
        _ => None,
    }
}

/// Has the daemon that serves the tenant in `directory` write down the refusals of its processes; whether a daemon did.
pub(crate) fn refusals(directory: &Path) -> bool {
    let tenant = directory.display().to_string();
    let homes = DaemonHome::of_tenant(directory).into_iter().chain([DaemonHome::of_system()]);
    let asked = |home: DaemonHome| ask(&home, Call::Refusals { tenant: tenant.clone() });
    homes.map(asked).any(|answer| matches!(answer, Ok(Answer::Done { .. })))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixListener;

    use super::super::reach::is_answered;
    use super::*;

    struct Base(PathBuf);

    impl Base {
        /// A home with a socket that somebody listens on.
        fn new(name: &str) -> (Self, DaemonHome, UnixListener) {
            let path =
                std::env::temp_dir().join(format!("divvy-ask-{name}-{}", std::process::id()));
            let home = DaemonHome::at(path.clone()).unwrap();
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
        while let Ok(stream) = reach(home.directory(), false, Instant::now()) {
            waiting.push(stream);
        }
        assert!(waiting.len() > 2, "there is a queue");
        assert!(ask(&home, Call::Hello).is_err());
        assert!(!is_answered(home.directory(), false));
    }

    #[test]
    fn nothing_is_said_to_another_users_socket() {
        let (base, home, listener) = Base::new("foreign");
        listener.set_nonblocking(true).unwrap();
        assert!(is_answered(home.directory(), false) && listener.accept().is_ok());
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
