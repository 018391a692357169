//! Records of this process's contexts: the device of each, what it is charged, and how often it is
//! referred to.
//!
//! Promises: a record tells its context from an earlier one of the same handle. Does not charge, and
//! does not know when a context begins or ends.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use divvy_driver_api::types::CUdevice;

use crate::sys::map::Map;

/// Charged contexts by handle.
pub(crate) static CONTEXTS: Map = Map::new(2);

/// Whether the process has made a green context, whose work the primary one's events are not behind.
pub(crate) static ANY_GREEN: AtomicBool = AtomicBool::new(false);

/// Record of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// The driver's number of its device.
    pub(crate) ordinal: CUdevice,
    /// A view of the primary context through a green one, with nothing of its own.
    pub(crate) green: bool,
    /// `cuCtxCreate` and `cuCtxAttach` less `cuCtxDetach`.
    pub(crate) references: u32,
    /// Tells it from an earlier one of the same handle.
    pub(crate) generation: u16,
    /// Bytes charged; for a view, the green context's handle.
    pub(crate) bytes: u64,
}

impl Record {
    /// A context with one reference.
    pub(crate) fn new(ordinal: CUdevice, bytes: u64) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let generation = LAST.fetch_add(1, SeqCst) as u16;
        Self { ordinal, green: false, references: 1, generation, bytes }
    }

    /// The two words a map holds.
    pub(crate) fn pack(self) -> [u64; 2] {
        let ordinal = u64::from(self.ordinal.cast_unsigned() & 0xf);
        let generation = u64::from(self.generation) << 48;
        let references = u64::from(self.references) << 16;
        [ordinal | u64::from(self.green) << 8 | references | generation, self.bytes]
    }

    /// Reads the two words.
    pub(crate) fn unpack([word, bytes]: [u64; 2]) -> Self {
        Self {
            ordinal: CUdevice::try_from(word & 0xf).unwrap_or(0),
            green: word >> 8 & 1 != 0,
            references: u32::try_from(word >> 16 & 0xffff_ffff).unwrap_or(u32::MAX),
            generation: (word >> 48) as u16,
            bytes,
        }
    }
}

/// Records a context; false if it was known. Without memory for the record it counts as recorded:
/// the charge stays until the process ends, which errs on the safe side.
pub(crate) fn record_new(context: u64, record: Record) -> bool {
    let mut known = false;
    let _ = CONTEXTS.update(context, |old| {
        known = old.is_some();
        old.or(Some(record.pack()))
    });
    !known
}
