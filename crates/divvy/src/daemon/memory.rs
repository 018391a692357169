//! Orders about tenants' memory on one device: the planner of `divvy_policy::residence` over their files.
//!
//! A step reads what the processes of tenants that oversubscribe say of their memory, has the planner decide, divides each
//! order among the tenant's processes, and writes what is not as before. It is level-based: whatever is lost is written
//! again by the next step, and a daemon that starts anew finds what stands.
//!
//! A tenant whose owner has said that its memory stays has no orders from when all of it is on the card: it takes no turns,
//! and what it has there counts as memory that cannot move. What is away comes back by its turns until then.
//!
//! Promises: no step waits for a tenant; what processes say is believed as far as they were allowed it; an order is
//! written before the samples of the next step are read. A tenant whose files cannot be written is refused a seat.
//! Without a tenant that oversubscribes it costs a comparison a step.
//!
//! Does not know how much room a device has: that is [`super::room`]'s; nor divide time: tenants whose memory is away
//! are left out there ([`divvy_policy::turns::Served::hold`]).

use std::sync::atomic::{Ordering::SeqCst, fence};

use divvy_abi::Uuid;
use divvy_abi::config::{FLAG_OVERSUBSCRIBE, FLAG_STAYS, OrderLine, order};
use divvy_abi::usage::SHARED_SLOT;
use divvy_page::{AttachError, ResidenceEntry};
use divvy_policy::residence::{
    DeviceRoom, Freeze, Holder, HolderOrder, HolderState, HolderStatus, ProcessMemory,
    ResidencePlanner, ResidenceState, ResidenceTuning, divide,
};
use divvy_policy::turns::GateEntry;

use super::adopted::Adopted;
use super::host_room::{HostRoom, Keep};
use super::managed::{ManagedRow, divide_rows};
use super::room::Room;
use super::scan::Scanner;
use super::seat::Seat;
use crate::wire::{MemoryView, TenantMemoryView};

/// How long an order holds without a word of its daemon, and how long before its end it is renewed.
const LEASE_NS: (u64, u64) = (1_000_000_000, 500_000_000);
/// Time between two steps while tenants come, grow or ask, so that a new process need not wait long for room.
const LIVELY_POLL_NS: u64 = 2_000_000;
/// For so long after the last such event.
const LIVELY_NS: u64 = 2_000_000_000;
/// Time between two looks at tenants whose memory stays.
const STAYS_POLL_NS: u64 = 50_000_000;
/// Time for which a tenant that is too large for what others leave is waited for before what it asks for is refused.
const PINNED_OUT_NS: u64 = 5_000_000_000;

/// Step of the bytes that a process may keep on the host.
const KEEP_STEP: u64 = 64 << 20;

/// The tenants that oversubscribe one device.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    device: Uuid,
    tuning: ResidenceTuning,
    room: Room,
    /// Bytes of managed memory that tenants may have together; none for as many as there is room for.
    managed_bytes: Option<u64>,
    host: HostRoom,
    rows: Vec<Row>,
    states: Vec<HolderState>,
    state: ResidenceState,
    holders: Vec<Holder>,
    orders: Vec<HolderOrder>,
    next_ns: u64,
    lively_until_ns: u64,
}

/// Bounds of the memory that may leave a device, as the operator gave them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryBounds {
    /// Bytes that may be there, if that is less than there is room for.
    pub(super) capacity_bytes: Option<u64>,
    /// Bytes of managed memory that tenants may have together; none for as many as there is room for.
    pub(super) managed_bytes: Option<u64>,
}

/// A tenant in the planner.
#[derive(Debug, Default)]
struct Row {
    /// The number of its arrival; 0 for nobody's.
    arrival: u64,
    seat: usize,
    /// Its own row for the device.
    row: usize,
    /// The ceilings that stand, by slot.
    ceilings: Vec<(usize, u64)>,
    line: OrderLine,
    /// The wish that was seen last.
    frozen: u32,
    /// Since when it has been too large for what others leave; 0 for not.
    pinned_out_ns: u64,
    size_bytes: u64,
    /// Its living processes: their slots, what they say, and what they are given.
    slots: Vec<usize>,
    memory: Vec<ProcessMemory>,
    given: Vec<u64>,
    /// Sum of what they say.
    sum: ResidenceEntry,
    /// All its memory is on the card, and its owner has said that it stays there: it has no orders.
    stays: bool,
    managed: ManagedRow,
    /// Bytes that it asks for are not to be had.
    refuses: bool,
    /// Time in which a call of its waited, and until when that was counted.
    waited_ns: u64,
    counted_ns: u64,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stepped {
    /// When the next one is due.
    pub(super) next_ns: u64,
    /// Whether a tenant has come to run, or runs no more.
    pub(super) is_changed: bool,
}

impl DeviceMemory {
    /// Of a device with these bounds.
    pub(super) fn new(device: Uuid, bounds: MemoryBounds) -> Self {
        let MemoryBounds { capacity_bytes, managed_bytes } = bounds;
        Self {
            device,
            managed_bytes,
            tuning: ResidenceTuning::default(),
            room: Room::new(capacity_bytes),
            host: HostRoom::default(),
            rows: Vec::new(),
            states: Vec::new(),
            state: ResidenceState::default(),
            holders: Vec::new(),
            orders: Vec::new(),
            next_ns: 0,
            lively_until_ns: 0,
        }
    }

    /// Finds anew who has which row, of tenants by seat, arrival and own row of the device. Whoever stays keeps his.
    pub(super) fn seat(&mut self, tenants: &[(usize, u64, usize)]) {
        for held in &mut self.rows {
            let is_gone = !tenants.iter().any(|(_, arrival, _)| *arrival == held.arrival);
            if is_gone && held.arrival != 0 {
                *held = Row::default();
            }
        }
        for (seat, arrival, row) in tenants {
            if let Some(held) = self.rows.iter_mut().find(|held| held.arrival == *arrival) {
                (held.seat, held.row) = (*seat, *row);
                continue;
            }
            let new = Row { arrival: *arrival, seat: *seat, row: *row, ..Row::default() };
            match self.rows.iter_mut().find(|held| held.arrival == 0) {
                Some(held) => *held = new,
                None => self.rows.push(new),
            }
        }
        self.states.resize_with(self.rows.len(), HolderState::default);
        self.holders.resize(self.rows.len(), Holder::default());
        self.orders.resize(self.rows.len(), HolderOrder::default());
        self.next_ns = 0;
    }

    /// Decides and writes all orders, if that is due.
    pub(super) fn step(
        &mut self,
        now_ns: u64,
        seats: &mut [Seat],
        scanner: &mut Scanner,
    ) -> Stepped {
        let is_any = self.rows.iter().any(|row| row.arrival != 0);
        if !is_any || now_ns < self.next_ns {
            let next_ns = if is_any { self.next_ns } else { u64::MAX };
            return Stepped { next_ns, is_changed: false };
        }
        // The orders of the last step stand before what follows is read.
        fence(SeqCst);
        let mut is_changed = false;
        for held in self.rows.iter_mut().filter(|held| held.arrival != 0) {
            let Some(seat) = seats.get_mut(held.seat) else { continue };
            let Some(tenant) = seat.tenant_mut() else { continue };
            held.read(tenant);
            match held.settle(tenant) {
                Ok(is_new) => is_changed |= is_new,
                Err(error) => {
                    seat.refuse(scanner, error.into());
                    is_changed = true;
                }
            }
        }
        if is_changed {
            self.room.look_again();
        }
        let capacity_bytes = self.room.capacity_bytes(now_ns, seats, &self.device);
        for (held, holder) in self.rows.iter_mut().zip(&mut self.holders) {
            let tenant = seats.get_mut(held.seat).and_then(Seat::tenant_mut);
            *holder = match tenant.filter(|_| held.has_orders()) {
                Some(tenant) => held.sample(tenant, capacity_bytes, now_ns),
                None => Holder::default(),
            };
        }
        let is_lively = self.is_lively(now_ns);
        divide_rows(
            self.managed_bytes.unwrap_or(capacity_bytes),
            self.rows.iter_mut().map(|held| &mut held.managed),
        );
        let room = DeviceRoom { capacity_bytes, host_bytes: u64::MAX };
        let Self { tuning, rows, states, state, holders, orders, host, .. } = self;
        let mut planner = ResidencePlanner { tuning, rows: states, state };
        let next_ns = planner.step(now_ns, room, holders, orders);
        let sizes = holders.iter().map(|holder| holder.size_bytes);
        let sum_bytes = sizes.clone().fold(0_u64, u64::saturating_add);
        let short_bytes = sum_bytes.saturating_sub(capacity_bytes);
        let keeps = short_bytes > 0;
        let copies = rows.iter().map(|held| held.sum.copies_bytes);
        let copies_bytes = copies.fold(0, u64::saturating_add);
        let keep = match keeps {
            true => Keep::new(host.bytes(now_ns, copies_bytes), short_bytes, sizes),
            false => Keep::default(),
        };
        let any_stays = rows.iter().any(|held| held.stays);
        for ((held, holder), given) in rows.iter_mut().zip(holders.iter()).zip(orders.iter()) {
            let Some(seat) = seats.get_mut(held.seat) else { continue };
            let Some(tenant) = seat.tenant_mut().filter(|_| held.has_orders()) else { continue };
            is_changed |= tenant.served.hold(held.row, !given.run, keeps);
            held.count_wait(now_ns, holder, given.run);
            let keep_bytes = keep.of(held.size_bytes);
            if let Err(error) = held.put(tenant, *given, keep_bytes, now_ns) {
                seat.refuse(scanner, error.into());
                is_changed = true;
            }
        }
        self.next_ns = match is_lively {
            true => next_ns.min(now_ns.saturating_add(LIVELY_POLL_NS)),
            false => next_ns,
        };
        if any_stays {
            self.next_ns = self.next_ns.min(now_ns.saturating_add(STAYS_POLL_NS));
        }
        Stepped { next_ns: self.next_ns, is_changed }
    }

    /// Whether memory was made or asked for lately.
    fn is_lively(&mut self, now_ns: u64) -> bool {
        let mut is_news = false;
        for (held, holder) in self.rows.iter_mut().zip(&self.holders) {
            is_news |= holder.asked_bytes > 0 || held.managed.asks();
            is_news |= holder.size_bytes != held.size_bytes;
            held.size_bytes = holder.size_bytes;
        }
        if is_news {
            self.lively_until_ns = now_ns.saturating_add(LIVELY_NS);
        }
        now_ns < self.lively_until_ns
    }

    /// Takes all orders back: everything may be on the card. Nothing is known of anybody afterwards.
    pub(super) fn end(&mut self, seats: &mut [Seat]) {
        for held in self.rows.iter_mut().filter(|held| held.arrival != 0) {
            if let Some(tenant) = seats.get_mut(held.seat).and_then(Seat::tenant_mut) {
                tenant.served.hold(held.row, false, false);
                // Where this fails the leases end.
                let _ = held.take_back(tenant);
            }
        }
        self.rows.clear();
        self.states.clear();
        self.holders.clear();
        self.orders.clear();
    }

    /// The view of it, for people; none where no tenant oversubscribes.
    pub(super) fn view(&self) -> Option<MemoryView> {
        if self.rows.iter().all(|held| held.arrival == 0) {
            return None;
        }
        let sum = |part: fn(&ProcessMemory) -> u64| {
            let movers = self.rows.iter().filter(|held| !held.stays);
            movers.map(|held| held.sum(part)).fold(0, u64::saturating_add)
        };
        let counters = self.state.counters();
        Some(MemoryView {
            capacity_bytes: self.room.last_bytes(),
            resident_bytes: sum(|memory| memory.resident_bytes),
            away_bytes: sum(|memory| memory.away_bytes),
            grants: counters.grants,
            hand_overs: counters.hand_overs,
            early_releases: counters.early_releases,
            out_bytes: counters.out_bytes,
            in_bytes: counters.in_bytes,
            bypassed: counters.bypassed,
            lost_turns: counters.lost_turns,
            waits: counters.waits,
            longest_wait_ns: counters.longest_wait_ns,
            managed_bytes: self.rows.iter().map(|held| held.managed.bytes()).sum(),
            managed_limit_bytes: self.managed_bytes.unwrap_or(self.room.last_bytes()),
        })
    }

    /// The view of the tenant that arrived as this number, where it oversubscribes the device, which people know as `gpu`.
    pub(super) fn view_of(&self, arrival: u64, gpu: &str) -> Option<TenantMemoryView> {
        let at = self.rows.iter().position(|held| held.arrival == arrival)?;
        let held = self.rows.get(at)?;
        let status = match self.orders.get(at)?.status {
            _ if held.stays => "stays",
            HolderStatus::Empty => return None,
            HolderStatus::Runs => "runs",
            HolderStatus::Restores => "restores",
            HolderStatus::Waits => "waits",
            HolderStatus::Rests => "rests",
            HolderStatus::Frozen => "frozen",
            HolderStatus::Larger => "larger",
            HolderStatus::PinnedOut => "pinned-out",
            HolderStatus::Bypassed => "bypassed",
        };
        let waited_ns = held.waited_ns;
        Some(TenantMemoryView { gpu: gpu.to_owned(), status: status.to_owned(), waited_ns })
    }
}

impl Row {
    /// Sum over its processes, as they were sampled last.
    fn sum(&self, part: fn(&ProcessMemory) -> u64) -> u64 {
        self.memory.iter().map(part).fold(0, u64::saturating_add)
    }

    /// Whether it is a tenant's who follows orders.
    fn has_orders(&self) -> bool {
        self.arrival != 0 && !self.stays
    }

    /// Reads what the tenant's processes say.
    fn read(&mut self, tenant: &mut Adopted) {
        self.sum = ResidenceEntry::default();
        self.slots.clear();
        self.memory.clear();
        self.managed.begin();
        tenant.memory(self.row, |slot, entry| {
            self.slots.push(slot);
            self.managed.push(slot, entry);
            self.memory.push(ProcessMemory {
                resident_bytes: entry.resident_bytes.max(entry.leavable_bytes()),
                away_bytes: entry.away_bytes,
                asked_bytes: entry.asked_bytes,
            });
            self.sum = self.sum.with(entry);
        });
    }

    /// Takes the orders back of a tenant whose memory is to stay and is all there, and says whether that is new, as it is
    /// when it is to follow orders again. What is on its way out by an order is not there.
    fn settle(&mut self, tenant: &mut Adopted) -> Result<bool, AttachError> {
        let is_asked = tenant.served.config().flags & FLAG_STAYS != 0;
        let is_whole = self.sum(|memory| memory.away_bytes) == 0;
        let ceiling_bytes = self.ceiling_bytes();
        let is_leaving = !self.stays
            && self.line.lease_ns != 0
            && self.sum(|memory| memory.resident_bytes) > ceiling_bytes;
        let stays = is_asked && is_whole && !is_leaving;
        let is_new = stays != std::mem::replace(&mut self.stays, stays);
        let bit = 1_u32.checked_shl(u32::try_from(self.row).unwrap_or(u32::MAX)).unwrap_or(0);
        tenant.stays = if stays { tenant.stays | bit } else { tenant.stays & !bit };
        if is_new && stays {
            tenant.served.hold(self.row, false, false);
            (self.refuses, self.pinned_out_ns) = (false, 0);
            self.take_back(tenant)?;
        }
        Ok(is_new)
    }

    fn ceiling_bytes(&self) -> u64 {
        self.ceilings.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    /// The tenant's part of the planner's question.
    fn sample(&mut self, tenant: &mut Adopted, capacity_bytes: u64, now_ns: u64) -> Holder {
        let config = tenant.served.config();
        let frozen = std::mem::replace(&mut self.frozen, config.frozen);
        let freeze = match (config.frozen % 2, frozen == config.frozen) {
            (1, true) => Freeze::UntilWanted,
            // Of a new wish nothing is known that was wanted under the one before.
            _ => Freeze::No,
        };
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
            ceiling_bytes: self.ceiling_bytes(),
            quantum_ns,
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
    fn count_wait(&mut self, now_ns: u64, holder: &Holder, runs: bool) {
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

    /// Writes what is not as it stands.
    fn put(
        &mut self,
        tenant: &mut Adopted,
        given: HolderOrder,
        keep_bytes: u64,
        now_ns: u64,
    ) -> Result<(), AttachError> {
        self.pinned_out_ns = match given.status {
            HolderStatus::PinnedOut if self.pinned_out_ns == 0 => now_ns,
            HolderStatus::PinnedOut => self.pinned_out_ns,
            _ => 0,
        };
        let owner = &tenant.hand().owner;
        let mut is_news = false;
        self.given.resize(self.memory.len(), 0);
        divide(given.allowed_bytes, &self.memory, &mut self.given);
        for (slot, _) in self.ceilings.extract_if(.., |(slot, _)| !self.slots.contains(slot)) {
            owner.set_allowed(self.row, slot, 0)?;
        }
        for (slot, bytes) in self.slots.iter().zip(&self.given) {
            match self.ceilings.iter_mut().find(|(other, _)| other == slot) {
                Some((_, stands)) if stands == bytes => continue,
                Some((_, stands)) => *stands = *bytes,
                None => self.ceilings.push((*slot, *bytes)),
            }
            owner.set_allowed(self.row, *slot, *bytes)?;
            is_news = true;
        }
        is_news |= self.managed.put(owner, self.row)?;
        let run = if given.run { order::RUN } else { 0 };
        let refuse = if self.refuses { order::REFUSE } else { 0 };
        // Each of several processes that have any memory has a part of it, and what is written changes rarely.
        let holders = self.memory.iter().filter(|memory| **memory != ProcessMemory::default());
        let keep_bytes = keep_bytes / holders.count().max(1) as u64 / KEEP_STEP * KEEP_STEP;
        let line = OrderLine { lease_ns: 0, keep_bytes, flags: run | refuse, ..self.line };
        let is_other = line != OrderLine { lease_ns: 0, ..self.line };
        is_news |= is_other;
        if is_other || now_ns.saturating_add(LEASE_NS.1) > self.line.lease_ns {
            self.line = OrderLine { lease_ns: now_ns.saturating_add(LEASE_NS.0), ..line };
            owner.set_order(self.row, &self.line)?;
        }
        if is_news { owner.tell_orders() } else { Ok(()) }
    }

    fn take_back(&mut self, tenant: &Adopted) -> Result<(), AttachError> {
        let owner = &tenant.hand().owner;
        self.line = OrderLine::default();
        owner.set_order(self.row, &self.line)?;
        owner.tell_orders()
    }
}

impl Adopted {
    /// Whether its processes follow orders about their memory.
    pub(super) fn oversubscribes(&self) -> bool {
        let files = &self.served;
        files.config().flags & FLAG_OVERSUBSCRIBE != 0
            && self.hand().owner.version() == divvy_abi::ABI_VERSION
    }

    /// Calls `each` with what living processes say of the memory that may leave device `row`; those of which a line is
    /// not empty are looked for anew if they are not known.
    fn memory(&mut self, row: usize, mut each: impl FnMut(usize, ResidenceEntry)) {
        if self.has_unknown(row) {
            // Where this fails, the next round of all tenants tells.
            let _ = self.refresh(super::adopted::ReadDepth::Whole);
        }
        let Some(usage) = self.usage() else { return };
        for slot in self.living_slots() {
            each(slot, usage.residence(row, slot));
        }
    }

    /// Whether a process that is not known says something of its memory on device `row`.
    fn has_unknown(&self, row: usize) -> bool {
        let Some(usage) = self.usage() else { return false };
        let most = usage.slots_high().min(self.most_slots);
        let mut known = self.all_slots().peekable();
        (1..most).any(|slot| {
            while known.next_if(|other| *other < slot).is_some() {}
            let is_known = known.peek() == Some(&slot);
            !is_known && usage.residence(row, slot) != ResidenceEntry::default()
        })
    }

    /// The work of its living processes on device `row`.
    fn work(&self, row: usize) -> GateEntry {
        let mut sum = GateEntry::default();
        if let Some(usage) = self.usage() {
            usage.gates(row, self.living_slots(), |slot, gate| {
                if slot != SHARED_SLOT {
                    sum = sum.with(gate);
                }
            });
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
