//! The running set: tenants whose sizes fit together and who may run now; turns begin and end here.
//!
//! Promises: the sizes of the set never exceed the capacity that pinned bytes leave. A turn ends only for a waiter that
//! fits by it. A waiter that cannot fit yet is not passed for longer than the turns that run. Does not set ceilings.

use super::holder::{HolderState, Watch, time_of};
use super::member::Member;
use super::quantum::scale;
use super::queue::Key;
use super::view::Step;

/// Part of the longest wait by which a turn may be longer than its quantum.
const LONGER_PART: u64 = 4;

impl Step<'_> {
    /// All tenants fit: all are in the set, and no turn ends.
    pub(super) fn admit_all(&mut self) {
        for holder in self.rows.iter_mut().filter(|h| h.is_present() && !h.frozen) {
            holder.bypassed = false;
            holder.waits_since_ns = 0;
            let resident_since_ns = holder.member.map_or(0, |m| m.resident_since_ns);
            holder.member = Some(Member {
                filler: false,
                granted_bytes: holder.size_bytes,
                resident_since_ns,
                ..Member::default()
            });
        }
        for row in 0..self.rows.len() {
            if self.rows.get(row).is_some_and(|h| h.frozen) {
                self.end_turn(row);
            }
        }
    }

    /// Decides the set under pressure.
    pub(super) fn admit_by_turns(&mut self) {
        for row in 0..self.rows.len() {
            let Some(holder) = self.rows.get(row) else { continue };
            let Some(member) = holder.member.filter(|_| !holder.bypassed) else { continue };
            // One whose turn came stays until it is resident: a program that wants in bursts would have its memory
            // start in and out with each.
            let came_by_itself = member.resident_since_ns == 0 && member.granted_ns == 0;
            if !self.may_run(holder) || came_by_itself && !holder.active {
                self.end_turn(row);
            } else if holder.watch == Watch::Rises && holder.late_ns >= self.tuning.patience_ns {
                self.lose_turn(row);
            }
        }
        self.shrink();
        let mut head = None;
        let mut place = None;
        while let Some(key) = self.next_waiter(place) {
            place = Some(key);
            let (.., row) = key;
            if self.rows.get(row).is_some_and(|h| h.member.is_some()) {
                if head.is_none() {
                    self.promote(row);
                }
            } else if self.fits_beside(row) {
                if head.is_none() || self.is_affordable(row) {
                    self.grant(row, head.is_some());
                }
            } else if head.is_none() {
                match self.make_room(row) {
                    true => self.grant(row, false),
                    false => head = Some(row),
                }
            }
        }
    }

    /// The running set, without those that run in place.
    pub(super) fn members(&self) -> impl Iterator<Item = (usize, &HolderState)> {
        self.rows.iter().enumerate().filter(|(_, h)| h.member.is_some() && !h.bypassed)
    }

    /// Sum of the sizes of the set, those that leave taken off.
    pub(super) fn set_bytes(&self) -> u64 {
        let sizes = self.members().filter(|(_, h)| !h.leaving).map(|(_, h)| h.size_bytes);
        sizes.fold(0, u64::saturating_add)
    }

    fn fits_beside(&self, row: usize) -> bool {
        let size_bytes = self.rows.get(row).map_or(0, |h| h.size_bytes);
        let fits = self.set_bytes().saturating_add(size_bytes) <= self.left_bytes;
        fits && (self.tuning.together || size_bytes == 0 || self.set_bytes() == 0)
    }

    /// Whether a tenant may fill room beside a waiter that cannot have it yet: it takes nothing from others that wait, or
    /// the turns that run last long enough to pay for its movement.
    fn is_affordable(&self, row: usize) -> bool {
        let away_bytes =
            self.rows.get(row).map_or(0, |h| h.size_bytes.saturating_sub(h.resident_bytes));
        let move_ns = time_of(away_bytes, self.rate_bytes_per_s());
        let paid_ns = scale(self.running_ns(), self.tuning.overhead_ppm, 1_000_000);
        if move_ns <= paid_ns {
            return true;
        }
        let waiting = (0..self.rows.len()).filter(|other| *other != row);
        let kept = waiting.fold(self.set_bytes(), |sum, other| match self.rows.get(other) {
            Some(h) if h.member.is_none() && h.waits_since_ns != 0 && self.may_run(h) => {
                sum.saturating_add(h.resident_bytes)
            }
            _ => sum,
        });
        let size_bytes = self.rows.get(row).map_or(0, |h| h.size_bytes);
        kept.saturating_add(size_bytes) <= self.left_bytes
    }

    /// Takes tenants out of the set until it fits: one has allocated, or the capacity has fallen.
    fn shrink(&mut self) {
        let has_bytes = |(_, h): &(usize, &HolderState)| h.size_bytes > 0;
        while self.set_bytes() > self.left_bytes
            || !self.tuning.together && self.members().filter(has_bytes).count() > 1
        {
            let Some(row) = self.worst(|h| h.size_bytes > 0) else { return };
            self.end_turn(row);
        }
    }

    /// The member that goes first: one that is idle, a filler, one that has grown, one far ahead.
    fn worst(&self, may_go: impl Fn(&HolderState) -> bool) -> Option<usize> {
        let candidates = self.members().filter(|(_, h)| !h.leaving && may_go(h));
        let rank = |row: usize, h: &HolderState| {
            let member = h.member.unwrap_or_default();
            let grew = h.size_bytes > member.granted_bytes;
            (!h.active, member.filler, grew, h.virtual_ns, row)
        };
        candidates.max_by_key(|(row, h)| rank(*row, h)).map(|(row, _)| row)
    }

    /// Ends turns so that a waiter fits, if enough of them are over; as few as it takes. A tenant that has had less than
    /// the waiter has its next turn at once instead.
    fn make_room(&mut self, waiter: usize) -> bool {
        let grain_ns = self.grain_ns;
        let waiter_ns = self.rows.get(waiter).map_or(0, |h| h.virtual_ns);
        loop {
            if self.fits_beside(waiter) {
                break;
            }
            let over = |h: &HolderState| {
                let frees = h.size_bytes > 0;
                let is_due = self.by_age || h.virtual_ns / grain_ns >= waiter_ns / grain_ns;
                let filler = h.member.is_some_and(|m| m.filler);
                let idle = !h.active && h.member.is_some_and(|m| m.resident_since_ns != 0);
                let may_end = || self.is_over(h) && !self.is_kept_on(h);
                frees && (idle || filler || is_due && may_end())
            };
            let Some(row) = self.worst(over) else {
                self.rows.iter_mut().for_each(|h| h.leaving = false);
                return false;
            };
            if let Some(holder) = self.rows.get_mut(row) {
                holder.leaving = true;
            }
        }
        for row in 0..self.rows.len() {
            let Some(holder) = self.rows.get_mut(row) else { continue };
            if !holder.leaving {
                continue;
            }
            // One that went before a larger one did may not have had to.
            holder.leaving = false;
            if self.fits_beside(waiter) {
                continue;
            }
            self.end_turn(row);
        }
        self.state.counters.hand_overs += 1;
        true
    }

    /// Whether a turn that is over goes on: its copies on the host are still being made, so that the device would stand still,
    /// or another comes. A hand-over ends before the next begins, or those that leave for it had their turns back before
    /// they had left.
    fn is_kept_on(&self, holder: &HolderState) -> bool {
        let Some(member) = holder.member else { return false };
        let over_ns = member.ran_ns(self.now_ns).saturating_sub(self.quantum_ns(holder));
        if over_ns >= self.tuning.max_wait_ns / LONGER_PART {
            return false;
        }
        let comes =
            |h: &HolderState| h.member.is_some_and(|m| m.resident_since_ns == 0 && !m.filler);
        self.now_ns < holder.copies_by_ns || self.members().any(|(_, h)| comes(h))
    }

    fn grant(&mut self, row: usize, filler: bool) {
        let carried_ns = if filler { 0 } else { core::mem::take(&mut self.state.unpaid_ns) };
        let now_ns = self.now_ns;
        let Some(holder) = self.rows.get_mut(row) else { return };
        let since_ns = holder.waits_since_ns;
        holder.member = Some(Member {
            filler,
            granted_ns: now_ns,
            waited_since_ns: since_ns,
            granted_bytes: holder.size_bytes,
            away_bytes: holder.held_bytes().saturating_sub(holder.resident_bytes),
            resident_since_ns: 0,
            held_from_ns: 0,
            cost_ns: 0,
            carried_ns,
        });
        if !filler {
            holder.waits_since_ns = 0;
        }
        let counters = &mut self.state.counters;
        counters.grants += 1;
        // A wait that another planner saw begin is not known.
        if since_ns > 1 {
            counters.longest_wait_ns =
                counters.longest_wait_ns.max(now_ns.saturating_sub(since_ns));
        }
    }

    /// A filler's own turn has come.
    fn promote(&mut self, row: usize) {
        let now_ns = self.now_ns;
        let Some(holder) = self.rows.get_mut(row) else { return };
        let Some(member) = &mut holder.member else { return };
        member.filler = false;
        if member.resident_since_ns != 0 {
            member.resident_since_ns = now_ns;
        }
        holder.waits_since_ns = 0;
    }

    /// Takes a tenant out of the set; one that wants waits again, and has waited all along where it did not come to run.
    fn end_turn(&mut self, row: usize) {
        let Some(holder) = self.rows.get(row) else { return };
        let Some(member) = holder.member else { return };
        let quantum_ns = self.quantum_ns(holder);
        let ran_ns = member.ran_ns(self.now_ns);
        let was_early = !holder.active && member.resident_since_ns != 0 && ran_ns < quantum_ns;
        self.state.counters.early_releases += u64::from(was_early);
        let due_ns = self.due_ns();
        if member.cost_ns > 0 {
            let unpaid_ns = quantum_ns.saturating_sub(ran_ns).min(due_ns);
            self.state.unpaid_ns = self.state.unpaid_ns.max(unpaid_ns);
        }
        let now_ns = self.now_ns;
        let Some(holder) = self.rows.get_mut(row) else { return };
        holder.member = None;
        holder.leaving = false;
        holder.left_early = was_early;
        let keeps_place = member.filler && ran_ns < quantum_ns && holder.waits_since_ns != 0;
        if !holder.active || holder.frozen {
            holder.waits_since_ns = 0;
        } else if !keeps_place {
            let came_not = member.resident_since_ns == 0 && member.waited_since_ns != 0;
            holder.waits_since_ns = if came_not { member.waited_since_ns } else { now_ns.max(1) };
        }
    }

    /// A newcomer has not restored in time: others go before it.
    fn lose_turn(&mut self, row: usize) {
        self.end_turn(row);
        self.state.counters.lost_turns += 1;
        let furthest_ns = self.rows.iter().filter(|h| h.active).map(|h| h.virtual_ns).max();
        let Some(holder) = self.rows.get_mut(row) else { return };
        holder.virtual_ns = holder.virtual_ns.max(furthest_ns.unwrap_or(0).saturating_add(1));
        (holder.watch, holder.late_ns) = (Watch::None, 0);
        if holder.waits_since_ns != 0 {
            holder.waits_since_ns = self.now_ns.max(1);
        }
    }

    /// The next to run, which may restore behind those that do.
    pub(super) fn next_to_run(&self) -> Option<Key> {
        let mut place = None;
        loop {
            let key = self.next_waiter(place)?;
            let (.., row) = key;
            if self.rows.get(row).is_some_and(|h| h.member.is_none()) {
                return Some(key);
            }
            place = Some(key);
        }
    }
}
