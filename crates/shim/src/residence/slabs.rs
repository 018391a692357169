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

use super::addresses::{Addresses, Backing, ContextLife, NewBlock};
use super::chunks::{Chunks, Denied};
use super::exports;
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

    /// Room for a block in the slabs there are: its address. Managed memory ends with its context, so that slabs of it are
    /// for one context each.
    pub(super) fn take(&self, chunks: &Chunks, new: NewBlock) -> Option<u64> {
        let is_for = |entry: &SlabEntry| {
            let backing = entry.addresses(chunks).map(|addresses| addresses.backing);
            backing.is_none_or(|backing| backing == new.backing)
        };
        let mut all = self.of_device(new.device).filter(|(_, entry)| is_for(entry));
        all.find_map(|(_, entry)| entry.take(new.bytes))
    }

    /// Makes a slab that has room for a block, as large as the card gives memory for. `record` notes its number and its
    /// addresses before any block lies in it; false if it cannot.
    pub(super) fn open(
        &self,
        chunks: &Chunks,
        new: NewBlock,
        asked: &mut u64,
        record: impl FnOnce(u32, Addresses) -> bool,
    ) -> Result<(), Denied> {
        let device = new.device;
        let count = u32::try_from(self.of_device(device).count()).unwrap_or(u32::MAX);
        let wanted = FIRST_BYTES.checked_shl(count.min(3)).unwrap_or(MAX_BYTES);
        let least = whole_granules(new.bytes);
        let (number, entry) = self.vacant()?;
        let wanted = wanted.min(new.most_slab_bytes).max(least).min(MAX_BYTES);
        let opened = match new.backing {
            Backing::Handles => entry.open(chunks, device, wanted, least, asked),
            Backing::Managed(_) => entry.open_managed(chunks, new, wanted),
        };
        let recorded =
            opened.map(|()| entry.addresses(chunks).is_some_and(|at| record(number, at)));
        let is_recorded = recorded == Ok(true);
        if opened.is_ok() && !is_recorded {
            entry.close(chunks, ContextLife::Lives);
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

    /// Gives back the memory of slabs of a device in which no block lies.
    pub(super) fn trim(&self, chunks: &Chunks, device: CUdevice) {
        self.of_device(device)
            .for_each(|(_, entry)| entry.end_if_empty(chunks, ContextLife::Lives));
    }

    /// Ends the empty slabs of managed memory of a context that is gone.
    pub(super) fn forget_context(&self, chunks: &Chunks, context: u64) {
        let is_of = |entry: &SlabEntry| {
            let backing = entry.addresses(chunks).map(|addresses| addresses.backing);
            backing == Some(Backing::Managed(context))
        };
        let all = self.used().filter(|(_, entry)| entry.state.load(SeqCst) == OPEN && is_of(entry));
        all.for_each(|(_, entry)| entry.end_if_empty(chunks, ContextLife::Gone));
    }

    /// The chunk of a slab.
    pub(super) fn chunk(&self, number: u32) -> Option<u32> {
        Some(self.all.get(number as usize)?.chunk.load(Relaxed))
    }

    /// Gives the block that starts at `address` back to slab `number`. Where that leaves it empty and it is not the
    /// device's only empty one, its memory goes back too.
    pub(super) fn give(&self, chunks: &Chunks, number: u32, address: u64, life: ContextLife) {
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
        // One that is exported is charged in full, and not kept.
        if !is_empty || !(exports::is_exported(base) || is_other_empty()) {
            return;
        }
        entry.end_if_empty(chunks, life);
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
    ) -> Result<(), Denied> {
        let marks = self.marks.make().ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let addresses = Addresses::take(chunks, device, Backing::Handles, MAX_BYTES)?;
        let give = || addresses.give(chunks, device, ContextLife::Lives);
        let address = addresses.base;
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
                    give();
                    return Err(denied);
                }
            }
        };
        if let Err(code) = chunks.peers.allow(device, address, bytes) {
            chunks.end(chunk);
            give();
            return Err(code.into());
        }
        self.begin(device, chunk, address);
        marks.with(|slab| slab.open(bytes));
        Ok(())
    }

    /// The same of managed memory.
    fn open_managed(&self, chunks: &Chunks, new: NewBlock, bytes: u64) -> Result<(), Denied> {
        let marks = self.marks.make().ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let addresses = Addresses::take(chunks, new.device, new.backing, bytes)?;
        let chunk = chunks.divide_managed(new.device, addresses).inspect_err(|_| {
            addresses.give(chunks, new.device, ContextLife::Lives);
        })?;
        self.begin(new.device, chunk, addresses.base);
        marks.with(|slab| slab.open(bytes));
        Ok(())
    }

    fn begin(&self, device: CUdevice, chunk: u32, address: u64) {
        self.device.store(device, Relaxed);
        self.chunk.store(chunk, Relaxed);
        self.address.store(address, Relaxed);
    }

    /// Its addresses, as its chunk has them.
    fn addresses(&self, chunks: &Chunks) -> Option<Addresses> {
        let chunk = chunks.get(self.chunk.load(Relaxed))?;
        Some(chunk.addresses(self.address.load(Relaxed), chunk.bytes()))
    }

    /// Gives its memory back if no block lies in it.
    fn end_if_empty(&self, chunks: &Chunks, life: ContextLife) {
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
            if let Some(addresses) = self.addresses(chunks) {
                addresses.forget();
            }
            self.close(chunks, life);
            self.state.store(VACANT, SeqCst);
        }
    }

    fn close(&self, chunks: &Chunks, life: ContextLife) {
        exports::forget(self.address.load(Relaxed));
        let addresses = self.addresses(chunks);
        chunks.end(self.chunk.load(Relaxed));
        if let Some(addresses) = addresses {
            addresses.give(chunks, self.device.load(Relaxed), life);
        }
    }
}
