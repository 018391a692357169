//! Addresses at which memory that may leave lies, and the block or slab at each.
//!
//! Behind handles they are reserved by this library, in pieces that begin at a multiple of 256 MiB; those of managed memory are
//! the driver's choice, and begin at a granule.
//!
//! Promises: an address is found in two looks at most. Does not know what lies there.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use divvy_driver_api::types::{CUdevice, CUresult};
use divvy_policy::charge::GRANULE_BYTES;
use divvy_policy::slab::MAX_BYTES;

use super::chunks::{Chunks, Denied};
use crate::sys::driver::{self, again};
use crate::sys::map::{Map, NoMemory, Pair};

/// Reserved pieces by number.
static PIECES: Map = Map::new(31);
/// Granules of managed memory by number.
static GRANULES: Map = Map::new(34);
static ANY_MANAGED: AtomicBool = AtomicBool::new(false);

/// Second word of a record at which another process's memory lies: no block begins there.
pub(super) const IMPORTED: u64 = 1;

/// Addresses of one block or slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Addresses {
    pub(super) base: u64,
    /// Bytes of memory, or of addresses that are reserved.
    pub(super) bytes: u64,
    /// The address that the driver gave, of managed memory.
    pub(super) given: u64,
    pub(super) backing: Backing,
}

/// Backing of a block that is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backing {
    /// Handles behind reserved addresses.
    Handles,
    /// Memory that the driver manages, of the context with this handle: it ends with it.
    Managed(u64),
}

/// Block that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct NewBlock {
    /// Its device.
    pub(crate) device: CUdevice,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Its backing.
    pub(crate) backing: Backing,
    /// Most bytes of a slab that is made for it.
    pub(crate) most_slab_bytes: u64,
}

/// Whether the context that memory belongs to is there still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContextLife {
    /// It is.
    Lives,
    /// It has ended, and its managed memory with it.
    Gone,
}

/// The record at an address.
#[inline]
pub(super) fn at(address: u64) -> Option<Pair> {
    PIECES.get(address / MAX_BYTES).or_else(|| match ANY_MANAGED.load(Relaxed) {
        true => GRANULES.get(address / GRANULE_BYTES),
        false => None,
    })
}

impl Addresses {
    /// Takes addresses for `bytes`, whole granules: reserved, or of managed memory, which is there then.
    ///
    /// # Errors
    /// The driver's; [`Denied::Managed`] where the owner does not allow so much managed memory.
    pub(super) fn take(
        chunks: &Chunks,
        device: CUdevice,
        backing: Backing,
        bytes: u64,
    ) -> Result<Self, Denied> {
        match backing {
            Backing::Handles => {
                let reserved = bytes.checked_next_multiple_of(MAX_BYTES);
                let bytes = reserved.ok_or(Denied::OUT_OF_MEMORY)?;
                let base = driver::address_reserve(bytes, MAX_BYTES)?;
                Ok(Self { base, bytes, given: 0, backing })
            }
            Backing::Managed(_) => {
                // A driver that puts it elsewhere than at a granule gives one more.
                for more in [0, GRANULE_BYTES] {
                    let asked = bytes.saturating_add(more);
                    chunks.reserve_managed(device, asked)?;
                    let given = driver::managed_alloc(asked).inspect_err(|_| {
                        chunks.give_managed(device, asked);
                    })?;
                    let base = given.saturating_add(more.min(1)).next_multiple_of(GRANULE_BYTES);
                    if base.saturating_sub(given) <= more {
                        ANY_MANAGED.store(true, SeqCst);
                        return Ok(Self { base, bytes, given, backing });
                    }
                    let _ = again(|| driver::mem_free(given));
                    chunks.give_managed(device, asked);
                }
                Err(Denied::OUT_OF_MEMORY)
            }
        }
    }

    /// Gives them back; memory behind handles has gone before.
    pub(super) fn give(self, chunks: &Chunks, device: CUdevice, life: ContextLife) {
        match self.backing {
            Backing::Handles => {
                let _ = driver::address_free(self.base, self.bytes);
            }
            Backing::Managed(owner) => {
                if life == ContextLife::Lives {
                    let free = || again(|| driver::mem_free(self.given));
                    let _ = driver::within(driver::context_at(owner), free);
                }
                let more = if self.given == self.base { 0 } else { GRANULE_BYTES };
                chunks.give_managed(device, self.bytes.saturating_add(more));
            }
        }
    }

    /// Notes what lies there.
    pub(super) fn record(self, pair: Pair) -> Result<(), CUresult> {
        let (map, unit) = self.map();
        let numbers = self.base / unit..self.base.saturating_add(self.bytes) / unit;
        let all = numbers.clone().try_for_each(|number| map.insert(number, pair).map(|_| ()));
        all.map_err(|NoMemory| {
            numbers.for_each(|number| {
                map.take(number);
            });
            CUresult::CUDA_ERROR_OUT_OF_MEMORY
        })
    }

    /// Nothing lies there any more.
    pub(super) fn forget(self) {
        let (map, unit) = self.map();
        for number in self.base / unit..self.base.saturating_add(self.bytes) / unit {
            map.take(number);
        }
    }

    fn map(&self) -> (&'static Map, u64) {
        match self.backing {
            Backing::Handles => (&PIECES, MAX_BYTES),
            Backing::Managed(_) => (&GRANULES, GRANULE_BYTES),
        }
    }
}
