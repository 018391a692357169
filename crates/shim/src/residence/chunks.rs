//! Chunks: pieces of device memory, each behind a handle of its own, that leave the card and come back as a whole.
//!
//! A chunk is at any time in one state ([`Place`]), and each step from one to the next is one call of the driver, or
//! several of which the earlier ones are taken back when a later one fails. So whatever fails, the bytes are in one of two places,
//! and the state says in which.
//!
//! Promises: the copy on the host stays until the bytes are back. To leave and to come back have a begin and an end, so that
//! one chunk is copied while memory is taken or given back for the next. Does not know when to move, or whether work is under
//! way: that is the service's.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{CUdevice, CUresult, CUstream};
use zerocopy::FromZeros;

pub(crate) use super::chunk::{Chunk, Place};
use super::peers::Peers;
pub(crate) use super::sums::Denied;
use super::sums::Sums;
use crate::sys::driver::{self, again};
use crate::sys::host_piece::HostPiece;
use crate::sys::wiped::Locked;
use crate::tenant::device;

/// Chunks a process can have.
const MAX_CHUNKS: usize = 1 << 16;

/// Which chunks are free.
#[derive(FromZeros)]
struct Unused {
    /// The number, and one, of the first that was in use before.
    first: u32,
    /// How many were ever in use.
    high: u32,
}

/// All chunks of the process.
#[derive(FromZeros)]
pub(crate) struct Chunks {
    totals: [Locked<Sums>; MAX_DEVICES],
    /// Not 0 once managed memory that is away may have been touched.
    pub(super) strays: AtomicU32,
    unused: Locked<Unused>,
    pub(super) peers: Peers,
    all: [Chunk; MAX_CHUNKS],
}

impl Chunks {
    /// The chunk with this number.
    pub(crate) fn get(&self, number: u32) -> Option<&Chunk> {
        self.all.get(number as usize)
    }

    /// Calls `each` with every chunk there is.
    pub(crate) fn for_each<'a>(&'a self, mut each: impl FnMut(&'a Chunk)) {
        let there = |chunk: &&'a Chunk| !matches!(chunk.place(), Place::Nowhere | Place::Spare);
        self.rows().filter(there).for_each(&mut each);
    }

    /// Every chunk that there ever was.
    fn rows(&self) -> impl Iterator<Item = &Chunk> {
        self.all.iter().take(self.unused.with(|unused| unused.high) as usize)
    }

    /// Bytes on the card of the memory that may leave a device.
    pub(crate) fn resident_bytes(&self, device: CUdevice) -> u64 {
        self.sums(device).map_or(0, |sums| sums.with(|sums| sums.resident_bytes()))
    }

    /// The same without what is being copied to the host, to be away then.
    pub(crate) fn staying_bytes(&self, device: CUdevice) -> u64 {
        let staying = |sums: &Sums| sums.resident_bytes().saturating_sub(sums.leaving_bytes);
        self.sums(device).map_or(0, |sums| sums.with(|sums| staying(sums)))
    }

    /// Bytes that are away.
    pub(crate) fn away_bytes(&self, device: CUdevice) -> u64 {
        self.sums(device).map_or(0, |sums| sums.with(|sums| sums.away_bytes))
    }

    /// The sums over a device's.
    pub(super) fn sums(&self, device: CUdevice) -> Option<&Locked<Sums>> {
        usize::try_from(device).ok().and_then(|row| self.totals.get(row))
    }

    /// Says that `bytes` are about to be taken, before they are: [`Chunks::make`] and [`Chunks::start_coming`] take them, and
    /// [`Chunks::lower`] says that the rest will not be. What of them was `asked` for is so no more.
    ///
    /// # Errors
    /// [`Denied::Ceiling`] where the owner does not allow so much; nothing is said then.
    pub(super) fn raise(
        &self,
        device: CUdevice,
        bytes: u64,
        asked: &mut u64,
    ) -> Result<(), Denied> {
        let asked_bytes = core::mem::take(asked);
        self.change_coming(device, asked_bytes, |coming| coming.saturating_add(bytes));
        // Behind what was said: an owner that lowers the ceiling meanwhile has seen it, or is seen here.
        let is_above = |ceiling: u64| self.resident_bytes(device) > ceiling;
        if device::memory_order(device).is_some_and(|order| is_above(order.allowed_bytes)) {
            *asked = asked_bytes;
            self.change_coming(device, asked_bytes.wrapping_neg(), |coming| {
                coming.saturating_sub(bytes)
            });
            return Err(Denied::Ceiling);
        }
        Ok(())
    }

    /// Says that `bytes` will not be taken.
    pub(super) fn lower(&self, device: CUdevice, bytes: u64) {
        self.change_coming(device, 0, |coming| coming.saturating_sub(bytes));
    }

    /// Changes what is said to be about to come, `unasked` bytes of which are asked for no more. Together, since what is
    /// neither asked for nor about to come is given to others.
    fn change_coming(&self, device: CUdevice, unasked: u64, change: impl FnOnce(u64) -> u64) {
        let words = device::residence(device);
        let Some(sums) = self.sums(device) else { return };
        sums.with(|sums| {
            sums.coming_bytes = change(sums.coming_bytes);
            if let Some(words) = words {
                words.ask(unasked.wrapping_neg());
                words.set_resident(sums.resident_bytes());
            }
        });
    }

    /// Takes `bytes` of a device's memory, of those that were raised, and puts them behind `address`, where the caller lets
    /// the device reach them; the new chunk's number.
    ///
    /// # Errors
    /// The driver's, out-of-memory where there are too many chunks.
    pub(crate) fn make(&self, device: CUdevice, address: u64, bytes: u64) -> Result<u32, CUresult> {
        let (number, chunk) = self.take_number()?;
        chunk.begin(device, address, bytes, (0, 0));
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

    /// A chunk that is not in use, and its number.
    pub(super) fn take_number(&self) -> Result<(u32, &Chunk), CUresult> {
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
        Ok((number, chunk))
    }

    /// Ends a chunk: its memory goes back, wherever its bytes are. The addresses stay reserved, and its copy stays until
    /// another takes it, or [`Chunks::drop_copies`].
    pub(crate) fn end(&self, number: u32) {
        let Some(chunk) = self.get(number) else { return };
        if chunk.place() != Place::Host {
            chunk.drop_memory();
        }
        self.note(chunk, Place::Spare);
        self.give_if_spent(number, chunk);
    }

    /// A chunk's bytes are at `to` now; the tenant's files say so too.
    pub(super) fn note(&self, chunk: &Chunk, to: Place) {
        let from = Place::of(chunk.place.swap(to.word(), SeqCst));
        let (bytes, device) = (chunk.bytes(), chunk.device());
        let words = device::residence(device);
        let Some(totals) = self.sums(device) else { return };
        totals.with(|totals| {
            let came = to == Place::Card && matches!(from, Place::Nowhere | Place::Host);
            totals.coming_bytes = totals.coming_bytes.saturating_sub(if came { bytes } else { 0 });
            for (place, sum) in [
                (Place::Host, &mut totals.away_bytes),
                (Place::Leaving, &mut totals.leaving_bytes),
                (Place::Pinned, &mut totals.pinned_bytes),
            ] {
                *sum = sum.saturating_sub(if from == place { bytes } else { 0 });
                *sum = sum.saturating_add(if to == place { bytes } else { 0 });
            }
            let sum = &mut totals.movable_bytes;
            *sum = sum.saturating_sub(if from == Place::Nowhere { 0 } else { bytes });
            *sum = sum.saturating_add(if to == Place::Spare { 0 } else { bytes });
            if let Some(words) = words {
                words.set_places(totals.movable_bytes, totals.away_bytes, totals.pinned_bytes);
                words.set_resident(totals.resident_bytes());
            }
        });
    }

    /// A chunk is to stay on the card from now on. False if it is away.
    pub(super) fn pin(&self, number: u32) -> bool {
        let Some(chunk) = self.get(number) else { return false };
        // Managed memory cannot be kept: nothing but addresses can refer to it.
        if chunk.place() == Place::Card && !chunk.is_managed() {
            self.note(chunk, Place::Pinned);
        }
        chunk.place() == Place::Pinned
    }

    /// Makes a chunk's copy ahead, without its bytes. A context is current.
    ///
    /// # Errors
    /// Out-of-memory where the host has no room, or the driver's.
    pub(crate) fn prepare(&self, chunk: &Chunk) -> Result<(), CUresult> {
        let copy = self.copy_for(chunk, |other| other.place() == Place::Spare)?;
        // It may have ended meanwhile, and be another.
        let unused = chunk.host.with(|host| {
            let fits = chunk.place() == Place::Card && copy.bytes() as u64 == chunk.bytes();
            if fits && host.address() == 0 { core::mem::replace(host, copy) } else { copy }
        });
        self.keep_spare(chunk.device(), unused);
        Ok(())
    }

    /// Keeps a copy that is no chunk's for another one.
    fn keep_spare(&self, device: CUdevice, copy: HostPiece) {
        if copy.address() == 0 {
            return;
        }
        match self.take_number() {
            Ok((_, row)) => {
                row.begin(device, 0, copy.bytes() as u64, (0, 0));
                row.host.with(|host| *host = copy);
                row.place.store(Place::Spare.word(), SeqCst);
            }
            // There are as many chunks as there can be.
            Err(_) => core::mem::forget(copy),
        }
    }

    /// Host memory for a chunk, registered: one of its size that another chunk has which `may_give` it, or a new one.
    fn copy_for(
        &self,
        chunk: &Chunk,
        may_give: impl Fn(&Chunk) -> bool,
    ) -> Result<HostPiece, CUresult> {
        for (number, other) in (0..).zip(self.rows()) {
            let is_alike = other.device() == chunk.device() && other.bytes() == chunk.bytes();
            if !is_alike || !may_give(other) {
                continue;
            }
            let found = other.host.with(|host| {
                let fits = host.bytes() as u64 == chunk.bytes();
                fits.then(|| core::mem::replace(host, HostPiece::NONE))
            });
            if let Some(copy) = found {
                self.give_if_spent(number, other);
                return Ok(copy);
            }
        }
        self.new_copy(chunk)
    }

    /// Host memory for a chunk, made and registered.
    fn new_copy(&self, chunk: &Chunk) -> Result<HostPiece, CUresult> {
        let bytes = chunk.bytes();
        let copy = HostPiece::new(bytes).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        driver::host_register(copy.address(), copy.bytes())?;
        self.change_copies(chunk.device(), |sum| sum.saturating_add(bytes));
        Ok(copy)
    }

    /// Gives a copy back. One that the driver does not let go of stays: other memory must not come to lie where it is.
    fn drop_piece(&self, device: CUdevice, copy: HostPiece) {
        if copy.address() == 0 {
            return;
        }
        let bytes = copy.bytes() as u64;
        match again(|| driver::host_unregister(copy.address())) {
            // Where the context that registered it has ended the driver has let go.
            Ok(()) | Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) => drop(copy),
            Err(_) => core::mem::forget(copy),
        }
        self.change_copies(device, |sum| sum.saturating_sub(bytes));
    }

    fn drop_copy(&self, chunk: &Chunk) {
        let copy = chunk.host.with(|host| core::mem::replace(host, HostPiece::NONE));
        self.drop_piece(chunk.device(), copy);
    }

    fn change_copies(&self, device: CUdevice, change: impl FnOnce(u64) -> u64) {
        let words = device::residence(device);
        let Some(sums) = self.sums(device) else { return };
        sums.with(|sums| {
            sums.copies_bytes = change(sums.copies_bytes);
            if let Some(words) = words {
                words.set_copies(sums.copies_bytes);
            }
        });
    }

    /// Bytes of the host that a device's copies take, used or not.
    pub(crate) fn copies_bytes(&self, device: CUdevice) -> u64 {
        self.sums(device).map_or(0, |sums| sums.with(|sums| sums.copies_bytes))
    }

    /// Whether a device's copies take more than `keep_bytes` of the host, and chunks do not need all of them.
    pub(crate) fn has_surplus(&self, device: CUdevice, keep_bytes: u64) -> bool {
        let is_unused = |chunk: &Chunk| chunk.device() == device && !chunk.needs_copy();
        let has_piece = |chunk: &Chunk| chunk.host.with(|host| host.address() != 0);
        self.copies_bytes(device) > keep_bytes
            && self.rows().any(|chunk| is_unused(chunk) && has_piece(chunk))
    }

    /// Begins to copy a chunk's bytes to the host: [`Chunks::finish_leaving`] ends it. A context of its device is current, to
    /// which `stream` belongs, and no work is under way that uses it.
    ///
    /// # Errors
    /// Out-of-memory where the host has no room, or the driver's: nothing has begun.
    pub(crate) fn start_leaving(&self, chunk: &Chunk, stream: CUstream) -> Result<(), CUresult> {
        if chunk.is_managed() {
            chunk.start_prefetch(None, stream)?;
            self.note(chunk, Place::Leaving);
            return Ok(());
        }
        let place = chunk.host.with(|host| (host.address(), host.bytes() as u64));
        let to = match place {
            (address @ 1.., bytes) if bytes == chunk.bytes() => address,
            _ => {
                self.drop_copy(chunk);
                let copy = self.copy_for(chunk, |other| !other.needs_copy())?;
                let address = copy.address();
                chunk.host.with(|host| *host = copy);
                address
            }
        };
        driver::copy_out(to, chunk.address(), chunk.bytes(), stream)?;
        self.note(chunk, Place::Leaving);
        Ok(())
    }

    /// Gives the memory back of a chunk whose bytes were to be copied to the host, if they were.
    ///
    /// # Errors
    /// That of the copy, or the driver's: the bytes are where they were.
    pub(crate) fn finish_leaving(
        &self,
        chunk: &Chunk,
        copied: Result<(), CUresult>,
    ) -> Result<(), CUresult> {
        let left = copied.and_then(|()| chunk.unmap());
        self.note(chunk, if left.is_ok() { Place::Host } else { Place::Card });
        left
    }

    /// Takes memory for a chunk again, and begins to copy its bytes back: [`Chunks::finish_coming`] ends it. The copy stays
    /// until [`Chunks::drop_copies`].
    ///
    /// # Errors
    /// Why there is no room: nothing has begun.
    pub(crate) fn start_coming(&self, chunk: &Chunk, stream: CUstream) -> Result<(), Denied> {
        let (device, bytes) = (chunk.device(), chunk.bytes());
        self.raise(device, bytes, &mut 0)?;
        let from = chunk.host.with(|host| host.address());
        let started = match chunk.is_managed() {
            true => chunk.start_prefetch(Some(device), stream),
            false => chunk.take(&self.peers).and_then(|()| {
                let copying = driver::copy_in(chunk.address(), from, bytes, stream);
                if copying.is_err() {
                    chunk.drop_memory();
                }
                copying
            }),
        };
        if started.is_err() {
            self.lower(device, bytes);
        }
        started.map_err(Denied::from)
    }

    /// A chunk whose bytes were to be copied back is on the card, if they were.
    ///
    /// # Errors
    /// That of the copy: the bytes are where they were.
    pub(crate) fn finish_coming(
        &self,
        chunk: &Chunk,
        copied: Result<(), CUresult>,
    ) -> Result<(), CUresult> {
        match copied {
            Ok(()) => self.note(chunk, Place::Card),
            Err(_) => {
                chunk.drop_memory();
                self.lower(chunk.device(), chunk.bytes());
            }
        }
        copied
    }

    /// Gives the host's memory back of a device's chunks that need no copy, until copies take no more than `keep_bytes`, or
    /// `is_over`. No work of the program's is under way: the driver waits for all there is when it lets go of host memory,
    /// and keeps copies of other threads waiting meanwhile, by which the program may be about to end that work (measured,
    /// 580).
    pub(crate) fn drop_copies(
        &self,
        device: CUdevice,
        keep_bytes: u64,
        is_over: impl Fn() -> bool,
    ) {
        for (number, chunk) in (0..).zip(self.rows()) {
            let is_unused = chunk.device() == device && !chunk.needs_copy();
            if is_unused && self.copies_bytes(device) > keep_bytes && !is_over() {
                self.drop_copy(chunk);
            }
            self.give_if_spent(number, chunk);
        }
    }

    /// Lets the number of a chunk that has ended be another's, once its copy is gone.
    fn give_if_spent(&self, number: u32, chunk: &Chunk) {
        if chunk.is_spent() {
            self.give_number(number, chunk);
        }
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
