//! Records of this process's contexts: the device of each, what it is charged, and how often it is
//! referred to.
//!
//! Promises: a record tells its context from an earlier one of the same handle. Does not charge, and
//! does not know when a context begins or ends.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use divvy_driver_api::types::CUdevice;

use crate::sys::map::{Map, Pair};

/// Charged contexts by handle.
pub(crate) static CONTEXTS: Map = Map::new(2);

/// Green contexts by handle: device and 1. The primary one's events are not behind their work.
pub(crate) static GREENS: Map = Map::new(3);

/// Handles that are looked at in turn: no map's lock is held while the driver is called.
pub(crate) struct Handles {
    all: [u64; MOST],
    count: usize,
}

/// The most contexts of a device that are looked at.
const MOST: usize = 512;

impl Handles {
    /// Those of `map` that are chosen; none where there are too many.
    fn of(map: &Map, choose: impl Fn(u64, Pair) -> bool) -> Option<Self> {
        let mut found = Self { all: [0; MOST], count: 0 };
        map.for_each(|handle, words| {
            if choose(handle, words) {
                if let Some(place) = found.all.get_mut(found.count) {
                    *place = handle;
                }
                found.count = found.count.saturating_add(1);
            }
        });
        (found.count <= MOST).then_some(found)
    }

    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.all.iter().take(self.count).copied()
    }

    /// The contexts on a device, views through green ones apart.
    pub(crate) fn contexts(device: CUdevice) -> Option<Self> {
        Self::of(&CONTEXTS, |_, words| {
            let record = Record::unpack(words);
            record.ordinal == device && !record.green
        })
    }

    /// The green contexts on a device.
    pub(crate) fn greens(device: CUdevice) -> Option<Self> {
        Self::of(&GREENS, |_, [ordinal, _]| ordinal == u64::from(device.cast_unsigned()))
    }
}

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
