//! The daemon's socket: answers about what the scheduling thread has left, and changes of limits.
//!
//! One thread for each connection, at most [`MOST`] in all and [`MOST_OF_ONE`] of one user; a
//! connection that is silent, or slower than [`PATIENCE`] with a frame, is closed. No thread here holds
//! anything the scheduling thread waits for.
//!
//! Who may what: a user's daemon answers that user and root. The machine's answers everybody, of their
//! own tenants; root, of all. A tenant's limits are changed for the owner of its directory and for
//! root, only if the daemon serves it, and through what the daemon holds of it: the name in a request is
//! compared and never opened.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::engine::{Seen, Shared};
use super::metrics;
use super::place::Home;
use super::wire::{
    self, Answer, Call, Change, FrameError, MAX_REQUEST_BYTES, Request, Response, VERSION,
};

/// Connections at once, and those of one user other than root.
const MOST: usize = 32;
const MOST_OF_ONE: usize = 8;
/// How long a frame may take, either way.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a connection may be silent between two requests.
const SILENCE: Duration = Duration::from_secs(30);

/// Connections by user.
type Crowd = Arc<Mutex<BTreeMap<u32, usize>>>;

/// Listens on the home's socket; the threads end with the process.
pub(super) fn start(home: &Home, shared: &Arc<Shared>) -> Result<()> {
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

/// Starts a thread with a small stack.
pub(super) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
    builder.spawn(body).with_context(|| format!("no thread {name:?} can be had"))?;
    Ok(())
}

fn accept(listener: &UnixListener, home: &Home, shared: &Arc<Shared>) {
    let crowd = Crowd::default();
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // No descriptors, most likely: those who are connected time out.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Ok(peer) = getsockopt(&stream, PeerCredentials) else { continue };
        let uid = peer.uid();
        let Some(place) = Place::take(&crowd, uid) else {
            refuse(stream, "too many connections; try again in a second");
            continue;
        };
        if !home.is_system() && uid != 0 && uid != crate::tenant_dir::uid() {
            refuse(stream, "this daemon serves another user");
            continue;
        }
        let (home, shared) = (home.clone(), Arc::clone(shared));
        // Without a thread the connection is closed, which the client sees.
        let _ = thread("divvy client", move || {
            let _place = place;
            serve(&stream, uid, &home, &shared);
        });
    }
}

/// A place among the connections, given back when dropped.
struct Place {
    crowd: Crowd,
    uid: u32,
}

impl Place {
    fn take(crowd: &Crowd, uid: u32) -> Option<Self> {
        let mut counts = crowd.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = counts.values().sum();
        let own = counts.entry(uid).or_default();
        if all >= MOST || (uid != 0 && *own >= MOST_OF_ONE) {
            return None;
        }
        *own += 1;
        drop(counts);
        Some(Self { crowd: Arc::clone(crowd), uid })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.crowd.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.uid) {
            *count = count.saturating_sub(1);
        }
        counts.retain(|_, count| *count > 0);
    }
}

/// A stream on which every frame must be through by a deadline, however small its pieces.
struct Timed<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
    started: bool,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a UnixStream, patience: Duration) -> Self {
        Self { stream, deadline: Instant::now() + patience, started: false }
    }

    fn left(&self) -> std::io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        let bytes = (&mut &*self.stream).read(into)?;
        if !self.started {
            self.started = true;
            self.deadline = Instant::now() + PATIENCE;
        }
        Ok(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.stream).write(from)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn serve(stream: &UnixStream, uid: u32, home: &Home, shared: &Shared) {
    loop {
        let request = wire::read::<Request>(&mut Timed::new(stream, SILENCE), MAX_REQUEST_BYTES);
        let (answer, goes_on) = match request {
            Ok(Request { version: VERSION, call }) => (answer(&call, uid, home, shared), true),
            Ok(Request { version, .. }) => {
                (error(format!("version {version}; this daemon speaks {VERSION}")), true)
            }
            Err(FrameError::Closed | FrameError::Io(_)) => return,
            Err(FrameError::Json(wrong)) => (error(FrameError::Json(wrong).to_string()), true),
            Err(wrong @ FrameError::TooLong { .. }) => (error(wrong.to_string()), false),
        };
        let response = Response { version: VERSION, answer };
        if wire::write(&mut Timed::new(stream, PATIENCE), &response).is_err() || !goes_on {
            return;
        }
    }
}

fn refuse(stream: UnixStream, why: &str) {
    let response = Response { version: VERSION, answer: error(why.to_owned()) };
    // A new connection has room for it; the thread that accepts must not wait.
    let _ = stream.set_nonblocking(true);
    let _ = wire::write(&mut &stream, &response);
}

fn error(message: String) -> Answer {
    Answer::Error { message }
}

fn answer(call: &Call, uid: u32, home: &Home, shared: &Shared) -> Answer {
    match call {
        Call::Hello => {
            Answer::Hello { pid: std::process::id(), divvy: env!("CARGO_PKG_VERSION").to_owned() }
        }
        Call::List => Answer::List(Box::new(seen(shared, uid, home).view)),
        Call::Metrics => Answer::Metrics { text: metrics::text(&seen(shared, uid, home), shared) },
        Call::Set { tenant, change } => set(&seen(shared, uid, home), uid, tenant, change),
    }
}

/// Changes the limits of the tenant that is `seen` by the name of its directory.
fn set(seen: &Seen, uid: u32, tenant: &str, change: &Change) -> Answer {
    let mut named = seen.view.tenants.iter().filter(|known| known.directory == tenant);
    let Some(known) = named.next() else {
        return error(format!("{tenant:?} is no tenant this daemon serves for uid {uid}"));
    };
    if let Some(reason) = &known.reason {
        let detail = known.detail.as_deref().unwrap_or_default();
        return error(format!("{tenant:?} is not in this daemon's hands: {reason}: {detail}"));
    }
    let hand = seen.hands.iter().find(|hand| hand.path.to_str() == Some(tenant));
    let Some(hand) = hand else { return error(format!("{tenant:?} has just gone")) };
    if uid != 0 && uid != hand.uid {
        return error(format!("{tenant:?} belongs to uid {}; ask as that user", hand.uid));
    }
    match crate::change::make_open(&hand.dir, &hand.owner, &hand.path, change) {
        Ok(made) if hand.has_its_config() => Answer::Done { notes: made.notes },
        Ok(_) => error(format!("{tenant:?} has other limits since a moment; try again")),
        Err(wrong) => error(format!("{wrong:#}")),
    }
}

/// What `uid` may see.
pub(super) fn seen(shared: &Shared, uid: u32, home: &Home) -> Seen {
    let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    seen.view.system = home.is_system();
    if uid != 0 && home.is_system() {
        seen.view.tenants.retain(|tenant| tenant.uid == uid);
        seen.hands.retain(|hand| hand.uid == uid);
        seen.spots.retain(|spot| spot.uid == uid);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_takes_every_place_and_places_come_back() {
        let crowd = Crowd::default();
        let mine: Vec<_> = (0..MOST).map_while(|_| Place::take(&crowd, 7)).collect();
        assert_eq!(mine.len(), MOST_OF_ONE);
        let roots: Vec<_> = (0..MOST).map_while(|_| Place::take(&crowd, 0)).collect();
        assert_eq!(roots.len(), MOST - MOST_OF_ONE);
        drop(mine);
        assert!(Place::take(&crowd, 8).is_some());
        drop(roots);
        assert!(crowd.lock().unwrap().is_empty());
    }

    #[test]
    fn a_frame_in_small_pieces_has_one_deadline() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut slow = Timed { stream: &ours, deadline: Instant::now(), started: true };
        assert!(slow.read(&mut [0; 1]).is_err());
        (&theirs).write_all(&[1, 2]).unwrap();
        let mut first = Timed::new(&ours, Duration::from_secs(9));
        assert_eq!(first.read(&mut [0; 1]).unwrap(), 1);
        assert!(first.deadline <= Instant::now() + PATIENCE);
    }
}
