//! Asking a daemon: what `ps` and `set` do. A daemon that does not answer costs a moment, no more.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::place::Home;
use super::wire::{self, Answer, Call, Change, MAX_FRAME_BYTES, Request, Response, VERSION, View};

/// How long an answer may take: it is read from memory.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a change may take: it waits for other writers of the same limits.
const CHANGE: Duration = Duration::from_secs(2);

/// Asks the daemon of `home`.
///
/// # Errors
/// In words: there is none, it does not answer in time, or what it answered.
pub(crate) fn ask(home: &Home, call: Call) -> Result<Answer> {
    let patience = if matches!(call, Call::Set { .. }) { CHANGE } else { PATIENCE };
    let stream = UnixStream::connect(home.socket())?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    wire::write(&mut &stream, &Request { version: VERSION, call })?;
    let response: Response = wire::read(&mut &stream, MAX_FRAME_BYTES)?;
    match response.answer {
        Answer::Error { message } => Err(anyhow!(message)),
        answer => Ok(answer),
    }
}

/// What the daemon of `home` sees; `None` where none answers.
pub(crate) fn view(home: &Home) -> Option<View> {
    match ask(home, Call::List) {
        Ok(Answer::List(view)) => Some(*view),
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
