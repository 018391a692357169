//! The daemon's part of the log: it writes the refusals that tenants' processes note, and answers users who ask for lines.
//!
//! One thread looks at the tenants that the daemon serves, once a second. A `divvy run` whose program was refused something
//! asks for one more look before it removes the tenant. The scheduling thread takes no part.
//!
//! Promises: a refusal is written once, whichever thread finds it. Each user gets the lines of the machine's log that are about
//! their own tenants; root gets all.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::Result;

use super::place::DaemonHome;
use super::seen::{Shared, seen};
use super::thread::thread;
use crate::log::line::LogLine;
use crate::log::place;
use crate::log::read::{Found, Wanted};
use crate::pause::pause;
use crate::wire::{Answer, MAX_FRAME_BYTES};

/// Time between two looks: people read about a refusal, and need it no sooner.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of lines in one answer, as the frame has them; the rest of a frame is for its head.
const MOST_BYTES: usize = MAX_FRAME_BYTES / 2;

/// Begins to write the log of the daemon in `home`, and to look for refusals.
pub(super) fn start(home: &DaemonHome, shared: &Arc<Shared>) -> Result<()> {
    shared.journal.begin(folders(home), |run| thread("divvy log", run));
    let shared = Arc::clone(shared);
    thread("divvy refusals", move || {
        while !shared.stop.load(Relaxed) {
            let hands = shared.seen.lock().unwrap_or_else(PoisonError::into_inner).hands.clone();
            hands.iter().for_each(|hand| shared.log.look(hand, &shared.journal, false));
            shared.log.forget(&hands, &shared.journal);
            pause(LOOK);
        }
    })
}

/// Folders of the daemon's log.
fn folders(home: &DaemonHome) -> Vec<PathBuf> {
    match home.is_system() {
        true => place::of_machine(),
        false => place::of_user(Some(home.directory())),
    }
}

/// Looks once more for refusals of a tenant that is about to go.
pub(super) fn refusals(tenant: &str, uid: u32, home: &DaemonHome, shared: &Shared) -> Answer {
    let seen = seen(shared, uid, home);
    let hand = seen.hands.iter().find(|hand| hand.path.to_str() == Some(tenant));
    let Some(hand) = hand else {
        let message = format!("this daemon serves no tenant {tenant:?} for uid {uid}");
        return Answer::Error { message, code: None };
    };
    shared.log.look(hand, &shared.journal, true);
    shared.journal.flush();
    Answer::Done { notes: Vec::new() }
}

/// Lines of the log for `uid`: as many of the newest as one answer has room for.
pub(super) fn lines(
    tenant: Option<&str>,
    since: Option<&str>,
    uid: u32,
    home: &DaemonHome,
) -> Answer {
    let sees_all = uid == 0 || !home.is_system();
    let wanted = Wanted {
        tenant: tenant.map(str::to_owned),
        since: since.and_then(|text| text.parse().ok()),
        owner: (!sees_all).then_some(uid),
    };
    let mut found = Found::default();
    found.add(&folders(home), &wanted);
    let mut room = MOST_BYTES;
    let texts = found.lines.iter().rev().map(LogLine::text);
    let mut lines: Vec<String> = texts
        .map_while(|text| {
            // Quotes are escaped once more in a frame.
            let bytes = serde_json::to_string(&text).map_or(usize::MAX, |text| text.len() + 1);
            room = room.checked_sub(bytes)?;
            Some(text)
        })
        .collect();
    lines.reverse();
    let folder = found.folders.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
    Answer::Log { folder: folder.display().to_string(), lines }
}
