//! Allocations of virtual memory management, with what refers to them.
//!
//! Handles, allocations and mappings are kept apart, since a handle's number may be given out again
//! while a mapping keeps the memory it once named. Promises: the last reference gives the bytes back.
//! Does not ask for memory ([`super::vmm`] does).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUdevice, CUdeviceptr, CUmemGenericAllocationHandle, CUresult};
use divvy_page::SharedEntry;
use divvy_policy::charge;

use super::entry::{self, MemoryRecord};
use super::marks;
use crate::residence::backed;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{Opaque, Out};

/// Handles: number of the allocation, and how often the program holds the handle.
pub(super) static HANDLES: Map = Map::new(8);

/// Allocations by number: a [`MemoryRecord`] whose owner counts references by handles and mappings.
pub(super) static ALLOCATIONS: Map = Map::new(9);

/// Mappings by first address: bytes, and number of the allocation.
pub(super) static MAPPINGS: Map = Map::new(10);

/// The last allocation's number; the first has 1.
static LAST: AtomicU64 = AtomicU64::new(0);

/// One reference more to an allocation; false when it is gone.
// Not inlined: nine callers, none of which is in a hurry.
#[inline(never)]
pub(crate) fn refer(number: u64) -> bool {
    let mut found = false;
    let _ = ALLOCATIONS.update(number, |old| {
        found = old.is_some();
        old.map(MemoryRecord::counted)
    });
    found
}

/// One reference less; the last one gives the bytes back.
pub(crate) fn let_go(number: u64) {
    let mut over = None;
    let _ = ALLOCATIONS.update(number, |old| {
        let entry = MemoryRecord::unpack(old?);
        if entry.owner <= 1 {
            over = Some(entry);
            return None;
        }
        Some(MemoryRecord { owner: entry.owner.saturating_sub(1), ..entry }.pack())
    });
    if let Some(entry) = over {
        marks::forget(number, entry);
    }
}

/// Record of an allocation.
pub(super) fn entry_of(number: u64) -> Option<MemoryRecord> {
    ALLOCATIONS.get(number).map(MemoryRecord::unpack)
}

/// Moves an allocation's charge to the tenant's shared table: `export` does, and says where it lies
/// then. Whether it was moved; none when it lies there already. The caller holds a reference.
pub(super) fn share(
    number: u64,
    export: impl FnOnce(MemoryRecord) -> Option<SharedEntry>,
) -> Option<bool> {
    let before = entry::begin_shared(&ALLOCATIONS, number)?;
    let shared = export(before);
    entry::end_shared(&ALLOCATIONS, number, before, shared);
    Some(shared.is_some())
}

/// The allocation a handle names.
pub(crate) fn allocation_of(handle: CUmemGenericAllocationHandle) -> Option<u64> {
    HANDLES.get(handle).map(|[number, _]| number)
}

/// The device an allocation lies on.
pub(super) fn ordinal_of(number: u64) -> Option<CUdevice> {
    entry_of(number).map(|entry| entry.ordinal)
}

/// Records an allocation with its first handle, and numbers it; none without memory for it.
pub(super) fn begin(handle: u64, entry: MemoryRecord) -> Option<u64> {
    let number = LAST.fetch_add(1, Relaxed).wrapping_add(1);
    if ALLOCATIONS.insert(number, MemoryRecord { owner: 1, ..entry }.pack()).is_err() {
        return None;
    }
    match HANDLES.insert(handle, [number, 1]) {
        Ok(None) => {}
        // The driver gave the number out anew: its allocation lost its handle unseen.
        Ok(Some([stale, _])) => let_go(stale),
        Err(_) => {
            ALLOCATIONS.take(number);
            return None;
        }
    }
    Some(number)
}

pub(super) fn new_entry(bytes: u64, kind: MemoryKind, ordinal: CUdevice) -> MemoryRecord {
    MemoryRecord { bytes, kind, ordinal, packed: false, shared: false, owner: 1 }
}

/// The allocation mapped at an address, which may lie inside its mapping.
///
/// Cost: a walk over all mappings; handles are seldom retained.
pub(crate) fn allocation_at(address: u64) -> Option<u64> {
    if let Some([_, number]) = MAPPINGS.get(address) {
        return Some(number);
    }
    let mut found = None;
    MAPPINGS.for_each(|start, [bytes, number]| {
        if address >= start && address.saturating_sub(start) < bytes {
            found = Some(number);
        }
    });
    found
}

/// Gives a handle back; memory that is mapped stays.
pub(crate) fn release(
    handle: CUmemGenericAllocationHandle,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let mut number = None;
    let _ = HANDLES.update(handle, |old| {
        let [allocation, count] = old?;
        number = Some(allocation);
        (count > 1).then_some([allocation, count.saturating_sub(1)])
    });
    let result = call();
    let Some(number) = number else { return result };
    if result == SUCCESS {
        let_go(number);
    } else {
        let _ = HANDLES.update(handle, |old| {
            let count = old.map_or(0, |[_, count]| count);
            Some([number, count.saturating_add(1)])
        });
    }
    result
}

/// A handle for memory that is mapped.
pub(crate) fn retain(
    handle: Out<'_, CUmemGenericAllocationHandle>,
    addr: Opaque<'_>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    // A block of ours is none of the program's handles, as the driver says of its own blocks.
    if backed::is_ours(addr.address() as u64) {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    let result = call();
    if result != SUCCESS {
        return result;
    }
    let Some(retained) = handle.get() else { return result };
    let number = allocation_at(addr.address() as u64);
    let Some(number) = number.filter(|number| refer(*number)) else { return result };
    let _ = HANDLES.update(retained, |old| {
        let count = old.map_or(0, |[_, count]| count);
        Some([number, count.saturating_add(1)])
    });
    result
}

/// A `call` of virtual memory management for addresses, of which none may lie in a block of ours: the driver refuses what
/// lies in one of its own.
#[inline(never)]
pub(crate) fn unless_ours(
    ptr: CUdeviceptr,
    size: usize,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let last = ptr.saturating_add((size as u64).saturating_sub(1));
    match backed::is_ours(ptr) || backed::is_ours(last) {
        true => CUresult::CUDA_ERROR_INVALID_VALUE,
        false => call(),
    }
}

/// Unmaps one or several whole mappings. The driver goes first: nobody can map the range anew
/// before the program knows that it is free.
pub(crate) fn unmap(ptr: CUdeviceptr, size: usize, call: impl FnOnce() -> CUresult) -> CUresult {
    let result = unless_ours(ptr, size, call);
    if result != SUCCESS {
        return result;
    }
    let end = ptr.saturating_add(size as u64);
    let mut at = ptr;
    while at < end {
        let step = match MAPPINGS.take(at) {
            Some([bytes, number]) => {
                let_go(number);
                bytes.max(1)
            }
            None => charge::GRANULE_BYTES,
        };
        at = at.saturating_add(step);
    }
    result
}
