//! The daemon's part of the log: refusals that tenants' processes note, looked for now and then, and lines for who asks.
//!
//! One thread looks at the tenants that the daemon serves; a `divvy run` whose program was refused something asks for a look
//! before it removes the tenant. The scheduling thread has no part in it.
//!
//! Promises: a refusal is told once, whoever looks; of the machine's log everybody gets the lines of their own tenants, root
//! all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use divvy_page::reader::UsageFile;
use nix::time::{ClockId, clock_gettime};

use super::adopted::Hand;
use super::place::DaemonHome;
use super::seen::{Shared, seen};
use super::thread::thread;
use crate::log::change::Subject;
use crate::log::line::LogLine;
use crate::log::read::{Found, Wanted};
use crate::log::refused::{self, RefusalWatch};
use crate::log::{journal::Journal, place};
use crate::pause::pause;
use crate::tenants::dir::FileIdentity;
use crate::wire::{Answer, MAX_FRAME_BYTES};

/// Time between two looks: a refusal is read of by people.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of lines in one answer, as they are written there; the rest of a frame is its head's.
const MOST_BYTES: usize = MAX_FRAME_BYTES / 2;

/// Refusals that are known, by tenant.
#[derive(Debug)]
pub(super) struct LogDesk {
    watched: Mutex<BTreeMap<FileIdentity, Watched>>,
    since_ns: u64,
}

#[derive(Debug)]
struct Watched {
    hand: Arc<Hand>,
    usage: Option<UsageFile>,
    watch: RefusalWatch,
}

impl Default for LogDesk {
    /// Of a daemon that begins now.
    fn default() -> Self {
        Self { watched: Mutex::default(), since_ns: since_boot_ns() }
    }
}

impl LogDesk {
    /// Looks at a tenant and tells what is new.
    fn look(&self, hand: &Arc<Hand>, journal: &Journal, is_last: bool) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Watched {
            hand: Arc::clone(hand),
            usage: None,
            watch: RefusalWatch::since(self.since_ns),
        };
        watched.entry(hand.dir.identity()).or_insert_with(new).look(journal, is_last);
    }

    /// Looks a last time at tenants that are not among `hands` any more, whose files are still open here.
    fn forget(&self, hands: &[Arc<Hand>], journal: &Journal) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|identity, known| {
            let stays = hands.iter().any(|hand| hand.dir.identity() == *identity);
            if !stays {
                known.look(journal, true);
            }
            stays
        });
    }
}

impl Watched {
    fn look(&mut self, journal: &Journal, is_last: bool) {
        let Self { hand, usage, watch } = self;
        if usage.is_none() {
            *usage = hand.dir.tenant().and_then(|dir| UsageFile::within(&dir)).ok().flatten();
        }
        let Some(usage) = usage else { return };
        let found = watch.look(since_boot_ns(), &refused::said(usage), is_last);
        if found.is_empty() {
            return;
        }
        let config = hand.owner.read().ok();
        let subject = Subject::of(&hand.path, config.as_ref(), hand.uid);
        for one in &found {
            journal.tell(refused::line(&subject, Some(usage), one));
        }
    }
}

fn since_boot_ns() -> u64 {
    let Ok(now) = clock_gettime(ClockId::CLOCK_BOOTTIME) else { return 0 };
    let [seconds, rest] =
        [now.tv_sec(), now.tv_nsec()].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

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
        let message = format!("{tenant:?} is no tenant this daemon serves for uid {uid}");
        return Answer::Error { message, code: None };
    };
    shared.log.look(hand, &shared.journal, true);
    shared.journal.flush();
    Answer::Done { notes: Vec::new() }
}

/// Lines of the log for `uid`, the newest that one answer has room for.
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
