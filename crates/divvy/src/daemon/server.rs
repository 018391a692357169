//! The daemon's socket: answers about what the scheduling thread has left, and changes of limits.
//!
//! One thread for each connection, and a bound on them: one that asks nothing leaves when others come
//! ([`Crowd`]), or after [`SILENCE`], and a frame must be through within [`PATIENCE`], however small its
//! pieces. No thread here holds anything the scheduling thread waits for.
//!
//! Permissions: a user's daemon answers that user and root. The machine's answers everybody, of their
//! own tenants; root, of all. A tenant's limits are changed for the owner of its directory and for
//! root, only if the daemon serves it, and through what the daemon holds of it: the name in a request is
//! compared and never opened. Tenants by id are made and removed as [`by_id`] says. Turns are switched on
//! and off for the daemon's own user and for root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::by_id;
use super::card_desk;
use super::crowd::{Crowd, CrowdPlace};
use super::log_desk;
use super::metrics;
use super::place::DaemonHome;
use super::quota::Quota;
use super::seen::{Seen, Shared, seen};
use super::thread::thread;
use super::timed::Timed;
use crate::log::line::{ChangeAuthor, Event, LogLine, Setting};
use crate::pause::pause;
use crate::wire::by_id::RefusalCode;
use crate::wire::{
    self, Answer, Call, FrameError, LimitChange, MAX_REQUEST_BYTES, Request, Response, Schedule,
    VERSION,
};

/// Connections at once, and those of one user.
const CONNECTIONS: Quota = Quota { most: 32, most_of_one: 8 };
/// How long a frame may take, either way.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time within which a step shows that turns were switched; who asks waits a second.
const SWITCHING: Duration = Duration::from_millis(600);
/// How long a connection may be silent between two requests.
const SILENCE: Duration = Duration::from_secs(10);

/// Listens on the home's socket; the threads end with the process.
pub(super) fn start(home: &DaemonHome, shared: &Arc<Shared>) -> Result<()> {
    let path = home.socket();
    // We hold the home's lock: what lies there is of a daemon that is gone.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)
        .with_context(|| format!("{} cannot be listened on", path.display()))?;
    let mode = if home.is_system() { 0o666 } else { 0o600 };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    let (home, shared) = (home.clone(), Arc::clone(shared));
    thread("divvy socket", move || accept(&listener, &home, &shared))
}

/// The process at the other end of a connection, by the kernel's word.
#[derive(Clone, Copy, Debug)]
struct Peer {
    uid: u32,
    pid: u32,
}

fn accept(listener: &UnixListener, home: &DaemonHome, shared: &Arc<Shared>) {
    let crowd = Crowd::new(CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // No descriptors, most likely: those who are connected time out.
            pause(Duration::from_millis(100));
            continue;
        };
        let Ok(peer) = getsockopt(&stream, PeerCredentials) else { continue };
        let asker = Peer { uid: peer.uid(), pid: u32::try_from(peer.pid()).unwrap_or(0) };
        let uid = asker.uid;
        if !home.is_system() && uid != 0 && uid != crate::tenants::tenant_dir::uid() {
            refuse(&stream, RefusalCode::NotYours, "this daemon serves another user");
            continue;
        }
        let stream = Arc::new(stream);
        let Some(place) = crowd.enter(uid, Arc::clone(&stream) as _) else {
            refuse(&stream, RefusalCode::Busy, "too many connections; try again in a second");
            continue;
        };
        let (home, shared) = (home.clone(), Arc::clone(shared));
        // Without a thread the connection is closed, which the client sees.
        let _ = thread("divvy client", move || serve(&stream, &place, asker, &home, &shared));
    }
}

fn serve(
    stream: &UnixStream,
    place: &CrowdPlace<u32>,
    asker: Peer,
    home: &DaemonHome,
    shared: &Shared,
) {
    loop {
        let mut from = Timed::quiet(stream, SILENCE, PATIENCE);
        let request = wire::read::<Request>(&mut from, MAX_REQUEST_BYTES);
        let (answer, goes_on) = match request {
            Ok(Request { version: VERSION, call }) => {
                (place.answer(|| answer(&call, asker, home, shared)), true)
            }
            Ok(Request { version, .. }) => {
                let words = format!("version {version}; this daemon speaks {VERSION}");
                (refusal(RefusalCode::BadVersion, words), true)
            }
            Err(FrameError::Closed | FrameError::Io(_)) => return,
            Err(wrong @ FrameError::Json(_)) => {
                (refusal(RefusalCode::BadRequest, wrong.to_string()), true)
            }
            Err(wrong @ FrameError::TooLong { .. }) => {
                (refusal(RefusalCode::BadRequest, wrong.to_string()), false)
            }
        };
        if say(stream, answer).is_err() || !goes_on {
            return;
        }
    }
}

fn say(stream: &UnixStream, answer: Answer) -> Result<(), FrameError> {
    let mut to = Timed::quiet(stream, PATIENCE, PATIENCE);
    match wire::write(&mut to, &Response { version: VERSION, answer }) {
        // Nothing of it was written.
        Err(wrong @ FrameError::TooLong { .. }) => {
            let answer = refusal(RefusalCode::Failed, wrong.to_string());
            wire::write(&mut to, &Response { version: VERSION, answer })
        }
        done => done,
    }
}

fn refuse(stream: &UnixStream, code: RefusalCode, why: &str) {
    let response = Response { version: VERSION, answer: refusal(code, why.to_owned()) };
    // A new connection has room for it; the thread that accepts must not wait.
    let _ = stream.set_nonblocking(true);
    let _ = wire::write(&mut &*stream, &response);
}

fn error(message: String) -> Answer {
    Answer::Error { message, code: None }
}

fn refusal(code: RefusalCode, message: String) -> Answer {
    Answer::Error { message, code: Some(code.word().to_owned()) }
}

fn answer(call: &Call, peer: Peer, home: &DaemonHome, shared: &Shared) -> Answer {
    let Peer { uid, pid } = peer;
    match call {
        Call::Hello => {
            Answer::Hello { pid: std::process::id(), divvy: env!("CARGO_PKG_VERSION").to_owned() }
        }
        Call::List => Answer::List(Box::new(seen(shared, uid, home).view)),
        // All files are read for it: by one thread at a time, whoever asks how often.
        Call::Metrics => match shared.rendering.try_lock() {
            Err(TryLockError::WouldBlock) => {
                error("the page is being written; ask again".to_owned())
            }
            _guard => Answer::Metrics { text: metrics::text(&seen(shared, uid, home), shared) },
        },
        Call::Log { tenant, since } => {
            log_desk::lines(tenant.as_deref(), since.as_deref(), uid, home)
        }
        Call::Refusals { tenant } => log_desk::refusals(tenant, uid, home, shared),
        Call::Set { tenant, change } => {
            let asker = ChangeAuthor::peer(uid, pid);
            match set(&seen(shared, uid, home), &asker, tenant, change) {
                Ok((notes, lines)) => {
                    lines.into_iter().for_each(|line| shared.journal.tell(line));
                    Answer::Done { notes }
                }
                Err(words) => error(words),
            }
        }
        Call::Schedule { to } => schedule(*to, &ChangeAuthor::peer(uid, pid), shared),
        Call::Tenant(call) => by_id::answer(call, &ChangeAuthor::peer(uid, pid), home, shared),
        Call::Cards => card_desk::answer(&shared.cards),
    }
}

/// Has the scheduling thread give turns, or none.
fn schedule(to: Schedule, asker: &ChangeAuthor, shared: &Shared) -> Answer {
    let uid = asker.uid;
    let own = crate::tenants::tenant_dir::uid();
    if uid != 0 && uid != own {
        return error(format!(
            "turns of this daemon are switched by uid {own} and by root, not by uid {uid}"
        ));
    }
    let was_off = shared.is_off.swap(to == Schedule::Off, Relaxed);
    if was_off != (to == Schedule::Off) {
        let word = |is_off: bool| if is_off { "off" } else { "on" }.to_owned();
        shared.journal.tell(LogLine {
            setting: Some(Setting::Schedule.word().to_owned()),
            old: Some(word(was_off)),
            new: Some(word(!was_off)),
            ..LogLine::new(Event::Changed).by(asker)
        });
    }
    // The next question is answered by what was switched.
    let give_up = Instant::now() + SWITCHING;
    let is_shown =
        || shared.seen.lock().unwrap_or_else(PoisonError::into_inner).view.schedule == to;
    while !is_shown() && Instant::now() < give_up {
        pause(Duration::from_millis(5));
    }
    Answer::Done { notes: Vec::new() }
}

/// Changes the limits of the tenant among those `seen` that has this directory. Returns notes about the change, and lines for
/// the log.
fn set(
    seen: &Seen,
    asker: &ChangeAuthor,
    tenant: &str,
    change: &LimitChange,
) -> Result<(Vec<String>, Vec<LogLine>), String> {
    let uid = asker.uid;
    let mut named = seen.view.tenants.iter().filter(|known| known.directory == tenant);
    let Some(known) = named.next() else {
        return Err(format!("this daemon serves no tenant {tenant:?} for uid {uid}"));
    };
    if let Some(reason) = &known.reason {
        let detail = known.detail.as_deref().unwrap_or_default();
        return Err(format!("this daemon cannot serve {tenant:?}: {reason}: {detail}"));
    }
    let hand = seen.hands.iter().find(|hand| hand.path.to_str() == Some(tenant));
    let Some(hand) = hand else { return Err(format!("{tenant:?} has just ended")) };
    if uid != 0 && uid != hand.uid {
        return Err(format!("{tenant:?} belongs to uid {}; ask as that user", hand.uid));
    }
    let made = crate::tenants::change::make_open(&hand.dir, &hand.owner, &hand.path, change, &[]);
    match made {
        Ok(made) if hand.has_its_config() => {
            let lines = crate::log::change::lines_of(&hand.path, &made, asker);
            Ok((made.notes, lines))
        }
        Ok(_) => Err(format!(
            "the limits of {tenant:?} have just been changed by another command; try again"
        )),
        Err(wrong) => Err(format!("{wrong:#}")),
    }
}
