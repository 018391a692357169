//! A process's words about memory that may leave a device: how much there is, where it is, and what has moved.
//!
//! Promises: only this process writes them; each is one store, so that a reader may find words of two instants and no
//! word that was never true. Does not know what moves it.

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::config::{MANAGED_REFUSED, OrderLine, order};
use divvy_abi::usage::{self, SHARED_SLOT, Stays, residence};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};

use crate::fault;
use crate::reader::{Living, UsageFile};
use crate::usage::Usage;

/// The words of one process on one device.
#[derive(Clone, Copy, Debug)]
pub struct ResidenceWords {
    usage: Usage,
    at: usize,
}

impl ResidenceWords {
    pub(crate) fn new(usage: Usage, row: usize, slot: usize) -> Self {
        Self { usage, at: usage::residence_at(row, slot) }
    }

    /// Says how many bytes are on the card, those that must stay apart.
    pub fn set_resident(&self, bytes: u64) {
        self.set(residence::RESIDENT_BYTES, bytes);
    }

    /// Says how many bytes of the host copies take.
    pub fn set_copies(&self, bytes: u64) {
        self.set(residence::COPIES_BYTES, bytes);
    }

    /// Says how many bytes of the card are free, by the driver's word at `ns`.
    pub fn set_free(&self, bytes: u64, ns: u64) {
        self.set(residence::FREE_BYTES, bytes);
        self.set(residence::FREE_NS, ns);
    }

    /// Asks for `bytes` more than the ceiling leaves; takes so many back where they are negative.
    pub fn ask(&self, bytes: u64) {
        if bytes != 0 {
            self.add(residence::ASKED_BYTES, bytes);
        }
    }

    /// Says how many bytes of it are managed, wherever they are.
    pub fn set_managed(&self, bytes: u64) {
        self.set(residence::MANAGED_BYTES, bytes);
    }

    /// Asks for `bytes` of managed memory beyond its ceiling; 0 for none.
    pub fn ask_managed(&self, bytes: u64) {
        self.set(residence::ASKED_MANAGED_BYTES, bytes);
    }

    /// Says how many bytes may leave, how many of them are away, and how many must stay.
    pub fn set_places(&self, movable_bytes: u64, away_bytes: u64, pinned_bytes: u64) {
        self.set(residence::MOVABLE_BYTES, movable_bytes);
        self.set(residence::AWAY_BYTES, away_bytes);
        self.set(residence::PINNED_BYTES, pinned_bytes);
    }

    /// Adds `bytes` that have left within `ns`; all of it has, if `is_all`.
    pub fn add_out(&self, bytes: u64, ns: u64, is_all: bool) {
        self.add(residence::OUT_BYTES, bytes);
        self.add(residence::OUT_NS, ns);
        self.add(residence::LEFT, u64::from(is_all));
    }

    /// Adds `bytes` that have come back within `ns`.
    pub fn add_in(&self, bytes: u64, ns: u64) {
        self.add(residence::IN_BYTES, bytes);
        self.add(residence::IN_NS, ns);
    }

    /// Counts one time that it was to leave, had no work under way, and stayed.
    pub fn add_stayed(&self) {
        self.add(residence::STAYED, 1);
    }

    /// Says why some of it was to leave and stayed.
    pub fn set_stays(&self, stays: Stays) {
        self.set(residence::STAYS, stays as u64);
    }

    /// Says whether it is moving.
    pub fn set_moving(&self, is_moving: bool) {
        self.set(residence::MOVING, u64::from(is_moving));
    }

    /// Says since when a call waits for it; 0 for none.
    pub fn set_waits_from(&self, ns: u64) {
        self.set(residence::WAITS_FROM_NS, ns);
    }

    fn set(&self, word: usize, value: u64) {
        fault::point();
        self.usage.u64_at(self.at + word).store(value, SeqCst);
    }

    fn add(&self, word: usize, value: u64) {
        fault::point();
        let word = self.usage.u64_at(self.at + word);
        // Several threads of the process may add at once; a sum wraps where something is taken back.
        word.fetch_add(value, SeqCst);
    }
}

/// The owner's order to one process about its memory on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryOrder {
    /// Bytes that it may have on the card, of the memory that may leave.
    pub allowed_bytes: u64,
    /// Bytes of the host that it may take for copies before it needs them, and keep.
    pub keep_bytes: u64,
    managed: u64,
    flags: u32,
    refused_ns: u64,
    host_needed_bytes: u64,
    host_room_bytes: u64,
    locked_out: LockedOutWords,
}

/// Reason why calls that wait for memory wait in vain, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockedOutWords {
    /// Bytes that the tenant holds.
    pub needed_bytes: u64,
    /// Bytes of the device that it could have.
    pub room_bytes: u64,
    /// MiB there that are no tenant's.
    pub foreign_mib: u32,
}

/// Room that the host does not have, for which an owner refuses memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRefusal {
    /// Bytes that the host would have to hold of what may leave the card, with what was refused.
    pub needed_bytes: u64,
    /// Bytes that it has for it.
    pub room_bytes: u64,
}

impl MemoryOrder {
    pub(crate) fn new(allowed_bytes: u64, managed: u64, line: &OrderLine) -> Self {
        Self {
            allowed_bytes,
            managed,
            keep_bytes: line.keep_bytes,
            flags: line.flags,
            refused_ns: line.refused_ns,
            host_needed_bytes: line.host_needed_bytes,
            host_room_bytes: line.host_room_bytes,
            locked_out: LockedOutWords {
                needed_bytes: line.out_needed_bytes,
                room_bytes: line.out_room_bytes,
                foreign_mib: line.foreign_mib,
            },
        }
    }

    /// Whether calls that wait for memory wait in vain, and why.
    pub fn locked_out(self) -> Option<LockedOutWords> {
        (self.flags & order::LOCKED_OUT != 0).then_some(self.locked_out)
    }

    /// Bytes of managed memory that it may have, wherever they are.
    pub fn managed_bytes(self) -> u64 {
        if self.managed & MANAGED_REFUSED == 0 { self.managed } else { 0 }
    }

    /// Whether so many bytes of managed memory, those that it has included, are not to be had.
    pub fn refuses_managed(self, bytes: u64) -> bool {
        self.managed == MANAGED_REFUSED | bytes
    }

    /// Whether calls may use the memory, once all of it is there.
    pub fn runs(self) -> bool {
        self.flags & order::RUN != 0
    }

    /// Whether what is asked for beyond the ceiling since `asked_ns`, in CLOCK_MONOTONIC, is not to be had: a refusal of what
    /// was asked for before may still stand.
    pub fn refuses(self, asked_ns: u64) -> bool {
        let is_of_it = self.refused_ns == 0 || self.refused_ns >= asked_ns;
        self.flags & order::REFUSE != 0 && is_of_it
    }

    /// The host's room, where it is refused for want of that.
    pub fn host_refusal(self) -> Option<HostRefusal> {
        let (needed_bytes, room_bytes) = (self.host_needed_bytes, self.host_room_bytes);
        (needed_bytes != 0).then_some(HostRefusal { needed_bytes, room_bytes })
    }
}

/// One process's memory that may leave a device, as the owner's side reads it: a claim of the process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ResidenceEntry {
    /// Bytes that may leave, wherever they are.
    pub movable_bytes: u64,
    /// Of these, the bytes on the host.
    pub away_bytes: u64,
    /// Of those on the card, the bytes that stay there.
    pub pinned_bytes: u64,
    /// Bytes that have left, ever.
    pub out_bytes: u64,
    /// Bytes that have come back.
    pub in_bytes: u64,
    /// Time in which bytes left.
    pub out_ns: u64,
    /// Time in which bytes came back.
    pub in_ns: u64,
    /// Times all of it has left.
    pub left: u64,
    /// Times it was to leave and stayed.
    pub stayed: u64,
    /// Since when a call waits for it, in CLOCK_MONOTONIC; 0 for none.
    pub waits_from_ns: u64,
    /// Whether it moves.
    pub moving: bool,
    /// Bytes on the card of the memory that may leave, those that must stay apart, and those that are about to be taken.
    pub resident_bytes: u64,
    /// Bytes that calls wait to have beyond the ceiling.
    pub asked_bytes: u64,
    /// Bytes of the card that the driver said were free.
    pub free_bytes: u64,
    /// When it did; 0 for never.
    pub free_ns: u64,
    /// Bytes of the host that copies take, filled or not.
    pub copies_bytes: u64,
    /// How many lines have memory that can leave: 1 for a process, or 0.
    pub movers: u64,
    /// Bytes that may leave and are managed, wherever they are.
    pub managed_bytes: u64,
    /// Bytes of such that a call waits to have.
    pub asked_managed_bytes: u64,
    /// Why some was to leave and stayed.
    pub stays: Stays,
}

impl ResidenceEntry {
    fn of(words: &[u64; residence::WORDS]) -> Self {
        let word = |at: usize| words.get(at / 8).copied().unwrap_or(0);
        Self {
            movable_bytes: word(residence::MOVABLE_BYTES),
            away_bytes: word(residence::AWAY_BYTES),
            pinned_bytes: word(residence::PINNED_BYTES),
            out_bytes: word(residence::OUT_BYTES),
            in_bytes: word(residence::IN_BYTES),
            out_ns: word(residence::OUT_NS),
            in_ns: word(residence::IN_NS),
            left: word(residence::LEFT),
            stayed: word(residence::STAYED),
            waits_from_ns: word(residence::WAITS_FROM_NS),
            moving: word(residence::MOVING) != 0,
            resident_bytes: word(residence::RESIDENT_BYTES),
            asked_bytes: word(residence::ASKED_BYTES),
            free_bytes: word(residence::FREE_BYTES),
            free_ns: word(residence::FREE_NS),
            copies_bytes: word(residence::COPIES_BYTES),
            movers: u64::from(word(residence::MOVABLE_BYTES) > word(residence::PINNED_BYTES)),
            managed_bytes: word(residence::MANAGED_BYTES),
            asked_managed_bytes: word(residence::ASKED_MANAGED_BYTES),
            stays: Stays::of(word(residence::STAYS)),
        }
    }

    /// Bytes that may leave and are on the card, as the places of chunks say: without those that are about to come.
    pub fn leavable_bytes(&self) -> u64 {
        let gone_bytes = self.away_bytes.saturating_add(self.pinned_bytes);
        self.movable_bytes.saturating_sub(gone_bytes)
    }

    /// The part of it that stays once its process has ended: the totals.
    #[must_use]
    pub fn ended(&self) -> Self {
        Self {
            out_bytes: self.out_bytes,
            in_bytes: self.in_bytes,
            out_ns: self.out_ns,
            in_ns: self.in_ns,
            left: self.left,
            stayed: self.stayed,
            ..Self::default()
        }
    }

    /// With another process's: sums, the longest wait, the newest word about free memory, and whether any moves.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let wait = match (self.waits_from_ns, other.waits_from_ns) {
            (0, wait) | (wait, 0) => wait,
            (one, another) => one.min(another),
        };
        Self {
            movable_bytes: self.movable_bytes.saturating_add(other.movable_bytes),
            away_bytes: self.away_bytes.saturating_add(other.away_bytes),
            pinned_bytes: self.pinned_bytes.saturating_add(other.pinned_bytes),
            out_bytes: self.out_bytes.saturating_add(other.out_bytes),
            in_bytes: self.in_bytes.saturating_add(other.in_bytes),
            out_ns: self.out_ns.saturating_add(other.out_ns),
            in_ns: self.in_ns.saturating_add(other.in_ns),
            left: self.left.saturating_add(other.left),
            stayed: self.stayed.saturating_add(other.stayed),
            waits_from_ns: wait,
            moving: self.moving || other.moving,
            resident_bytes: self.resident_bytes.saturating_add(other.resident_bytes),
            asked_bytes: self.asked_bytes.saturating_add(other.asked_bytes),
            free_bytes: if self.free_ns >= other.free_ns {
                self.free_bytes
            } else {
                other.free_bytes
            },
            free_ns: self.free_ns.max(other.free_ns),
            copies_bytes: self.copies_bytes.saturating_add(other.copies_bytes),
            movers: self.movers.saturating_add(other.movers),
            managed_bytes: self.managed_bytes.saturating_add(other.managed_bytes),
            asked_managed_bytes: self.asked_managed_bytes.saturating_add(other.asked_managed_bytes),
            stays: if self.stays == Stays::Not { other.stays } else { self.stays },
        }
    }
}

impl UsageFile {
    /// The line of `slot` on the device in `row`; zeroes where no memory may leave.
    pub fn residence(&self, row: usize, slot: usize) -> ResidenceEntry {
        let at = usage::residence_at(row.min(MAX_DEVICES - 1), slot.min(MAX_SLOTS - 1));
        ResidenceEntry::of(&self.words(at))
    }

    /// The sum over all processes on the device in `row`; of those that have ended the totals alone count.
    ///
    /// Cost: one `pread` for each slot below [`UsageFile::slots_high`], and a look at the lock of each process that says
    /// anything.
    pub fn residence_sum(&self, row: usize) -> ResidenceEntry {
        let mut living = Living::of(self);
        (SHARED_SLOT..self.slots_high()).fold(ResidenceEntry::default(), |sum, slot| {
            let entry = self.residence(row, slot);
            let is_ended = entry != entry.ended() && (slot == SHARED_SLOT || !living.has(slot));
            sum.with(if is_ended { entry.ended() } else { entry })
        })
    }
}
