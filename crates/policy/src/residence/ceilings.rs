//! Ceilings: how much of each tenant may be resident, and the orders that say so.
//!
//! Promises: the sum of what tenants may have resident, before and after the orders, never exceeds the capacity unless
//! the capacity itself fell; then no ceiling rises. Those not in the running set lose only what is short, the one with
//! the furthest next turn first, and of those that wait no more than leaves each its part. Does not decide whose turn it
//! is.

use super::holder::{HolderState, bytes_in};
use super::order::HolderOrder;
use super::quantum::scale;
use super::queue::Class;
use super::view::Step;

/// Bytes of the device that no tenant may have, and those that tenants may have beyond it.
struct Room {
    free_bytes: u64,
    over_bytes: u64,
}

/// Parts by size that those that wait have of room which is too small for what they hold.
///
/// What is short is taken from the furthest first, but no more of it than leaves it its part: over a round the same
/// bytes move, and no tenant has all of its memory away at a time, for which the host would have to keep copies of all
/// of all tenants.
#[derive(Clone, Copy, Default)]
struct Parts {
    room_bytes: u64,
    sizes_bytes: u64,
    /// Sum of what tenants keep at least that have no order yet.
    kept_bytes: u64,
}

impl Parts {
    /// Bytes that a tenant keeps at least.
    fn least_bytes(&self, holder: &HolderState) -> u64 {
        let part_bytes = match self.sizes_bytes {
            0 => 0,
            sizes_bytes => scale(self.room_bytes, holder.size_bytes, sizes_bytes),
        };
        holder.resident_bytes.min(part_bytes)
    }
}

impl Step<'_> {
    /// Sets all orders; whether bytes are to move.
    pub(super) fn order_all(&mut self) -> bool {
        let in_use = self.rows.iter().map(|h| h.in_use_bytes()).fold(0, u64::saturating_add);
        let capacity_bytes = self.room.capacity_bytes;
        let mut room = Room {
            free_bytes: match self.now_ns < self.state.raises_from_ns {
                true => 0,
                false => capacity_bytes.saturating_sub(in_use),
            },
            over_bytes: in_use.saturating_sub(capacity_bytes),
        };
        let mut moves = false;
        // Those that want go first into room that is not there for all.
        for wants in [true, false] {
            for row in 0..self.rows.len() {
                let Some(holder) = self.rows.get(row) else { continue };
                if holder.member.is_some_and(|m| !m.filler) && holder.active == wants {
                    let target_bytes = holder.size_bytes.saturating_add(self.headroom_bytes);
                    moves |= self.order(row, target_bytes, &mut room);
                }
            }
        }
        for row in 0..self.rows.len() {
            let Some(holder) = self.rows.get(row) else { continue };
            if holder.member.is_some_and(|m| m.filler) {
                moves |= self.order(row, holder.size_bytes, &mut room);
            } else if !holder.is_present() {
                moves |= self.order(row, 0, &mut room);
            } else if holder.bypassed {
                // It stays what it was told, or it would be taken back for doing nothing.
                let told_bytes = holder.order.allowed_bytes.min(holder.resident_bytes);
                moves |= self.order(row, told_bytes, &mut room);
            }
        }
        self.order_the_rest(&mut room) || moves
    }

    /// Orders for those that do not run, in the order of their next turn.
    fn order_the_rest(&mut self, room: &mut Room) -> bool {
        let mut room_bytes = self.left_bytes.saturating_sub(self.set_bytes());
        let next = self.next_to_run();
        let mut parts = Parts::default();
        let mut moves = false;
        let mut place = None;
        while let Some(key) = self.following(place) {
            place = Some(key);
            let (class, _, _, row) = key;
            let Some(holder) = self.rows.get(row) else { continue };
            if holder.member.is_some() {
                continue;
            }
            let target_bytes = match class {
                Class::Frozen => 0,
                _ if next == Some(key) => {
                    let ahead_bytes = self.ahead_bytes(row, room_bytes);
                    parts = self.parts(row, room_bytes.saturating_sub(ahead_bytes));
                    ahead_bytes
                }
                Class::Waits => {
                    parts.kept_bytes -= parts.least_bytes(holder).min(parts.kept_bytes);
                    holder.resident_bytes.min(room_bytes.saturating_sub(parts.kept_bytes))
                }
                _ => holder.resident_bytes.min(room_bytes),
            };
            room_bytes = room_bytes.saturating_sub(target_bytes);
            moves |= self.order(row, target_bytes, room);
        }
        moves
    }

    /// Parts of `room_bytes` that waiters behind the next one to run keep of what they have.
    fn parts(&self, next: usize, room_bytes: u64) -> Parts {
        let waiting = || {
            let rows = (0..self.rows.len()).filter(move |row| *row != next);
            let keys = rows.filter_map(|row| self.key(row)).filter(|key| key.0 == Class::Waits);
            let rows = keys.filter_map(|(.., row)| self.rows.get(row));
            rows.filter(|holder| holder.member.is_none())
        };
        let sizes_bytes = waiting().map(|h| h.size_bytes).fold(0, u64::saturating_add);
        let parts = Parts { room_bytes, sizes_bytes, kept_bytes: 0 };
        let kept_bytes = waiting().map(|h| parts.least_bytes(h)).fold(0, u64::saturating_add);
        Parts { kept_bytes, ..parts }
    }

    /// Bytes that the next to run may have beside the running set.
    ///
    /// Room that no waiter holds costs nothing. Bytes of other waiters would have to come back before those of the
    /// tenant that runs now do, so that each taken early is one moved in excess: they are taken only where the device
    /// would stand still for a greater part of even the longest turn than movement may cost.
    fn ahead_bytes(&self, row: usize, room_bytes: u64) -> u64 {
        let Some(holder) = self.rows.get(row) else { return 0 };
        let kept_bytes = holder.resident_bytes.min(room_bytes);
        if self.members().any(|(_, h)| h.member.is_some_and(|m| m.resident_since_ns == 0)) {
            // The link is for the one whose turn it is.
            return kept_bytes;
        }
        let others = self.rows.iter().zip(0..).filter(|(h, other)| {
            *other != row && h.member.is_none() && h.waits_since_ns != 0 && self.may_run(h)
        });
        let others_bytes = others.fold(0, |sum: u64, (h, _)| sum.saturating_add(h.resident_bytes));
        let size_bytes = holder.size_bytes.min(room_bytes);
        let free_bytes = room_bytes.saturating_sub(others_bytes).clamp(kept_bytes, size_bytes);
        let runs = self.members().filter(|(_, h)| h.active).count();
        if runs > 1 {
            return free_bytes;
        }
        let still_ns = scale(self.longest_ns(holder.weight), self.tuning.overhead_ppm, 1_000_000);
        let still_bytes = bytes_in(still_ns, self.rate_bytes_per_s());
        let enough_bytes = holder.size_bytes.saturating_sub(still_bytes);
        free_bytes.max(enough_bytes.min(size_bytes))
    }

    /// Gives a row its order: a ceiling falls at once, and rises into room that is there. Whether bytes are to move.
    fn order(&mut self, row: usize, target_bytes: u64, room: &mut Room) -> bool {
        let Some(holder) = self.rows.get(row) else { return false };
        let in_use_bytes = holder.in_use_bytes();
        let given_bytes = target_bytes.saturating_sub(in_use_bytes).min(room.free_bytes);
        room.free_bytes = room.free_bytes.saturating_sub(given_bytes);
        let granted_bytes = target_bytes.min(in_use_bytes.saturating_add(given_bytes));
        // Room that was given and is not there any more is taken back where it has not been filled.
        let unfilled_bytes = granted_bytes.saturating_sub(holder.resident_bytes);
        let back_bytes = unfilled_bytes.min(room.over_bytes);
        room.over_bytes -= back_bytes;
        let allowed_bytes = granted_bytes - back_bytes;
        self.note_residence(row, allowed_bytes);
        let status = self.status(row);
        let Some(holder) = self.rows.get_mut(row) else { return false };
        // Its turn goes on without it, should it have lost memory after an order that did not arrive.
        let run = holder.member.is_some_and(|m| m.resident_since_ns != 0) && holder.is_whole();
        if allowed_bytes != holder.order.allowed_bytes {
            holder.moved_ns = self.now_ns;
        }
        holder.order = HolderOrder { allowed_bytes, run, status };

        let out_bytes = holder.resident_bytes.saturating_sub(allowed_bytes);
        let in_bytes = allowed_bytes.min(holder.held_bytes()).saturating_sub(holder.resident_bytes);
        let counters = &mut self.state.counters;
        let (more_out, more_in) = (
            out_bytes.saturating_sub(holder.owed_out_bytes),
            in_bytes.saturating_sub(holder.owed_in_bytes),
        );
        counters.out_bytes = counters.out_bytes.saturating_add(more_out);
        counters.in_bytes = counters.in_bytes.saturating_add(more_in);
        (holder.owed_out_bytes, holder.owed_in_bytes) = (out_bytes, in_bytes);
        // One that has not moved for long is looked at with the others.
        let moves = out_bytes > 0 || in_bytes > 0 || allowed_bytes < target_bytes;
        moves && self.now_ns.saturating_sub(holder.moved_ns) < self.tuning.patience_ns
    }
}
