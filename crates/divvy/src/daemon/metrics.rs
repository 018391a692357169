//! `GET /metrics` for a collector, over TCP where `--metrics` names an address.
//!
//! One request a connection, answered by one thread, one after the other: a collector asks once in
//! some seconds. A request must come within a second and in [`MOST_BYTES`]. Only what everybody on the
//! machine may see is served, so name an address that only collectors reach.
//!
//! The page is [`crate::metrics`]'s: written from the tenants' files, which are read anew for it, and
//! from what the socket shows. The files are those that the daemon has open. The scheduling thread has no part in it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use super::engine::{Seen, Shared};
use super::place::Home;
use super::server;
use crate::dir::Dir;
use crate::metrics::{self, Sources};
use crate::{gpus, ledger};

const MOST_BYTES: u64 = 8192;
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Serves the page on `address`.
pub(super) fn start(address: SocketAddr, home: &Home, shared: &Arc<Shared>) -> Result<()> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("--metrics {address}: it cannot be listened on"))?;
    let (home, shared) = (home.clone(), Arc::clone(shared));
    server::thread("divvy metrics", move || {
        loop {
            match listener.accept() {
                // What goes wrong with a collector is its own.
                Ok((stream, _)) => drop(serve(&stream, &shared, &home)),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    })
}

fn serve(stream: &TcpStream, shared: &Shared, home: &Home) -> std::io::Result<()> {
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
    let answer = if head.starts_with(b"GET /metrics ") {
        let body = text(&server::seen(shared, 0, home), shared);
        format!(
            "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; \
             charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    } else {
        "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()
    };
    (&mut &*stream).write_all(answer.as_bytes())
}
