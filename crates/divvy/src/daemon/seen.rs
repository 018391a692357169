//! Results of the scheduling thread for the threads that answer, and each user's part of them.
//!
//! Promises: root sees all, and so does the user of his own daemon; of the machine's daemon everybody
//! else sees what is his own.
//!
//! Does not say whom a daemon answers: that is [`super::server`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use super::adopted::Hand;
use super::card_desk::CardDesk;
use super::place::DaemonHome;
use super::refusals_seen::RefusalsSeen;
use super::scan::Spot;
use super::sweeper::TenantDesk;
use crate::log::journal::Journal;
use crate::metrics::Steady;
use crate::wire::View;

/// State that the scheduling thread and the others share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Set to end the daemon.
    pub(super) stop: AtomicBool,
    /// Set while no turns are to be given.
    pub(super) is_off: AtomicBool,
    /// CLOCK_MONOTONIC at the last step of the scheduling thread; 0 before the first.
    pub(super) stepped_ns: AtomicU64,
    /// The daemon's view.
    pub(super) seen: Mutex<Seen>,
    /// The last answer to collectors.
    pub(super) steady: Mutex<Steady>,
    /// Held while the page of metrics is written for a user.
    pub(super) rendering: Mutex<()>,
    /// Requests for tenants by id.
    pub(super) desk: Arc<TenantDesk>,
    /// Requests for the machine's cards.
    pub(super) cards: Arc<CardDesk>,
    /// The log.
    pub(super) journal: Arc<Journal>,
    /// Refusals that are known.
    pub(super) log: RefusalsSeen,
}

/// The daemon's view, and the files it has open for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) view: View,
    /// The tenants that it serves.
    pub(super) hands: Vec<Arc<Hand>>,
    /// Those that it does not.
    pub(super) spots: Vec<Spot>,
}

/// The part that `uid` may see.
pub(super) fn seen(shared: &Shared, uid: u32, home: &DaemonHome) -> Seen {
    let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    seen.view.system = home.is_system();
    let counts = shared.journal.counts();
    (seen.view.refusals, seen.view.limit_changes) = (counts.refusals, counts.changes);
    if uid != 0 && home.is_system() {
        (seen.view.refusals, seen.view.limit_changes) = (BTreeMap::new(), 0);
        seen.view.tenants.retain(|tenant| tenant.uid == uid);
        seen.hands.retain(|hand| hand.uid == uid);
        seen.spots.retain(|spot| spot.uid == uid);
    }
    seen
}
