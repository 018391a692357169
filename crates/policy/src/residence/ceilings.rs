//! Ceilings: how much of each tenant may be resident, and the orders that say so.
//!
//! Promises: the sum of what tenants may have resident, before and after the orders, never exceeds the capacity unless
//! the capacity itself fell; then no ceiling rises. Those not in the running set lose only what is short, the one with
//! the furthest next turn first, and of those that wait no more than leaves each its part. Does not decide whose turn it
//! is.

use super::holder::{HolderState, bytes_in};
use super::order::HolderOrder;
use super::quantum::scale;
use super::queue::{Class, Key};
use super::view::Step;

/// Bytes of the device that no tenant may have, and those that tenants may have beyond it.
struct Room {
    free_bytes: u64,
    over_bytes: u64,
}

/// Place in the order of those that do not run.
struct Walk {
    place: Option<Key>,
    /// The next to run.
    next: Option<Key>,
    /// Bytes of the device that are left for those that follow.
    room_bytes: u64,
    parts: Parts,
}

/// Parts by size that those that wait have of room which is too small for what they hold.
///
/// The furthest loses first what is short, but no more than leaves it its part: over a round the same
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
            } else if holder.stands_still() {
                // It stays what it was told, or it would be taken back for doing nothing.
                let told_bytes = holder.order.allowed_bytes.min(holder.resident_bytes);
                moves |= self.order(row, told_bytes, &mut room);
            }
        }
        self.order_the_rest(&mut room) || moves
    }

    /// Orders for those that do not run, in the order of their next turn.
    fn order_the_rest(&mut self, room: &mut Room) -> bool {
        let mut kept_back_bytes = self.kept_back_bytes(room);
        let mut walk = self.walk();
        let mut moves = false;
        while let Some((row, target_bytes)) = self.next_target(&mut walk) {
            let back_bytes = self.falls_bytes(row, target_bytes).min(kept_back_bytes);
            kept_back_bytes -= back_bytes;
            // Bytes that were told to leave are leaving.
            let told_bytes = self.rows.get(row).map_or(0, |h| h.order.allowed_bytes);
            let kept_bytes = target_bytes.saturating_add(back_bytes).min(told_bytes);
            moves |= self.order(row, kept_bytes.max(target_bytes), room);
        }
        moves
    }

    fn walk(&self) -> Walk {
        Walk {
            place: None,
            next: self.next_to_run(),
            room_bytes: self.left_bytes.saturating_sub(self.set_bytes()),
            parts: Parts::default(),
        }
    }

    /// The next row in the order of those that do not run, and the bytes that it may have.
    fn next_target(&self, walk: &mut Walk) -> Option<(usize, u64)> {
        loop {
            let key = self.following(walk.place)?;
            walk.place = Some(key);
            let (class, _, _, row) = key;
            let Some(holder) = self.rows.get(row).filter(|h| h.member.is_none()) else { continue };
            let room_bytes = walk.room_bytes;
            let target_bytes = match class {
                Class::Frozen => 0,
                _ if walk.next == Some(key) => {
                    let ahead_bytes = self.ahead_bytes(row, room_bytes);
                    walk.parts = self.parts(row, room_bytes.saturating_sub(ahead_bytes));
                    ahead_bytes
                }
                Class::Waits => {
                    let Parts { kept_bytes, .. } = walk.parts;
                    let kept_bytes = kept_bytes.saturating_sub(walk.parts.least_bytes(holder));
                    walk.parts.kept_bytes = kept_bytes;
                    holder.resident_bytes.min(room_bytes.saturating_sub(kept_bytes))
                }
                _ => holder.resident_bytes.min(room_bytes),
            };
            walk.room_bytes = room_bytes.saturating_sub(target_bytes);
            return Some((row, target_bytes));
        }
    }

    /// Bytes that a row loses, whoever takes them.
    fn falls_bytes(&self, row: usize, target_bytes: u64) -> u64 {
        let holder = self.rows.get(row).filter(|h| !h.frozen);
        holder.map_or(0, |h| h.resident_bytes.saturating_sub(target_bytes))
    }

    /// Bytes that those who lose them keep for now, since the one that comes could not take them yet.
    ///
    /// Bytes that leave take from the link what those that come do not get: they lead by no more than keeps both ways busy.
    fn kept_back_bytes(&self, room: &Room) -> u64 {
        let comes = |h: &HolderState| {
            h.member.is_some_and(|m| m.resident_since_ns == 0) && h.there_bytes() < h.held_bytes()
        };
        if room.over_bytes > 0 || !self.rows.iter().any(comes) {
            return 0;
        }
        let members = self.members().map(|(_, h)| h.asked_bytes);
        let asked_bytes = members.fold(0, u64::saturating_add);
        let there = self.rows.iter().map(|h| h.there_bytes()).fold(0, u64::saturating_add);
        let empty_bytes = self.room.capacity_bytes.saturating_sub(there);
        let lead_bytes = self.tuning.lead_bytes.saturating_add(asked_bytes);
        let may_leave_bytes = lead_bytes.saturating_sub(empty_bytes);
        let (mut walk, mut falls_bytes) = (self.walk(), 0_u64);
        while let Some((row, target_bytes)) = self.next_target(&mut walk) {
            falls_bytes = falls_bytes.saturating_add(self.falls_bytes(row, target_bytes));
        }
        falls_bytes.saturating_sub(may_leave_bytes)
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
        let (status, locked_out) = (self.status(row), self.locked_out(row));
        let Some(holder) = self.rows.get_mut(row) else { return false };
        // Its turn goes on without it, should it have lost memory after an order that did not arrive.
        let run = holder.member.is_some_and(|m| m.resident_since_ns != 0) && holder.is_whole();
        if allowed_bytes != holder.order.allowed_bytes {
            holder.moved_ns = self.now_ns;
        }
        holder.order = HolderOrder { allowed_bytes, run, status, locked_out };

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
        let is_coming = holder.member.is_some() && holder.returning_bytes > 0;
        let moves = out_bytes > 0 || in_bytes > 0 || allowed_bytes < target_bytes || is_coming;
        moves && self.now_ns.saturating_sub(holder.moved_ns) < self.tuning.patience_ns
    }
}
