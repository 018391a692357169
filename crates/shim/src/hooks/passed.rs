//! Memory passed between processes by descriptor: charged once in a tenant, while anybody holds it.
//!
//! Exporting an allocation moves its charge to the tenant's shared table, as legacy IPC does, and
//! [`mark`]s the descriptor with the entry's key and the memory's size. The charge stands while a process
//! refers to the entry or the mark is held, that is, while a copy of the descriptor is open: in this
//! process, in a child, in another one or in flight, whatever became of the exporter. A process of the
//! tenant that imports it refers to that entry; a process of another tenant finds no such entry and is
//! charged the size. Both at the import, mapped or not.
//!
//! A buffer for other devices (dma-buf) keeps its memory as well, freed or not, and is marked likewise.
//! Of a range of several allocations the first one's charge goes with the mark, the others' stays until
//! the process ends; so does that of a block which legacy IPC shares already, and a granule for each
//! small block.
//!
//! Where the table is full the exporter of a handle stays charged, while it lives and a copy is open, and
//! that of a block's buffer until it ends. Not known: the size of what was exported without this library,
//! or by another kind of handle than a descriptor. That is charged when a mapping shows it.

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUdevice, CUdeviceptr, CUmemAllocationHandleType, CUmemGenericAllocationHandle,
    CUmemRangeHandleType, CUresult,
};
use divvy_page::mark::{self, Asker, Mark};
use divvy_policy::charge::{GRANULE_BYTES, whole_granules};

use super::charge::{Next, SUCCESS, ask, at};
use super::entry::Entry;
use super::{ipc, memory, vmm};
use crate::sys::map::Map;
use crate::sys::{Opaque, Out, driver, real};
use crate::tenant;

/// Marks of allocations, by the allocation's number: key and granules.
static MARKS: Map = Map::new(28);

/// Allocations that the table had no room for, by number: device and inode of the descriptors that keep
/// them. Each is a reference to the allocation.
static LEFT_OUT: Map = Map::new(19);

/// Marks of blocks that were exported as buffers for other devices, by their address: key and granules.
static BUFFERS: Map = Map::new(5);

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
    let descriptor = shareable.as_out::<i32>().get();
    let is_kept_by_mark = result != SUCCESS
        || !is_descriptor(handle_type)
        || descriptor.is_none_or(|descriptor| export(number, descriptor, Mark::handle, true));
    // Memory behind a descriptor without a mark may live for ever: the reference stays.
    if is_kept_by_mark {
        vmm::let_go(number);
    }
    result
}

/// Marks an exported descriptor and sees to it that the charge lasts as long as the mark. False where
/// that cannot be. The mark's `name` in the table is that of its kind; where it `is_asked` for, the charge
/// can wait for its end here too.
fn export(number: u64, descriptor: i32, name: fn(&Mark) -> [u8; 64], is_asked: bool) -> bool {
    let Some((entry, device)) = vmm::entry_of(number).and_then(|it| Some((it, it.device()?)))
    else {
        return false;
    };
    let Some([key, granules]) = mark_of(&MARKS, number, entry) else { return false };
    let Some(mark) = mark::set(descriptor, key, granules) else { return false };
    let handle = name(&mark);
    let moved = vmm::share(number, |entry| device.export_shared(&handle, entry.bytes, entry.kind));
    match moved {
        Some(true) => true,
        // Without room in the table the charge stays here.
        Some(false) => is_asked && leave_out(number, mark),
        // Known to the table: by this name, unless its descriptors are of different files.
        None => {
            let shared = tenant::open_shared(&handle);
            shared.into_iter().for_each(tenant::close_shared);
            shared.is_some()
        }
    }
}

/// Exports memory as a buffer for other devices, which keeps it.
pub(crate) fn cuMemGetHandleForAddressRange(
    real: real::cuMemGetHandleForAddressRange,
    handle: Opaque,
    dptr: CUdeviceptr,
    size: usize,
    handle_type: CUmemRangeHandleType,
    flags: u64,
) -> CUresult {
    // Referred to before the driver is called: another thread may unmap it meanwhile.
    let number = vmm::allocation_at(dptr).filter(|number| vmm::refer(*number));
    let result = real.call(handle, dptr, size, handle_type, flags);
    let is_buffer = handle_type == CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    let descriptor = handle.as_out::<i32>().get().filter(|_| result == SUCCESS && is_buffer);
    match (number, descriptor) {
        (Some(number), Some(descriptor)) => {
            if export(number, descriptor, Mark::listed_handle, false) {
                vmm::let_go(number);
            }
            refer_to_others(dptr, size as u64, number);
        }
        (Some(number), None) => vmm::let_go(number),
        (None, Some(descriptor)) => export_block(dptr, descriptor),
        (None, None) => {}
    }
    result
}

/// Refers to the allocations of a mapped range but for its first one.
fn refer_to_others(start: u64, bytes: u64, first: u64) {
    let mut last = first;
    for offset in (0..bytes).step_by(GRANULE_BYTES as usize) {
        if let Some(number) = vmm::allocation_at(start.saturating_add(offset))
            && number != last
        {
            vmm::refer(number);
            last = number;
        }
    }
}

fn export_block(address: u64, descriptor: i32) {
    let Some((base, entry)) = memory::block_around(address) else { return };
    let Some(device) = entry.device() else { return };
    if entry.packed {
        // Its granule goes to other blocks when it is freed, and stays here.
        device.hold(GRANULE_BYTES, entry.kind);
        return;
    }
    if let Some([key, granules]) = BUFFERS.get(base)
        && mark::set(descriptor, key, granules).is_some()
    {
        return;
    }
    let is_moved = memory::share(base, true, |entry| {
        let [key, granules] = mark_of(&BUFFERS, base, entry)?;
        let mark = mark::set(descriptor, key, granules)?;
        device.export_shared(&mark.listed_handle(), entry.bytes, entry.kind)
    });
    if is_moved {
        return;
    }
    match memory::block(base).and_then(Entry::shared_entry) {
        // Legacy IPC shares it: one more reference, which nobody takes back.
        Some(shared) => tenant::keep_shared(shared),
        // Another thread exports or frees it at this moment.
        None => {
            let bytes = match entry.shared {
                true => driver::address_range(base).map_or(0, |(_, bytes)| bytes),
                false => entry.bytes,
            };
            device.hold(whole_granules(bytes), entry.kind);
        }
    }
}

/// A block that is shared was freed: its address is another's soon.
pub(super) fn forget_buffer(address: u64) {
    BUFFERS.take(address);
}

/// The mark that all descriptors of an allocation or block get.
fn mark_of(marks: &Map, number: u64, entry: Entry) -> Option<[u64; 2]> {
    let new = [mark::draw_key()?, entry.bytes / GRANULE_BYTES];
    let mut mark = new;
    // Without memory for it there is none.
    marks
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
    if noted.is_some() {
        ipc::join();
    }
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
