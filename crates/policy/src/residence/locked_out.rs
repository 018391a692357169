//! Tenants that cannot run: larger than what can be had, for as long as others keep what cannot leave.
//!
//! Contexts, pools, a program's own handles, memory of tenants that do not oversubscribe and memory that does not let go
//! take room at any time, and no order takes it back. So a tenant that held its memory rightly may come to be too
//! large. It is told then, since no turn would come.
//!
//! Promises: time counts only while a call waits and there is no room, and begins again once the tenant has run; a bound that an
//! operator sets keeps no tenant from running. Does not decide who goes.

use super::holder::HolderState;
use super::order::{LOCKED_OUT_NS, LockedOut};
use super::queue::Class;
use super::view::Step;

impl Step<'_> {
    /// Has the capacity be as large as the largest tenant, as far as the device has the room: what it holds may have been made
    /// before there was an owner, or a bound. More is not given for it, since what is asked for beyond is the caller's to refuse.
    pub(super) fn lift(&mut self) {
        let held_bytes = self.those_to_fit().map(HolderState::held_bytes).max();
        self.lift_to(held_bytes.unwrap_or(0));
    }

    /// Has the capacity be as large as a tenant and what others do not let go: no order under the bound moves that, so it
    /// would keep out a tenant for which the device has room.
    pub(super) fn lift_beside_pinned(&mut self) {
        let all_bytes = self.pinned_bytes();
        if all_bytes == 0 {
            return;
        }
        let needed_bytes = |h: &HolderState| {
            let own_bytes = h.pinned_bytes();
            let others_bytes = all_bytes.saturating_sub(own_bytes);
            others_bytes.saturating_add(h.held_bytes().max(own_bytes))
        };
        let needed_bytes = self.those_to_fit().map(needed_bytes).max();
        self.lift_to(needed_bytes.unwrap_or(0));
    }

    /// Tenants that a bound is not to keep from running.
    fn those_to_fit(&self) -> impl Iterator<Item = &HolderState> {
        self.rows.iter().filter(|h| h.is_present() && !h.frozen && h.spare_bytes == 0)
    }

    fn lift_to(&mut self, bytes: u64) {
        let lifted_bytes = bytes.min(self.room.room_bytes);
        self.room.capacity_bytes = self.room.capacity_bytes.max(lifted_bytes);
    }

    /// Whether a tenant has no room for what it holds, however long it waits for its turn.
    fn is_out(&self, row: usize, holder: &HolderState) -> bool {
        if holder.stands_still() {
            // It has said that it cannot let go, and a part of it is away.
            return holder.has_stayed && !holder.frozen;
        }
        let class = self.key(row).map(|key| key.0);
        let is_larger = matches!(class, Some(Class::Larger | Class::PinnedOut));
        is_larger && holder.held_bytes() > self.left_bytes
    }

    /// Counts the time for which tenants have waited in vain.
    pub(super) fn count_out(&mut self, elapsed_ns: u64) {
        // A planner that did not run itself has no reason to be impatient.
        let elapsed_ns = elapsed_ns.min(self.tuning.patience_ns / 4);
        for row in 0..self.rows.len() {
            let Some(holder) = self.rows.get(row) else { continue };
            let runs = holder.member.is_some_and(|m| m.resident_since_ns != 0);
            let out_ns = match (holder.wants && !holder.frozen && !runs, self.is_out(row, holder)) {
                (false, _) => 0,
                (true, false) => holder.out_ns,
                (true, true) => holder.out_ns.saturating_add(elapsed_ns),
            };
            if let Some(holder) = self.rows.get_mut(row) {
                holder.out_ns = out_ns;
            }
        }
    }

    /// The word to a tenant that has waited in vain for long enough.
    pub(super) fn locked_out(&self, row: usize) -> Option<LockedOut> {
        let holder = self.rows.get(row)?;
        if holder.out_ns < LOCKED_OUT_NS || !self.is_out(row, holder) {
            return None;
        }
        let own_bytes = holder.pinned_bytes();
        Some(LockedOut {
            needed_bytes: holder.held_bytes(),
            room_bytes: self.left_bytes.saturating_add(own_bytes).min(self.room.capacity_bytes),
        })
    }
}
