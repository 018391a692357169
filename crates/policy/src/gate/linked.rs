//! Linked devices of a tenant: their work waits for one another's, as that of a job's ranks does.
//!
//! A sum over all devices ends on none of them before it has begun on all. Where a cap or a turn closes a device whose
//! part has not been launched yet, the others spin for as long as that is closed, and are charged for it: two ranks
//! under 40 % got 23 (two H100, `bench/results`). So one more launch is let go where the gate is closed, nothing is in
//! flight, and work of the tenant on another device has gone on for [`UNSHOWN_NS`] after it should have ended: it may
//! wait for this very launch. If it gets on then, the devices count as linked for a while, and [`STUCK_NS`] are enough.
//! The caps of linked devices are closed as one, while any is, and save up more, so that they close more rarely.
//!
//! Promises: a launch that is let go is charged as all are, and only while the cap is owed no more than [`AHEAD_NS`],
//! so that its account is exact but for that and a launch. At most a fifth of the device's time is let go in the long
//! run, independent of the tenant's processes, and the owner sees it as work of a closed tenant. A tenant of one device
//! pays a load.
//!
//! Does not see work that has no thread at its gate or asleep in the driver: one thread that launches on all devices by
//! turns is seen waiting on none of them.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::MAX_DEVICES;
use divvy_abi::usage::{SHARED_SLOT, gate, gate_tenant};

use super::ahead::Ahead;
use super::driver::{LOOKED_AT, Words};
use super::elsewhere::Elsewhere;
use super::lane::Lane;
use super::world::World;
use crate::pace::Cap;

/// Device time that may be let go through a closed gate and not be paid back, which takes so many times as long in wall
/// time: some steps of a job, since each device may be as far ahead as its program lets it. A cap's debt may be as
/// large then.
const AHEAD_NS: u64 = 20_000_000;
const PAID_IN: u64 = 5;
/// Time after its expected end from which work counts as waiting for something.
const STUCK_NS: u64 = 200_000;
/// The bound for work not yet shown to wait for another device's, and where rivals may use the device, the gate having
/// closed [`SOON_NS`] ago: their slices make everything take longer.
const UNSHOWN_NS: u64 = 2_000_000;
const SOON_NS: u64 = 5_000_000;
/// Longest time between two looks of a thread that waits for such work and says so; and age up to which that counts.
pub(super) const LATE_LOOK_NS: u64 = 200_000;
const LATE_NS: u64 = 1_000_000;
/// Time for which devices count as linked after their work has shown it.
const LINKED_NS: u64 = 30_000_000_000;
/// Savings of linked devices' caps, in device time: a closed one costs the others' wait for it.
pub(super) const LINKED_QUANTUM_NS: u64 = 40_000_000;
/// Time between two looks at other devices: while they are linked and work, while they work, while they wait, and else.
const LOOK_NS: u64 = 100_000;
const BUSY_LOOK_NS: u64 = 500_000;
const IDLE_LOOK_NS: u64 = 2_000_000;
const AWAY_LOOK_NS: u64 = 20_000_000;
/// Longest time between two announcements of a thread that waits at the gate.
const ATTENDED_NS: u64 = 10_000_000;
/// Time after its last launch from which a process's sleep is not for that launch, or the process is no more.
const ASLEEP_NS: u64 = 1_000_000_000;

/// A device of the tenant, as its words tell.
pub(super) struct Linked<'a, W>(pub(super) &'a W);

impl<W: Words> Linked<'_, W> {
    /// True if its work and another device's have waited for each other of late.
    pub(super) fn is_linked(&self, now_ns: u64) -> bool {
        let linked_ns = self.0.word(SHARED_SLOT, gate_tenant::LINKED_NS).load(Relaxed);
        linked_ns != 0 && now_ns.wrapping_sub(linked_ns) < LINKED_NS
    }

    /// Counts the device as linked from `now_ns` on.
    pub(super) fn link(&self, now_ns: u64) {
        self.0.word(SHARED_SLOT, gate_tenant::LINKED_NS).store(now_ns, Relaxed);
    }

    /// Returns the device time that was let go there of late and is not paid back.
    pub(super) fn ahead_ns(&self, now_ns: u64) -> u64 {
        let paid_ns = self.0.word(SHARED_SLOT, gate_tenant::AHEAD_NS).load(Relaxed);
        paid_ns.saturating_sub(now_ns) / PAID_IN
    }

    /// Adds to [`Linked::ahead_ns`]. Of two additions at once one may be lost.
    pub(super) fn add_ahead(&self, ns: u64, now_ns: u64) {
        let word = self.0.word(SHARED_SLOT, gate_tenant::AHEAD_NS);
        let paid_ns = word.load(Relaxed).max(now_ns);
        word.store(paid_ns.saturating_add(ns.saturating_mul(PAID_IN)), Relaxed);
    }

    /// Notes that work on it should have ended.
    pub(super) fn note_late(&self, now_ns: u64) {
        self.0.word(SHARED_SLOT, gate_tenant::LATE_NS).store(now_ns, Relaxed);
    }

    #[inline(never)]
    fn look(&self, now_ns: u64) -> Look {
        let mut seen = Look::default();
        let late_ns = self.0.word(SHARED_SLOT, gate_tenant::LATE_NS).load(Relaxed);
        let is_late = now_ns.saturating_sub(late_ns) < LATE_NS;
        for slot in 1..self.0.slots_high().min(LOOKED_AT) {
            let word = |word| self.0.word(slot, word).load(Relaxed);
            let [busy_ns, launched_ns] = [gate::BUSY_UNTIL_NS, gate::LAST_LAUNCH_NS].map(word);
            seen.is_attended |= busy_ns.saturating_add(ATTENDED_NS) > now_ns;
            let is_overdue = busy_ns <= now_ns;
            // A process that sleeps for work publishes nothing more of it; neither does one that was killed.
            let may_sleep = || now_ns.saturating_sub(launched_ns) < ASLEEP_NS;
            if is_overdue && (word(gate::SLEEPERS) == 0 || !may_sleep()) {
                continue;
            }
            seen.works = true;
            // A thread that waits at the gate for such work says so at each look.
            if is_late || is_overdue {
                let gets_on = launched_ns.wrapping_add(word(gate::USED_NS));
                seen.overdue = seen.overdue.wrapping_add(gets_on.max(1));
            }
        }
        seen
    }
}

/// State of one device.
#[derive(Default)]
struct Look {
    works: bool,
    /// True if a thread works or waits there.
    is_attended: bool,
    /// Part of [`Elsewhere::overdue`].
    overdue: u64,
}

impl Elsewhere {
    /// Adds the `nth` device.
    #[inline(never)]
    pub(super) fn add<W: Words>(&mut self, nth: usize, of: &Linked<'_, W>, now_ns: u64) {
        let seen = of.look(now_ns);
        // A closed cap without a waiter binds no other device.
        if self.is_linked && seen.is_attended && of.is_linked(now_ns) {
            self.closed_until_ns = self.closed_until_ns.max(of.0.closed_until_ns());
        }
        self.overdue = self.overdue.wrapping_add(seen.overdue);
        self.devices |= u32::from(seen.overdue != 0) << (nth % MAX_DEVICES);
        let look_ns = match seen.works {
            true if self.is_linked => LOOK_NS,
            true => BUSY_LOOK_NS,
            false if seen.is_attended => IDLE_LOOK_NS,
            false => AWAY_LOOK_NS,
        };
        let look_ns = now_ns.saturating_add(look_ns);
        self.look_ns = if self.look_ns == 0 { look_ns } else { self.look_ns.min(look_ns) };
    }
}

impl Lane {
    /// True if another device's work may wait for a launch here, with so much submitted and the gate closed.
    #[inline(never)]
    pub(super) fn is_waited_for<W: World>(
        &self,
        world: &W,
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
                world.link(devices.load(Relaxed), now_ns);
            }
        }
        devices.store(seen.devices, Relaxed);
        let is_soon = !has_rivals || now_ns.saturating_sub(from_ns.load(Relaxed)) < SOON_NS;
        let stuck_ns = if seen.is_linked && is_soon { STUCK_NS } else { UNSHOWN_NS };
        seen.overdue != 0
            && now_ns.saturating_sub(since_ns.load(Relaxed)) >= stuck_ns
            && !cap.is_some_and(|cap| cap.owes_more(world.clock(), now_ns, AHEAD_NS))
            && world.ahead_ns(now_ns) < AHEAD_NS
            && self.pending(now_ns) == 0
            && self.in_flight_ns(now_ns, submitted_ns) == 0
    }
}
