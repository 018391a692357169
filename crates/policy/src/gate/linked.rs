//! Linked devices of a tenant: their work waits for one another's, as that of a job's ranks does.
//!
//! A sum over all devices ends on none of them before it has begun on all. Where a cap or a turn closes a device whose
//! part has not been launched yet, the others spin for as long as that is closed, and are charged for it: two ranks
//! under 40 % got 23 (two H100, `bench/results`). So one more launch is let go where the gate is closed, nothing is in
//! flight, and work of the tenant on another device has gone on for [`tuning::UNSHOWN_NS`] after it should have ended:
//! it may wait for this very launch. If it gets on then, the devices count as linked for a while, and
//! [`tuning::LINKED_STUCK_NS`] are enough. The caps of linked devices are closed as one, while any is, and save up
//! more, so that they close more rarely.
//!
//! Promises: a launch that is let go is charged as all are, and only while the cap is owed no more than
//! [`tuning::AHEAD_NS`], so that its account is exact but for that and a launch. At most a fifth of the device's time
//! is let go in the long run, independent of the tenant's processes, and the owner sees it as work of a closed tenant.
//! It counts for no less than a tenth of a millisecond: many small launches are no way around the limit. A tenant of
//! one device pays a load.
//!
//! Does not see work that has no thread at its gate or asleep in the driver: one thread that launches on all devices by
//! turns is seen waiting on none of them.

use core::sync::atomic::Ordering::Relaxed;

use super::ahead::Ahead;
use super::driver::Driver;
use super::elsewhere::{Elsewhere, Linked};
use super::here::Here;
use super::lane::Lane;
use super::tuning;
use crate::pace::Cap;

impl Lane {
    /// True if another device's work may wait for a launch here, with so much submitted and the gate closed.
    #[inline(never)]
    pub(super) fn is_waited_for<D: Driver>(
        &self,
        here: &Here<'_, D>,
        (seen, cap, has_rivals): (Elsewhere, Option<Cap>, bool),
        submitted_ns: u64,
        now_ns: u64,
    ) -> bool {
        let Ahead { from_ns, overdue, devices, since_ns, shows_until_ns } = &self.ahead;
        if from_ns.load(Relaxed) == 0 {
            from_ns.store(now_ns, Relaxed);
        }
        if overdue.swap(seen.overdue, Relaxed) != seen.overdue {
            since_ns.store(now_ns, Relaxed);
            if shows_until_ns.swap(0, Relaxed) > now_ns && !seen.is_linked {
                here.link(devices.load(Relaxed), now_ns);
            }
        }
        devices.store(seen.devices, Relaxed);
        let is_soon =
            !has_rivals || now_ns.saturating_sub(from_ns.load(Relaxed)) < tuning::CLOSED_SOON_NS;
        let stuck_ns =
            if seen.is_linked && is_soon { tuning::LINKED_STUCK_NS } else { tuning::UNSHOWN_NS };
        seen.overdue != 0
            && now_ns.saturating_sub(since_ns.load(Relaxed)) >= stuck_ns
            && !cap.is_some_and(|cap| cap.owes_more(&here.words, now_ns, tuning::AHEAD_NS))
            && Linked(&here.words).ahead_ns(now_ns) < tuning::AHEAD_NS
            && self.pending(now_ns) == 0
            && self.in_flight_ns(now_ns, submitted_ns) == 0
    }

    /// Notes that a launch of `ns` is let go.
    #[cold]
    pub(super) fn let_go<D: Driver>(&self, here: &Here<'_, D>, ns: u64, now_ns: u64) {
        Linked(&here.words).add_ahead(ns.max(tuning::LET_GO_LEAST_NS), now_ns);
        let shows_until_ns = now_ns.saturating_add(ns).saturating_add(tuning::SHOWS_NS);
        self.ahead.shows_until_ns.store(shows_until_ns, Relaxed);
    }
}
