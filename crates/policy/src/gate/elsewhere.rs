//! State of a tenant's other devices, as their words tell it, and as a thread sees it that waits at the closed gate of
//! one.
//!
//! Promises: a look is some loads for each slot that was ever in use; none of it where the tenant has one device. Does
//! not decide what the state is worth: that is done in `linked`.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::MAX_DEVICES;
use divvy_abi::usage::{SHARED_SLOT, gate, gate_tenant};

use super::driver::Words;
use super::tuning;

/// State of the tenant's other devices.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Elsewhere {
    /// Time until which a cap keeps a device closed that is linked with this one; 0 for none.
    pub(super) closed_until_ns: u64,
    /// True if this device is linked with any.
    pub(super) is_linked: bool,
    /// A number that changes when work in flight that should have ended gets on; 0 while there is no such work.
    pub(super) overdue: u64,
    /// Devices with such work, a bit for each of [`Words::beside`].
    pub(super) devices: u32,
    /// Time to look again while the gate is closed; 0 where there is no other device.
    pub(super) look_ns: u64,
}

/// A device of the tenant, as its words tell.
pub(super) struct Linked<'a, W>(pub(super) &'a W);

impl<W: Words> Linked<'_, W> {
    /// True if its work and another device's have waited for each other of late.
    pub(super) fn is_linked(&self, now_ns: u64) -> bool {
        let linked_ns = self.0.word(SHARED_SLOT, gate_tenant::LINKED_NS).load(Relaxed);
        linked_ns != 0 && now_ns.wrapping_sub(linked_ns) < tuning::LINKED_NS
    }

    /// Counts the device as linked from `now_ns` on.
    pub(super) fn link(&self, now_ns: u64) {
        self.0.word(SHARED_SLOT, gate_tenant::LINKED_NS).store(now_ns, Relaxed);
    }

    /// Returns the device time that was let go there of late and is not paid back.
    pub(super) fn ahead_ns(&self, now_ns: u64) -> u64 {
        let paid_ns = self.0.word(SHARED_SLOT, gate_tenant::AHEAD_NS).load(Relaxed);
        paid_ns.saturating_sub(now_ns) / tuning::PAID_IN
    }

    /// Adds to [`Linked::ahead_ns`]. Of two additions at once one may be lost.
    pub(super) fn add_ahead(&self, ns: u64, now_ns: u64) {
        let word = self.0.word(SHARED_SLOT, gate_tenant::AHEAD_NS);
        let paid_ns = word.load(Relaxed).max(now_ns);
        word.store(paid_ns.saturating_add(ns.saturating_mul(tuning::PAID_IN)), Relaxed);
    }

    /// Notes that work on it should have ended.
    pub(super) fn note_late(&self, now_ns: u64) {
        self.0.word(SHARED_SLOT, gate_tenant::LATE_NS).store(now_ns, Relaxed);
    }

    #[inline(never)]
    fn look(&self, now_ns: u64) -> Look {
        let mut seen = Look::default();
        let late_ns = self.0.word(SHARED_SLOT, gate_tenant::LATE_NS).load(Relaxed);
        let is_late = now_ns.saturating_sub(late_ns) < tuning::LATE_SAID_NS;
        for slot in 1..self.0.slots_high().min(tuning::LOOKED_AT) {
            let word = |word| self.0.word(slot, word).load(Relaxed);
            let [busy_ns, launched_ns] = [gate::BUSY_UNTIL_NS, gate::LAST_LAUNCH_NS].map(word);
            seen.is_attended |= busy_ns.saturating_add(tuning::ATTENDED_NS) > now_ns;
            let is_overdue = busy_ns <= now_ns;
            // A process that sleeps for work publishes nothing more of it; neither does one that was killed.
            let may_sleep = || now_ns.saturating_sub(launched_ns) < tuning::ASLEEP_NS;
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
            true if self.is_linked => tuning::LINKED_LOOK_NS,
            true => tuning::BUSY_LOOK_NS,
            false if seen.is_attended => tuning::IDLE_LOOK_NS,
            false => tuning::AWAY_LOOK_NS,
        };
        let look_ns = now_ns.saturating_add(look_ns);
        self.look_ns = if self.look_ns == 0 { look_ns } else { self.look_ns.min(look_ns) };
    }
}
