//! Memory that other processes of the tenant may open: a block with chunks of its own, or the slab that a block lies in.
//!
//! A program passes it on as 64 bytes, as it would the driver's handle of legacy IPC ([`PassedHandle`]), and the process
//! that made it hands out descriptors to who says the key that stands in there.
//!
//! Promises: a key is of one piece of memory and ends with it, so that nobody is given what came to lie there later. Does
//! not keep it on the card, charge or listen: that is [`crate::account::ipc`]'s and [`crate::handover::server`]'s.

use divvy_driver_api::types::CUresult;
use divvy_page::{SharedEntry, mark};

use crate::sys::map::Map;
use crate::tenant;

/// Exported pieces by first address: the key, and the number, and one, of the tenant's shared entry that a slab refers to.
static EXPORTS: Map = Map::new(35);

/// First bytes of a handle of ours, unlike any of the driver's.
const MAGIC: u64 = u64::from_ne_bytes(*b"divvyipc");

/// A block as a program passes it on.
#[derive(Clone, Copy)]
pub(crate) struct PassedHandle {
    /// The tenant's number.
    pub(crate) tenant: u64,
    /// The slot of the process that made it.
    pub(crate) slot: u64,
    /// The key of the piece of memory.
    pub(crate) key: u64,
    /// The first address of that piece, where it was made.
    pub(crate) base: u64,
    /// Where the block begins in it.
    pub(crate) offset: u64,
    /// The block's bytes.
    pub(crate) bytes: u64,
}

impl PassedHandle {
    /// Reads one; none where it is not ours.
    pub(crate) fn read(handle: [u8; 64]) -> Option<Self> {
        let [magic, tenant, slot, key, base, offset, bytes, rest]: [u64; 8] =
            zerocopy::transmute!(handle);
        let is_ours = magic == MAGIC && rest == 0;
        is_ours.then_some(Self { tenant, slot, key, base, offset, bytes })
    }

    /// Its bytes.
    pub(crate) fn pack(self) -> [u8; 64] {
        let Self { tenant, slot, key, base, offset, bytes } = self;
        zerocopy::transmute!([MAGIC, tenant, slot, key, base, offset, bytes, 0])
    }

    /// The name of its piece of memory in the tenant's table.
    pub(crate) fn name(self) -> [u8; 64] {
        Self { offset: 0, bytes: 0, ..self }.pack()
    }
}

/// Exports the piece that begins at `base`: its key, and whether it `is_new`.
///
/// # Errors
/// Out-of-memory without room for it; none is drawn before the kernel has enough noise.
pub(crate) fn export(base: u64) -> Result<(u64, bool), CUresult> {
    let drawn = mark::draw_key().ok_or(CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let mut key = drawn;
    let noted = EXPORTS.update(base, |old| {
        let known = old.unwrap_or([drawn, 0]);
        key = known[0];
        Some(known)
    });
    noted.map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    Ok((key, key == drawn))
}

/// Notes the tenant's shared entry of a slab, which is let go of with the slab.
pub(crate) fn charge(base: u64, entry: SharedEntry) {
    let mut is_there = false;
    let _ = EXPORTS.update(base, |old| {
        is_there = old.is_some();
        old.map(|[key, _]| [key, entry.number().saturating_add(1)])
    });
    if !is_there {
        tenant::close_shared(entry);
    }
}

/// Whether a piece that begins at `base` is exported.
pub(crate) fn is_exported(base: u64) -> bool {
    EXPORTS.get(base).is_some()
}

/// A piece has ended, or will not be opened.
pub(crate) fn forget(base: u64) {
    let entry = EXPORTS.take(base).and_then(|[_, entry]| entry.checked_sub(1));
    entry.into_iter().for_each(|number| tenant::close_shared(SharedEntry::of(number)));
}

/// Whether this process has exported the piece under this key.
pub(crate) fn knows(base: u64, key: u64) -> bool {
    EXPORTS.get(base).is_some_and(|[known, _]| known == key)
}
