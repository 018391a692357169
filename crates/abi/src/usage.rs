//! The `usage` file: what a tenant's processes hold, device by device.
//!
//! The file is mapped by its processes and read by `pread` by everybody else, so it is described by
//! offsets, not by one big structure. A device's ledger row is one line per slot, side by side, so
//! that a scan over all processes of a device reads memory in order.

use crate::{MAX_DEVICES, MAX_SLOTS, Uuid};

/// First bytes of a usage file.
pub const MAGIC: [u8; 8] = *b"DIVVYUSE";

/// Slot 0 belongs to no process: its `held` is memory exported to other processes.
pub const SHARED_SLOT: usize = 0;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// Offset of the magic.
pub const MAGIC_AT: usize = 0;
/// Offset of the layout's version, a `u32`.
pub const VERSION_AT: usize = 8;
/// Offset of the file's size in bytes, a `u32`.
pub const SIZE_AT: usize = 12;
/// Offset of the count of slots ever used, a `u32` in a line of its own; bounds every scan.
pub const SLOTS_HIGH_AT: usize = 64;

/// Offset of the device table.
pub const DEVICES_AT: usize = 1024;
/// Bytes of a device's entry.
pub const DEVICE_BYTES: usize = 128;
/// Offsets inside a device's entry.
pub mod device {
    /// `u32`: 0 free, 1 in use; written last.
    pub const STATE: usize = 0;
    /// `u32`: index on the machine, `u32::MAX` when not known.
    pub const INDEX: usize = 4;
    /// 16 bytes.
    pub const UUID: usize = 8;
    /// `u64`: the card's bytes.
    pub const TOTAL_BYTES: usize = 24;
    /// `u64`: the tenant's limit in bytes; 0 is none.
    pub const LIMIT_BYTES: usize = 32;
    /// 64 bytes, zero-padded.
    pub const NAME: usize = 40;
    /// Bytes of the name.
    pub const NAME_BYTES: usize = 64;
    /// `u32`: 1 where the row of memory that may leave has blocks behind it, and may be touched.
    pub const MAY_LEAVE: usize = 104;
}

/// Offset of the slot table.
pub const SLOTS_AT: usize = HEADER_BYTES;
/// Bytes of a slot's entry.
pub const SLOT_BYTES: usize = 64;
/// Offsets inside a slot's entry. All but the state are for display.
pub mod slot {
    /// `u32`, one of [`super::state`].
    pub const STATE: usize = 0;
    /// `u32`: pid in the process's own namespace.
    pub const PID: usize = 4;
    /// `u64`: start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub const START_TICKS: usize = 8;
    /// `u64`: inode of the pid namespace.
    pub const PID_NAMESPACE: usize = 16;
    /// 16 bytes, zero-padded.
    pub const COMM: usize = 24;
    /// Bytes of the command's name.
    pub const COMM_BYTES: usize = 16;
    /// `u32`: the reason code of the last refusal, 0 for none; slot 0 has that of processes without a slot.
    pub const REASON: usize = 40;
}

/// States of a slot.
pub mod state {
    /// Held by no process.
    pub const FREE: u32 = 0;
    /// Claimed by a process that has not read its limits yet.
    pub const STARTING: u32 = 1;
    /// A running process's.
    pub const LIVE: u32 = 2;
}

/// Offset of the table of memory shared by legacy IPC or by descriptor.
pub const SHARED_AT: usize = SLOTS_AT + SLOT_BYTES * MAX_SLOTS;
/// Entries of that table.
pub const MAX_SHARED: usize = 256;
/// Bytes of an entry.
pub const SHARED_BYTES: usize = 256;
/// Offsets inside an entry.
pub mod shared {
    /// `u32`: 0 free, 1 in use; written last.
    pub const STATE: usize = 0;
    /// `u32`: the device's row.
    pub const ROW: usize = 4;
    /// `u64`: charged bytes.
    pub const BYTES: usize = 8;
    /// 64 bytes: the IPC handle, or a descriptor's mark.
    pub const HANDLE: usize = 16;
    /// 128 bytes: one bit for each slot that refers to it.
    pub const USERS: usize = 80;
}

/// Offset of the ledger.
pub const LEDGER_AT: usize = SHARED_AT + SHARED_BYTES * MAX_SHARED;
/// Bytes of one slot's line of one device: two cache lines, which processors fetch in pairs.
pub const LINE_BYTES: usize = 128;
/// Bytes of one device's row.
pub const ROW_BYTES: usize = LINE_BYTES * MAX_SLOTS;
/// Offsets of the `u64` words of a line.
pub mod line {
    /// Bytes held, with a change counter above bit 48.
    pub const HELD: usize = 0;
    /// Bytes asked for and not settled.
    pub const ASKING: usize = 8;
    /// The largest total of the tenant this process has seen.
    pub const PEAK: usize = 16;
    /// Requests refused.
    pub const REFUSALS: usize = 24;
    /// Twelve words: bytes held by kind.
    pub const KINDS: usize = 32;
}

/// Offset of the compute share's lines.
pub const GATES_AT: usize = LEDGER_AT + ROW_BYTES * MAX_DEVICES;
/// Bytes of one line: a pair of cache lines.
pub const GATE_BYTES: usize = 128;
/// Bytes of one device's row: one line for each slot. Slot 0's is the tenant's: its own words, and
/// the totals of processes that have ended.
pub const GATE_ROW_BYTES: usize = GATE_BYTES * MAX_SLOTS;
/// Offsets of the `u64` words of a process's line, which only it writes. Times are CLOCK_MONOTONIC.
pub mod gate {
    /// When the work this process has in flight will have ended, as far as it can tell.
    pub const BUSY_UNTIL_NS: usize = 0;
    /// When a thread was last waiting for a turn; renewed every 20 ms.
    pub const WANT_NS: usize = 8;
    /// When work was last submitted.
    pub const LAST_LAUNCH_NS: usize = 16;
    /// Device time charged; falls only when an estimate is put right.
    pub const USED_NS: usize = 24;
    /// Launches, copies and fills charged.
    pub const LAUNCHES: usize = 32;
    /// The longest kernel or graph seen.
    pub const LONGEST_NS: usize = 40;
    /// Time threads waited for the tenant's own cap.
    pub const THROTTLED_NS: usize = 48;
    /// Time threads waited for turns.
    pub const WAITED_NS: usize = 56;
    /// Waits for work to drain that were given up.
    pub const DRAINS_GIVEN_UP: usize = 64;
    /// Threads that sleep until work in flight has ended.
    pub const SLEEPERS: usize = 72;
    /// Until when this process keeps the tenant's turn, where its work does not keep it longer; or, while it is not
    /// its turn, its place in the queue for it.
    pub const LEASE_NS: usize = 80;
    /// [`USED_NS`] when its turn began, or when it was counted last.
    pub const TURN_FROM_NS: usize = 88;
    /// Device time it was served among the tenant's processes; set to theirs when it comes back.
    pub const SERVED_NS: usize = 96;
    /// The turn it had last, as [`super::gate_tenant::TURN`] was then.
    pub const TURN: usize = 104;
    /// Since when it has work whose charge may be wrong; 0 for none.
    pub const UNSETTLED_NS: usize = 112;
    /// Not 0 once its work may wait for another process's: memory or events are shared with one.
    pub const JOINED: usize = 120;
    /// Words that add up over processes, living and ended.
    pub const TOTALS: [usize; 5] = [USED_NS, LAUNCHES, THROTTLED_NS, WAITED_NS, DRAINS_GIVEN_UP];
    /// Words of a process's line.
    pub const WORDS: usize = 16;
}
/// Offsets of the tenant's own words in slot 0's line, in the place of those that no total is of.
pub mod gate_tenant {
    /// When what was let go through the closed gate is paid back.
    pub const AHEAD_NS: usize = 0;
    /// When work on the device was last seen in flight that should have ended.
    pub const LATE_NS: usize = 8;
    /// When work on the device and on another of the tenant's last waited for each other, as it seems; 0 for never.
    pub const LINKED_NS: usize = 16;
    /// The virtual clock of the cap: when all that was charged is paid.
    pub const PAID_AT_NS: usize = 80;
    /// Until when the cap keeps the gate closed; 0 while it is open.
    pub const CLOSED_UNTIL_NS: usize = 88;
    /// The share, in millionths, that what is owed is valued at.
    pub const SHARE_PPM: usize = 96;
    /// Turn among the tenant's processes: the holder's slot below bit 16, which is set once it is handed on, then a
    /// bit that lets others go beside, and a count of turns. The lower half is also a futex word.
    pub const TURN: usize = 104;
    /// Savings of the cap while it is not used: microseconds below bit 24, and above it the time of that entry, in
    /// milliseconds.
    pub const SAVES: usize = 112;
    /// Until when the tenant's processes take no turns, since work of one has waited for another's; a time that has
    /// passed is when that seemed so last.
    pub const TOGETHER_NS: usize = 120;
    /// Words of the tenant.
    pub const WORDS: usize = 9;
}

/// Offset of the lines of memory that may leave the card.
pub const RESIDENCE_AT: usize = GATES_AT + GATE_ROW_BYTES * MAX_DEVICES;
/// Bytes of one line: two pairs of cache lines, of which the second is used by managed memory alone.
pub const RESIDENCE_BYTES: usize = 256;
/// Bytes of one device's row: one line for each slot, of which slot 0's has the totals of processes that have ended. It is
/// behind real blocks in tenants alone that oversubscribe.
pub const RESIDENCE_ROW_BYTES: usize = RESIDENCE_BYTES * MAX_SLOTS;
/// Offsets of the `u64` words of a process's line, which only it writes. Times are CLOCK_MONOTONIC.
pub mod residence {
    /// Bytes of the memory that may leave, wherever it is: of the chunks that the driver gave, used or not.
    pub const MOVABLE_BYTES: usize = 0;
    /// Of these, the bytes that are on the host.
    pub const AWAY_BYTES: usize = 8;
    /// Of those on the card, the bytes that must stay there.
    pub const PINNED_BYTES: usize = 16;
    /// Bytes that have left the card, ever.
    pub const OUT_BYTES: usize = 24;
    /// Bytes that have come back.
    pub const IN_BYTES: usize = 32;
    /// Time in which bytes left.
    pub const OUT_NS: usize = 40;
    /// Time in which bytes came back.
    pub const IN_NS: usize = 48;
    /// Times all of it has left.
    pub const LEFT: usize = 56;
    /// Times it was to leave, with no work under way, and stayed, since the host has no room.
    pub const STAYED: usize = 64;
    /// Since when a call waits for memory that is away or for its turn; 0 while none does.
    pub const WAITS_FROM_NS: usize = 72;
    /// 1 while memory moves.
    pub const MOVING: usize = 80;
    /// Bytes on the card of the memory that may leave, those that must stay apart: raised before they are taken, and
    /// lowered after they were given back.
    pub const RESIDENT_BYTES: usize = 88;
    /// Bytes that calls wait to have beyond the ceiling.
    pub const ASKED_BYTES: usize = 96;
    /// Bytes of the card that the driver said were free, to any process.
    pub const FREE_BYTES: usize = 104;
    /// When it did.
    pub const FREE_NS: usize = 112;
    /// Bytes of the host that copies take, filled or not.
    pub const COPIES_BYTES: usize = 120;
    /// Bytes of memory that may leave and is managed, wherever it is: raised before the driver is asked, and lowered after
    /// it was given back.
    pub const MANAGED_BYTES: usize = 128;
    /// Bytes of such that a call waits to have beyond its ceiling.
    pub const ASKED_MANAGED_BYTES: usize = 136;
    /// Words that add up over processes, living and ended.
    pub const TOTALS: [usize; 6] = [OUT_BYTES, IN_BYTES, OUT_NS, IN_NS, LEFT, STAYED];
    /// Why some was to leave and stayed, at the last attempt: a [`super::Stays`].
    pub const STAYS: usize = 144;
    /// Words of a line.
    pub const WORDS: usize = 19;
}

/// Reason why memory that was to leave the card has stayed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Stays {
    /// It has left, or none was to.
    #[default]
    Not = 0,
    /// A call of the program that may use it has not returned.
    Calls = 1,
    /// Work on the card has not ended.
    Work = 2,
    /// A stream is being captured.
    Capture = 3,
    /// The host has no room for it.
    Host = 4,
    /// The contexts of its device answer no call any more.
    Context = 5,
    /// The driver refuses to move it.
    Driver = 6,
}

impl Stays {
    /// The reason that a word stands for.
    pub const fn of(word: u64) -> Self {
        match word {
            1 => Self::Calls,
            2 => Self::Work,
            3 => Self::Capture,
            4 => Self::Host,
            5 => Self::Context,
            6 => Self::Driver,
            _ => Self::Not,
        }
    }
}

/// Bytes of the whole file.
pub const USAGE_BYTES: usize = RESIDENCE_AT + RESIDENCE_ROW_BYTES * MAX_DEVICES;

/// Byte of the admission lock, beyond the data so that no I/O meets it.
pub const ADMISSION_LOCK_AT: u64 = 1 << 40;
/// Byte of the liveness lock of slot 0; slot n's is n further.
pub const SLOT_LOCKS_AT: u64 = ADMISSION_LOCK_AT + 4096;

/// Purpose of a charge; an index into a line's `KINDS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MemoryKind {
    /// `cuMemAlloc`, `cuMemAllocPitch`.
    Block = 0,
    /// `cuMemAllocManaged`.
    Managed = 1,
    /// Stream-ordered pools, by what they reserve.
    Pool = 2,
    /// `cuMemCreate` handles.
    Vmm = 3,
    /// Arrays and mipmapped arrays.
    Array = 4,
    /// Memory nodes of graphs.
    Graph = 5,
    /// Module and library globals and code.
    Module = 6,
    /// Contexts.
    Context = 7,
    /// Device heap, printf buffer, local memory.
    Heap = 8,
    /// Memory of another process, opened by legacy IPC or exported.
    Shared = 9,
    /// Memory imported by descriptor, fabric or external handle.
    Imported = 10,
    /// Memory that an audit found beyond the ledger.
    Other = 11,
}

impl MemoryKind {
    /// All kinds, in the order of their words.
    pub const ALL: [Self; 12] = [
        Self::Block,
        Self::Managed,
        Self::Pool,
        Self::Vmm,
        Self::Array,
        Self::Graph,
        Self::Module,
        Self::Context,
        Self::Heap,
        Self::Shared,
        Self::Imported,
        Self::Other,
    ];

    /// Name in tables and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Block => "blocks",
            Self::Managed => "managed",
            Self::Pool => "pools",
            Self::Vmm => "vmm",
            Self::Array => "arrays",
            Self::Graph => "graphs",
            Self::Module => "modules",
            Self::Context => "contexts",
            Self::Heap => "heap",
            Self::Shared => "shared",
            Self::Imported => "imported",
            Self::Other => "other",
        }
    }
}

/// Offset of device `row`'s entry.
pub const fn device_at(row: usize) -> usize {
    DEVICES_AT + DEVICE_BYTES * row
}

/// Offset of `slot`'s entry.
pub const fn slot_at(slot: usize) -> usize {
    SLOTS_AT + SLOT_BYTES * slot
}

/// Offset of shared entry `index`.
pub const fn shared_at(index: usize) -> usize {
    SHARED_AT + SHARED_BYTES * index
}

/// Offset of `slot`'s line in device `row`.
pub const fn line_at(row: usize, slot: usize) -> usize {
    LEDGER_AT + ROW_BYTES * row + LINE_BYTES * slot
}

/// Offset of `slot`'s gate line in device `row`.
pub const fn gate_at(row: usize, slot: usize) -> usize {
    GATES_AT + GATE_ROW_BYTES * row + GATE_BYTES * slot
}

/// Offset of `slot`'s line of memory that may leave device `row`.
pub const fn residence_at(row: usize, slot: usize) -> usize {
    RESIDENCE_AT + RESIDENCE_ROW_BYTES * row + RESIDENCE_BYTES * slot
}

const _: () = assert!(DEVICES_AT + DEVICE_BYTES * MAX_DEVICES <= HEADER_BYTES);
const _: () = assert!(device::NAME + device::NAME_BYTES <= device::MAY_LEAVE);
const _: () = assert!(shared::USERS + MAX_SLOTS / 8 <= SHARED_BYTES);
const _: () = assert!(line::KINDS + 8 * MemoryKind::ALL.len() == LINE_BYTES);
const _: () = assert!(LEDGER_AT.is_multiple_of(4096) && RESIDENCE_AT == 4_329_472);
const _: () = assert!(8 * residence::WORDS <= RESIDENCE_BYTES && USAGE_BYTES == 8_523_776);
const _: () = assert!(size_of::<Uuid>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_its_own_word() {
        for (index, kind) in MemoryKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{}", kind.word());
        }
    }

    #[test]
    fn tables_do_not_overlap() {
        assert!(device_at(MAX_DEVICES) <= SLOTS_AT);
        assert_eq!(slot_at(MAX_SLOTS), SHARED_AT);
        assert_eq!(shared_at(MAX_SHARED), LEDGER_AT);
        assert_eq!(line_at(MAX_DEVICES, 0), GATES_AT);
        assert_eq!(gate_at(MAX_DEVICES, 0), RESIDENCE_AT);
        assert_eq!(residence_at(MAX_DEVICES, 0), USAGE_BYTES);
        assert_eq!(line_at(3, MAX_SLOTS), line_at(4, 0));
    }
}
