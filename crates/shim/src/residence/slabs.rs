//! Slabs: chunks that small blocks share. Where in one a block lies is [`divvy_policy::slab`]'s.
//!
//! Each lies at addresses of its own, as long as the largest slab, whatever its size. A device's first is small, and
//! each further one twice as large up to the largest, so that a small program keeps little of the card. One empty slab
//! of a device is kept for the next block; a second one goes back.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use divvy_driver_api::types::{CUdevice, CUresult};
use divvy_policy::charge::{GRANULE_BYTES, whole_granules};
use divvy_policy::slab::{MAX_BYTES, Slab};
use zerocopy::FromZeros;

use super::chunks::{Chunks, Denied};
use crate::sys::driver;
use crate::sys::wiped::{Locked, Wiped};

/// Slabs a process can have.
const MAX_SLABS: usize = 4096;
/// The first slab of a device.
const FIRST_BYTES: u64 = 32 << 20;

/// A slab's place in the table; it stays one when its slab has gone back, for the next.
#[derive(FromZeros)]
struct SlabEntry {
    marks: Wiped<Locked<Slab>>,
    /// 0 while it has no memory, 1 while somebody gives it some, 2 when it has.
    state: AtomicU32,
    device: AtomicI32,
    chunk: AtomicU32,
    address: AtomicU64,
}

const VACANT: u32 = 0;
const MOVING_IN: u32 = 1;
const OPEN: u32 = 2;

/// The slabs of this process.
#[derive(FromZeros)]
pub(super) struct Slabs {
    /// How many entries were ever in use.
    high: AtomicU32,
    all: [SlabEntry; MAX_SLABS],
}

impl Slabs {
    fn used(&self) -> impl Iterator<Item = (u32, &SlabEntry)> {
        (0..).zip(&self.all).take(self.high.load(SeqCst) as usize)
    }

    fn of_device(&self, device: CUdevice) -> impl Iterator<Item = (u32, &SlabEntry)> {
        self.used().filter(move |(_, entry)| {
            entry.state.load(SeqCst) == OPEN && entry.device.load(Relaxed) == device
        })
    }

    /// Room for a block in the slabs there are: its address.
    pub(super) fn take(&self, device: CUdevice, bytes: u64) -> Option<u64> {
        self.of_device(device).find_map(|(_, entry)| entry.take(bytes))
    }

    /// Makes a slab that has room for `bytes`, as large as the card gives memory for. `record` notes its number and its
    /// first address before any block lies in it; false if it cannot.
    pub(super) fn open(
        &self,
        chunks: &Chunks,
        device: CUdevice,
        bytes: u64,
        asked: &mut u64,
        record: impl FnOnce(u32, u64) -> bool,
    ) -> Result<(), Denied> {
        let count = u32::try_from(self.of_device(device).count()).unwrap_or(u32::MAX);
        let wanted = FIRST_BYTES.checked_shl(count.min(3)).unwrap_or(MAX_BYTES);
        let least = whole_granules(bytes);
        let (number, entry) = self.vacant()?;
        let opened = entry.open(chunks, device, wanted.max(least).min(MAX_BYTES), least, asked);
        let is_recorded = opened.is_ok_and(|address| record(number, address));
        if opened.is_ok() && !is_recorded {
            entry.close(chunks);
        }
        entry.state.store(if is_recorded { OPEN } else { VACANT }, SeqCst);
        match opened {
            Ok(_) if is_recorded => Ok(()),
            Ok(_) => Err(Denied::OUT_OF_MEMORY),
            Err(denied) => Err(denied),
        }
    }

    /// An entry without memory, for the caller to give it some.
    fn vacant(&self) -> Result<(u32, &SlabEntry), CUresult> {
        let claim = |entry: &SlabEntry| {
            entry.state.compare_exchange(VACANT, MOVING_IN, SeqCst, SeqCst).is_ok()
        };
        loop {
            if let Some(found) = self.used().find(|(_, entry)| claim(entry)) {
                return Ok(found);
            }
            let high = self.high.load(SeqCst);
            if high as usize >= MAX_SLABS {
                return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
            }
            let _ = self.high.compare_exchange(high, high.saturating_add(1), SeqCst, SeqCst);
        }
    }

    /// The first address of the block that `address` lies in, in slab `number`.
    pub(super) fn find(&self, number: u32, address: u64) -> Option<u64> {
        let entry = self.all.get(number as usize)?;
        let base = entry.address.load(Relaxed);
        let part = entry.marks.get()?.with(|slab| slab.find(address.checked_sub(base)?))?;
        Some(base.saturating_add(part.at))
    }

    /// Gives back the memory of slabs of a device in which no block lies; `forget` takes note of each one's first address.
    pub(super) fn trim(&self, chunks: &Chunks, device: CUdevice, forget: impl Fn(u64)) {
        self.of_device(device).for_each(|(_, entry)| entry.end_if_empty(chunks, &forget));
    }

    /// The chunk of a slab.
    pub(super) fn chunk(&self, number: u32) -> Option<u32> {
        Some(self.all.get(number as usize)?.chunk.load(Relaxed))
    }

    /// Gives the block that starts at `address` back to slab `number`. Where that leaves it empty and it is not the
    /// device's only empty one, its memory goes back too, once `forget` has taken note of its first address.
    pub(super) fn give(&self, chunks: &Chunks, number: u32, address: u64, forget: impl Fn(u64)) {
        let Some(entry) = self.all.get(number as usize) else { return };
        let base = entry.address.load(Relaxed);
        let Some(marks) = entry.marks.get() else { return };
        let is_empty = marks.with(|slab| {
            address.checked_sub(base).and_then(|at| slab.give(at));
            slab.used_bytes() == 0
        });
        let device = entry.device.load(Relaxed);
        let is_other_empty = || {
            let mut others = self.of_device(device).filter(|(other, _)| *other != number);
            others.any(|(_, other)| other.is_empty())
        };
        if !is_empty || !is_other_empty() {
            return;
        }
        entry.end_if_empty(chunks, &forget);
    }
}

impl SlabEntry {
    fn take(&self, bytes: u64) -> Option<u64> {
        let part = self.marks.get()?.with(|slab| slab.take(bytes))?;
        Some(self.address.load(Relaxed).saturating_add(part.at))
    }

    fn is_empty(&self) -> bool {
        self.marks
            .get()
            .is_some_and(|marks| marks.with(|slab| slab.bytes() != 0 && slab.used_bytes() == 0))
    }

    /// Gives it memory: `bytes`, or less where the card has no more, but `least`.
    fn open(
        &self,
        chunks: &Chunks,
        device: CUdevice,
        mut bytes: u64,
        least: u64,
        asked: &mut u64,
    ) -> Result<u64, Denied> {
        let marks = self.marks.make().ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let address = driver::address_reserve(MAX_BYTES, MAX_BYTES)?;
        let chunk = loop {
            let made = chunks.raise(device, bytes, asked).and_then(|()| {
                chunks.make(device, address, bytes).map_err(|code| {
                    chunks.lower(device, bytes);
                    Denied::Driver(code)
                })
            });
            match made {
                Ok(chunk) => break chunk,
                Err(denied) if denied.is_shortage() && bytes > least => {
                    bytes = whole_granules(bytes / 2).max(least).max(GRANULE_BYTES);
                }
                Err(denied) => {
                    let _ = driver::address_free(address, MAX_BYTES);
                    return Err(denied);
                }
            }
        };
        if let Err(code) = chunks.peers.allow(device, address, bytes) {
            chunks.end(chunk);
            let _ = driver::address_free(address, MAX_BYTES);
            return Err(code.into());
        }
        self.device.store(device, Relaxed);
        self.chunk.store(chunk, Relaxed);
        self.address.store(address, Relaxed);
        marks.with(|slab| slab.open(bytes));
        Ok(address)
    }

    /// Gives its memory back if no block lies in it.
    fn end_if_empty(&self, chunks: &Chunks, forget: &impl Fn(u64)) {
        let Some(marks) = self.marks.get() else { return };
        // Closed, it has room for nobody; a block that came in meanwhile keeps it.
        let is_closed = marks.with(|slab| {
            let is_empty = slab.bytes() != 0 && slab.used_bytes() == 0;
            if is_empty {
                slab.open(0);
            }
            is_empty
        });
        if is_closed {
            // Another thread may get the addresses as soon as they are free.
            forget(self.address.load(Relaxed));
            self.close(chunks);
            self.state.store(VACANT, SeqCst);
        }
    }

    fn close(&self, chunks: &Chunks) {
        chunks.end(self.chunk.load(Relaxed));
        let _ = driver::address_free(self.address.load(Relaxed), MAX_BYTES);
    }
}
