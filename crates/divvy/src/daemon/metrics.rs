//! `GET /metrics` for a collector, over TCP where `--metrics` names an address.
//!
//! One request a connection, a thread each, and a bound on them: whoever is slow or silent leaves when
//! others come ([`Crowd`]), and has [`PATIENCE`] for all of it, answer included. A request must come in
//! [`MOST_BYTES`]. Only what everybody on the machine may see is served, so name an address that only
//! collectors reach.
//!
//! The page is [`crate::metrics`]'s: written from the tenants' files, which are read anew for it unless
//! that was done within [`FRESH`], and from what the socket shows. The files are those that the daemon
//! has open. The scheduling thread has no part in it. While another process is the daemon of this home,
//! such as one that was started on demand, it is asked for its page.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::client;
use super::crowd::{Crowd, CrowdPlace};
use super::place::DaemonHome;
use super::quota::Quota;
use super::seen::{Seen, Shared, seen};
use super::thread::thread;
use super::timed::Timed;
use crate::machine::gpus;
use crate::metrics::{self, Sources};
use crate::output::out;
use crate::tenants::dir::Dir;
use crate::tenants::ledger;
use crate::wire::{Answer, Call};

const MOST_BYTES: usize = 8192;
/// Connections at once: collectors are few, and often come from one address.
const CONNECTIONS: Quota = Quota { most: 8, most_of_one: 8 };
/// How long a request and its answer may take together.
const PATIENCE: Duration = Duration::from_secs(5);
/// How old a page may be: whoever asks often costs no more for it.
const FRESH: Duration = Duration::from_millis(250);

/// The page in OpenMetrics' text format.
pub(super) fn text(seen: &Seen, shared: &Shared) -> String {
    let mut tenants = Vec::new();
    for hand in &seen.hands {
        tenants.extend(ledger::read_open(&hand.dir, &hand.path));
    }
    // Refused tenants too: what is wrong with their gates need not be wrong with their numbers.
    for spot in &seen.spots {
        let dir = Dir::open(&spot.path).ok();
        let same = dir.filter(|dir| (dir.identity(), dir.uid()) == (spot.identity, spot.uid));
        tenants.extend(same.and_then(|dir| ledger::read_open(&dir, &spot.path).ok()));
    }
    let unreadable = seen.view.tenants.len().saturating_sub(tenants.len());
    if seen.view.system {
        // A tenant may claim any device, and as many as its table has room for.
        for tenant in &mut tenants {
            tenant.devices.retain(|device| gpus::index_of(&device.uuid).is_some());
        }
    }
    shared.steady.lock().unwrap_or_else(PoisonError::into_inner).settle(&mut tenants);
    metrics::text(&Sources { tenants: &tenants, unreadable, view: Some(&seen.view) })
}

/// Where the page comes from.
#[derive(Debug)]
pub(super) struct Page {
    home: DaemonHome,
    shared: Arc<Shared>,
    /// Whether this process is the home's daemon.
    pub(super) is_ours: AtomicBool,
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Page {
    fn text(&self) -> Option<Arc<str>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, page)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(Arc::clone(page));
        }
        let page: Arc<str> = if self.is_ours.load(Relaxed) {
            text(&seen(&self.shared, 0, &self.home), &self.shared).into()
        } else {
            match client::ask(&self.home, Call::Metrics) {
                Ok(Answer::Metrics { text }) => text.into(),
                _ => return None,
            }
        };
        *last = Some((Instant::now(), Arc::clone(&page)));
        Some(page)
    }
}

/// Serves the page on `address`, and says where, since the port may have been left open.
pub(super) fn start(
    address: SocketAddr,
    home: &DaemonHome,
    shared: &Arc<Shared>,
) -> Result<Arc<Page>> {
    let cannot = || format!("--metrics {address}: it cannot be listened on");
    let listener = TcpListener::bind(address).with_context(cannot)?;
    let address = listener.local_addr().with_context(cannot)?;
    out::warn(&format!("metrics are served at http://{address}/metrics"));
    let page = Arc::new(Page {
        home: home.clone(),
        shared: Arc::clone(shared),
        is_ours: AtomicBool::new(false),
        last: Mutex::new(None),
    });
    let served = Arc::clone(&page);
    thread("divvy metrics", move || accept(&listener, &served))?;
    Ok(page)
}

fn accept(listener: &TcpListener, page: &Arc<Page>) {
    let crowd: Arc<Crowd<IpAddr>> = Crowd::new(CONNECTIONS);
    loop {
        let Ok((stream, from)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let stream = Arc::new(stream);
        // Without a place or a thread it is closed, which the collector sees.
        let Some(place) = crowd.enter(from.ip(), Arc::clone(&stream) as _) else { continue };
        let page = Arc::clone(page);
        let _ = thread("divvy collector", move || {
            // A collector's failures are its own.
            let _ = serve(&stream, &place, &page);
        });
    }
}

fn serve(stream: &TcpStream, place: &CrowdPlace<IpAddr>, page: &Page) -> std::io::Result<()> {
    let mut timed = Timed::until(stream, Instant::now() + PATIENCE);
    let mut head = Vec::new();
    let mut chunk = [0_u8; 512];
    let is_whole = |head: &[u8]| head.windows(4).any(|four| four == b"\r\n\r\n");
    while !is_whole(&head) && head.len() < MOST_BYTES {
        let read = timed.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
    let empty = |status: &str| format!("HTTP/1.0 {status}\r\nContent-Length: 0\r\n\r\n");
    let answer = if !is_whole(&head) {
        empty("431 Request Header Fields Too Large")
    } else if !head.starts_with(b"GET /metrics ") {
        empty("404 Not Found")
    } else if let Some(body) = place.answer(|| page.text()) {
        format!(
            "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; \
             charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    } else {
        // Between two daemons.
        empty("503 Service Unavailable")
    };
    timed.write_all(answer.as_bytes())
}
