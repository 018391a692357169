//! Record of a piece of memory, packed into the two words a map holds.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::CUdevice;
use divvy_page::SharedEntry;

use crate::sys::map::Map;
use crate::tenant;
use crate::tenant::device::{self, Device, KnownDevice};

const BYTES_MASK: u64 = (1 << 48) - 1;
const SHARED: u64 = 1 << 61;
/// In place of a shared entry's number, while a thread moves the charge.
const NOT_YET: u64 = BYTES_MASK;

/// A piece of memory the driver gave this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryRecord {
    /// Bytes charged; for [`MemoryRecord::packed`] blocks, bytes of the block; for [`MemoryRecord::shared`] ones, the
    /// number of the tenant's shared entry, or [`NOT_YET`].
    pub(crate) bytes: u64,
    /// Its kind.
    pub(crate) kind: MemoryKind,
    /// The driver's number of its device.
    pub(crate) ordinal: CUdevice,
    /// It is charged by the granules it shares with others.
    pub(crate) packed: bool,
    /// Its charge lies with the tenant's shared memory.
    pub(crate) shared: bool,
    /// The context it goes with, or another handle.
    pub(crate) owner: u64,
}

impl MemoryRecord {
    /// The two words.
    pub(crate) fn pack(self) -> [u64; 2] {
        let ordinal = u64::from(self.ordinal.cast_unsigned() & 0xf);
        let word = (self.bytes & BYTES_MASK)
            | ((self.kind as u64) << 48)
            | (ordinal << 56)
            | (u64::from(self.packed) << 60)
            | if self.shared { SHARED } else { 0 };
        [word, self.owner]
    }

    /// Reads the two words.
    pub(crate) fn unpack([word, owner]: [u64; 2]) -> Self {
        let kind =
            MemoryKind::ALL.get((word >> 48 & 0xff) as usize).copied().unwrap_or(MemoryKind::Other);
        Self {
            bytes: word & BYTES_MASK,
            kind,
            ordinal: CUdevice::try_from(word >> 56 & 0xf).unwrap_or(0),
            packed: word >> 60 & 1 != 0,
            shared: word & SHARED != 0,
            owner,
        }
    }

    /// The two words with [`MemoryRecord::owner`], where it counts, one larger.
    pub(crate) fn counted([word, owner]: [u64; 2]) -> [u64; 2] {
        [word, owner.saturating_add(1)]
    }

    /// Its device, which this process has met.
    pub(crate) fn device(self) -> Option<&'static Device> {
        match device::look(self.ordinal) {
            KnownDevice::Counted(device) => Some(device),
            KnownDevice::Open | KnownDevice::Closed(_) => None,
        }
    }

    /// Where its charge lies with the tenant's shared memory.
    pub(crate) fn shared_entry(self) -> Option<SharedEntry> {
        (self.shared && self.bytes != NOT_YET).then(|| SharedEntry::of(self.bytes))
    }

    /// Gives back what it is charged, its own bytes or a reference to the tenant's shared entry; not for
    /// packed ones.
    pub(crate) fn give_back(self) {
        if self.shared {
            self.shared_entry().into_iter().for_each(tenant::close_shared);
        } else if let Some(device) = self.device() {
            device.give_back(self.bytes, self.kind);
        }
    }
}

/// The first step of moving the charge of `key` to the tenant's shared table, for one thread: what it
/// was. None when it is there or on its way, or gone.
pub(super) fn begin_shared(map: &Map, key: u64) -> Option<MemoryRecord> {
    let mut before = None;
    let _ = map.update(key, |old| {
        let entry = MemoryRecord::unpack(old?);
        before = (!entry.shared).then_some(entry);
        Some(
            MemoryRecord { shared: true, bytes: before.map_or(entry.bytes, |_| NOT_YET), ..entry }
                .pack(),
        )
    });
    before
}

/// The last step: the charge lies with `shared`, or stays what it was. False when the memory was given
/// back meanwhile.
pub(super) fn end_shared(
    map: &Map,
    key: u64,
    before: MemoryRecord,
    shared: Option<SharedEntry>,
) -> bool {
    let bytes = shared.map_or(before.bytes, SharedEntry::number);
    let mut found = false;
    let _ = map.update(key, |old| {
        let entry = MemoryRecord::unpack(old?);
        found = entry.shared && entry.bytes == NOT_YET;
        let ended = MemoryRecord { shared: shared.is_some(), bytes, ..entry };
        Some(if found { ended } else { entry }.pack())
    });
    found
}
