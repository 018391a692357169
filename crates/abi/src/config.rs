//! The `config` file: the tenant's limits, written by its owner.
//!
//! Processes read it when they attach. The gate lines at its end belong to the compute share; they
//! are laid out now so that adding it changes no offset.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{ABI_VERSION, MAX_DEVICES, Uuid};

/// First bytes of a config file.
pub const MAGIC: [u8; 8] = *b"DIVVYCFG";

/// Limit rules a tenant can have: one for all devices and two for each.
pub const MAX_RULES: usize = 33;

/// Bytes of a tenant's name, zero-padded UTF-8.
pub const NAME_BYTES: usize = 64;

/// The program runs without limits when Divvy fails, instead of getting out-of-memory.
pub const FLAG_FAIL_OPEN: u32 = 1;

/// Entry points of a memory family that the table does not know are refused.
pub const FLAG_STRICT: u32 = 1 << 1;

/// What a [`Rule`] speaks of.
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
    /// Millionths of the card's memory.
    pub const PPM: u32 = 2;
}

/// One memory limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Rule {
    /// One of [`selector`].
    pub selector: u32,
    /// The device's index, for [`selector::INDEX`].
    pub index: u32,
    /// The device's UUID, for [`selector::UUID`].
    pub uuid: Uuid,
    /// One of [`quantity`].
    pub quantity: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes or millionths.
    pub value: u64,
}

/// The owner's side of one device's compute share; see the share gate's design.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GateLine {
    /// 0 free, 1 timed, 2 closed; also the futex word.
    pub gate: u32,
    /// Share in millionths of the device's time; 0 is no cap.
    pub share_ppm: u32,
    /// Weight against other tenants.
    pub weight: u32,
    /// Larger runs first.
    pub priority: i32,
    /// Grows with every change.
    pub epoch: u64,
    /// Contexts with work in flight on the device, all tenants.
    pub active_contexts: u64,
    /// When a closed gate opens, CLOCK_MONOTONIC.
    pub t_open_ns: u64,
    /// Length of a turn.
    pub quantum_ns: u64,
    /// Work allowed in flight.
    pub horizon_ns: u64,
    /// Zero, to two cache lines.
    pub reserved: [u64; 9],
}

/// The whole file.
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
    /// What a context is charged on any device, in bytes; 0: the built-in table.
    pub context_bytes: u64,
    /// Grows with every write.
    pub epoch: u64,
    /// The tenant's name for people.
    pub name: [u8; NAME_BYTES],
    /// Limits; a UUID rule beats an index rule beats the rule for all.
    pub rules: [Rule; MAX_RULES],
    /// Zero, to the next cache line.
    pub reserved: [u64; 14],
    /// One a device row.
    pub gates: [GateLine; MAX_DEVICES],
}

impl Default for Config {
    fn default() -> Self {
        let mut config = Self::new_zeroed_config();
        config.magic = MAGIC;
        config.version = ABI_VERSION;
        config.size = CONFIG_BYTES as u32;
        config
    }
}

impl Config {
    fn new_zeroed_config() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }

    /// The rules that count; a count beyond the array is cut.
    pub fn rules(&self) -> &[Rule] {
        let count = (self.rule_count as usize).min(MAX_RULES);
        self.rules.get(..count).unwrap_or(&self.rules)
    }
}

/// Bytes of the file.
pub const CONFIG_BYTES: usize = size_of::<Config>();

const _: () = assert!(size_of::<Rule>() == 40);
const _: () = assert!(size_of::<GateLine>() == 128);
const _: () = assert!(core::mem::offset_of!(Config, gates) == 1536);
const _: () = assert!(CONFIG_BYTES == 1536 + 128 * MAX_DEVICES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_beyond_the_array_is_cut() {
        let config = Config { rule_count: u32::MAX, ..Config::default() };
        assert_eq!(config.rules().len(), MAX_RULES);
        assert!(Config::default().rules().is_empty());
    }

    #[test]
    fn a_config_is_its_bytes() {
        let config = Config { flags: FLAG_STRICT, epoch: 9, ..Config::default() };
        let read = Config::read_from_bytes(config.as_bytes()).map(|c| (c.flags, c.epoch, c.size));
        assert_eq!(read.ok(), Some((FLAG_STRICT, 9, CONFIG_BYTES as u32)));
        assert_eq!(config.as_bytes().first_chunk(), Some(&MAGIC));
    }
}
