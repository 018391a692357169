//! Refusals of the tenants that the daemon serves: each look finds those since the last one.
//!
//! Promises: a refusal is told once, whichever thread looks; a tenant that is gone is looked at a last time.
//!
//! Does not say when to look: [`super::log_desk`] does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use divvy_page::reader::UsageFile;
use nix::time::{ClockId, clock_gettime};

use super::adopted::Hand;
use crate::log::change::Subject;
use crate::log::journal::Journal;
use crate::log::refused::{self, RefusalWatch};
use crate::tenants::dir::FileIdentity;

/// Refusals that are known, by tenant.
#[derive(Debug)]
pub(super) struct RefusalsSeen {
    watched: Mutex<BTreeMap<FileIdentity, Watched>>,
    since_ns: u64,
}

#[derive(Debug)]
struct Watched {
    hand: Arc<Hand>,
    usage: Option<UsageFile>,
    watch: RefusalWatch,
}

impl Default for RefusalsSeen {
    /// For a daemon that begins now.
    fn default() -> Self {
        Self { watched: Mutex::default(), since_ns: since_boot_ns() }
    }
}

impl RefusalsSeen {
    /// Looks at a tenant and tells its new refusals.
    pub(super) fn look(&self, hand: &Arc<Hand>, journal: &Journal, is_last: bool) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Watched {
            hand: Arc::clone(hand),
            usage: None,
            watch: RefusalWatch::since(self.since_ns),
        };
        watched.entry(hand.dir.identity()).or_insert_with(new).look(journal, is_last);
    }

    /// Looks a last time at tenants that are no longer among `hands`. Their files are still open here.
    pub(super) fn forget(&self, hands: &[Arc<Hand>], journal: &Journal) {
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
