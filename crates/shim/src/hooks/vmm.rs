//! Virtual memory management: an allocation is charged to the device it lies on, from
//! `cuMemCreate` until neither a handle nor a mapping refers to it.
//!
//! Handles, allocations and mappings are kept apart, since a handle's number may be given out again
//! while a mapping keeps the memory it once named. What is exported as a descriptor, or imported from
//! one, is charged as [`passed`] says; where that knows no size, when it is mapped, since the driver
//! tells none and maps a handle only in full.

use core::ffi::c_uint;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUarrayMapInfo, CUdevice, CUdeviceptr, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUmemOperationType, CUresult, CUstream,
};
use divvy_page::SharedEntry;
use divvy_page::mark::Mark;
use divvy_policy::charge;

use super::charge::{Next, OUT_OF_MEMORY, SUCCESS, ask, at};
use super::entry::{self, Entry};
use super::passed;
use crate::sys::map::Map;
use crate::sys::{In, Opaque, Out, driver, layout, real};
use crate::tenant;

/// Handles: number of the allocation, and how often the program holds the handle.
static HANDLES: Map = Map::new(8);
/// Allocations by number: an [`Entry`] whose owner counts references by handles and mappings.
static ALLOCATIONS: Map = Map::new(9);
/// Mappings by first address: bytes, and number of the allocation.
static MAPPINGS: Map = Map::new(10);

/// The last allocation's number; the first has 1.
static LAST: AtomicU64 = AtomicU64::new(0);

/// One reference more to an allocation; false when it is gone.
pub(super) fn refer(number: u64) -> bool {
    let mut found = false;
    let _ = ALLOCATIONS.update(number, |old| {
        found = old.is_some();
        old.map(Entry::counted)
    });
    found
}

/// One reference less; the last one gives the bytes back.
pub(super) fn let_go(number: u64) {
    let mut over = None;
    let _ = ALLOCATIONS.update(number, |old| {
        let entry = Entry::unpack(old?);
        if entry.owner <= 1 {
            over = Some(entry);
            return None;
        }
        Some(Entry { owner: entry.owner.saturating_sub(1), ..entry }.pack())
    });
    if let Some(entry) = over {
        passed::forget(number, entry);
    }
}

/// What is known of an allocation.
pub(super) fn entry_of(number: u64) -> Option<Entry> {
    ALLOCATIONS.get(number).map(Entry::unpack)
}

/// Moves an allocation's charge to the tenant's shared table: `export` does, and says where it lies
/// then. Whether it was moved; none when it lies there already. The caller holds a reference.
pub(super) fn share(
    number: u64,
    export: impl FnOnce(Entry) -> Option<SharedEntry>,
) -> Option<bool> {
    let before = entry::begin_shared(&ALLOCATIONS, number)?;
    let shared = export(before);
    entry::end_shared(&ALLOCATIONS, number, before, shared);
    Some(shared.is_some())
}

/// The allocation a handle names.
pub(super) fn allocation_of(handle: CUmemGenericAllocationHandle) -> Option<u64> {
    HANDLES.get(handle).map(|[number, _]| number)
}

/// The device an allocation lies on.
pub(super) fn ordinal_of(number: u64) -> Option<CUdevice> {
    entry_of(number).map(|entry| entry.ordinal)
}

/// Records an allocation with its first handle, and numbers it; none without memory for it.
fn begin(handle: u64, entry: Entry) -> Option<u64> {
    let number = LAST.fetch_add(1, Relaxed).wrapping_add(1);
    if ALLOCATIONS.insert(number, Entry { owner: 1, ..entry }.pack()).is_err() {
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

fn new_entry(bytes: u64, kind: Kind, ordinal: CUdevice) -> Entry {
    Entry { bytes, kind, ordinal, packed: false, shared: false, owner: 1 }
}

/// Makes physical memory. Memory of the host is not counted.
pub(crate) fn cuMemCreate(
    real: real::cuMemCreate,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    size: usize,
    prop: In<'_, CUmemAllocationProp>,
    flags: u64,
) -> CUresult {
    let call = || real.call(handle, size, prop, flags);
    let Some(ordinal) = prop.get().and_then(|prop| layout::device_of(&prop.location)) else {
        return call();
    };
    let device = match at(ordinal) {
        Next::Count(device) => device,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    let held = match ask(device, charge::whole_granules(size as u64), Kind::Vmm) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = call();
    if result != SUCCESS {
        return result;
    }
    let made = handle.get().unwrap_or(0);
    let bytes = held.keep();
    if begin(made, new_entry(bytes, Kind::Vmm, ordinal)).is_some() {
        return SUCCESS;
    }
    device.tell_no_table();
    let _ = driver::mem_release(made);
    device.give_back(bytes, Kind::Vmm);
    OUT_OF_MEMORY
}

/// Gives a handle back; memory that is mapped stays.
pub(crate) fn cuMemRelease(
    real: real::cuMemRelease,
    handle: CUmemGenericAllocationHandle,
) -> CUresult {
    let mut number = None;
    let _ = HANDLES.update(handle, |old| {
        let [allocation, count] = old?;
        number = Some(allocation);
        (count > 1).then_some([allocation, count.saturating_sub(1)])
    });
    let result = real.call(handle);
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
pub(crate) fn cuMemRetainAllocationHandle(
    real: real::cuMemRetainAllocationHandle,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    addr: Opaque,
) -> CUresult {
    let result = real.call(handle, addr);
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

/// The allocation mapped at an address, which may lie inside its mapping.
///
/// Cost: a walk over all mappings; handles are seldom retained.
pub(super) fn allocation_at(address: u64) -> Option<u64> {
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

/// Records a handle that came from elsewhere; its allocation's number. It is charged by `shared`, a
/// reference to the tenant's shared entry that goes over to it, else by its mark, else when it is mapped.
pub(super) fn note_import(
    handle: CUmemGenericAllocationHandle,
    mark: Option<Mark>,
    shared: Option<SharedEntry>,
) -> Result<Option<u64>, CUresult> {
    let mut known = None;
    let _ = HANDLES.update(handle, |old| {
        let [number, count] = old?;
        known = Some(number);
        Some([number, count.saturating_add(1)])
    });
    let is_known = known.is_some_and(refer);
    let ordinal = match is_known {
        true => None,
        false => driver::handle_properties(handle).ok(),
    };
    let Some(ordinal) = ordinal.and_then(|it| layout::device_of(&it.location)) else {
        // Known, or not on a device.
        shared.into_iter().for_each(tenant::close_shared);
        return Ok(known);
    };
    let entry = match (shared, mark) {
        (Some(shared), _) => {
            Entry { shared: true, ..new_entry(shared.number(), Kind::Imported, ordinal) }
        }
        (None, Some(mark)) => passed::charge_import(mark, ordinal)?,
        (None, None) => new_entry(0, Kind::Imported, ordinal),
    };
    let Some(number) = begin(handle, entry) else {
        entry.give_back();
        return Err(OUT_OF_MEMORY);
    };
    if let Some(mark) = mark.filter(|_| entry.shared) {
        passed::remember(number, mark);
    }
    Ok(Some(number))
}

/// Charges imported memory up to `end`, as far as mappings have shown it to reach.
fn reach(number: u64, end: u64) -> CUresult {
    let Some(entry) = ALLOCATIONS.get(number).map(Entry::unpack) else { return SUCCESS };
    let end = charge::whole_granules(end);
    if entry.kind != Kind::Imported || entry.shared || end <= entry.bytes {
        return SUCCESS;
    }
    let Some(device) = entry.device() else { return SUCCESS };
    let held = match ask(device, end.saturating_sub(entry.bytes), Kind::Imported) {
        Ok(held) => held.keep(),
        Err(code) => return code,
    };
    let mut added = 0;
    let _ = ALLOCATIONS.update(number, |old| {
        let entry = Entry::unpack(old?);
        let bytes = entry.bytes.max(end);
        added = bytes.saturating_sub(entry.bytes);
        Some(Entry { bytes, ..entry }.pack())
    });
    // Another mapping may have shown as much meanwhile.
    device.give_back(held.saturating_sub(added), Kind::Imported);
    SUCCESS
}

/// Maps memory, which then lives at least as long as the mapping.
pub(crate) fn cuMemMap(
    real: real::cuMemMap,
    ptr: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: u64,
) -> CUresult {
    let call = || real.call(ptr, size, offset, handle, flags);
    let known = allocation_of(handle).or_else(|| note_import(handle, None, None).ok()?);
    let Some(number) = known.filter(|number| refer(*number)) else { return call() };
    let end = (offset as u64).saturating_add(size as u64);
    let fits = reach(number, end);
    let result = if fits == SUCCESS { call() } else { fits };
    if result != SUCCESS {
        let_go(number);
        return result;
    }
    match MAPPINGS.insert(ptr, [size as u64, number]) {
        Ok(None) => {}
        Ok(Some([_, stale])) => let_go(stale),
        Err(_) => {
            // The reference stays: charged until the process ends.
            if let Some(device) =
                ALLOCATIONS.get(number).and_then(|words| Entry::unpack(words).device())
            {
                device.tell_no_table();
            }
        }
    }
    result
}

/// Unmaps one or several whole mappings. The driver goes first: nobody can map the range anew
/// before the program knows that it is free.
pub(crate) fn cuMemUnmap(real: real::cuMemUnmap, ptr: CUdeviceptr, size: usize) -> CUresult {
    let result = real.call(ptr, size);
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

/// Maps memory into sparse arrays, which keeps it: from then on it is charged until the process
/// ends.
pub(crate) fn cuMemMapArrayAsync(
    real: real::cuMemMapArrayAsync,
    list: Out<'_, CUarrayMapInfo>,
    count: c_uint,
    stream: CUstream,
) -> CUresult {
    let result = real.call(list, count, stream);
    if result == SUCCESS {
        for index in 0..usize::try_from(count).unwrap_or(0) {
            let Some(info) = list.get_at(index) else { break };
            if info.memOperationType == CUmemOperationType::CU_MEM_OPERATION_TYPE_MAP
                && let Some([number, _]) = HANDLES.get(layout::sparse_handle(&info))
            {
                refer(number);
            }
        }
    }
    result
}
