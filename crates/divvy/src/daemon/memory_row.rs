//! A tenant's memory on one device in the daemon's hands: what its processes say, its part of the planner's question, and the
//! orders that it was given.
//!
//! Promises: what stands in the tenant's files is what this says stands there. Does not decide: [`super::memory`] does, for
//! all tenants of a device.

use divvy_abi::config::{FLAG_STAYS, OrderLine, order};
use divvy_abi::usage::Stays;
use divvy_page::{AttachError, ResidenceEntry};
use divvy_policy::residence::{
    DeviceSpan, Freeze, Holder, HolderOrder, HolderStatus, HostShortage, ORDER_LEASE_NS,
    PINNED_OUT_NS, ProcessCeiling, ProcessMemory, divide,
};

use super::adopted::Adopted;
use super::managed::ManagedRow;

/// Step of the bytes that a process may keep on the host.
const KEEP_STEP: u64 = 64 << 20;

/// Bytes of copies that are not waited for.
const DUE_LEAST_BYTES: u64 = 512 << 20;

/// The bit of a tenant's row.
pub(super) fn row_bit(row: usize) -> u32 {
    u32::try_from(row).ok().and_then(|row| 1_u32.checked_shl(row)).unwrap_or(0)
}

/// A tenant in the planner.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The number of its arrival; 0 for nobody's.
    pub(super) arrival: u64,
    pub(super) seat: usize,
    /// Its own row for the device.
    pub(super) row: usize,
    /// The ceilings that stand, by slot.
    pub(super) ceilings: Vec<(usize, ProcessCeiling)>,
    pub(super) line: OrderLine,
    /// The wish that it leave.
    pub(super) wish: FreezeWish,
    /// Since when it has been too large for what others leave; 0 for not.
    pub(super) pinned_out_ns: u64,
    pub(super) size_bytes: u64,
    /// Its living processes: their slots, what they say, and what they are given.
    pub(super) slots: Vec<usize>,
    pub(super) memory: Vec<ProcessMemory>,
    pub(super) given: Vec<ProcessCeiling>,
    /// The tenant's other devices.
    pub(super) span: DeviceSpan,
    /// Those processes of which a call waits, and since when.
    pub(super) waiting: Vec<(usize, u64)>,
    /// A call waits that has its turn here, and needs another device as well.
    pub(super) waits_elsewhere: bool,
    /// Sum of what they say, with the waits of those that may ask for this device.
    pub(super) sum: ResidenceEntry,
    /// All its memory is on the card, and its owner has said that it stays there: it has no orders.
    pub(super) stays: bool,
    pub(super) managed: ManagedRow,
    /// Bytes of it that room on the host is promised for.
    pub(super) promised_bytes: u64,
    /// Bytes that it asks for are not to be had; when that was seen, and what the host is short of where that is why.
    pub(super) refuses: bool,
    pub(super) refused_ns: u64,
    pub(super) shortage: Option<HostShortage>,
    /// Time in which a call of its waited, and until when that was counted.
    pub(super) waited_ns: u64,
    pub(super) counted_ns: u64,
}

/// A user's wish that a tenant's memory leave until it is wanted, as processes fulfil it by themselves.
#[derive(Debug, Default)]
pub(super) struct FreezeWish {
    /// Its number, as it was seen last.
    number: u32,
    /// Times all memory had left then.
    left: u64,
    /// The number of the last one that a call had ended between two looks.
    ended: u32,
}

impl FreezeWish {
    /// Whether all memory has left since the last look, perhaps for a wish that is not known yet.
    pub(super) fn may_be_new(&self, said: &ResidenceEntry) -> bool {
        said.left != self.left
    }

    /// The wish that stands, of processes that say this.
    fn see(&mut self, number: u32, said: &ResidenceEntry) -> Freeze {
        let before = std::mem::replace(&mut self.number, number);
        let has_left = std::mem::replace(&mut self.left, said.left) < said.left;
        if has_left && said.away_bytes == 0 {
            self.ended = number;
        }
        match (number % 2, before == number && self.ended != number) {
            (1, true) => Freeze::UntilWanted,
            // Of a new wish nothing is known that was wanted under the one before.
            _ => Freeze::No,
        }
    }
}

impl Row {
    /// Sum over its processes, as they were sampled last.
    pub(super) fn sum(&self, part: fn(&ProcessMemory) -> u64) -> u64 {
        self.sum_of(part)
    }

    fn sum_of(&self, part: impl Fn(&ProcessMemory) -> u64) -> u64 {
        self.memory.iter().map(part).fold(0, u64::saturating_add)
    }

    /// Whether it is a tenant's who follows orders.
    pub(super) fn has_orders(&self) -> bool {
        self.arrival != 0 && !self.stays
    }

    /// Reads what the tenant's processes say.
    pub(super) fn read(&mut self, tenant: &mut Adopted) {
        self.sum = ResidenceEntry::default();
        self.slots.clear();
        self.memory.clear();
        self.waiting.clear();
        self.managed.begin();
        tenant.memory(self.row, |slot, mut entry| {
            match std::mem::take(&mut entry.waits_from_ns) {
                0 => {}
                since_ns => self.waiting.push((slot, since_ns)),
            }
            self.slots.push(slot);
            self.managed.push(slot, entry);
            let there_bytes = entry.leavable_bytes();
            let stays = there_bytes > 0 && entry.stays != Stays::Not;
            let ResidenceEntry { resident_bytes, away_bytes, asked_bytes, .. } = entry;
            let said = ProcessMemory::said(there_bytes, resident_bytes, away_bytes, asked_bytes);
            self.memory.push(ProcessMemory { stays, ..said });
            self.sum = self.sum.with(entry);
        });
        self.waits_elsewhere = false;
        for (slot, waits_from_ns) in self.waiting.iter().copied() {
            let has = tenant.has_memory(slot, self.span.earlier | self.span.later);
            self.waits_elsewhere |= self.span.waits_for_more(has, tenant.runs);
            if self.span.may_ask(has, tenant.runs) {
                self.sum = self.sum.with(ResidenceEntry { waits_from_ns, ..Default::default() });
            }
        }
    }

    /// Notes whether calls of the tenant may use its memory on this device.
    pub(super) fn note_runs(&self, tenant: &mut Adopted, runs: bool) {
        let bit = row_bit(self.row);
        tenant.runs = if runs { tenant.runs | bit } else { tenant.runs & !bit };
    }

    /// Takes the orders back of a tenant whose memory is to stay and is all there, and says whether that is new, as it is
    /// when it is to follow orders again. What is on its way out by an order is not there.
    pub(super) fn settle(&mut self, tenant: &mut Adopted) -> Result<bool, AttachError> {
        let is_asked = tenant.served.config().flags & FLAG_STAYS != 0;
        let is_whole = self.sum.away_bytes == 0;
        let ceiling_bytes = self.ceiling_bytes();
        let is_leaving = !self.stays
            && self.line.lease_ns != 0
            && self.sum(|memory| memory.resident_bytes) > ceiling_bytes;
        let stays = is_asked && self.sum.movable_bytes > 0 && is_whole && !is_leaving;
        let is_new = stays != std::mem::replace(&mut self.stays, stays);
        let bit = row_bit(self.row);
        tenant.stays = if stays { tenant.stays | bit } else { tenant.stays & !bit };
        if is_new && stays {
            tenant.served.hold(self.row, false, false);
            (self.refuses, self.pinned_out_ns) = (false, 0);
            self.take_back(tenant)?;
        }
        Ok(is_new)
    }

    pub(super) fn ceiling_bytes(&self) -> u64 {
        self.ceilings.iter().map(|(_, ceiling)| ceiling.bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of it that are away, or are to leave by the orders that stand.
    pub(super) fn away_bytes_soon(&self) -> u64 {
        let resident_bytes = self.sum(|memory| memory.resident_bytes);
        let leaving_bytes = match self.line.lease_ns {
            0 => 0,
            _ => resident_bytes.saturating_sub(self.ceiling_bytes()),
        };
        self.sum(|memory| memory.away_bytes).saturating_add(leaving_bytes)
    }

    /// Bytes of copies on the host that it has yet to make, where it may keep `keep_bytes`. Managed memory has none.
    pub(super) fn copies_due_bytes(&self, keep_bytes: u64) -> u64 {
        if self.managed.bytes() > 0 {
            return 0;
        }
        let part_bytes = self.part_bytes(keep_bytes);
        let wanted_bytes = self.sum_of(|memory| {
            part_bytes.min(memory.resident_bytes.saturating_add(memory.away_bytes))
        });
        let due_bytes = wanted_bytes.saturating_sub(self.sum.copies_bytes);
        // Copies are of whole chunks.
        if due_bytes < DUE_LEAST_BYTES { 0 } else { due_bytes }
    }

    /// Part of `keep_bytes` of each of its processes that have any memory; what is written changes rarely.
    fn part_bytes(&self, keep_bytes: u64) -> u64 {
        let holders = self.memory.iter().filter(|memory| **memory != ProcessMemory::default());
        keep_bytes / holders.count().max(1) as u64 / KEEP_STEP * KEEP_STEP
    }

    /// The tenant's part of the planner's question.
    pub(super) fn sample(
        &mut self,
        tenant: &mut Adopted,
        capacity_bytes: u64,
        now_ns: u64,
    ) -> Holder {
        let config = tenant.served.config();
        let freeze = self.wish.see(config.frozen, &self.sum);
        let quantum_ns = u64::from(config.quantum_ms) * 1_000_000;
        let share_ppm = tenant.served.lines().get(self.row).map_or(0, |line| line.share_ppm);
        let weight = match (config.weight, share_ppm / 10_000) {
            (0, 0) => 100,
            (0, percent) => percent,
            (weight, _) => weight,
        };
        let resident_bytes = self.sum(|memory| memory.resident_bytes);
        let held_bytes = resident_bytes.saturating_add(self.sum(|memory| memory.away_bytes));
        let asked_bytes = self.sum(|memory| memory.asked_bytes);
        let waited_ns = now_ns.saturating_sub(self.pinned_out_ns);
        let is_out = self.pinned_out_ns != 0 && waited_ns >= PINNED_OUT_NS;
        // Bytes that cannot be had are refused, and asked for no more.
        self.refuses =
            asked_bytes > 0 && (is_out || held_bytes.saturating_add(asked_bytes) > capacity_bytes);
        let asked_bytes = if self.refuses { 0 } else { asked_bytes };
        let gate = tenant.work(self.row);
        Holder {
            tenant: self.arrival,
            size_bytes: held_bytes.saturating_add(asked_bytes),
            asked_bytes,
            spare_bytes: self.managed.spare_bytes(&self.sum),
            resident_bytes,
            returning_bytes: self.sum(|memory| memory.returning_bytes),
            stayed: self.sum.stayed,
            // The caller knows what it may keep.
            copies_due_bytes: 0,
            ceiling_bytes: self.ceiling_bytes(),
            quantum_ns,
            waits_elsewhere: self.waits_elsewhere,
            wants_since_ns: match (self.sum.waits_from_ns, asked_bytes) {
                // Memory that is to stay comes back without a call that wants it.
                (0, 0) if config.flags & FLAG_STAYS == 0 => 0,
                (0, _) => now_ns,
                (since_ns, _) => since_ns,
            },
            submitted_ns: gate.last_launch_ns,
            busy_until_ns: if gate.sleepers > 0 { u64::MAX } else { gate.busy_until_ns },
            weight,
            freeze,
        }
    }

    /// Counts the time since the step before in which a call waited: for room, or, unless the tenant runs, which then has
    /// all of its memory, for that.
    pub(super) fn count_wait(&mut self, now_ns: u64, holder: &Holder, runs: bool) {
        let before_ns = std::mem::replace(&mut self.counted_ns, now_ns);
        let since_ns = match (holder.asked_bytes, holder.wants_since_ns) {
            (0, 0) => return,
            (0, _) if runs => return,
            (0, since_ns) => since_ns.max(before_ns),
            _ => before_ns,
        };
        if before_ns != 0 {
            self.waited_ns = self.waited_ns.saturating_add(now_ns.saturating_sub(since_ns));
        }
    }

    /// Divides what the tenant may have among its processes, which went by the ceilings that stand while the order did.
    fn divide(&mut self, allowed_bytes: u64, now_ns: u64) {
        let is_ordered = now_ns < self.line.lease_ns;
        let stands = |slot: &usize| self.ceilings.iter().find(|(other, _)| other == slot);
        self.given.clear();
        self.given.extend(self.slots.iter().zip(&self.memory).map(|(slot, memory)| {
            match stands(slot) {
                _ if !is_ordered => ProcessCeiling::found(memory),
                Some((_, ceiling)) => *ceiling,
                None => ProcessCeiling::default(),
            }
        }));
        divide(allowed_bytes, &self.memory, &mut self.given);
    }

    /// Writes what is not as it stands.
    pub(super) fn put(
        &mut self,
        tenant: &mut Adopted,
        given: HolderOrder,
        (keep_bytes, foreign_mib): (u64, u32),
        now_ns: u64,
    ) -> Result<(), AttachError> {
        self.pinned_out_ns = match given.status {
            HolderStatus::PinnedOut if self.pinned_out_ns == 0 => now_ns,
            HolderStatus::PinnedOut => self.pinned_out_ns,
            _ => 0,
        };
        let owner = &tenant.hand().owner;
        let mut is_news = false;
        self.divide(given.allowed_bytes, now_ns);
        for (slot, _) in self.ceilings.extract_if(.., |(slot, _)| !self.slots.contains(slot)) {
            owner.set_allowed(self.row, slot, 0)?;
        }
        for (slot, ceiling) in self.slots.iter().zip(&self.given) {
            let stands = self.ceilings.iter_mut().find(|(other, _)| other == slot);
            let before = stands.map(|(_, stands)| std::mem::replace(stands, *ceiling));
            if before.is_none() {
                self.ceilings.push((*slot, *ceiling));
            }
            if before.is_none_or(|before| before.bytes != ceiling.bytes) {
                owner.set_allowed(self.row, *slot, ceiling.bytes)?;
                is_news = true;
            }
        }
        is_news |= self.managed.put(owner, self.row)?;
        let run = if given.run { order::RUN } else { 0 };
        let refuse = if self.refuses { order::REFUSE } else { 0 };
        let locked_out = given.locked_out.map_or(0, |_| order::LOCKED_OUT);
        let out = given.locked_out.unwrap_or_default();
        let keep_bytes = self.part_bytes(keep_bytes);
        let (host_needed_bytes, host_room_bytes) = match self.shortage {
            Some(shortage) => (shortage.needed_bytes, shortage.room_bytes),
            None => (0, 0),
        };
        let line = OrderLine {
            lease_ns: 0,
            keep_bytes,
            flags: run | refuse | locked_out,
            foreign_mib: given.locked_out.map_or(0, |_| foreign_mib),
            refused_ns: self.refused_ns,
            host_needed_bytes,
            host_room_bytes,
            out_needed_bytes: out.needed_bytes,
            out_room_bytes: out.room_bytes,
        };
        let is_other = line != OrderLine { lease_ns: 0, ..self.line };
        is_news |= is_other;
        if is_other || now_ns.saturating_add(ORDER_LEASE_NS.1) > self.line.lease_ns {
            self.line = OrderLine { lease_ns: now_ns.saturating_add(ORDER_LEASE_NS.0), ..line };
            owner.set_order(self.row, &self.line)?;
        }
        if is_news { owner.tell_orders() } else { Ok(()) }
    }

    pub(super) fn take_back(&mut self, tenant: &Adopted) -> Result<(), AttachError> {
        let owner = &tenant.hand().owner;
        self.line = OrderLine::default();
        owner.set_order(self.row, &self.line)?;
        owner.tell_orders()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_that_a_call_has_ended_is_not_followed_once_more() {
        let said = |left, away_bytes| ResidenceEntry { left, away_bytes, ..Default::default() };
        let mut wish = FreezeWish::default();
        assert_eq!(wish.see(0, &said(0, 0)), Freeze::No);
        assert_eq!(wish.see(1, &said(0, 0)), Freeze::No, "of a new wish nothing is known");
        assert_eq!(wish.see(1, &said(0, 5)), Freeze::UntilWanted);
        assert!(wish.may_be_new(&said(1, 9)) && !wish.may_be_new(&said(0, 9)));
        assert_eq!(wish.see(1, &said(1, 9)), Freeze::UntilWanted);
        // It has left for the next one, and is back.
        assert_eq!(wish.see(3, &said(2, 0)), Freeze::No);
        assert_eq!(wish.see(3, &said(2, 0)), Freeze::No);
        // It has left for this one, and is away.
        assert_eq!(wish.see(5, &said(3, 9)), Freeze::No);
        assert_eq!(wish.see(5, &said(3, 9)), Freeze::UntilWanted);
        // It is seen while memory is still there; at the next look it has left and is back.
        assert_eq!(wish.see(7, &said(3, 0)), Freeze::No);
        assert_eq!(wish.see(7, &said(4, 0)), Freeze::No);
        assert_eq!(wish.see(7, &said(4, 0)), Freeze::No);
        assert_eq!(wish.see(8, &said(4, 0)), Freeze::No);
        // A new daemon finds one that was fulfilled long ago.
        assert_eq!(FreezeWish::default().see(7, &said(1, 0)), Freeze::No);
    }

    #[test]
    fn waits_are_counted_for_as_long_as_they_last() {
        let mut row = Row::default();
        let mut waited = |now_ns, since_ns, asked_bytes, runs| {
            let holder = Holder { wants_since_ns: since_ns, asked_bytes, ..Holder::default() };
            row.count_wait(now_ns, &holder, runs);
            row.waited_ns
        };
        assert_eq!(waited(100, 40, 0, false), 0, "nothing is known of before the first step");
        assert_eq!(waited(110, 40, 0, false), 10);
        assert_eq!(waited(150, 40, 0, true), 10, "it runs");
        assert_eq!(waited(160, 0, 0, false), 10, "nobody waits");
        assert_eq!(waited(200, 190, 0, false), 20, "since between two steps");
        assert_eq!(waited(230, 230, 5, true), 50, "for room");
        assert_eq!(waited(225, u64::MAX, 0, false), 50, "a claim from a time to come");
    }
}
