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
use divvy_policy::residence::{
    DeviceRoom, DeviceSpan, Freeze, Holder, HolderOrder, HolderState, HolderStatus, HostClaim,
    HostPlace, HostPromise, ProcessMemory, ResidencePlanner, ResidenceState, ResidenceTuning,
};
use divvy_policy::slab::MAX_BYTES;

use super::adopted::ReadDepth;
use super::host_room::{Copies, HostRoom, keep_in_places};
use super::managed::divide_rows;
use super::memory_row::Row;
use super::no_room::{self, Unmoved};
use super::room::Room;
use super::scan::Scanner;
use super::seat::Seat;
use crate::wire::{MemoryView, TenantMemoryView};

/// Time between two steps while tenants come, grow or ask, so that a new process need not wait long for room.
const LIVELY_POLL_NS: u64 = 2_000_000;
/// For so long after the last such event.
const LIVELY_NS: u64 = 2_000_000_000;
/// Time between two looks at tenants whose memory stays.
const STAYS_POLL_NS: u64 = 50_000_000;

/// The tenants that oversubscribe one device.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    device: Uuid,
    tuning: ResidenceTuning,
    room: Room,
    /// Bytes of managed memory that tenants may have together; none for as many as there is room for.
    managed_bytes: Option<u64>,
    rows: Vec<Row>,
    claims: Vec<HostClaim>,
    host_places: Vec<HostPlace>,
    /// Bytes of copies that each row may keep.
    kept_bytes: Vec<u64>,
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
            rows: Vec::new(),
            claims: Vec::new(),
            host_places: Vec::new(),
            kept_bytes: Vec::new(),
            states: Vec::new(),
            state: ResidenceState::default(),
            holders: Vec::new(),
            orders: Vec::new(),
            next_ns: 0,
            lively_until_ns: 0,
        }
    }

    /// Finds anew who has which row, of tenants by seat, arrival, own row of the device and other devices. Whoever stays keeps
    /// his.
    pub(super) fn seat(&mut self, tenants: &[(usize, u64, usize, DeviceSpan)]) {
        for held in &mut self.rows {
            let is_gone = !tenants.iter().any(|(_, arrival, ..)| *arrival == held.arrival);
            if is_gone && held.arrival != 0 {
                *held = Row::default();
            }
        }
        for (seat, arrival, row, span) in tenants {
            if let Some(held) = self.rows.iter_mut().find(|held| held.arrival == *arrival) {
                (held.seat, held.row, held.span) = (*seat, *row, *span);
                continue;
            }
            let new =
                Row { arrival: *arrival, seat: *seat, row: *row, span: *span, ..Row::default() };
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
        host: &mut HostRoom,
    ) -> Stepped {
        let is_any = self.rows.iter().any(|row| row.arrival != 0);
        if !is_any || now_ns < self.next_ns {
            let next_ns = if is_any { self.next_ns } else { u64::MAX };
            return Stepped { next_ns, is_changed: false };
        }
        // The orders of the last step stand before what follows is read.
        fence(SeqCst);
        let is_read_new = self.read(seats, scanner);
        let capacity_bytes = self.room.capacity_bytes(now_ns, seats, &self.device);
        for (held, holder) in self.rows.iter_mut().zip(&mut self.holders) {
            let tenant = seats.get_mut(held.seat).and_then(Seat::tenant_mut);
            *holder = match tenant.filter(|_| held.has_orders()) {
                Some(tenant) => held.sample(tenant, capacity_bytes, now_ns),
                None => Holder::default(),
            };
        }
        self.promise(capacity_bytes, host, now_ns);
        let is_lively = self.is_lively(now_ns);
        divide_rows(
            self.managed_bytes.unwrap_or(capacity_bytes),
            self.rows.iter_mut().map(|held| &mut held.managed),
        );
        let keeps = self.keep_copies(capacity_bytes);
        let room = DeviceRoom { capacity_bytes, room_bytes: self.room.whole_bytes() };
        let Self { tuning, states, state, holders, orders, .. } = self;
        let mut planner = ResidencePlanner { tuning, rows: states, state };
        let next_ns = planner.step(now_ns, room, holders, orders);
        let any_stays = self.rows.iter().any(|held| held.stays);
        let is_changed = self.put(now_ns, seats, scanner, keeps) | is_read_new;
        self.next_ns = match is_lively {
            true => next_ns.min(now_ns.saturating_add(LIVELY_POLL_NS)),
            false => next_ns,
        };
        if any_stays {
            self.next_ns = self.next_ns.min(now_ns.saturating_add(STAYS_POLL_NS));
        }
        Stepped { next_ns: self.next_ns, is_changed }
    }

    /// Reads what tenants' processes say; whether there is anything new about which tenants there are.
    fn read(&mut self, seats: &mut [Seat], scanner: &mut Scanner) -> bool {
        let mut is_changed = false;
        for held in self.rows.iter_mut().filter(|held| held.arrival != 0) {
            let Some(seat) = seats.get_mut(held.seat) else { continue };
            let Some(tenant) = seat.tenant_mut() else { continue };
            held.read(tenant);
            if held.wish.may_be_new(&held.sum) {
                // Where this fails, the next round of all tenants tells.
                is_changed |= tenant.refresh(ReadDepth::Glance).unwrap_or(false);
            }
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
        is_changed
    }

    /// Says for each holder how many bytes of host copies it is due to give back; whether memory must keep copies at all, since
    /// not all of it has room on the card.
    fn keep_copies(&mut self, capacity_bytes: u64) -> bool {
        let sizes = self.holders.iter().map(|holder| holder.size_bytes);
        let short_bytes = sizes.fold(0_u64, u64::saturating_add).saturating_sub(capacity_bytes);
        let rows = self.rows.iter().zip(&self.claims).zip(&self.holders).zip(&self.orders);
        let copies = rows.map(|(((held, claim), holder), order)| Copies {
            size_bytes: holder.size_bytes,
            away_bytes: held.away_bytes_soon(),
            is_coming: matches!(order.status, HolderStatus::Runs | HolderStatus::Restores),
            places: claim.places,
        });
        keep_in_places(&self.host_places, short_bytes, copies, &mut self.kept_bytes);
        let rows = self.rows.iter().zip(&mut self.holders).zip(&self.kept_bytes);
        for ((held, holder), kept_bytes) in rows {
            holder.copies_due_bytes = held.copies_due_bytes(*kept_bytes);
        }
        short_bytes > 0
    }

    /// Writes the orders into tenants' files; whether that changes which tenants there are, or their gates.
    fn put(&mut self, now_ns: u64, seats: &mut [Seat], scanner: &mut Scanner, keeps: bool) -> bool {
        let foreign_mib = u32::try_from(self.room.foreign_bytes() >> 20).unwrap_or(u32::MAX);
        let Self { rows, holders, orders, kept_bytes, .. } = self;
        let mut is_changed = false;
        let all = rows.iter_mut().zip(holders.iter()).zip(orders.iter()).zip(kept_bytes.iter());
        for (((held, holder), given), kept_bytes) in all {
            let Some(seat) = seats.get_mut(held.seat) else { continue };
            let Some(tenant) = seat.tenant_mut().filter(|_| held.arrival != 0) else { continue };
            held.note_runs(tenant, given.run || held.stays);
            if !held.has_orders() {
                continue;
            }
            is_changed |= tenant.served.hold(held.row, !given.run, keeps);
            held.count_wait(now_ns, holder, given.run);
            if let Err(error) = held.put(tenant, *given, (*kept_bytes, foreign_mib), now_ns) {
                seat.refuse(scanner, error.into());
                is_changed = true;
            }
        }
        is_changed
    }

    /// Takes what is asked for back from the samples where host memory cannot be promised for it.
    fn promise(&mut self, capacity_bytes: u64, host: &mut HostRoom, now_ns: u64) {
        host.rooms(&self.device, &mut self.host_places);
        self.claims.clear();
        self.claims.extend(self.rows.iter().zip(&self.holders).map(|(held, holder)| HostClaim {
            held_bytes: holder.size_bytes.saturating_sub(holder.asked_bytes),
            asked_bytes: holder.asked_bytes,
            promised_bytes: held.promised_bytes,
            is_frozen: holder.freeze != Freeze::No,
            places: host.places_of(held.arrival),
            ..HostClaim::default()
        }));
        let places = &self.host_places;
        let promise = HostPromise { capacity_bytes, piece_bytes: MAX_BYTES, places };
        promise.settle(&mut self.claims);
        for place in 0..self.host_places.len() {
            host.note(&self.device, place, promise.needed_bytes(place, &self.claims));
        }
        let all = self.rows.iter_mut().zip(&mut self.holders).zip(&self.claims);
        for ((held, holder), claim) in all {
            held.promised_bytes = claim.promised_bytes;
            held.shortage = claim.shortage;
            if claim.is_refused {
                held.refuses = true;
                holder.size_bytes = claim.held_bytes;
                holder.asked_bytes = 0;
                holder.wants_since_ns = held.sum.waits_from_ns;
            }
            held.refused_ns = if held.refuses { now_ns } else { 0 };
        }
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
    pub(super) fn view_of(
        &self,
        arrival: u64,
        gpu: &str,
        seats: &[Seat],
    ) -> Option<TenantMemoryView> {
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
        let detail = self.no_room(at, seats);
        Some(TenantMemoryView {
            gpu: gpu.to_owned(),
            status: status.to_owned(),
            waited_ns,
            reason: detail.as_ref().map(|_| no_room::CODE.to_owned()),
            detail,
        })
    }

    /// The words for a tenant that waits and has no room for what it holds.
    fn no_room(&self, at: usize, seats: &[Seat]) -> Option<String> {
        let (holder, order) = (self.holders.get(at)?, self.orders.get(at)?);
        let is_out = matches!(order.status, HolderStatus::Larger | HolderStatus::PinnedOut);
        if holder.wants_since_ns == 0 || !is_out && order.locked_out.is_none() {
            return None;
        }
        let kept_bytes = |seat| {
            let rows = self.rows.iter().zip(&self.orders).enumerate();
            let kept = rows.filter(|(other, (held, order))| {
                *other != at && held.seat == seat && order.status == HolderStatus::Bypassed
            });
            kept.map(|(_, (held, _))| held.sum(|memory| memory.resident_bytes)).sum::<u64>()
        };
        let tenants = seats.iter().enumerate();
        let unmoved = tenants.filter_map(|(seat, taken)| {
            let name = taken.tenant()?.hand().path.file_name()?.to_string_lossy().into_owned();
            let fixed_bytes = self.room.fixed_bytes(seat);
            Some(Unmoved { name, fixed_bytes, kept_bytes: kept_bytes(seat) })
        });
        let unmoved: Vec<_> = unmoved.collect();
        let kept_bytes = unmoved.iter().map(|one| one.kept_bytes).fold(0, u64::saturating_add);
        let room_bytes = self.room.whole_bytes().saturating_sub(kept_bytes);
        let foreign_bytes = self.room.foreign_bytes();
        Some(no_room::text(holder.size_bytes, room_bytes, unmoved, foreign_bytes))
    }
}
