//! `GET /metrics` for a collector, over TCP where `--metrics` names an address.
//!
//! One request a connection, answered by one thread, one after the other: a collector asks once in
//! some seconds. A request must come within a second and in [`MOST_BYTES`]. Whoever reaches the address is
//! told of all tenants of the daemon, so name one that only collectors reach.
//!
//! The page is [`crate::metrics`]'s: written from the tenants' files, which are read anew for it, and
//! from the [`View`] that the socket shows. The scheduling thread has no part in it. While another
//! process is the daemon of this home, such as one that was started on demand, it is asked for its page.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use super::engine::Shared;
use super::place::Home;
use super::wire::{Answer, Call, View};
use super::{client, server};
use crate::metrics::{self, Sources};
use crate::{ledger, out};

const MOST_BYTES: u64 = 8192;
const PATIENCE: Duration = Duration::from_secs(1);

/// The page in OpenMetrics' text format.
pub(super) fn text(view: &View, shared: &Shared) -> String {
    let mut tenants = Vec::new();
    for known in &view.tenants {
        // Refused tenants too: what is wrong with their gates need not be wrong with their numbers.
        tenants.extend(ledger::read_foreign(Path::new(&known.directory)));
    }
    let unreadable = view.tenants.len().saturating_sub(tenants.len());
    shared.steady.lock().unwrap_or_else(PoisonError::into_inner).settle(&mut tenants);
    metrics::text(&Sources { tenants: &tenants, unreadable, view: Some(view) })
}

/// Where the page comes from.
#[derive(Debug)]
pub(super) struct Page {
    home: Home,
    shared: Arc<Shared>,
    /// Whether this process is the home's daemon.
    pub(super) is_ours: AtomicBool,
}

impl Page {
    fn text(&self) -> Option<String> {
        if self.is_ours.load(Relaxed) {
            return Some(text(&server::view(&self.shared, 0, &self.home), &self.shared));
        }
        match client::ask(&self.home, Call::Metrics) {
            Ok(Answer::Metrics { text }) => Some(text),
            _ => None,
        }
    }
}

/// Serves the page on `address`, and says where, since the port may have been left open.
pub(super) fn start(address: SocketAddr, home: &Home, shared: &Arc<Shared>) -> Result<Arc<Page>> {
    let cannot = || format!("--metrics {address}: it cannot be listened on");
    let listener = TcpListener::bind(address).with_context(cannot)?;
    let address = listener.local_addr().with_context(cannot)?;
    out::warn(&format!("metrics are served at http://{address}/metrics"));
    let (home, shared) = (home.clone(), Arc::clone(shared));
    let page = Arc::new(Page { home, shared, is_ours: AtomicBool::new(false) });
    let served = Arc::clone(&page);
    server::thread("divvy metrics", move || {
        loop {
            match listener.accept() {
                // What goes wrong with a collector is its own.
                Ok((stream, _)) => drop(serve(&stream, &served)),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    })?;
    Ok(page)
}

fn serve(stream: &TcpStream, page: &Page) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut from = stream.take(MOST_BYTES);
    let mut byte = [0_u8; 512];
    while !head.windows(2).any(|two| two == b"\r\n") {
        let read = from.read(&mut byte)?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(byte.get(..read).unwrap_or_default());
    }
    let is_asked = head.starts_with(b"GET /metrics ");
    let answer = match is_asked.then(|| page.text()) {
        Some(Some(body)) => format!(
            "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; \
             charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
        // Between two daemons.
        Some(None) => "HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned(),
        None => "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
    };
    (&mut &*stream).write_all(answer.as_bytes())
}
