//! Room of a device for memory that can move: its size, without what is there and cannot.
//!
//! Contexts, pools, a program's own handles and all memory of tenants that do not oversubscribe, or whose memory is to
//! stay, cannot move: the ledgers say how much there is. Memory of no tenant, and the driver's own, is what a card has used beyond that; a process of a
//! tenant says now and then how much of the card is free.
//!
//! Promises: what tenants say of the card's size and of what is free changes nobody's bytes: a claim that is too large
//! makes a create fail, which is tried again; one that is too small is outvoted by any other. Of what must stay no more is
//! believed than the ledger charges. Reads each tenant's ledger
//! at most once in [`LOOK_NS`]. Does not know who may have the room.

use divvy_abi::Uuid;
use divvy_abi::usage::{MemoryKind, SHARED_SLOT};
use divvy_page::reader::UsageFile;
use divvy_policy::slab::MAX_BYTES;

use super::seat::Seat;

/// Time between two looks at ledgers.
const LOOK_NS: u64 = 20_000_000;
/// Part of a card that is kept until it is known what the driver itself has there.
const UNKNOWN_PART: u64 = 64;
/// A word about what is free is believed when it is older than nothing that has moved, by so much.
const STILL_NS: u64 = 20_000_000;

/// The room of one device.
#[derive(Debug)]
pub(super) struct Room {
    capacity_bytes: Option<u64>,
    last_bytes: u64,
    /// The room without an operator's bound.
    whole_bytes: u64,
    looked_ns: u64,
    /// Sum of what tenants had on the card, and since when it has been that.
    there_bytes: u64,
    there_since_ns: u64,
    /// Used by no tenant, once it is known.
    foreign_bytes: Option<u64>,
    /// Bytes that cannot move, by the seats of their tenants.
    fixed: Vec<(usize, u64)>,
}

/// Freedom of a tenant's memory to move.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// None of it can leave.
    Fixed,
    /// It leaves by order.
    Movable,
    /// It could leave, and its owner has said that it stays.
    Stays,
}

/// Sums over the tenants of a device.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    total_bytes: u64,
    fixed_bytes: u64,
    movable_bytes: u64,
    /// Of the fixed, what could leave if its owner had not said that it stays.
    stays_bytes: u64,
    /// The newest words about free memory: when, and the most that was said at about that time.
    free: (u64, u64),
    /// The driver moves some of it by itself, so that what is free says nothing of what else is there.
    is_managed: bool,
}

impl Room {
    /// Of a device where no more than `capacity_bytes` of what can move may be, if that is less than there is room for.
    pub(super) fn new(capacity_bytes: Option<u64>) -> Self {
        Self {
            capacity_bytes,
            last_bytes: 0,
            whole_bytes: 0,
            looked_ns: 0,
            there_bytes: 0,
            there_since_ns: 0,
            foreign_bytes: None,
            fixed: Vec::new(),
        }
    }

    /// Has the next question looked into anew.
    pub(super) fn look_again(&mut self) {
        self.looked_ns = 0;
    }

    /// As it was last.
    pub(super) fn last_bytes(&self) -> u64 {
        self.last_bytes
    }

    /// The room at the last look, without an operator's bound: that counts for new memory, not for memory that is there.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Bytes of the tenant in `seat` that cannot move, as the last look found them.
    pub(super) fn fixed_bytes(&self, seat: usize) -> u64 {
        let of = self.fixed.iter().filter(|(other, _)| *other == seat);
        of.map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of the device that no tenant has, as far as that is known.
    pub(super) fn foreign_bytes(&self) -> u64 {
        self.foreign_bytes.unwrap_or(0)
    }

    /// Bytes of the device for memory that can move, where these tenants are seated.
    pub(super) fn capacity_bytes(&mut self, now_ns: u64, seats: &[Seat], device: &Uuid) -> u64 {
        if now_ns < self.looked_ns.saturating_add(LOOK_NS) && self.looked_ns != 0 {
            return self.last_bytes;
        }
        self.looked_ns = now_ns;
        let mut sums = Sums::default();
        self.fixed.clear();
        for (seat, taken) in seats.iter().enumerate() {
            let Some(tenant) = taken.tenant() else { continue };
            if let (Some(row), Some(usage)) = (tenant.served.row_of(device), tenant.usage()) {
                let slots = tenant.living_slots();
                let kind = match (tenant.oversubscribes(), tenant.stays >> row & 1) {
                    (false, _) => Kind::Fixed,
                    (true, 0) => Kind::Movable,
                    (true, _) => Kind::Stays,
                };
                let before_bytes = sums.fixed_bytes;
                sums.add(usage, row, slots, kind, now_ns);
                self.fixed.push((seat, sums.fixed_bytes.saturating_sub(before_bytes)));
            }
        }
        self.learn(now_ns, &sums);
        let unknown_bytes = sums.total_bytes / UNKNOWN_PART;
        let foreign_bytes = self.foreign_bytes.unwrap_or(unknown_bytes);
        let room_bytes = sums.total_bytes.saturating_sub(foreign_bytes);
        let room_bytes = room_bytes.saturating_sub(sums.fixed_bytes);
        self.whole_bytes = room_bytes;
        let capacity_bytes = self.capacity_bytes.unwrap_or(u64::MAX);
        self.last_bytes = room_bytes.min(capacity_bytes.saturating_sub(sums.stays_bytes));
        self.last_bytes
    }

    /// Learns what is used by no tenant, from a word about free memory while nothing moves.
    fn learn(&mut self, now_ns: u64, sums: &Sums) {
        let there_bytes = sums.fixed_bytes.saturating_add(sums.movable_bytes);
        if there_bytes != self.there_bytes {
            (self.there_bytes, self.there_since_ns) = (there_bytes, now_ns);
        }
        let (said_ns, free_bytes) = sums.free;
        if !sums.is_managed && said_ns > self.there_since_ns.saturating_add(STILL_NS) {
            let used_bytes = sums.total_bytes.saturating_sub(free_bytes);
            self.foreign_bytes = Some(used_bytes.saturating_sub(there_bytes));
        }
    }
}

impl Sums {
    fn add(
        &mut self,
        usage: &UsageFile,
        row: usize,
        slots: impl Iterator<Item = usize>,
        kind: Kind,
        now_ns: u64,
    ) {
        let total_bytes = usage.device(row).map_or(0, |device| device.total_bytes);
        self.total_bytes = self.total_bytes.max(total_bytes);
        let (mut pinned_bytes, mut most_pinned_bytes) = (0_u64, 0_u64);
        for slot in slots {
            let line = usage.line(row, slot);
            let memory = match kind {
                Kind::Fixed => Default::default(),
                Kind::Movable | Kind::Stays => usage.residence(row, slot),
            };
            self.is_managed |= memory.managed_bytes > 0;
            let (fixed_bytes, movable_bytes) = match memory.movable_bytes {
                0 => (line.held_bytes, 0),
                _ => {
                    let blocks_bytes = line.bytes_of(MemoryKind::Block);
                    let others_bytes = line.held_bytes.saturating_sub(blocks_bytes);
                    pinned_bytes = pinned_bytes.saturating_add(memory.pinned_bytes);
                    let most_bytes = blocks_bytes.saturating_add(MAX_BYTES);
                    most_pinned_bytes = most_pinned_bytes.saturating_add(most_bytes);
                    (others_bytes, memory.leavable_bytes())
                }
            };
            let (stays_bytes, movable_bytes) = match kind {
                Kind::Stays => (movable_bytes, 0),
                Kind::Fixed | Kind::Movable => (0, movable_bytes),
            };
            self.stays_bytes = self.stays_bytes.saturating_add(stays_bytes);
            self.fixed_bytes =
                self.fixed_bytes.saturating_add(fixed_bytes).saturating_add(stays_bytes);
            self.movable_bytes = self.movable_bytes.saturating_add(movable_bytes);
            let (said_ns, free_bytes) = (memory.free_ns, memory.free_bytes);
            let (last_ns, most_bytes) = self.free;
            // A word from a time to come would outlast all others.
            if said_ns > now_ns {
                continue;
            }
            if said_ns > last_ns.saturating_add(STILL_NS) {
                self.free = (said_ns, free_bytes);
            } else if said_ns.saturating_add(STILL_NS) >= last_ns && said_ns != 0 {
                self.free = (said_ns.max(last_ns), free_bytes.max(most_bytes));
            }
        }
        // Pinned memory was exported: its charge is among what is shared, where that has room for it, else among blocks, and
        // of a slab more than these is there. What is beyond that is learnt as what no tenant has.
        let shared_bytes = usage.line(row, SHARED_SLOT).held_bytes;
        let pinned_bytes = pinned_bytes.min(most_pinned_bytes.saturating_add(shared_bytes));
        self.fixed_bytes = self.fixed_bytes.saturating_add(shared_bytes.max(pinned_bytes));
    }
}
