//! Virtual memory management: an allocation is charged to the device it lies on, from
//! `cuMemCreate` until neither a handle nor a mapping refers to it.
//!
//! Handles, allocations and mappings are kept apart, since a handle's number may be given out again
//! while a mapping keeps the memory it once named. Memory imported from a descriptor has no size of
//! its own until it is mapped (the driver tells none, and maps a handle only in full); it is charged
//! then, as imported. A descriptor exported here keeps the charge until it is closed, as it keeps the
//! memory.

use core::ffi::c_uint;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUarrayMapInfo, CUdevice, CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemOperationType, CUresult, CUstream,
};
use divvy_policy::charge;

use super::charge::{Next, OUT_OF_MEMORY, SUCCESS, ask, at};
use super::entry::Entry;
use crate::sys::map::Map;
use crate::sys::{In, Opaque, Out, descriptor, driver, layout, real};

/// Handles: number of the allocation, and how often the program holds the handle.
static HANDLES: Map = Map::new(8);
/// Allocations by number: an [`Entry`] whose owner counts references by handles and mappings.
static ALLOCATIONS: Map = Map::new(9);
/// Mappings by first address: bytes, and number of the allocation.
static MAPPINGS: Map = Map::new(10);

/// Descriptors the program exported: what file each is, and the allocation it keeps.
static DESCRIPTORS: Map = Map::new(19);

/// How many descriptors are remembered.
static EXPORTED: AtomicU64 = AtomicU64::new(0);

/// The last allocation's number; the first has 1.
static LAST: AtomicU64 = AtomicU64::new(0);

/// One reference more to an allocation; false when it is gone.
pub(super) fn refer(number: u64) -> bool {
    let mut found = false;
    let _ = ALLOCATIONS.update(number, |old| {
        found = old.is_some();
        old.map(Entry::unpack)
            .map(|entry| Entry { owner: entry.owner.saturating_add(1), ..entry }.pack())
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
        entry.give_back();
    }
}

/// Lets go of allocations whose exported descriptors are closed.
///
/// Nobody tells us when a descriptor is closed, so this looks whenever memory is given back or
/// short. A number that was closed and given to another file of the driver's counts as open.
pub(crate) fn sweep_descriptors() {
    if EXPORTED.load(Relaxed) == 0 {
        return;
    }
    let mut closed = [0_u64; 32];
    let mut count = 0_usize;
    DESCRIPTORS.take_if(|descriptor, [file, number]| {
        let Some(place) = closed.get_mut(count) else { return false };
        let is_open = descriptor::file_of(i32::try_from(descriptor).unwrap_or(-1)) == Some(file);
        if !is_open {
            *place = number;
            count = count.saturating_add(1);
        }
        !is_open
    });
    EXPORTED.fetch_sub(count as u64, Relaxed);
    for number in closed.iter().take(count) {
        let_go(*number);
    }
}

/// Exports a handle. A descriptor keeps the memory, so it keeps the charge while it is open here.
pub(crate) fn cuMemExportToShareableHandle(
    real: real::cuMemExportToShareableHandle,
    shareable: Opaque,
    handle: CUmemGenericAllocationHandle,
    handle_type: CUmemAllocationHandleType,
    flags: u64,
) -> CUresult {
    let result = real.call(shareable, handle, handle_type, flags);
    let is_descriptor =
        handle_type == CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if result != SUCCESS || !is_descriptor {
        return result;
    }
    sweep_descriptors();
    let descriptor = shareable.as_out::<i32>().get().unwrap_or(-1);
    let Some(file) = descriptor::file_of(descriptor) else { return result };
    let Some([number, _]) = HANDLES.get(handle).filter(|[number, _]| refer(*number)) else {
        return result;
    };
    match DESCRIPTORS.insert(u64::from(descriptor.cast_unsigned()), [file, number]) {
        Ok(None) => {
            EXPORTED.fetch_add(1, Relaxed);
        }
        Ok(Some([_, closed])) => let_go(closed),
        // The reference stays until the process ends.
        Err(_) => {}
    }
    result
}

/// The allocation a handle names.
pub(super) fn allocation_of(handle: CUmemGenericAllocationHandle) -> Option<u64> {
    HANDLES.get(handle).map(|[number, _]| number)
}

/// The device an allocation lies on.
pub(super) fn ordinal_of(number: u64) -> Option<CUdevice> {
    ALLOCATIONS.get(number).map(|words| Entry::unpack(words).ordinal)
}

/// Records an allocation with its first handle; false without memory for it.
fn begin(handle: u64, entry: Entry) -> bool {
    let number = LAST.fetch_add(1, Relaxed).wrapping_add(1);
    if ALLOCATIONS.insert(number, Entry { owner: 1, ..entry }.pack()).is_err() {
        return false;
    }
    match HANDLES.insert(handle, [number, 1]) {
        Ok(None) => true,
        Ok(Some([stale, _])) => {
            // The driver gave the number out anew: its allocation lost its handle unseen.
            let_go(stale);
            true
        }
        Err(_) => {
            ALLOCATIONS.take(number);
            false
        }
    }
}

fn entry(bytes: u64, kind: Kind, ordinal: CUdevice) -> Entry {
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
    if begin(made, entry(bytes, Kind::Vmm, ordinal)) {
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
        sweep_descriptors();
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

/// A handle for another process's memory. Its size shows when it is mapped.
pub(crate) fn cuMemImportFromShareableHandle(
    real: real::cuMemImportFromShareableHandle,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    os_handle: Opaque,
    handle_type: CUmemAllocationHandleType,
) -> CUresult {
    let result = real.call(handle, os_handle, handle_type);
    if result == SUCCESS
        && let Some(imported) = handle.get()
    {
        note_import(imported);
    }
    result
}

/// Records a handle that came from elsewhere; its allocation's number.
fn note_import(handle: CUmemGenericAllocationHandle) -> Option<u64> {
    let mut known = None;
    let _ = HANDLES.update(handle, |old| {
        let [number, count] = old?;
        known = Some(number);
        Some([number, count.saturating_add(1)])
    });
    if let Some(number) = known {
        refer(number);
        return Some(number);
    }
    let properties = driver::handle_properties(handle).ok()?;
    let ordinal = layout::device_of(&properties.location)?;
    begin(handle, entry(0, Kind::Imported, ordinal));
    HANDLES.get(handle).map(|[number, _]| number)
}

/// Charges imported memory up to `end`, as far as mappings have shown it to reach.
fn reach(number: u64, end: u64) -> CUresult {
    let Some(entry) = ALLOCATIONS.get(number).map(Entry::unpack) else { return SUCCESS };
    let end = charge::whole_granules(end);
    if entry.kind != Kind::Imported || end <= entry.bytes {
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
    let known = HANDLES.get(handle).map(|[number, _]| number).or_else(|| note_import(handle));
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
    sweep_descriptors();
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
