//! Chunks of managed memory: without handles and copies of ours, in a driver's own memory that moves by prefetches.
//!
//! Promises: as much as the owner allows, wherever it is; a prefetch has ended when it is said where the bytes are. Does not know
//! what the driver fetches by itself, but when it may have done so.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use divvy_driver_api::types::{CUdevice, CUresult, CUstream};
use divvy_policy::slab::MAX_BYTES;

use super::addresses::{Addresses, Backing};
use super::chunks::{Chunk, Chunks, Denied, Place};
use crate::sys::driver::{self, again};
use crate::tenant::device;

impl Chunks {
    /// Makes one chunk of managed memory, which is on the card if it may be; its number.
    pub(super) fn divide_managed(&self, device: CUdevice, of: Addresses) -> Result<u32, CUresult> {
        let Backing::Managed(owner) = of.backing else {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        };
        let place = match self.raise(device, of.bytes, &mut 0) {
            Ok(()) => Place::Card,
            Err(_) => Place::Host,
        };
        let made = self.make_managed((device, of.base, of.bytes), (owner, of.given), place);
        if made.is_err() && place == Place::Card {
            self.lower(device, of.bytes);
        }
        let number = made?;
        if let Some(chunk) = self.get(number).filter(|_| place == Place::Card)
            && let Ok(stream) = driver::stream_create()
        {
            // Where this fails the first kernel that touches it brings it.
            let _ = chunk.prefetch(Some(device), stream);
            let _ = driver::stream_destroy(stream);
        }
        Ok(number)
    }

    /// Makes a chunk of a block of managed memory, by its context and the address that the driver gave: on the card, where
    /// its bytes were raised, or away.
    ///
    /// # Errors
    /// Out-of-memory where there are too many chunks.
    pub(super) fn make_managed(
        &self,
        (device, address, bytes): (CUdevice, u64, u64),
        of: (u64, u64),
        place: Place,
    ) -> Result<u32, CUresult> {
        let (number, chunk) = self.take_number()?;
        chunk.begin(device, address, bytes, of);
        self.note(chunk, place);
        if place == Place::Host {
            self.note_strays();
        }
        Ok(number)
    }

    /// Says that so much more managed memory is about to be taken, and looks whether it may be.
    ///
    /// # Errors
    /// [`Denied::Managed`] where the owner does not allow it, or is not there; nothing is said then.
    pub(super) fn reserve_managed(&self, device: CUdevice, bytes: u64) -> Result<(), Denied> {
        let most_bytes = || device::memory_order(device).map_or(0, |order| order.managed_bytes());
        if self.managed_bytes(device).saturating_add(bytes) > most_bytes() {
            return Err(Denied::Managed(bytes));
        }
        self.change_managed(device, |sum| sum.saturating_add(bytes));
        // Behind what was said, as in `raise`.
        if self.managed_bytes(device) > most_bytes() {
            self.give_managed(device, bytes);
            return Err(Denied::Managed(bytes));
        }
        Ok(())
    }

    /// Says that so much managed memory is no more.
    pub(super) fn give_managed(&self, device: CUdevice, bytes: u64) {
        self.change_managed(device, |sum| sum.saturating_sub(bytes));
    }

    fn change_managed(&self, device: CUdevice, change: impl FnOnce(u64) -> u64) {
        let words = device::residence(device);
        let Some(sums) = self.sums(device) else { return };
        sums.with(|sums| {
            sums.managed_bytes = change(sums.managed_bytes);
            if let Some(words) = words {
                words.set_managed(sums.managed_bytes);
            }
        });
    }

    /// Bytes of managed memory that may leave a device, wherever they are.
    pub(crate) fn managed_bytes(&self, device: CUdevice) -> u64 {
        self.sums(device).map_or(0, |sums| sums.with(|sums| sums.managed_bytes))
    }

    /// Whether calls may use a device's memory though some is away, where no more than `room_bytes` of it may come back: the
    /// driver fetches what it manages, and no piece of it finds room whole.
    pub(crate) fn may_be_used(&self, device: CUdevice, room_bytes: u64) -> bool {
        let mut is_any_in_need = false;
        self.for_each(|chunk| {
            let is_away = chunk.device() == device && chunk.place() == Place::Host;
            is_any_in_need |= is_away && (!chunk.is_managed() || chunk.bytes() <= room_bytes);
        });
        !is_any_in_need
    }

    /// Managed memory that is away may be touched from now on.
    pub(crate) fn note_strays(&self) {
        self.strays.store(1, SeqCst);
    }

    /// Whether it may have been since this was asked last.
    pub(crate) fn take_strays(&self) -> bool {
        self.strays.swap(0, SeqCst) != 0
    }
}

impl Chunk {
    /// Whether its memory is managed.
    pub(crate) fn is_managed(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }

    /// The context that managed memory is of, and the address that the driver gave for its block.
    pub(super) fn origin(&self) -> (u64, u64) {
        (self.owner.load(Relaxed), self.handle.load(Relaxed))
    }

    /// The addresses of the block of which it is the first chunk, by their first and the bytes of memory behind them.
    pub(super) fn addresses(&self, base: u64, bytes: u64) -> Addresses {
        match self.origin() {
            (0, _) => {
                let bytes = bytes.next_multiple_of(MAX_BYTES);
                Addresses { base, bytes, given: 0, backing: Backing::Handles }
            }
            (owner, given) => Addresses { base, bytes, given, backing: Backing::Managed(owner) },
        }
    }

    /// Begins to move managed memory to a device, or to the host.
    pub(super) fn start_prefetch(
        &self,
        to: Option<CUdevice>,
        stream: CUstream,
    ) -> Result<(), CUresult> {
        driver::prefetch(self.address(), self.bytes(), to, stream)
    }

    /// The same, and waits until it is there.
    pub(crate) fn prefetch(&self, to: Option<CUdevice>, stream: CUstream) -> Result<(), CUresult> {
        self.start_prefetch(to, stream)?;
        again(|| driver::stream_wait(stream))
    }
}
