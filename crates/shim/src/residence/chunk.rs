//! One chunk: a piece of device memory, behind a handle of its own or managed by the driver, and where its bytes are.
//!
//! Promises: each step is one call of the driver, or several of which the earlier ones are taken back when a later one
//! fails. Does not count ([`super::chunks`] does), and does not know when to move.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use divvy_driver_api::types::{CUdevice, CUresult};
use zerocopy::FromZeros;

use super::peers::Peers;
use crate::sys::driver;
use crate::sys::host_piece::HostPiece;
use crate::sys::wiped::Locked;

/// Where a chunk's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// There is no such chunk.
    Nowhere,
    /// On the card.
    Card,
    /// On the card, while they are copied to the host.
    Leaving,
    /// On the card, and to stay there: something else than addresses refers to it.
    Pinned,
    /// On the host.
    Host,
    /// There is no such chunk any more, but its copy on the host is there, for another.
    Spare,
}

impl Place {
    pub(super) const fn word(self) -> u32 {
        match self {
            Self::Nowhere => 0,
            Self::Card => 1,
            Self::Pinned => 2,
            Self::Host => 3,
            Self::Leaving => 4,
            Self::Spare => 5,
        }
    }

    pub(super) const fn of(word: u32) -> Self {
        match word {
            1 => Self::Card,
            2 => Self::Pinned,
            3 => Self::Host,
            4 => Self::Leaving,
            5 => Self::Spare,
            _ => Self::Nowhere,
        }
    }
}

/// A chunk.
#[derive(FromZeros)]
pub(crate) struct Chunk {
    pub(super) place: AtomicU32,
    pub(super) device: AtomicI32,
    /// The number, and one, of the next chunk of the same block; of a chunk that is free, of the next one free.
    pub(super) next: AtomicU32,
    pub(super) address: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// The handle behind it; of managed memory the address that the driver gave for the block it is of.
    pub(super) handle: AtomicU64,
    /// The context that managed memory is of; 0 of memory behind a handle.
    pub(super) owner: AtomicU64,
    pub(super) host: Locked<HostPiece>,
}

impl Chunk {
    /// Takes its words: of managed memory with its context and the address that the driver gave, else with zeroes.
    pub(super) fn begin(
        &self,
        device: CUdevice,
        address: u64,
        bytes: u64,
        (owner, given): (u64, u64),
    ) {
        self.device.store(device, Relaxed);
        self.next.store(0, Relaxed);
        self.address.store(address, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.owner.store(owner, Relaxed);
        self.handle.store(given, Relaxed);
    }

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
    pub(super) fn map(&self) -> Result<(), CUresult> {
        let create = |is_passed| driver::mem_create(self.device(), self.bytes(), is_passed);
        // Of all memory another process may be given a descriptor, where the driver makes any.
        let handle = create(true).or_else(|code| match code {
            CUresult::CUDA_ERROR_NOT_SUPPORTED
            | CUresult::CUDA_ERROR_NOT_PERMITTED
            | CUresult::CUDA_ERROR_INVALID_VALUE => create(false),
            code => Err(code),
        })?;
        if let Err(code) = driver::mem_map(self.address(), self.bytes(), handle) {
            driver::mem_drop(0, 0, handle);
            return Err(code);
        }
        self.handle.store(handle, Relaxed);
        Ok(())
    }

    /// The same, and lets the device reach it.
    pub(super) fn take(&self, peers: &Peers) -> Result<(), CUresult> {
        self.map()?;
        let allowed = peers.allow(self.device(), self.address(), self.bytes());
        if allowed.is_err() {
            self.drop_memory();
        }
        allowed
    }

    /// Gives its memory back, which its addresses keep where the driver fails. Managed memory goes with its block.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn unmap(&self) -> Result<(), CUresult> {
        if self.is_managed() {
            return Ok(());
        }
        driver::mem_unmap(self.address(), self.bytes())?;
        driver::mem_drop(0, 0, self.handle.load(Relaxed));
        Ok(())
    }

    /// The same, again where that fails: nobody is told.
    pub(super) fn drop_memory(&self) {
        if self.is_managed() {
            return;
        }
        driver::mem_drop(self.address(), self.bytes(), self.handle.load(Relaxed));
    }

    /// Whether its copy on the host holds bytes that are nowhere else, or is being filled.
    pub(super) fn needs_copy(&self) -> bool {
        matches!(self.place(), Place::Host | Place::Leaving)
    }

    /// Whether the chunk has ended and its copy is gone. One caller alone is told so.
    pub(super) fn is_spent(&self) -> bool {
        let (spare, nowhere) = (Place::Spare.word(), Place::Nowhere.word());
        self.host.with(|host| {
            let turn = || self.place.compare_exchange(spare, nowhere, SeqCst, SeqCst);
            host.address() == 0 && turn().is_ok()
        })
    }

    /// Whether its copy on the host is there already, filled or not, or it needs none.
    pub(crate) fn has_copy(&self) -> bool {
        self.is_managed() || self.host.with(|host| host.address() != 0)
    }
}
