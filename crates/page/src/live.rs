//! The config file as it stands, mapped read-only by the tenant's processes.
//!
//! Promises: loads only, each of one word; a reading of the whole is of one instant or none at all;
//! a wait for a gate ends when its word changes, when it is woken, or at an absolute deadline.
//! The mapping is never taken down. Whoever shortens the file harms every process of the tenant, which
//! only its owner can.
//!
//! Of memory that is mapped read-only Rust allows relaxed loads of a word and no other access, be it one that
//! happens to be a load on the processor. So a word is handed out as an [`OwnerWord`], which has only those.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, SeqCst},
    fence,
};

use divvy_abi::config::{self, Config, GateLine, OrderLine};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};
use zerocopy::FromBytes;

use crate::error::AttachError;
use crate::file;
use crate::sys;
use crate::trust::Trust;

/// Attempts to read the whole while somebody writes it: a write takes microseconds.
const READINGS: usize = 64;

/// A word of the owner's file, which this process reads and cannot write.
#[derive(Debug)]
#[repr(transparent)]
pub struct OwnerWord(AtomicU32);

impl OwnerWord {
    /// Its value now, in no order with anything else.
    #[inline(always)]
    pub fn load(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// The same, before whatever is read after it.
    fn load_first(&self) -> u32 {
        let value = self.load();
        fence(Acquire);
        value
    }
}

/// The mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    base: *mut u8,
}

// SAFETY: the pointer is to a mapping that is never taken down, and all access is by atomic loads.
unsafe impl Send for Live {}
// SAFETY: as above.
unsafe impl Sync for Live {}

impl Live {
    /// Maps the config of a tenant; it has been judged by [`file::read_config`] or is judged now.
    pub(crate) fn map(trust: &Trust) -> Result<Self, AttachError> {
        let fd = file::open_config(trust, libc::O_RDONLY)?.ok_or(AttachError::NoConfig)?;
        file::parse_config(&fd, file::OURS_CONFIG)?.ok_or(AttachError::NoConfig)?;
        let base = sys::map_shared(&fd, config::CONFIG_FILE_BYTES, libc::PROT_READ)
            .map_err(AttachError::System)?;
        Ok(Self { base })
    }

    fn word(self, offset: usize) -> &'static OwnerWord {
        let safe = offset.min(config::CONFIG_FILE_BYTES - 4) & !3;
        // SAFETY: 4 aligned bytes inside the mapping (`map`: CONFIG_FILE_BYTES long, for ever), which can be read. All that
        // an `OwnerWord` lets anybody do is a relaxed load of them, which needs no write access.
        unsafe { &*self.base.wrapping_add(safe).cast::<OwnerWord>() }
    }

    /// The eight bytes at `offset`, before whatever is read after them.
    fn load_first(self, offset: usize) -> u64 {
        let safe = offset.min(config::CONFIG_FILE_BYTES - 8) & !7;
        // SAFETY: as in `word`, with 8 bytes; a relaxed load is all that is done with them, below.
        let word = unsafe { AtomicU64::from_ptr(self.base.wrapping_add(safe).cast()) };
        let value = word.load(Relaxed);
        fence(Acquire);
        value
    }

    pub(crate) fn any_gate(self) -> &'static OwnerWord {
        self.word(config::ANY_GATE_AT)
    }

    pub(crate) fn frozen(self) -> &'static OwnerWord {
        self.word(config::FROZEN_AT)
    }

    pub(crate) fn orders(self) -> &'static OwnerWord {
        self.word(config::ORDERS_WORD_AT)
    }

    /// Waits while no other orders stand than those of number `orders`, at most until `deadline_ns`.
    pub(crate) fn wait_orders(self, orders: u32, deadline_ns: u64) {
        sys::futex_wait(&self.orders().0, orders, deadline_ns, u32::MAX);
    }

    /// The order about device `row`, and the ceilings of `slot`, of residence and of managed memory: words of instants that
    /// are behind what this process has done before.
    pub(crate) fn order(self, row: usize, slot: usize) -> (OrderLine, u64, u64) {
        // An owner whose order this process does not see sees what it said before it looked.
        fence(SeqCst);
        let row = row.min(MAX_DEVICES - 1);
        let slot = slot.min(MAX_SLOTS - 1);
        let allowed_bytes = self.load_first(config::allowed_at(row, slot));
        let managed = self.load_first(config::managed_at(row, slot));
        let at = |offset| config::order_at(row) + offset;
        let long = |offset| self.load_first(at(offset));
        let line = OrderLine {
            lease_ns: long(core::mem::offset_of!(OrderLine, lease_ns)),
            keep_bytes: long(core::mem::offset_of!(OrderLine, keep_bytes)),
            flags: self.word(at(core::mem::offset_of!(OrderLine, flags))).load_first(),
            foreign_mib: self.word(at(core::mem::offset_of!(OrderLine, foreign_mib))).load_first(),
            refused_ns: long(core::mem::offset_of!(OrderLine, refused_ns)),
            host_needed_bytes: long(core::mem::offset_of!(OrderLine, host_needed_bytes)),
            host_room_bytes: long(core::mem::offset_of!(OrderLine, host_room_bytes)),
            out_needed_bytes: long(core::mem::offset_of!(OrderLine, out_needed_bytes)),
            out_room_bytes: long(core::mem::offset_of!(OrderLine, out_room_bytes)),
        };
        (line, allowed_bytes, managed)
    }

    pub(crate) fn epoch(self) -> u64 {
        self.load_first(config::EPOCH_AT)
    }

    /// The whole, with its gate lines as they were found; `None` while it is being written.
    pub(crate) fn read(self) -> Option<Config> {
        for _ in 0..READINGS {
            let before = self.epoch();
            if before.is_multiple_of(2) {
                let mut bytes = [[0_u8; 8]; config::CONFIG_BYTES / 8];
                for (index, word) in bytes.iter_mut().enumerate() {
                    *word = self.load_first(8 * index).to_ne_bytes();
                }
                if self.epoch() == before {
                    return Config::read_from_bytes(bytes.as_flattened()).ok();
                }
            }
            sys::sleep_ns(10_000);
        }
        None
    }

    pub(crate) fn gate(self, row: usize) -> &'static OwnerWord {
        self.word(config::gate_at(row.min(MAX_DEVICES - 1)))
    }

    /// The gate line of `row`; its words may be of different instants, the state is read last.
    pub(crate) fn gate_line(self, row: usize) -> GateLine {
        let at = config::gate_at(row.min(MAX_DEVICES - 1));
        let word = |offset| self.load_first(at + offset);
        GateLine {
            active: self.word(at + core::mem::offset_of!(GateLine, active)).load_first(),
            epoch: word(core::mem::offset_of!(GateLine, epoch)),
            lease_ns: word(core::mem::offset_of!(GateLine, lease_ns)),
            turn_end_ns: word(core::mem::offset_of!(GateLine, turn_end_ns)),
            t_open_ns: word(core::mem::offset_of!(GateLine, t_open_ns)),
            quantum_ns: word(core::mem::offset_of!(GateLine, quantum_ns)),
            horizon_ns: word(core::mem::offset_of!(GateLine, horizon_ns)),
            strangers: word(core::mem::offset_of!(GateLine, strangers)),
            gate: self.gate(row).load_first(),
            reserved: [0; 8],
        }
    }

    /// Waits while the gate word of `row` is `state`, at most until `deadline_ns`.
    pub(crate) fn wait(self, row: usize, state: u32, deadline_ns: u64) {
        sys::futex_wait(&self.gate(row).0, state, deadline_ns, u32::MAX);
    }
}
