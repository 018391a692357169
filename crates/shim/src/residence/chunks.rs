//! Chunks: pieces of device memory, each behind a handle of its own, that leave the card and come back as a whole.
//!
//! A chunk is at any time in one state ([`Place`]), and each step from one to the next is one call of the driver, or
//! several of which the earlier ones are taken back when a later one fails. So whatever fails, the bytes are in one of two places,
//! and the state says in which.
//!
//! Promises: the copy on the host stays until the bytes are back. Does not know when to move, or whether work is under
//! way: that is the service's.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{CUdevice, CUresult, CUstream};
use zerocopy::FromZeros;

use crate::sys::driver;
use crate::sys::host_piece::HostPiece;
use crate::sys::wiped::Locked;
use crate::tenant::device;

/// Chunks a process can have.
const MAX_CHUNKS: usize = 1 << 16;

/// Where a chunk's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// There is no such chunk.
    Nowhere,
    /// On the card.
    Card,
    /// On the card, and to stay there: something else than addresses refers to it.
    Pinned,
    /// On the host.
    Host,
}

impl Place {
    const fn word(self) -> u32 {
        match self {
            Self::Nowhere => 0,
            Self::Card => 1,
            Self::Pinned => 2,
            Self::Host => 3,
        }
    }

    const fn of(word: u32) -> Self {
        match word {
            1 => Self::Card,
            2 => Self::Pinned,
            3 => Self::Host,
            _ => Self::Nowhere,
        }
    }
}

/// A chunk.
#[derive(FromZeros)]
pub(crate) struct Chunk {
    place: AtomicU32,
    device: AtomicI32,
    /// The number, and one, of the next chunk of the same block; of a chunk that is free, of the next one free.
    next: AtomicU32,
    address: AtomicU64,
    bytes: AtomicU64,
    handle: AtomicU64,
    host: Locked<HostPiece>,
}

/// Which chunks are free.
#[derive(FromZeros)]
struct Unused {
    /// The number, and one, of the first that was in use before.
    first: u32,
    /// How many were ever in use.
    high: u32,
}

/// Sums over a device's chunks.
#[derive(FromZeros)]
struct Sums {
    movable_bytes: u64,
    away_bytes: u64,
    pinned_bytes: u64,
}

/// All chunks of the process.
#[derive(FromZeros)]
pub(crate) struct Chunks {
    totals: [Locked<Sums>; MAX_DEVICES],
    unused: Locked<Unused>,
    all: [Chunk; MAX_CHUNKS],
}

impl Chunks {
    /// The chunk with this number.
    pub(crate) fn get(&self, number: u32) -> Option<&Chunk> {
        self.all.get(number as usize)
    }

    /// Calls `each` with every chunk there is.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&Chunk)) {
        let high = self.unused.with(|unused| unused.high) as usize;
        let there = |chunk: &&Chunk| chunk.place() != Place::Nowhere;
        self.all.iter().take(high).filter(there).for_each(&mut each);
    }

    /// Takes `bytes` of a device's memory and puts them behind `address`, where the caller lets the device reach them; the new
    /// chunk's number.
    ///
    /// # Errors
    /// The driver's, out-of-memory where there are too many chunks.
    pub(crate) fn make(&self, device: CUdevice, address: u64, bytes: u64) -> Result<u32, CUresult> {
        let taken = self.unused.with(|unused| {
            let number = match unused.first.checked_sub(1) {
                Some(number) => {
                    unused.first = self.get(number).map_or(0, |chunk| chunk.next.load(Relaxed));
                    number
                }
                None => {
                    let number = unused.high;
                    unused.high = number.saturating_add(1).min(MAX_CHUNKS as u32);
                    number
                }
            };
            self.get(number).map(|_| number)
        });
        let number = taken.ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let chunk = self.get(number).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        chunk.device.store(device, Relaxed);
        chunk.next.store(0, Relaxed);
        chunk.address.store(address, Relaxed);
        chunk.bytes.store(bytes, Relaxed);
        match chunk.map() {
            Ok(()) => {
                self.note(chunk, Place::Card);
                Ok(number)
            }
            Err(code) => {
                self.give_number(number, chunk);
                Err(code)
            }
        }
    }

    /// Ends a chunk: its memory goes back, wherever its bytes are. The addresses stay reserved.
    pub(crate) fn end(&self, number: u32) {
        let Some(chunk) = self.get(number) else { return };
        if chunk.place() != Place::Host {
            chunk.drop_memory();
        }
        chunk.drop_copy();
        self.note(chunk, Place::Nowhere);
        self.give_number(number, chunk);
    }

    /// A chunk's bytes are at `to` now; the tenant's files say so too.
    fn note(&self, chunk: &Chunk, to: Place) {
        let from = Place::of(chunk.place.swap(to.word(), SeqCst));
        let (bytes, device) = (chunk.bytes(), chunk.device());
        let words = device::residence(device);
        let row = usize::try_from(device).ok().and_then(|row| self.totals.get(row));
        let Some(totals) = row else { return };
        totals.with(|totals| {
            for (place, sum) in
                [(Place::Host, &mut totals.away_bytes), (Place::Pinned, &mut totals.pinned_bytes)]
            {
                *sum = sum.saturating_sub(if from == place { bytes } else { 0 });
                *sum = sum.saturating_add(if to == place { bytes } else { 0 });
            }
            let sum = &mut totals.movable_bytes;
            *sum = sum.saturating_sub(if from == Place::Nowhere { 0 } else { bytes });
            *sum = sum.saturating_add(if to == Place::Nowhere { 0 } else { bytes });
            if let Some(words) = words {
                words.set_places(totals.movable_bytes, totals.away_bytes, totals.pinned_bytes);
            }
        });
    }

    /// A chunk is to stay on the card from now on. False if it is away.
    pub(super) fn pin(&self, number: u32) -> bool {
        let Some(chunk) = self.get(number) else { return false };
        if chunk.place() == Place::Card {
            self.note(chunk, Place::Pinned);
        }
        chunk.place() == Place::Pinned
    }

    /// Copies a chunk's bytes to the host and gives its memory back. A context of its device is current, to which
    /// `stream` belongs, and no work is under way that uses it.
    ///
    /// # Errors
    /// Out-of-memory where the host has no room, or the driver's: the bytes are where they were.
    pub(crate) fn leave(&self, chunk: &Chunk, stream: CUstream) -> Result<(), CUresult> {
        chunk.leave(stream)?;
        self.note(chunk, Place::Host);
        Ok(())
    }

    /// Takes memory for a chunk again and copies its bytes back. The copy stays until [`Chunks::drop_copies`].
    ///
    /// # Errors
    /// The driver's, out-of-memory where the card has no room: the bytes are where they were.
    pub(crate) fn come_back(&self, chunk: &Chunk, stream: CUstream) -> Result<(), CUresult> {
        chunk.come_back(stream)?;
        self.note(chunk, Place::Card);
        Ok(())
    }

    /// Gives the host's memory back of chunks that are on the card again.
    pub(crate) fn drop_copies(&self) {
        self.for_each(|chunk| {
            if chunk.place() != Place::Host {
                chunk.drop_copy();
            }
        });
    }

    fn give_number(&self, number: u32, chunk: &Chunk) {
        self.unused.with(|unused| {
            chunk.next.store(unused.first, Relaxed);
            unused.first = number.saturating_add(1);
        });
    }

    /// Notes that `next` is the chunk behind `number`.
    pub(crate) fn join(&self, number: u32, next: u32) {
        if let Some(chunk) = self.get(number) {
            chunk.next.store(next.saturating_add(1), Relaxed);
        }
    }

    /// The number of the chunk behind `number`, if it is not its block's last.
    pub(crate) fn behind(&self, number: u32) -> Option<u32> {
        self.get(number)?.next.load(Relaxed).checked_sub(1)
    }
}

impl Chunk {
    /// Where its bytes are.
    pub(crate) fn place(&self) -> Place {
        Place::of(self.place.load(SeqCst))
    }

    /// The driver's number of its device.
    pub(crate) fn device(&self) -> CUdevice {
        self.device.load(Relaxed)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Its first address.
    pub(crate) fn address(&self) -> u64 {
        self.address.load(Relaxed)
    }

    /// Takes memory of the driver and puts it behind the addresses.
    fn map(&self) -> Result<(), CUresult> {
        let handle = driver::mem_create(self.device(), self.bytes())?;
        if let Err(code) = driver::mem_map(self.address(), self.bytes(), handle) {
            let _ = driver::mem_release(handle);
            return Err(code);
        }
        self.handle.store(handle, Relaxed);
        Ok(())
    }

    /// The same, and lets the device reach it.
    fn take(&self) -> Result<(), CUresult> {
        self.map()?;
        let allowed = driver::mem_allow(self.address(), self.bytes(), self.device());
        if allowed.is_err() {
            self.drop_memory();
        }
        allowed
    }

    fn drop_memory(&self) {
        let _ = driver::mem_unmap(self.address(), self.bytes());
        let _ = driver::mem_release(self.handle.load(Relaxed));
    }

    fn drop_copy(&self) {
        let copy = self.host.with(|host| core::mem::replace(host, HostPiece::NONE));
        if copy.address() != 0 {
            let _ = driver::host_unregister(copy.address());
        }
    }

    /// The copy is made and kept before the memory goes.
    fn leave(&self, stream: CUstream) -> Result<(), CUresult> {
        let (address, bytes) = (self.address(), self.bytes());
        self.drop_copy();
        let copy = HostPiece::new(bytes).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        driver::host_register(copy.address(), copy.bytes())?;
        let copied = driver::copy_out(copy.address(), address, bytes, stream)
            .and_then(|()| driver::stream_wait(stream))
            .and_then(|()| driver::mem_unmap(address, bytes));
        if let Err(code) = copied {
            let _ = driver::host_unregister(copy.address());
            return Err(code);
        }
        self.host.with(|host| *host = copy);
        let _ = driver::mem_release(self.handle.load(Relaxed));
        Ok(())
    }

    /// The copy is kept: nobody waits for its end.
    fn come_back(&self, stream: CUstream) -> Result<(), CUresult> {
        let copy = self.host.with(|host| host.address());
        self.take()?;
        let (address, bytes) = (self.address(), self.bytes());
        let copied = driver::copy_in(address, copy, bytes, stream)
            .and_then(|()| driver::stream_wait(stream));
        if let Err(code) = copied {
            self.drop_memory();
            return Err(code);
        }
        Ok(())
    }
}
