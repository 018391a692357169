//! Devices of a tenant whose work waits for one another's, as that of a job's ranks does.
//!
//! A sum over all devices ends on none of them before it has begun on all. Where a cap or a turn closes a device whose
//! part has not been launched yet, the others spin for as long as that is closed, and are charged for it: two ranks
//! under 40 % got 23 (two H100, `bench/results`). So one more launch is let go where the gate is closed, nothing is in
//! flight, and work of the tenant on another device goes on [`STUCK_NS`] after it should have ended: it may wait for
//! this very launch. From then on the devices count as linked for a while. The caps of linked devices are closed as
//! one, while any is, and save up more, so that they close more rarely.
//!
//! Promises: what is let go is charged as all is, so a cap's account stays exact; of it there is [`AHEAD_NS`] at most,
//! and a launch, in [`AGAIN_NS`] or until the gate has been open again. A tenant of one device pays a load.
//!
//! Does not see work that has no thread at its gate or asleep in the driver: one thread that launches on all devices
//! by turns is seen waiting on none of them.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::MAX_DEVICES;
use divvy_abi::usage::{SHARED_SLOT, gate, gate_tenant};

use super::driver::{LOOKED_AT, Words};
use super::lane::Lane;
use super::world::World;
use crate::atomic::{AtomicU32, AtomicU64};

/// Device time that is let go through a closed gate in [`AGAIN_NS`]: some steps of a job, since each device may be as far
/// ahead as its program lets it.
const AHEAD_NS: u64 = 20_000_000;
const AGAIN_NS: u64 = 100_000_000;
/// A launch counts as so much of it, at least.
const LEAST_NS: u64 = 100_000;
/// Work that goes on for so long after it should have ended waits for something.
const STUCK_NS: u64 = 200_000;
/// It has to for so long where nothing has shown yet that it waits for another device's, and where others may use the
/// device since the gate was closed some time ago: their slices make everything take longer.
const UNSHOWN_NS: u64 = 2_000_000;
const SOON_NS: u64 = 5_000_000;
/// What gets on so soon after what was let go should have ended, and has not before, has waited for that.
const SHOWS_NS: u64 = 500_000;
/// Who waits for such work says so at least that often.
const LATE_NS: u64 = 500_000;
/// For so long after it has shown devices count as linked.
const LINKED_NS: u64 = 30_000_000_000;
/// What the caps of linked devices save up, in device time: a closed one costs what the others wait for it.
pub(super) const LINKED_QUANTUM_NS: u64 = 40_000_000;
/// Time between two looks at other devices, while they work and while they do not.
const LOOK_NS: u64 = 100_000;
const IDLE_LOOK_NS: u64 = 2_000_000;

/// What the tenant's other devices show.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Until when a cap keeps one closed that is linked with this one; 0 for none.
    pub closed_until_ns: u64,
    /// Whether this one is linked with any.
    pub is_linked: bool,
    /// Work is in flight that should have ended: a number that is another one when it gets on. 0 for none.
    pub overdue: u64,
    /// On which devices, a bit for each of [`Words::beside`].
    pub devices: u32,
    /// When to look again while the gate is closed; 0 where there is no other device.
    pub look_ns: u64,
}

/// A device of the tenant, as its words say.
pub(super) struct Linked<'a, W>(pub(super) &'a W);

impl<W: Words> Linked<'_, W> {
    /// Whether its work and another device's have waited for each other of late.
    pub(super) fn is_linked(&self, now_ns: u64) -> bool {
        let linked_ns = self.0.word(SHARED_SLOT, gate_tenant::LINKED_NS).load(Relaxed);
        now_ns.wrapping_sub(linked_ns) < LINKED_NS
    }

    /// Notes that they have.
    pub(super) fn link(&self, now_ns: u64) {
        self.0.word(SHARED_SLOT, gate_tenant::LINKED_NS).store(now_ns, Relaxed);
    }

    /// Notes that work on it should have ended.
    pub(super) fn note_late(&self, now_ns: u64) {
        self.0.word(SHARED_SLOT, gate_tenant::LATE_NS).store(now_ns, Relaxed);
    }

    /// Whether it works, and [`Elsewhere::overdue`] of it.
    #[inline(never)]
    fn overdue(&self, now_ns: u64) -> (bool, u64) {
        let (mut works, mut overdue) = (false, 0_u64);
        let late_ns = self.0.word(SHARED_SLOT, gate_tenant::LATE_NS).load(Relaxed);
        let is_late = now_ns.saturating_sub(late_ns) < LATE_NS;
        for slot in 1..self.0.slots_high().min(LOOKED_AT) {
            let word = |word| self.0.word(slot, word).load(Relaxed);
            let is_overdue = word(gate::BUSY_UNTIL_NS) <= now_ns;
            // Who sleeps for work says no more of it, however long it takes.
            if is_overdue && word(gate::SLEEPERS) == 0 {
                continue;
            }
            works = true;
            // Who waits for it at the gate says so at each look.
            if is_late || is_overdue {
                let gets_on = word(gate::LAST_LAUNCH_NS).wrapping_add(word(gate::USED_NS));
                overdue = overdue.wrapping_add(gets_on.max(1));
            }
        }
        (works, overdue)
    }
}

impl Elsewhere {
    /// Adds the `nth` device.
    #[inline(never)]
    pub(super) fn add<W: Words>(&mut self, nth: usize, of: &Linked<'_, W>, now_ns: u64) {
        if self.is_linked && of.is_linked(now_ns) {
            self.closed_until_ns = self.closed_until_ns.max(of.0.closed_until_ns());
        }
        let (works, overdue) = of.overdue(now_ns);
        self.overdue = self.overdue.wrapping_add(overdue);
        self.devices |= u32::from(overdue != 0) << (nth % MAX_DEVICES);
        let look_ns = now_ns.saturating_add(if works { LOOK_NS } else { IDLE_LOOK_NS });
        self.look_ns = if self.look_ns == 0 { look_ns } else { self.look_ns.min(look_ns) };
    }
}

/// How often a lane has let launches go through its closed gate.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Device time since then, or since the gate was open.
    ns: AtomicU64,
    from_ns: AtomicU64,
    /// [`Elsewhere::overdue`] as it was seen last, on which devices, and since when it is that.
    overdue: AtomicU64,
    devices: AtomicU32,
    since_ns: AtomicU64,
    /// Until when that it gets on shows that it has waited for what was let go.
    shows_until_ns: AtomicU64,
}

impl Ahead {
    pub(super) const fn new() -> Self {
        let [ns, from_ns, overdue, since_ns, shows_until_ns] = [const { AtomicU64::new(0) }; 5];
        Self { ns, from_ns, overdue, devices: AtomicU32::new(0), since_ns, shows_until_ns }
    }

    /// The gate is open.
    pub(super) fn is_over(&self) {
        if self.from_ns.load(Relaxed) != 0 {
            self.from_ns.store(0, Relaxed);
        }
    }

    /// A launch of so much was let go.
    pub(super) fn went(&self, ns: u64, now_ns: u64) {
        self.ns.fetch_add(ns.max(LEAST_NS), Relaxed);
        let shows_until_ns = now_ns.saturating_add(ns).saturating_add(SHOWS_NS);
        self.shows_until_ns.store(shows_until_ns, Relaxed);
    }
}

impl Lane {
    /// Whether another device's work may wait for a launch here, where so much was submitted and the gate is closed.
    #[inline(never)]
    pub(super) fn is_waited_for<W: World>(
        &self,
        world: &W,
        (seen, has_rivals): (Elsewhere, bool),
        submitted_ns: u64,
        now_ns: u64,
    ) -> bool {
        let Ahead { ns, from_ns, overdue, devices, since_ns, shows_until_ns } = &self.ahead;
        if now_ns.saturating_sub(from_ns.load(Relaxed)) >= AGAIN_NS {
            from_ns.store(now_ns, Relaxed);
            ns.store(0, Relaxed);
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
            && ns.load(Relaxed) < AHEAD_NS
            && self.ring.pending() == 0
            && self.in_flight_ns(now_ns, submitted_ns) == 0
    }
}
