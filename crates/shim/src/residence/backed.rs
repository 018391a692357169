//! Blocks whose memory may leave the card: made, freed, and found by an address inside them.
//!
//! Blocks below 32 MiB lie in [`super::slabs`]; larger ones at addresses of their own, in chunks of up to 256 MiB. By
//! [`super::addresses`] a block is found.
//!
//! Promises: the pointer is aligned as the driver's would be; a block is not given back while work that was submitted
//! before may use it, which is what the driver promises too. Does not ask for a limit.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use divvy_driver_api::types::{CUdevice, CUresult};
use divvy_policy::charge::{self, whole_granules};
use divvy_policy::slab::MAX_BYTES;

use super::addresses::{self, Addresses, Backing, ContextLife, IMPORTED, NewBlock};
use super::chunks::{Chunk, Denied};
use super::state::{self, State};
use super::{exports, imports};
use crate::sys::driver;
use crate::sys::map::Map;

/// Blocks from so many bytes on have chunks of their own.
const OWN_BYTES: u64 = 32 << 20;
/// Most bytes of a chunk.
const CHUNK_BYTES: u64 = MAX_BYTES;

/// Blocks by first address: a number that no other block has had, and the bytes that were asked for.
static BLOCKS: Map = Map::new(32);

/// The last block's number.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A block, found by an address inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Its first address.
    pub(crate) base: u64,
    /// The bytes that were asked for.
    pub(crate) bytes: u64,
    /// A number that no other block of the process has had.
    pub(crate) number: u64,
}

/// A piece of memory that is exported as a whole.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    /// Its first address.
    pub(crate) base: u64,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Its device.
    pub(crate) device: CUdevice,
    /// Whether several blocks may lie in it.
    pub(crate) is_slab: bool,
    /// Its first chunk.
    pub(crate) first: u32,
}

/// The use of a piece of addresses.
#[derive(Clone, Copy)]
enum Piece {
    /// A slab, by its number.
    Slab(u32),
    /// Another process's, by the number of the import.
    Import(u32),
    /// A block of its own: its first chunk, and its first address.
    Block(u32, u64),
}

impl Piece {
    const fn pack(self) -> [u64; 2] {
        match self {
            Self::Slab(number) => [number as u64, 0],
            Self::Import(number) => [number as u64, IMPORTED],
            Self::Block(chunk, address) => [chunk as u64, address],
        }
    }

    fn at(address: u64) -> Option<Self> {
        let [number, base] = addresses::at(address)?;
        let number = u32::try_from(number).ok()?;
        Some(match base {
            0 => Self::Slab(number),
            IMPORTED => Self::Import(number),
            base => Self::Block(number, base),
        })
    }
}

/// Makes a block: its address. `asked` are the bytes that the process asks its owner for because of it; none once they were
/// given.
///
/// # Errors
/// Why there is none; out-of-memory where this library has no memory for its own records.
pub(crate) fn allocate(new: NewBlock, asked: &mut u64) -> Result<u64, Denied> {
    let state = state::make().ok_or(Denied::OUT_OF_MEMORY)?;
    let NewBlock { device, bytes, backing, .. } = new;
    // Where blocks are exported, each that has whole granules is better one by itself: who opens a block in a slab has all of
    // that, and keeps it.
    let is_alone =
        state.server.load(Relaxed) != 0 && backing == Backing::Handles && !charge::is_small(bytes);
    let mut make = || match bytes < OWN_BYTES && !is_alone {
        true => share_slab(state, new, asked),
        false => own(state, new, asked),
    };
    let address = match make() {
        // Empty slabs are no reason to refuse.
        Err(denied) if denied.is_shortage() => {
            trim(device);
            make()?
        }
        made => made?,
    };
    // Above the numbers that a driver gives out, which begin at 1.
    let number = LAST.fetch_add(1, Relaxed) | 1 << 48;
    if BLOCKS.insert(address, [number, bytes]).is_err() {
        give_back(address, ContextLife::Lives);
        return Err(Denied::OUT_OF_MEMORY);
    }
    Ok(address)
}

fn share_slab(state: &State, new: NewBlock, asked: &mut u64) -> Result<u64, Denied> {
    loop {
        if let Some(address) = state.slabs.take(&state.chunks, new) {
            return Ok(address);
        }
        // Of a context that is broken the driver's own call would say so.
        driver::mem_info()?;
        state.slabs.open(&state.chunks, new, asked, |number, addresses| {
            addresses.record(Piece::Slab(number).pack()).is_ok()
        })?;
    }
}

fn own(state: &State, new: NewBlock, asked: &mut u64) -> Result<u64, Denied> {
    let NewBlock { device, bytes, backing, .. } = new;
    let whole = whole_granules(bytes);
    driver::mem_info()?;
    let addresses = Addresses::take(&state.chunks, device, backing, whole)?;
    let give = |denied: Denied| {
        addresses.give(&state.chunks, device, ContextLife::Lives);
        denied
    };
    if backing == Backing::Handles {
        state.chunks.raise(device, whole, asked).map_err(give)?;
    }
    let base = addresses.base;
    let chunks = match backing {
        Backing::Handles => chunks_behind(state, device, base, whole),
        Backing::Managed(_) => managed_chunks(state, device, addresses),
    };
    let made = chunks.and_then(|first| {
        addresses.record(Piece::Block(first, base).pack()).inspect_err(|_| end_chunks(state, first))
    });
    made.map(|()| base).map_err(|code| give(code.into()))
}

/// Divides managed memory into chunks: the number of the first. As many are on the card as may be.
fn managed_chunks(state: &State, device: CUdevice, of: Addresses) -> Result<u32, CUresult> {
    in_chunks(state, of.bytes, |at, bytes| {
        let part = Addresses { base: of.base.saturating_add(at), bytes, ..of };
        state.chunks.divide_managed(device, part)
    })
}

/// Puts chunks behind `whole` bytes of addresses, which were raised: the number of the first.
fn chunks_behind(state: &State, device: CUdevice, base: u64, whole: u64) -> Result<u32, CUresult> {
    let mut left = whole;
    let first = in_chunks(state, whole, |at, bytes| {
        let made = state.chunks.make(device, base.saturating_add(at), bytes);
        left = left.saturating_sub(if made.is_ok() { bytes } else { 0 });
        made
    });
    let first = first.inspect_err(|_| state.chunks.lower(device, left))?;
    // Once for all: the price of it is the call's.
    if let Err(code) = state.chunks.peers.allow(device, base, whole) {
        end_chunks(state, first);
        return Err(code);
    }
    Ok(first)
}

/// Makes the chunks of a block of `whole` bytes by `make`, which is given where each begins and its bytes: the number of
/// the first. Where one fails none is left.
fn in_chunks(
    state: &State,
    whole: u64,
    mut make: impl FnMut(u64, u64) -> Result<u32, CUresult>,
) -> Result<u32, CUresult> {
    let (mut done, mut first, mut last) = (0, None, None);
    while done < whole {
        let bytes = whole.saturating_sub(done).min(CHUNK_BYTES);
        let number = make(done, bytes).inspect_err(|_| {
            if let Some(first) = first {
                end_chunks(state, first);
            }
        })?;
        if let Some(last) = last {
            state.chunks.join(last, number);
        }
        (first, last) = (first.or(Some(number)), Some(number));
        done = done.saturating_add(bytes);
    }
    first.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// Bytes of the chunks of a block.
fn chunk_bytes(state: &State, first: u32) -> u64 {
    let (mut bytes, mut next) = (0_u64, Some(first));
    while let Some(number) = next {
        bytes = bytes.saturating_add(state.chunks.get(number).map_or(0, Chunk::bytes));
        next = state.chunks.behind(number);
    }
    bytes
}

fn end_chunks(state: &State, first: u32) {
    let mut next = Some(first);
    while let Some(number) = next {
        next = state.chunks.behind(number);
        state.chunks.end(number);
    }
}

/// Whether a block made here starts at `address`.
#[inline]
pub(crate) fn holds(address: u64) -> bool {
    state::get().is_some() && BLOCKS.get(address).is_some()
}

/// Whether `address` is one of those that blocks made here lie at, or may lie at later.
#[inline]
pub(crate) fn is_ours(address: u64) -> bool {
    state::get().is_some() && Piece::at(address).is_some()
}

/// The block in which `address` lies.
pub(crate) fn block(address: u64) -> Option<Block> {
    let state = state::get()?;
    let base = match Piece::at(address)? {
        Piece::Slab(number) => state.slabs.find(number, address)?,
        Piece::Import(number) => {
            let (base, bytes, number) = imports::block(number as usize, address)?;
            return Some(Block { base, bytes, number });
        }
        Piece::Block(_, base) => base,
    };
    let [number, bytes] = BLOCKS.get(base)?;
    (address < base.saturating_add(bytes)).then_some(Block { base, bytes, number })
}

/// Frees the block that starts at `address`, which no work uses any more.
pub(crate) fn free_unused(address: u64, life: ContextLife) {
    if BLOCKS.take(address).is_some() {
        give_back(address, life);
    }
}

/// Gives the memory of the block that starts at `address` back.
fn give_back(address: u64, life: ContextLife) {
    let (Some(state), Some(piece)) = (state::get(), Piece::at(address)) else { return };
    match piece {
        Piece::Slab(number) => state.slabs.give(&state.chunks, number, address, life),
        // It is closed.
        Piece::Import(_) => {}
        Piece::Block(first, base) => {
            let Some(chunk) = state.chunks.get(first) else { return };
            let device = chunk.device();
            exports::forget(base);
            let addresses = chunk.addresses(base, chunk_bytes(state, first));
            addresses.forget();
            end_chunks(state, first);
            addresses.give(&state.chunks, device, life);
        }
    }
}

/// Gives back what a device's empty slabs keep.
pub(crate) fn trim(device: CUdevice) {
    if let Some(state) = state::get() {
        state.slabs.trim(&state.chunks, device);
    }
}

/// A context is gone, and with it the managed memory that slabs kept in it.
pub(crate) fn forget_context(context: u64) {
    if let Some(state) = state::get() {
        state.slabs.forget_context(&state.chunks, context);
    }
}

/// The piece of memory, behind handles, that the block in which `address` lies is exported with.
pub(crate) fn whole(address: u64) -> Option<Whole> {
    let state = state::get()?;
    let (first, is_slab) = match Piece::at(address)? {
        Piece::Slab(number) => (state.slabs.chunk(number)?, true),
        Piece::Import(_) => return None,
        Piece::Block(first, _) => (first, false),
    };
    let chunk = state.chunks.get(first).filter(|chunk| !chunk.is_managed())?;
    let (base, device, bytes) = (chunk.address(), chunk.device(), chunk_bytes(state, first));
    Some(Whole { base, bytes, device, is_slab, first })
}

/// Keeps the memory of the block in which `address` lies on the card from now on. False if it is no such block.
pub(crate) fn pin(address: u64) -> bool {
    let (Some(state), Some(piece)) = (state::get(), Piece::at(address)) else { return false };
    let mut next = match piece {
        Piece::Slab(number) => state.slabs.chunk(number),
        Piece::Import(_) => None,
        Piece::Block(first, _) => Some(first),
    };
    let mut is_kept = next.is_some();
    while let Some(number) = next {
        is_kept &= state.chunks.pin(number);
        next = state.chunks.behind(number);
    }
    is_kept
}
