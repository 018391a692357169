//! Virtual memory management: an allocation is charged to the device it lies on, from
//! `cuMemCreate` until neither a handle nor a mapping refers to it.
//!
//! Memory exported as a descriptor, or imported from one, is charged as [`super::export`] says; where
//! that knows no size, when it is mapped, since the driver tells none and maps a handle only in full.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUdevice, CUdeviceptr, CUmemGenericAllocationHandle, CUresult};
use divvy_page::SharedEntry;
use divvy_page::mark::DescriptorMark;
use divvy_policy::charge::{self, GRANULE_BYTES};

use super::allocation::{
    ALLOCATIONS, HANDLES, MAPPINGS, allocation_of, begin, let_go, new_entry, refer,
};
use super::charge::ask;
use super::entry::MemoryRecord;
use super::marks;
use super::place::{Next, OUT_OF_MEMORY, at};
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, driver};
use crate::tenant;

/// Makes physical memory on a device: `call` asks the driver.
pub(crate) fn create(
    ordinal: CUdevice,
    size: usize,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device = match at(ordinal) {
        Next::Count(device) => device,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    let held = match ask(device, charge::whole_granules(size as u64), MemoryKind::Vmm) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = call();
    if result != SUCCESS {
        return result;
    }
    let made = handle.get().unwrap_or(0);
    let bytes = held.keep();
    if begin(made, new_entry(bytes, MemoryKind::Vmm, ordinal)).is_some() {
        return SUCCESS;
    }
    device.tell_no_table();
    let _ = driver::mem_release(made);
    device.give_back(bytes, MemoryKind::Vmm);
    OUT_OF_MEMORY
}

/// Records a handle that came from elsewhere; its allocation's number. It is charged by `shared`, a
/// reference to the tenant's shared entry that goes over to it, else by its mark, else when it is mapped.
pub(crate) fn note_import(
    handle: CUmemGenericAllocationHandle,
    mark: Option<DescriptorMark>,
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
        false => driver::handle_device(handle).ok().flatten(),
    };
    let Some(ordinal) = ordinal else {
        // Known, or not on a device.
        shared.into_iter().for_each(tenant::close_shared);
        return Ok(known);
    };
    let entry = match (shared, mark) {
        (Some(shared), _) => MemoryRecord {
            shared: true,
            ..new_entry(shared.number(), MemoryKind::Imported, ordinal)
        },
        (None, Some(mark)) => charge_import(mark, ordinal)?,
        (None, None) => new_entry(0, MemoryKind::Imported, ordinal),
    };
    let Some(number) = begin(handle, entry) else {
        entry.give_back();
        return Err(OUT_OF_MEMORY);
    };
    if let Some(mark) = mark.filter(|_| entry.shared) {
        marks::remember(number, mark);
    }
    Ok(Some(number))
}

/// The charge of memory imported from a marked descriptor that the tenant's table does not know.
fn charge_import(mark: DescriptorMark, ordinal: CUdevice) -> Result<MemoryRecord, CUresult> {
    let bytes = mark.granules.saturating_mul(GRANULE_BYTES);
    let entry = MemoryRecord {
        bytes,
        kind: MemoryKind::Imported,
        ordinal,
        packed: false,
        shared: false,
        owner: 1,
    };
    match at(ordinal) {
        Next::Count(device) => ask(device, bytes, MemoryKind::Imported)?.keep(),
        Next::Forward => return Ok(MemoryRecord { bytes: 0, ..entry }),
        Next::Refuse(code) => return Err(code),
    };
    Ok(entry)
}

/// Charges imported memory up to `end`, as far as mappings have shown it to reach.
fn reach(number: u64, end: u64) -> CUresult {
    let Some(entry) = ALLOCATIONS.get(number).map(MemoryRecord::unpack) else { return SUCCESS };
    let end = charge::whole_granules(end);
    if entry.kind != MemoryKind::Imported || entry.shared || end <= entry.bytes {
        return SUCCESS;
    }
    let Some(device) = entry.device() else { return SUCCESS };
    let held = match ask(device, end.saturating_sub(entry.bytes), MemoryKind::Imported) {
        Ok(held) => held.keep(),
        Err(code) => return code,
    };
    let mut added = 0;
    let _ = ALLOCATIONS.update(number, |old| {
        let entry = MemoryRecord::unpack(old?);
        let bytes = entry.bytes.max(end);
        added = bytes.saturating_sub(entry.bytes);
        Some(MemoryRecord { bytes, ..entry }.pack())
    });
    // Another mapping may have shown as much meanwhile.
    device.give_back(held.saturating_sub(added), MemoryKind::Imported);
    SUCCESS
}

/// Maps memory, which then lives at least as long as the mapping.
pub(crate) fn map(
    ptr: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
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
                ALLOCATIONS.get(number).and_then(|words| MemoryRecord::unpack(words).device())
            {
                device.tell_no_table();
            }
        }
    }
    result
}
