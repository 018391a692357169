//! Memory passed between processes by descriptor: charged once in a tenant, while anybody holds it.
//!
//! Exporting an allocation moves its charge to the tenant's shared table, as legacy IPC does, and
//! marks the descriptor with the entry's key and the memory's size. A process of the tenant that
//! imports it refers to that entry, so the charge outlives the exporter as the memory does; a process
//! of another tenant finds no such entry and is charged the size. Both at the import, mapped or not.
//!
//! Not known: the size of what was exported without this library, or by another kind of handle than
//! a descriptor. That is charged when a mapping shows it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUdevice, CUmemAllocationHandleType, CUmemGenericAllocationHandle, CUresult,
};
use divvy_policy::charge::GRANULE_BYTES;

use super::charge::{Next, SUCCESS, ask, at};
use super::entry::Entry;
use super::vmm;
use crate::sys::descriptor::{self, Mark};
use crate::sys::map::Map;
use crate::sys::{Opaque, Out, driver, real};
use crate::tenant::device::Device;

/// Keys of allocations, by the allocation's number.
static KEYS: Map = Map::new(28);
/// By key: how many allocations of this process refer to the shared entry, and whether the last of
/// them is letting go.
static REFERRERS: Map = Map::new(29);

/// Descriptors the program exported: what file each is, and the allocation it keeps.
static DESCRIPTORS: Map = Map::new(19);

/// How many descriptors are remembered.
static EXPORTED: AtomicU64 = AtomicU64::new(0);

/// The key as the shared table wants it, unlike any handle of legacy IPC.
fn handle_of(key: u64) -> [u8; 64] {
    let mut handle = [0_u8; 64];
    if let Some(place) = handle.first_chunk_mut() {
        *place = *b"vmm memory, key ";
    }
    if let Some(place) = handle.last_chunk_mut() {
        *place = key.to_ne_bytes();
    }
    handle
}

/// Lets go of allocations whose exported descriptors are closed.
///
/// Nobody tells us when a descriptor is closed, so this looks whenever memory is given back or
/// short. A number that was closed and given to another file of the driver's counts as open. True when
/// any was closed.
pub(crate) fn sweep_descriptors() -> bool {
    if EXPORTED.load(Relaxed) == 0 {
        return false;
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
        vmm::let_go(*number);
    }
    count != 0
}

fn is_descriptor(handle_type: CUmemAllocationHandleType) -> bool {
    handle_type == CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
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
    if result != SUCCESS || !is_descriptor(handle_type) {
        return result;
    }
    sweep_descriptors();
    let descriptor = shareable.as_out::<i32>().get().unwrap_or(-1);
    let Some(file) = descriptor::file_of(descriptor) else { return result };
    let number = vmm::allocation_of(handle).filter(|number| vmm::refer(*number));
    let Some(number) = number else { return result };
    export(number, descriptor);
    match DESCRIPTORS.insert(u64::from(descriptor.cast_unsigned()), [file, number]) {
        Ok(None) => {
            EXPORTED.fetch_add(1, Relaxed);
        }
        Ok(Some([_, closed])) => vmm::let_go(closed),
        // The reference stays until the process ends.
        Err(_) => {}
    }
    result
}

/// A handle for another process's memory.
pub(crate) fn cuMemImportFromShareableHandle(
    real: real::cuMemImportFromShareableHandle,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    os_handle: Opaque,
    handle_type: CUmemAllocationHandleType,
) -> CUresult {
    let result = real.call(handle, os_handle, handle_type);
    let Some(imported) = handle.get().filter(|_| result == SUCCESS) else { return result };
    // A descriptor is passed as the pointer's value.
    let descriptor = i32::try_from(os_handle.address()).ok().filter(|_| is_descriptor(handle_type));
    match vmm::note_import(imported, descriptor.and_then(descriptor::mark_of)) {
        Ok(_) => result,
        Err(code) => {
            let _ = driver::mem_release(imported);
            code
        }
    }
}

/// An allocation was exported. The caller holds a reference to it.
fn export(number: u64, descriptor: i32) {
    let Some(entry) = vmm::set_shared(number, true) else { return };
    let granules = entry.bytes / GRANULE_BYTES;
    if entry.shared {
        // Another thread may be here before it has a key: the importer sees no mark then.
        if let Some([key, _]) = KEYS.get(number) {
            descriptor::mark(descriptor, Mark { key, granules });
        }
    } else if !move_charge(number, entry, descriptor) {
        vmm::set_shared(number, false);
    }
}

/// Moves an allocation's charge to the shared table; false where it stays.
fn move_charge(number: u64, entry: Entry, descriptor: i32) -> bool {
    let (Some(key), Some(device)) = (descriptor::draw_key(), entry.device()) else { return false };
    let granules = entry.bytes / GRANULE_BYTES;
    // A full table keeps the charge here; importers still read the size.
    let is_moved = descriptor::mark(descriptor, Mark { key, granules })
        && KEYS.insert(number, [key, 0]).is_ok()
        && device.export_shared(&handle_of(key), entry.bytes, entry.kind);
    if is_moved {
        // Without memory to count, the reference stays until the process ends.
        count(key);
    }
    is_moved
}

/// Charges memory that was imported from a marked descriptor.
pub(super) fn import(mark: Mark, ordinal: CUdevice) -> Result<Entry, CUresult> {
    let bytes = mark.granules.saturating_mul(GRANULE_BYTES);
    let entry =
        Entry { bytes, kind: Kind::Imported, ordinal, packed: false, shared: false, owner: 1 };
    let device = match at(ordinal) {
        Next::Count(device) => device,
        Next::Forward => return Ok(Entry { bytes: 0, ..entry }),
        Next::Refuse(code) => return Err(code),
    };
    if device.open_shared(&handle_of(mark.key)) && count(mark.key) {
        return Ok(Entry { shared: true, ..entry });
    }
    ask(device, bytes, Kind::Imported)?.keep();
    Ok(entry)
}

/// Remembers the key of memory that [`import`] found in the shared table.
pub(super) fn keep(number: u64, mark: Mark) {
    // Without memory for it the reference stays until the process ends.
    let _ = KEYS.insert(number, [mark.key, 0]);
}

/// One allocation more refers to a shared entry; false while this process lets go of it, and without
/// memory to count.
fn count(key: u64) -> bool {
    let mut is_closing = false;
    let counted = REFERRERS.update(key, |old| {
        let [count, closing] = old.unwrap_or_default();
        is_closing = closing != 0;
        Some([count.saturating_add(u64::from(!is_closing)), closing])
    });
    counted.is_ok() && !is_closing
}

/// An allocation is gone: its charge goes, or its reference to the shared entry.
pub(super) fn forget(number: u64, entry: Entry) {
    let key = KEYS.take(number).map(|[key, _]| key);
    settle(key, entry);
}

/// Takes back what [`import`] did.
pub(super) fn undo(mark: Mark, entry: Entry) {
    settle(Some(mark.key), entry);
}

fn settle(key: Option<u64>, entry: Entry) {
    if !entry.shared {
        entry.give_back();
    } else if let (Some(key), Some(device)) = (key, entry.device()) {
        leave(device, key);
    }
}

/// One allocation less refers to a shared entry. Who imports it while the last one leaves is charged
/// on its own.
fn leave(device: &'static Device, key: u64) {
    let mut is_last = false;
    let _ = REFERRERS.update(key, |old| {
        let [count, _] = old?;
        is_last = count <= 1;
        Some([count.saturating_sub(1), u64::from(is_last)])
    });
    if is_last {
        device.close_shared(&handle_of(key));
        REFERRERS.take(key);
    }
}
