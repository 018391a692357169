//! Memory passed between processes by descriptor: charged once in a tenant, while anybody holds it.
//!
//! Exporting an allocation moves its charge to the tenant's shared table, as legacy IPC does, and
//! [`mark`]s the descriptor with the entry's key and the memory's size. The charge stands while a process
//! refers to the entry or the mark is held, that is, while a copy of the descriptor is open: in this
//! process, in a child, in another one or in flight, whatever became of the exporter. A process of the
//! tenant that imports it refers to that entry; a process of another tenant finds no such entry and is
//! charged the size. Both at the import, mapped or not.
//!
//! Where the table is full the exporter stays charged, while it lives and a copy is open. Not known: the
//! size of what was exported without this library, or by another kind of handle than a descriptor. That
//! is charged when a mapping shows it.

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUdevice, CUmemAllocationHandleType, CUmemGenericAllocationHandle, CUresult,
};
use divvy_page::mark::{self, Asker, Mark};
use divvy_policy::charge::GRANULE_BYTES;

use super::charge::{Next, SUCCESS, ask, at};
use super::entry::Entry;
use super::vmm;
use crate::sys::map::Map;
use crate::sys::{Opaque, Out, driver, real};
use crate::tenant;

/// Marks of allocations, by the allocation's number: key and granules.
static MARKS: Map = Map::new(28);

/// Allocations that the table had no room for, by number: device and inode of the descriptors that keep
/// them. Each is a reference to the allocation.
static LEFT_OUT: Map = Map::new(19);

/// Lets go of left out allocations that only closed descriptors kept; true when there were any.
///
/// Nobody tells us when a descriptor is closed, so this looks when memory is short or asked about.
pub(crate) fn sweep() -> bool {
    let mut any = false;
    loop {
        let mut over = [0_u64; 32];
        let mut count = 0_usize;
        let mut asker = Asker::default();
        LEFT_OUT.take_if(|number, [device, inode]| {
            let Some(place) = over.get_mut(count) else { return false };
            let is_last = vmm::entry_of(number).is_some_and(|entry| entry.owner == 1);
            let Some([key, _]) = MARKS.get(number).filter(|_| is_last) else { return false };
            let is_over = asker.is_held((device, inode), key) == Some(false);
            if is_over {
                *place = number;
                count = count.saturating_add(1);
            }
            is_over
        });
        over.iter().take(count).for_each(|number| vmm::let_go(*number));
        any |= count != 0;
        if count < over.len() {
            return any;
        }
    }
}

fn is_descriptor(handle_type: CUmemAllocationHandleType) -> bool {
    handle_type == CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
}

/// Exports a handle. A descriptor keeps the memory, so it keeps the charge.
pub(crate) fn cuMemExportToShareableHandle(
    real: real::cuMemExportToShareableHandle,
    shareable: Opaque,
    handle: CUmemGenericAllocationHandle,
    handle_type: CUmemAllocationHandleType,
    flags: u64,
) -> CUresult {
    // Referred to before the driver is called: another thread may release the handle meanwhile.
    let number = vmm::allocation_of(handle).filter(|number| vmm::refer(*number));
    let result = real.call(shareable, handle, handle_type, flags);
    let Some(number) = number else { return result };
    let is_kept_by_mark = result != SUCCESS
        || !is_descriptor(handle_type)
        || shareable.as_out::<i32>().get().is_none_or(|descriptor| export(number, descriptor));
    // Memory behind a descriptor without a mark may live for ever: the reference stays.
    if is_kept_by_mark {
        vmm::let_go(number);
    }
    result
}

/// Marks an exported descriptor and sees to it that the charge lasts as long as the mark. False where
/// that cannot be.
fn export(number: u64, descriptor: i32) -> bool {
    let Some((entry, device)) = vmm::entry_of(number).and_then(|it| Some((it, it.device()?)))
    else {
        return false;
    };
    let Some([key, granules]) = mark_of(number, entry) else { return false };
    let Some(mark) = mark::set(descriptor, key, granules) else { return false };
    let handle = mark.handle();
    let moved = vmm::share(number, |entry| device.export_shared(&handle, entry.bytes, entry.kind));
    match moved {
        Some(true) => true,
        // Without room in the table the charge stays here.
        Some(false) => leave_out(number, mark),
        // Known to the table: by this name, unless its descriptors are of different files.
        None => {
            let shared = tenant::open_shared(&handle);
            shared.into_iter().for_each(tenant::close_shared);
            shared.is_some()
        }
    }
}

/// The mark that all descriptors of an allocation get.
fn mark_of(number: u64, entry: Entry) -> Option<[u64; 2]> {
    let new = [mark::draw_key()?, entry.bytes / GRANULE_BYTES];
    let mut mark = new;
    // Without memory for it there is none.
    MARKS
        .update(number, |old| {
            mark = old.unwrap_or(new);
            Some(mark)
        })
        .ok()?;
    Some(mark)
}

/// Keeps an allocation charged here while its mark is held.
fn leave_out(number: u64, mark: Mark) -> bool {
    if !vmm::refer(number) {
        return false;
    }
    let file = [mark.file.0, mark.file.1];
    if let Ok(Some(_)) = LEFT_OUT.insert(number, file) {
        // It was left out before: one reference is enough.
        vmm::let_go(number);
    }
    true
}

/// A handle for another process's memory.
pub(crate) fn cuMemImportFromShareableHandle(
    real: real::cuMemImportFromShareableHandle,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    os_handle: Opaque,
    handle_type: CUmemAllocationHandleType,
) -> CUresult {
    // A descriptor is passed as the pointer's value.
    let descriptor = i32::try_from(os_handle.address()).ok().filter(|_| is_descriptor(handle_type));
    let mark = descriptor.and_then(mark::of);
    // Referred to before the driver is called: the descriptor may be closed meanwhile.
    let shared = mark.and_then(|mark| tenant::open_shared(&mark.handle()));
    let result = real.call(handle, os_handle, handle_type);
    let imported = handle.get().filter(|_| result == SUCCESS);
    let noted = imported.map(|imported| (imported, vmm::note_import(imported, mark, shared)));
    match noted {
        Some((_, Ok(_))) => result,
        Some((imported, Err(code))) => {
            let _ = driver::mem_release(imported);
            code
        }
        None => {
            shared.into_iter().for_each(tenant::close_shared);
            result
        }
    }
}

/// Remembers the mark of memory that was imported.
pub(super) fn remember(number: u64, mark: Mark) {
    // Without memory for it, what is exported anew stays charged until the process ends.
    let _ = MARKS.insert(number, [mark.key, mark.granules]);
}

/// An allocation is gone.
pub(super) fn forget(number: u64, entry: Entry) {
    MARKS.take(number);
    entry.give_back();
}

/// The charge of memory imported from a marked descriptor that the tenant's table does not know.
pub(super) fn charge_import(mark: Mark, ordinal: CUdevice) -> Result<Entry, CUresult> {
    let bytes = mark.granules.saturating_mul(GRANULE_BYTES);
    let entry =
        Entry { bytes, kind: Kind::Imported, ordinal, packed: false, shared: false, owner: 1 };
    match at(ordinal) {
        Next::Count(device) => ask(device, bytes, Kind::Imported)?.keep(),
        Next::Forward => return Ok(Entry { bytes: 0, ..entry }),
        Next::Refuse(code) => return Err(code),
    };
    Ok(entry)
}
