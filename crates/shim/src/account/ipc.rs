//! Legacy IPC: memory shared between processes by a 64-byte handle.
//!
//! Within a tenant such memory is charged once, while any living process refers to it: exporting a
//! block moves its charge to the tenant's shared table, and the exporter's death does not free it,
//! as the driver does not free the memory either. Memory from outside the tenant is charged to
//! whoever opens it. A packed block's granule stays charged to its exporter; who opens it pays one of
//! its own, since opening pins that granule.
//!
//! Each export and each opening is a reference of its own. One that the driver refuses takes back what
//! it added, and nothing else: a process that opens its own handle, which no driver allows, goes on
//! being charged for the block.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUdeviceptr, CUipcMemHandle, CUresult};
use divvy_page::SharedEntry;
use divvy_policy::charge;

use super::block;
use super::charge::ask;
use super::context::here;
use super::entry::MemoryRecord;
use super::place::{CallPlace, Next};
use crate::gate::submit::shared_event;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{Out, driver};
use crate::tenant;

/// Opened blocks by address: a [`MemoryRecord`] whose owner counts how often it was opened.
static IMPORTS: Map = Map::new(14);

/// The context each opened block was opened in.
static CONTEXTS: Map = Map::new(27);

fn bytes_of(handle: &CUipcMemHandle) -> [u8; 64] {
    let mut bytes = [0_u8; 64];
    for (to, from) in bytes.iter_mut().zip(handle.reserved) {
        *to = from.to_ne_bytes()[0];
    }
    bytes
}

/// The block at `dptr` was exported as `handle`.
pub(crate) fn exported(handle: &CUipcMemHandle, dptr: CUdeviceptr) {
    // Also where its charge stays here.
    join();
    // The handle is of the whole block, whatever address inside it was named.
    if let Some((base, entry)) = block::block_around(dptr)
        && !entry.packed
        && entry.kind == MemoryKind::Block
        && let Some(device) = entry.device()
    {
        // Without room for it in the table the charge stays here, and ends with this process.
        block::share(base, false, |entry| {
            device.export_shared(&bytes_of(handle), entry.bytes, MemoryKind::Block)
        });
    }
}

/// Opens another process's block: `call` asks the driver.
pub(crate) fn open(
    handle: &CUipcMemHandle,
    dptr: Out<'_, CUdeviceptr>,
    call: impl Fn() -> CUresult,
) -> CUresult {
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    let shared = tenant::open_shared(&bytes_of(handle));
    opened(place, dptr, shared, call())
}

/// Settles what the driver answered; `shared` when the tenant is charged for the block already.
#[inline(never)]
fn opened(
    place: CallPlace,
    dptr: Out<'_, CUdeviceptr>,
    shared: Option<SharedEntry>,
    result: CUresult,
) -> CUresult {
    let address = dptr.get().filter(|_| result == SUCCESS);
    let Some(address) = address.filter(|address| !is_open_again(*address)) else {
        shared.into_iter().for_each(tenant::close_shared);
        return result;
    };
    let entry = MemoryRecord {
        bytes: shared.map_or(0, SharedEntry::number),
        kind: MemoryKind::Shared,
        ordinal: place.device.ordinal,
        packed: false,
        shared: shared.is_some(),
        owner: 1,
    };
    let entry = match shared {
        Some(_) => entry,
        None => {
            let bytes = driver::address_range(address).map_or(0, |(_, bytes)| bytes);
            let charged = charge::whole_granules(bytes);
            match ask(place.device, charged, MemoryKind::Shared) {
                Ok(held) => MemoryRecord { bytes: held.keep(), ..entry },
                Err(code) => {
                    let _ = driver::ipc_close(address);
                    return code;
                }
            }
        }
    };
    place.device.join();
    // Without memory for it the block is forgotten at its close only.
    let _ = CONTEXTS.insert(address, [place.context, 0]);
    match IMPORTS.insert(address, entry.pack()) {
        Ok(None) => {}
        // The driver gave an address out that we thought taken: its block was closed unseen.
        Ok(Some(stale)) => MemoryRecord::unpack(stale).give_back(),
        // The charge, or the reference, stays until the process ends.
        Err(_) => place.device.tell_no_table(),
    }
    result
}

/// Gives an event to another process, or takes one of another's: `call` asks the driver.
pub(crate) fn share_event(call: impl FnOnce() -> CUresult) -> CUresult {
    join();
    shared_event();
    call()
}

/// Work on the current device may wait for another process's.
pub(crate) fn join() {
    if let Next::Count(place) = here() {
        place.device.join();
    }
}

/// A context is gone, and with it what was opened in it.
pub(super) fn forget_context(context: u64) {
    loop {
        let mut any = None;
        CONTEXTS.for_each(|address, [owner, _]| {
            if owner == context {
                any = Some(address);
            }
        });
        let Some(address) = any else { return };
        CONTEXTS.take(address);
        if let Some(words) = IMPORTS.take(address) {
            MemoryRecord::unpack(words).give_back();
        }
    }
}

/// Counts one more opening of a block that is open already.
fn is_open_again(address: u64) -> bool {
    let mut is_known = false;
    let _ = IMPORTS.update(address, |old| {
        is_known = old.is_some();
        old.map(MemoryRecord::counted)
    });
    is_known
}

/// Closes another process's block; the last close of it lets go. The entry is taken out before the
/// driver is called, which may give the address out anew at once.
pub(crate) fn close(dptr: CUdeviceptr, call: impl FnOnce() -> CUresult) -> CUresult {
    let mut closing = None;
    let _ = IMPORTS.update(dptr, |old| {
        let entry = MemoryRecord::unpack(old?);
        closing = Some(entry);
        let owner = entry.owner.checked_sub(1).filter(|owner| *owner != 0)?;
        Some(MemoryRecord { owner, ..entry }.pack())
    });
    let Some(entry) = closing else { return call() };
    let is_last = entry.owner <= 1;
    let context = if is_last { CONTEXTS.take(dptr) } else { None };
    let result = call();
    if result == SUCCESS {
        if is_last {
            entry.give_back();
        }
    } else if is_open_again(dptr) {
        // Another thread opened it meanwhile, with a charge of its own.
        if is_last {
            entry.give_back();
        }
    } else {
        // The tables had room for it a moment ago.
        let _ = IMPORTS.insert(dptr, MemoryRecord { owner: 1, ..entry }.pack());
        let _ = context.map(|context| CONTEXTS.insert(dptr, context));
    }
    result
}
