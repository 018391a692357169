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

use divvy_page::mark::{self, DescriptorMark};
use divvy_policy::charge::{GRANULE_BYTES, whole_granules};

use super::entry::MemoryRecord;
use super::left_out::leave_out;
use super::marks::{BUFFERS, MARKS, mark_of};
use super::{allocation, block};
use crate::sys::driver;
use crate::tenant;

/// Marks an exported descriptor and sees to it that the charge lasts as long as the mark. False where
/// that cannot be. The mark's `name` in the table is that of its kind; where it `is_asked` for, the charge
/// can wait for its end here too.
pub(crate) fn export(
    number: u64,
    descriptor: i32,
    name: fn(&DescriptorMark) -> [u8; 64],
    is_asked: bool,
) -> bool {
    let Some((entry, device)) =
        allocation::entry_of(number).and_then(|it| Some((it, it.device()?)))
    else {
        return false;
    };
    let Some([key, granules]) = mark_of(&MARKS, number, entry) else { return false };
    let Some(mark) = mark::set(descriptor, key, granules) else { return false };
    let handle = name(&mark);
    let moved =
        allocation::share(number, |entry| device.export_shared(&handle, entry.bytes, entry.kind));
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

/// Refers to the allocations of a mapped range but for its first one.
pub(crate) fn refer_to_others(start: u64, bytes: u64, first: u64) {
    let mut last = first;
    for offset in (0..bytes).step_by(GRANULE_BYTES as usize) {
        if let Some(number) = allocation::allocation_at(start.saturating_add(offset))
            && number != last
        {
            allocation::refer(number);
            last = number;
        }
    }
}

/// Marks the buffer that a plain block was exported as; where that cannot be, the memory stays charged.
pub(crate) fn export_block(address: u64, descriptor: i32) {
    let Some((base, entry)) = block::block_around(address) else { return };
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
    let is_moved = block::share(base, true, &|entry| {
        let [key, granules] = mark_of(&BUFFERS, base, entry)?;
        let mark = mark::set(descriptor, key, granules)?;
        device.export_shared(&mark.listed_handle(), entry.bytes, entry.kind)
    });
    if is_moved {
        return;
    }
    match block::block(base).and_then(MemoryRecord::shared_entry) {
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
