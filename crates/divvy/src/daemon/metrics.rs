//! The page of a daemon's metrics, for whoever asks for it.
//!
//! It is [`crate::metrics`]'s: written from the tenants' files, which are read again for it unless that was done within
//! [`FRESH`], and from what the socket shows. The files are those that the daemon has open. The scheduling thread has no
//! part in it. While another process is the daemon of this home, such as one that was started on demand, it is
//! asked for its page.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::client;
use super::health::Health;
use super::place::DaemonHome;
use super::seen::{Seen, Shared, seen};
use crate::machine::gpus;
use crate::metrics::format::{TextFormat, as_plain};
use crate::metrics::{self, Sources};
use crate::tenants::dir::Dir;
use crate::tenants::ledger;
use crate::wire::{Answer, Call};

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

/// A page that was made, in both formats.
#[derive(Debug)]
struct MadePage {
    at: Instant,
    open: Arc<str>,
    plain: Arc<str>,
}

/// Where the page comes from, and what is said of the daemon's health.
#[derive(Debug)]
pub(super) struct Page {
    home: DaemonHome,
    shared: Arc<Shared>,
    /// Whether this process is the home's daemon.
    pub(super) is_ours: AtomicBool,
    last: Mutex<Option<MadePage>>,
}

impl Page {
    pub(super) fn new(home: &DaemonHome, shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            home: home.clone(),
            shared: Arc::clone(shared),
            is_ours: AtomicBool::new(false),
            last: Mutex::new(None),
        })
    }

    /// The page; `None` between two daemons. Reads files, or waits for another daemon's answer.
    pub(super) fn text(&self, format: TextFormat) -> Option<Arc<str>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|made| made.at.elapsed() >= FRESH) {
            let open = self.made()?;
            let plain = as_plain(&open).into();
            *last = Some(MadePage { at: Instant::now(), open: open.into(), plain });
        }
        last.as_ref().map(|made| match format {
            TextFormat::Open => Arc::clone(&made.open),
            TextFormat::Plain => Arc::clone(&made.plain),
        })
    }

    fn made(&self) -> Option<String> {
        if self.is_ours.load(Relaxed) {
            return Some(text(&seen(&self.shared, 0, &self.home), &self.shared));
        }
        match client::ask(&self.home, Call::Metrics) {
            Ok(Answer::Metrics { text }) => Some(text),
            _ => None,
        }
    }

    /// Whether this process gives turns; `None` where it stands by for another.
    pub(super) fn own_health(&self) -> Option<Health> {
        self.is_ours.load(Relaxed).then(|| Health::of_own(self.shared.stepped_ns.load(Relaxed)))
    }

    /// Whether the daemon does for which this process stands by. Waits for its answer.
    pub(super) fn others_health(&self) -> Health {
        match client::ask(&self.home, Call::List) {
            Ok(Answer::List(view)) => Health::of_other(view.pid, view.seen_ns),
            Ok(_) => Health::of_none("the daemon answered something else".to_owned()),
            Err(error) => Health::of_none(format!("no daemon answers: {error:#}")),
        }
    }
}
