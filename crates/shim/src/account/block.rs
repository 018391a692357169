//! Plain device memory: `cuMemAlloc`, `cuMemAllocPitch`, `cuMemAllocManaged` and `cuMemFree`.
//!
//! A block above 1 MiB is charged by whole granules of 2 MiB. Smaller ones are charged by the
//! granules of address they occupy, as the driver packs them: the first block in a granule pays for
//! it, the last one out gives it back. Managed memory is charged in full when it is allocated.
//!
//! A pointer that is not in the map goes to the driver unchanged. A free takes the entry out, calls
//! the driver, gives back, and puts the entry back if the driver refused: in another order a
//! neighbour's new block at the same address could be forgotten.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::CUresult;
use divvy_page::SharedEntry;
use divvy_policy::charge;

use super::charge::{ask, ask_quietly, refuse};
use super::context::here;
use super::entry::{self, MemoryRecord};
use super::place::{CallPlace, Next, OUT_OF_MEMORY};
use super::{marks, pool};
use crate::gate::{GATES, beside_captures};
use crate::residence::addresses::ContextLife;
use crate::residence::{backed, state, work};
use crate::sys::driver;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::tenant;
use crate::tenant::device::{Device, Reservation};

/// Blocks by address.
static BLOCKS: Map = Map::new(0);

/// Granules occupied by packed blocks: number → how many occupy it.
static GRANULES: Map = Map::new(1);

/// How many granules packed blocks of this process occupy.
static PACKED_GRANULES: AtomicU64 = AtomicU64::new(0);

/// Marks the block's granules; how many nobody occupied before, or `None` without memory for it.
fn occupy(address: u64, bytes: u64) -> Option<u64> {
    let (first, last) = (charge::first_granule(address), charge::last_granule(address, bytes));
    let mut fresh = 0_u64;
    for granule in first..=last {
        let mut is_new = false;
        let marked = GRANULES.update_inline(granule, |old| {
            is_new = old.is_none();
            let count = old.map_or(0, |[count, _]| count);
            Some([count.saturating_add(1), 0])
        });
        if marked.is_err() {
            let done = granule.saturating_sub(first);
            let freed = leave(first, done);
            PACKED_GRANULES.fetch_sub(freed, Relaxed);
            return None;
        }
        fresh = fresh.saturating_add(u64::from(is_new));
        PACKED_GRANULES.fetch_add(u64::from(is_new), Relaxed);
    }
    Some(fresh)
}

/// Takes one mark from `count` granules; how many are empty now.
fn leave(first: u64, count: u64) -> u64 {
    let mut empty = 0_u64;
    for granule in first..first.saturating_add(count) {
        // Removing needs no memory, so this cannot fail.
        let _ = GRANULES.update_inline(granule, |old| match old {
            Some([many, rest]) if many > 1 => Some([many.saturating_sub(1), rest]),
            Some(_) => {
                empty = empty.saturating_add(1);
                None
            }
            None => None,
        });
    }
    empty
}

/// Unmarks a packed block; the bytes of granules nobody occupies any more.
fn vacate(address: u64, bytes: u64) -> u64 {
    let (first, last) = (charge::first_granule(address), charge::last_granule(address, bytes));
    let freed = leave(first, last.saturating_sub(first).saturating_add(1));
    PACKED_GRANULES.fetch_sub(freed, Relaxed);
    freed.saturating_mul(charge::GRANULE_BYTES)
}

/// Allocates: `call` asks the driver and says where the block lies and how long it is.
pub(crate) fn allocate(
    place: CallPlace,
    bytes: u64,
    kind: MemoryKind,
    call: impl FnOnce() -> Result<(u64, u64), CUresult>,
) -> CUresult {
    if bytes == 0 {
        // The driver's own refusal, whatever the limit.
        return match call() {
            Ok(_) => SUCCESS,
            Err(code) => code,
        };
    }
    if charge::is_small(bytes) && kind == MemoryKind::Block {
        return allocate_packed(place, call);
    }
    let charged = charge::whole_granules(bytes);
    let held = match ask(place.device, charged, kind) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let (address, actual_bytes) = match call() {
        Ok(block) => block,
        Err(code) => return code,
    };
    let more = charge::whole_granules(actual_bytes).saturating_sub(charged);
    if more != 0 {
        match ask_quietly(place.device, more, kind) {
            Ok(more) => {
                more.keep();
            }
            Err(_) => {
                place.device.tell_grown(more, kind);
                unmake(address);
                return OUT_OF_MEMORY;
            }
        }
    }
    let entry = MemoryRecord {
        bytes: held.keep().saturating_add(more),
        kind,
        ordinal: place.device.ordinal,
        packed: false,
        shared: false,
        owner: place.context,
    };
    remember(address, entry, place.device)
}

/// Allocates by a call that is seldom made: one copy of [`allocate`] serves all of these.
#[inline(never)]
pub(crate) fn allocate_seldom(
    bytes: u64,
    kind: MemoryKind,
    call: &dyn Fn() -> Result<(u64, u64), CUresult>,
) -> CUresult {
    match here() {
        Next::Count(place) => allocate(place, bytes, kind, call),
        Next::Forward => call().err().unwrap_or(SUCCESS),
        Next::Refuse(code) => code,
    }
}

/// Frees a block that was made in the call under way, which then fails.
fn unmake(address: u64) {
    if backed::holds(address) {
        let _inside = state::enter();
        backed::free_unused(address, ContextLife::Lives);
    } else {
        let _ = driver::mem_free(address);
    }
}

/// Records a block; without memory for it the block goes back.
fn remember(address: u64, entry: MemoryRecord, device: &'static Device) -> CUresult {
    match BLOCKS.insert(address, entry.pack()) {
        Ok(None) => SUCCESS,
        Ok(Some(stale)) => {
            // The driver gave an address out that we thought taken: its block went unseen.
            release(address, MemoryRecord::unpack(stale));
            SUCCESS
        }
        Err(_) => {
            device.tell_no_table();
            unmake(address);
            release(address, entry);
            OUT_OF_MEMORY
        }
    }
}

fn allocate_packed(
    place: CallPlace,
    call: impl FnOnce() -> Result<(u64, u64), CUresult>,
) -> CUresult {
    let device = place.device;
    let held = match ask_quietly(device, charge::GRANULE_BYTES, MemoryKind::Block) {
        Ok(held) => Some(held),
        // A granule in use may have room: then nothing more is needed.
        Err(_) if PACKED_GRANULES.load(Relaxed) != 0 => None,
        Err(refusal) => return refuse(device, charge::GRANULE_BYTES, MemoryKind::Block, refusal),
    };
    let (address, actual_bytes) = match call() {
        Ok(block) => block,
        Err(code) => return code,
    };
    let Some(fresh) = occupy(address, actual_bytes) else {
        device.tell_no_table();
        unmake(address);
        return OUT_OF_MEMORY;
    };
    let needed = fresh.saturating_mul(charge::GRANULE_BYTES);
    let asked = if held.is_some() { charge::GRANULE_BYTES } else { 0 };
    if needed > asked {
        match ask(device, needed.saturating_sub(asked), MemoryKind::Block) {
            Ok(more) => {
                more.keep();
            }
            Err(code) => {
                // Freed before it is unmarked: nobody may take the granule for ours meanwhile.
                unmake(address);
                let left = needed.checked_sub(vacate(address, actual_bytes));
                drop(held);
                // A granule that another thread's block came into meanwhile stays charged.
                device.hold(left.unwrap_or(0), MemoryKind::Block);
                return code;
            }
        }
    }
    if let Some(mut held) = held {
        held.shrink_to(needed);
        held.keep();
    }
    let entry = MemoryRecord {
        bytes: actual_bytes,
        kind: MemoryKind::Block,
        ordinal: device.ordinal,
        packed: true,
        shared: false,
        owner: place.context,
    };
    remember(address, entry, device)
}

/// Gives back what a block was charged.
fn release(address: u64, entry: MemoryRecord) {
    if entry.packed {
        let freed_bytes = vacate(address, entry.bytes);
        if let Some(device) = entry.device() {
            device.give_back(freed_bytes, entry.kind);
        }
    } else {
        if entry.shared {
            marks::forget_buffer(address);
        }
        entry.give_back();
    }
}

/// Frees: `call` asks the driver.
pub(crate) fn free(address: u64, call: impl FnOnce() -> CUresult) -> CUresult {
    let Some(words) = BLOCKS.take(address) else {
        // The driver knows memory of ours, of which this is no block.
        if backed::is_ours(address) {
            return CUresult::CUDA_ERROR_INVALID_VALUE;
        }
        let result = call();
        if result == SUCCESS {
            pool::freed();
        }
        return result;
    };
    let entry = MemoryRecord::unpack(words);
    let result = if backed::holds(address) { free_backed(address, entry) } else { call() };
    if result == SUCCESS {
        release(address, entry);
    } else {
        // The table had room for it a moment ago.
        let _ = BLOCKS.insert(address, words);
    }
    result
}

/// Waits until all work of a context has ended, whether or not a stream captures.
pub(super) fn await_work(context: u64) -> Result<(), CUresult> {
    work::await_work(driver::context_at(context), GATES.undisturbed())
}

/// Frees a block whose memory may leave, once the work of its context has ended.
#[cold]
#[inline(never)]
fn free_backed(address: u64, entry: MemoryRecord) -> CUresult {
    let _inside = state::enter();
    beside_captures(|| match await_work(entry.owner) {
        // Of a process that ends nothing runs any more.
        Ok(()) | Err(CUresult::CUDA_ERROR_DEINITIALIZED) => {
            backed::free_unused(address, ContextLife::Lives);
            SUCCESS
        }
        Err(code) => code,
    })
}

/// Record of the block at `address`.
pub(super) fn block(address: u64) -> Option<MemoryRecord> {
    BLOCKS.get(address).map(MemoryRecord::unpack)
}

/// Handle of the context that the block at `address` goes with.
pub(crate) fn context_of(address: u64) -> Option<u64> {
    block(address).map(|entry| entry.owner)
}

/// Start and record of the block in which `address` lies.
pub(super) fn block_around(address: u64) -> Option<(u64, MemoryRecord)> {
    block(address).map(|entry| (address, entry)).or_else(|| {
        let base = match backed::block(address) {
            Some(found) => found.base,
            None => driver::address_range(address).ok()?.0,
        };
        block(base).map(|entry| (base, entry))
    })
}

/// Moves a block's charge to the tenant's shared table: `export` does, and says where it lies then. The
/// charge that finds no room there stays the block's, or ends with the process if something else may
/// keep the memory when the block is freed. False for a block that another moves or has moved, or that is
/// gone.
pub(crate) fn share(
    address: u64,
    is_kept_when_freed: bool,
    export: &dyn Fn(MemoryRecord) -> Option<SharedEntry>,
) -> bool {
    let Some(before) = entry::begin_shared(&BLOCKS, address) else { return false };
    let shared = export(before);
    if (shared.is_some() || !is_kept_when_freed)
        && !entry::end_shared(&BLOCKS, address, before, shared)
    {
        // The block was freed meanwhile, and nothing given back for it.
        match shared {
            Some(shared) => tenant::close_shared(shared),
            None => before.give_back(),
        }
    }
    true
}

/// Records memory of `held` bytes that was imported by another way and is freed as a block is.
pub(crate) fn adopt(place: CallPlace, address: u64, held: Reservation) -> CUresult {
    let entry = MemoryRecord {
        bytes: held.keep(),
        kind: MemoryKind::Imported,
        ordinal: place.device.ordinal,
        packed: false,
        shared: false,
        owner: place.context,
    };
    remember(address, entry, place.device)
}

/// A context is gone, and with it all its blocks.
pub(super) fn forget_context(context: u64, device: &'static Device) {
    loop {
        let mut shared = None;
        BLOCKS.for_each(|address, words| {
            let is_shared = words[1] == context && MemoryRecord::unpack(words).shared;
            if is_shared && !backed::holds(address) {
                shared = Some(address);
            }
        });
        let Some(address) = shared else { break };
        if let Some(words) = BLOCKS.take(address) {
            release(address, MemoryRecord::unpack(words));
        }
    }
    forget_backed(context);
    let mut block_bytes = 0_u64;
    let mut managed_bytes = 0_u64;
    let mut imported_bytes = 0_u64;
    BLOCKS.take_if(|address, words| {
        let entry = MemoryRecord::unpack(words);
        // A block that another thread exports meanwhile is that one's to give back.
        if entry.owner != context || entry.shared {
            return false;
        }
        let bytes = if entry.packed { vacate(address, entry.bytes) } else { entry.bytes };
        let sum = match entry.kind {
            MemoryKind::Managed => &mut managed_bytes,
            MemoryKind::Imported => &mut imported_bytes,
            _ => &mut block_bytes,
        };
        *sum = sum.saturating_add(bytes);
        true
    });
    device.give_back(block_bytes, MemoryKind::Block);
    device.give_back(managed_bytes, MemoryKind::Managed);
    device.give_back(imported_bytes, MemoryKind::Imported);
}

/// Frees the blocks of a context that is gone whose memory does not go with it.
fn forget_backed(context: u64) {
    if state::get().is_none() {
        return;
    }
    loop {
        // Some at a time: the driver is not called while the map is locked.
        let (mut found, mut count) = ([0_u64; 64], 0_usize);
        BLOCKS.for_each(|address, words| {
            if words[1] == context
                && backed::holds(address)
                && let Some(place) = found.get_mut(count)
            {
                *place = address;
                count = count.saturating_add(1);
            }
        });
        for address in found.iter().take(count) {
            if let Some(words) = BLOCKS.take(*address) {
                backed::free_unused(*address, ContextLife::Gone);
                release(*address, MemoryRecord::unpack(words));
            }
        }
        if count == 0 {
            backed::forget_context(context);
            return;
        }
    }
}
