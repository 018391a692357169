//! Order of the tenants that do not run: by their next turn.
//!
//! Promises: a total order at any time; the first is the next to run, the last the first victim. By virtual time, unless
//! that made an older waiter wait too long: then by age. Does not change anything.

use core::cmp::Ordering;

use super::holder::HolderState;
use super::view::Step;

/// Place in the order; less is sooner.
pub(super) type Key = (Class, u64, u64, usize);

/// Kinds of tenants, in the order of their next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Waits,
    Rests,
    PinnedOut,
    Larger,
    Frozen,
}

impl Step<'_> {
    /// Whether a tenant could be in the running set at all.
    pub(super) fn may_run(&self, holder: &HolderState) -> bool {
        holder.is_present()
            && !holder.frozen
            && !holder.bypassed
            && holder.size_bytes <= self.left_bytes
    }

    /// Place of a tenant that is not in the running set, or is there as a filler; `None` for others and for those
    /// bypassed, which keep what they have.
    pub(super) fn key(&self, row: usize) -> Option<Key> {
        let holder = self.rows.get(row)?;
        if !holder.is_present() || holder.bypassed || holder.member.is_some_and(|m| !m.filler) {
            return None;
        }
        // The one that rests for the shortest time is the soonest to come back, as far as is known.
        let rested = u64::MAX - holder.active_ns;
        let class = if holder.frozen {
            Class::Frozen
        } else if holder.size_bytes > self.room.capacity_bytes {
            Class::Larger
        } else if holder.size_bytes > self.left_bytes {
            Class::PinnedOut
        } else if holder.waits_since_ns == 0 {
            return Some((Class::Rests, rested, 0, row));
        } else {
            let since_ns = holder.waits_since_ns;
            let first = if self.by_age { since_ns } else { holder.virtual_ns / self.grain_ns };
            return Some((Class::Waits, first, since_ns, row));
        };
        Some((class, rested, 0, row))
    }

    /// The first tenant in the order after a place.
    pub(super) fn following(&self, after: Option<Key>) -> Option<Key> {
        let keys = (0..self.rows.len()).filter_map(|row| self.key(row));
        keys.filter(|key| after.is_none_or(|after| *key > after)).min()
    }

    /// The first waiter after a place.
    pub(super) fn next_waiter(&self, after: Option<Key>) -> Option<Key> {
        self.following(after).filter(|key| key.0 == Class::Waits)
    }

    /// Those of the running set that have turns of their own, and work.
    fn running(&self) -> impl Iterator<Item = &HolderState> {
        let own = |h: &HolderState| h.active && h.member.is_some_and(|m| !m.filler);
        self.members().map(|(_, h)| h).filter(move |h| own(h))
    }

    /// Time until all turns that run are over.
    pub(super) fn running_ns(&self) -> u64 {
        let runs = self.running();
        let rest_ns = |h: &HolderState| {
            let ran_ns = h.member.map_or(0, |m| m.ran_ns(self.now_ns));
            self.quantum_ns(h).saturating_sub(ran_ns)
        };
        runs.map(rest_ns).max().unwrap_or(0)
    }

    /// Whether the order by virtual time would make a waiter wait longer than it may: each waits for the turns that
    /// run, for those of older waiters, and for one more of a tenant that may go before it.
    pub(super) fn is_hurried(&self) -> bool {
        let turn_ns = |h: &HolderState| self.quantum_ns(h).saturating_add(self.state.cost_ns);
        let waits = |h: &&HolderState| h.waits_since_ns != 0 && self.may_run(h);
        let running_ns = self.running_ns();
        let again_ns = self.running().map(turn_ns).max().unwrap_or(0);
        self.rows.iter().filter(waits).any(|holder| {
            let age_ns = self.now_ns.saturating_sub(holder.waits_since_ns);
            let others = self.rows.iter().filter(waits);
            let (older_ns, ahead_ns) = others.fold((0_u64, again_ns), |(older, ahead), other| {
                match other.waits_since_ns.cmp(&holder.waits_since_ns) {
                    Ordering::Less => (older.saturating_add(turn_ns(other)), ahead),
                    Ordering::Greater => (older, ahead.max(turn_ns(other))),
                    Ordering::Equal => (older, ahead),
                }
            });
            let needed_ns = running_ns.saturating_add(older_ns).saturating_add(ahead_ns);
            age_ns.saturating_add(needed_ns) > self.tuning.max_wait_ns
        })
    }
}
