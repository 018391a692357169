//! The `config` file: the tenant's limits, written by its owner.
//!
//! Processes map it read-only. Limits are read as a whole when a process attaches and again when
//! `epoch` has moved on; the gate lines at its end, and the orders behind them, are read word by word, all the time.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{ABI_VERSION, MAX_DEVICES, MAX_SLOTS, Uuid};

/// First bytes of a config file.
pub const MAGIC: [u8; 8] = *b"DIVVYCFG";

/// Limit rules of one kind a tenant can have: one for all devices and two for each.
pub const MAX_RULES: usize = 33;

/// Millionths of a whole.
pub const PPM: u64 = 1_000_000;

/// Bytes of a tenant's name, zero-padded UTF-8.
pub const NAME_BYTES: usize = 64;

/// The program runs without limits when Divvy fails, instead of getting out-of-memory.
pub const FLAG_FAIL_OPEN: u32 = 1;

/// Entry points of a memory family that the table does not know are refused.
pub const FLAG_STRICT: u32 = 1 << 1;

/// The memory of the tenant's processes may leave the card.
pub const FLAG_OVERSUBSCRIBE: u32 = 1 << 2;

/// It leaves by virtual memory management, whatever the device and the limit are; with neither of this and the next, each
/// process chooses for each device.
pub const FLAG_BACKEND_VMM: u32 = 1 << 3;

/// It is managed memory, which leaves by prefetches.
pub const FLAG_BACKEND_MANAGED: u32 = 1 << 4;

/// Mark of a ceiling of managed memory ([`managed_at`]): the process has asked for more than there is, so that the bytes
/// beside it, those it has and those it has asked for, are not to be had.
pub const MANAGED_REFUSED: u64 = 1 << 63;

/// A process of the tenant may ask for more memory than the card has.
pub const FLAG_BEYOND_CARD: u32 = 1 << 5;

/// The memory of a tenant with [`FLAG_OVERSUBSCRIBE`] stays on the card, for as long as its owner says so.
pub const FLAG_STAYS: u32 = 1 << 6;

/// Devices that a [`Rule`] is about.
pub mod selector {
    /// Every device no other rule names.
    pub const ALL: u32 = 0;
    /// The device with this index on the machine (NVML's order).
    pub const INDEX: u32 = 1;
    /// The device with this UUID.
    pub const UUID: u32 = 2;
}

/// How a [`Rule`]'s value is meant.
pub mod quantity {
    /// No limit.
    pub const UNLIMITED: u32 = 0;
    /// Bytes.
    pub const BYTES: u32 = 1;
    /// Millionths of the card's memory, or of the device's time.
    pub const PPM: u32 = 2;
}

/// States of a [`GateLine`].
pub mod gate {
    /// Nothing is counted: jump to the driver.
    pub const FREE: u32 = 0;
    /// Work is counted and bounded in flight, and a cap holds.
    pub const TIMED: u32 = 1;
    /// Nothing may be submitted while the line's lease lasts.
    pub const CLOSED: u32 = 2;
    /// As [`TIMED`], and the tenant's processes take turns among themselves while the line's lease lasts.
    pub const TURNS: u32 = 3;
    /// As [`TURNS`], and a turn of which little is used is shared.
    pub const SHARED_TURNS: u32 = 4;
}

/// How a tenant's turns are made.
pub mod class {
    /// Turns of full length.
    pub const NORMAL: u32 = 0;
    /// Short turns, often.
    pub const LATENCY: u32 = 1;
}

/// Flags of an [`OrderLine`].
pub mod order {
    /// Calls may use the memory, once all of it is there.
    pub const RUN: u32 = 1;
    /// Bytes that are asked for beyond the ceiling are not to be had.
    pub const REFUSE: u32 = 2;
    /// Calls that wait for memory to come back wait in vain: there is no room, and has not been for long.
    pub const LOCKED_OUT: u32 = 4;
}

/// Priorities have three levels; larger ones run first.
pub mod priority {
    /// Runs in what the others leave.
    pub const LOW: i32 = -1;
    /// The default.
    pub const NORMAL: i32 = 0;
    /// Closes the others' gates when it has work.
    pub const HIGH: i32 = 1;
}

/// One limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Rule {
    /// One of [`selector`].
    pub selector: u32,
    /// The device's index, for [`selector::INDEX`].
    pub index: u32,
    /// The device's UUID, for [`selector::UUID`]. For [`selector::INDEX`] that of the device which has the index, as the
    /// rule's writer knows it; zero where it does not, and the index counts alone.
    pub uuid: Uuid,
    /// One of [`quantity`].
    pub quantity: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes or millionths.
    pub value: u64,
}

/// The owner's side of one device's compute share. All times are CLOCK_MONOTONIC.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct GateLine {
    /// One of [`gate`]; also the futex word.
    pub gate: u32,
    /// Tenants whose work may be on the device at once. Above 1 the driver slices, and measured times
    /// hold the others' slices too.
    pub active: u32,
    /// Number of the turn.
    pub epoch: u64,
    /// A gate whose lease has passed counts as free: an owner that died or stopped keeps nobody
    /// waiting, and tenants with caps take turns among themselves.
    pub lease_ns: u64,
    /// Planned end of the running turn; 0 for none.
    pub turn_end_ns: u64,
    /// When a closed gate is expected to open; 0 when that is not known.
    pub t_open_ns: u64,
    /// Device time of a turn; 0 for the default.
    pub quantum_ns: u64,
    /// Work allowed in flight; 0 for the default.
    pub horizon_ns: u64,
    /// Contexts of no tenant that may work on the device: how much of it they take nobody knows.
    pub strangers: u64,
    /// Zero, to two cache lines.
    pub reserved: [u64; 8],
}

/// The owner's order about the memory that may leave one device, beside a ceiling for each process ([`allowed_at`]).
#[derive(
    Clone, Copy, Default, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct OrderLine {
    /// An order whose lease has passed, in CLOCK_MONOTONIC, is none: everything may be on the card.
    pub lease_ns: u64,
    /// Bytes of the host that each process may take for copies before it needs them, and keep.
    pub keep_bytes: u64,
    /// Flags of [`order`].
    pub flags: u32,
    /// For people: MiB of the device that are no tenant's, with [`order::LOCKED_OUT`].
    pub foreign_mib: u32,
    /// When what processes ask for was looked at and refused, in CLOCK_MONOTONIC; 0 from an owner that does not say. What
    /// is asked for later is not refused yet.
    pub refused_ns: u64,
    /// For people: bytes that the host would have to hold of what may leave the card, with what was refused. 0 where it
    /// was not refused for want of them.
    pub host_needed_bytes: u64,
    /// For people: bytes that the host has for it.
    pub host_room_bytes: u64,
    /// For people, with [`order::LOCKED_OUT`]: bytes that the tenant holds.
    pub out_needed_bytes: u64,
    /// And bytes that it could have.
    pub out_room_bytes: u64,
}

/// The limits and gates: the first [`CONFIG_BYTES`] of the file.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Config {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`ABI_VERSION`].
    pub version: u32,
    /// Bytes of this structure.
    pub size: u32,
    /// `FLAG_*`.
    pub flags: u32,
    /// How many of `rules` count.
    pub rule_count: u32,
    /// Charge of a context on any device, in bytes; 0: the built-in table.
    pub context_bytes: u64,
    /// Grows by two with every change; odd while one is being written.
    pub epoch: u64,
    /// 0 while every gate of this tenant is free: the one word an ungated launch loads.
    pub any_gate: u32,
    /// How many of `compute_rules` count.
    pub compute_rule_count: u32,
    /// Share of contended time against other tenants'; 0: the cap in percent, or 100 without one.
    pub weight: u32,
    /// One of [`priority`].
    pub priority: i32,
    /// One of [`class`].
    pub class: u32,
    /// Not 0: nothing is submitted until the tenant is resumed.
    pub paused: u32,
    /// The tenant's name for people.
    pub name: [u8; NAME_BYTES],
    /// Memory limits; a UUID rule beats an index rule beats the rule for all.
    pub rules: [Rule; MAX_RULES],
    /// Caps of device time, in [`quantity::PPM`] or [`quantity::UNLIMITED`]; chosen alike.
    pub compute_rules: [Rule; MAX_RULES],
    /// Grows with each wish of the owner's about where memory is; odd: all that may leave the card is to do so, which a
    /// process fulfils once, and may bring back what it needs; even: it may all be there.
    pub frozen: u32,
    /// Another number with each change of the orders and of `frozen`: a futex word.
    pub orders: u32,
    /// Milliseconds of a turn with memory on the card, where not all tenants' fits; 0: by what moving costs.
    pub quantum_ms: u32,
    /// Zero, to the next pair of cache lines.
    pub reserved: [u32; 9],
    /// One a device row.
    pub gates: [GateLine; MAX_DEVICES],
}

impl Default for Config {
    fn default() -> Self {
        let mut config = Self::new_zeroed_config();
        config.magic = MAGIC;
        config.version = ABI_VERSION;
        config.size = CONFIG_FILE_BYTES as u32;
        config
    }
}

impl Config {
    fn new_zeroed_config() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }

    /// The memory rules that count; a count beyond the array is cut.
    pub fn rules(&self) -> &[Rule] {
        counted(&self.rules, self.rule_count)
    }

    /// Whether one process of the tenant is to have more memory than the card, where a back end can do that.
    pub fn may_exceed_card(&self) -> bool {
        self.flags & FLAG_OVERSUBSCRIBE != 0 && self.flags & FLAG_BEYOND_CARD != 0
    }

    /// The compute rules that count; a count beyond the array is cut.
    pub fn compute_rules(&self) -> &[Rule] {
        counted(&self.compute_rules, self.compute_rule_count)
    }
}

fn counted(rules: &[Rule; MAX_RULES], count: u32) -> &[Rule] {
    rules.get(..(count as usize).min(MAX_RULES)).unwrap_or(rules)
}

/// Bytes of the part that is read as a whole.
pub const CONFIG_BYTES: usize = size_of::<Config>();

/// Offset of the orders, one line a device row, on a page of their own.
pub const ORDERS_AT: usize = CONFIG_BYTES.next_multiple_of(4096);

/// Offset of the ceilings: one word for each slot, a row for each device. Zeros from the start, in no block of the disk
/// until one is written.
pub const ALLOWED_AT: usize = ORDERS_AT + 4096;

/// Offset of the ceilings of managed memory: a table of the same form.
pub const MANAGED_AT: usize = allowed_at(MAX_DEVICES, 0);

/// Bytes of the file.
pub const CONFIG_FILE_BYTES: usize = managed_at(MAX_DEVICES, 0);

/// Offset of `epoch`.
pub const EPOCH_AT: usize = core::mem::offset_of!(Config, epoch);

/// Offset of `any_gate`.
pub const ANY_GATE_AT: usize = core::mem::offset_of!(Config, any_gate);

/// Offset of `frozen`.
pub const FROZEN_AT: usize = core::mem::offset_of!(Config, frozen);

/// Offset of `orders`.
pub const ORDERS_WORD_AT: usize = core::mem::offset_of!(Config, orders);

/// Offset of the order about device `row`.
pub const fn order_at(row: usize) -> usize {
    ORDERS_AT + size_of::<OrderLine>() * row
}

/// Offset of the bytes, a `u64`, that the process in `slot` may have on device `row` of the memory that may leave.
pub const fn allowed_at(row: usize, slot: usize) -> usize {
    ALLOWED_AT + 8 * (MAX_SLOTS * row + slot)
}

/// Offset of the bytes, a `u64`, that the process in `slot` may have of managed memory for device `row`, wherever they are; or
/// of those that it cannot have, marked by [`MANAGED_REFUSED`].
pub const fn managed_at(row: usize, slot: usize) -> usize {
    MANAGED_AT + 8 * (MAX_SLOTS * row + slot)
}

/// Offset of the gate line of device `row`.
pub const fn gate_at(row: usize) -> usize {
    core::mem::offset_of!(Config, gates) + size_of::<GateLine>() * row
}

const _: () = assert!(size_of::<Rule>() == 40);
const _: () = assert!(size_of::<GateLine>() == 128);
const _: () = assert!(EPOCH_AT == 32 && ANY_GATE_AT == 40);
const _: () = assert!(gate_at(0) == 2816 && gate_at(0).is_multiple_of(128));
const _: () = assert!(CONFIG_BYTES == gate_at(MAX_DEVICES));
const _: () = assert!(size_of::<OrderLine>() == 64 && order_at(MAX_DEVICES) <= ALLOWED_AT);
const _: () = assert!(ORDERS_AT == 8192 && CONFIG_FILE_BYTES == 274_432);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_beyond_the_array_is_cut() {
        let config = Config { rule_count: u32::MAX, ..Config::default() };
        assert_eq!(config.rules().len(), MAX_RULES);
        assert_eq!(config.compute_rules().len(), 0);
        assert!(Config::default().rules().is_empty());
    }

    #[test]
    fn a_config_is_its_bytes() {
        let config = Config { flags: FLAG_STRICT, epoch: 9, ..Config::default() };
        let read = Config::read_from_bytes(config.as_bytes()).map(|c| (c.flags, c.epoch, c.size));
        assert_eq!(read.ok(), Some((FLAG_STRICT, 9, CONFIG_FILE_BYTES as u32)));
        assert_eq!(config.as_bytes().first_chunk(), Some(&MAGIC));
    }
}
