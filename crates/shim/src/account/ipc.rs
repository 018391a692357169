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
use super::place::{CallPlace, Next, at};
use crate::gate::beside_captures;
use crate::gate::submit::shared_event;
use crate::handover::server;
use crate::residence::backed::{self, Whole};
use crate::residence::exports::{self, PassedHandle};
use crate::residence::{imports, state};
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{Out, driver};
use crate::tenant;
use crate::tenant::reason::{self, Reason};

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, which every opening says.
const LAZY_PEER_ACCESS: u32 = 1;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Opened blocks by address: a [`MemoryRecord`] whose owner counts how often it was opened.
static IMPORTS: Map = Map::new(14);

/// The context each opened block was opened in.
static CONTEXTS: Map = Map::new(27);

fn bytes_of(handle: &CUipcMemHandle) -> [u8; 64] {
    zerocopy::transmute!(handle.reserved)
}

/// Exports the block at `dptr`, whose memory may leave the card and stays there from now on: for other processes of the
/// tenant.
pub(crate) fn pass(handle: Out<'_, CUipcMemHandle>, dptr: CUdeviceptr) -> CUresult {
    if handle.is_null() {
        return INVALID;
    }
    // Its memory is there as long as this is inside.
    let _inside = state::enter();
    match passed(dptr) {
        Ok(passed) => {
            handle.set(CUipcMemHandle { reserved: zerocopy::transmute!(passed.pack()) });
            SUCCESS
        }
        Err(code) => {
            let why = match code {
                CUresult::CUDA_ERROR_OPERATING_SYSTEM => "this process cannot listen for others",
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => "all of its slab does not fit the limit",
                _ => "the driver makes no descriptor of it",
            };
            reason::tell(
                Reason::Unshared,
                format_args!("cuIpcGetMemHandle: memory that may leave the card: {why}"),
            );
            code
        }
    }
}

fn passed(dptr: CUdeviceptr) -> Result<PassedHandle, CUresult> {
    join();
    let block = backed::block(dptr).ok_or(INVALID)?;
    let tenant = tenant::oversubscribed().ok_or(INVALID)?;
    let (whole, key, is_new) = server::export(block)?;
    let [number, slot] = tenant.own_place().ok_or(CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let offset = block.base.saturating_sub(whole.base);
    let (base, bytes) = (whole.base, block.bytes);
    let passed = PassedHandle { tenant: number, slot, key, base, offset, bytes };
    if is_new {
        charge_whole(whole, &passed.name()).inspect_err(|_| exports::forget(whole.base))?;
    }
    backed::pin(dptr);
    Ok(passed)
}

/// Moves the charge of what is exported to the tenant's shared table. Of a slab, which whoever opens a block in it keeps, all
/// is charged there, in place of the blocks in it that have granules of their own.
fn charge_whole(whole: Whole, name: &[u8; 64]) -> Result<(), CUresult> {
    const KIND: MemoryKind = MemoryKind::Block;
    let Next::Count(device) = at(whole.device) else { return Ok(()) };
    // Without room in the table the charge stays here, and whoever opens it pays as well.
    let export = |bytes| device.export_shared(name, bytes, KIND);
    if !whole.is_slab {
        block::share(whole.base, false, &|entry| export(entry.bytes));
        return Ok(());
    }
    let granules = (0..whole.bytes).step_by(charge::GRANULE_BYTES as usize);
    let granules = granules.map(|at| whole.base.saturating_add(at));
    let own = |address: u64| block::block(address).filter(|entry| !entry.packed && !entry.shared);
    let held = granules.clone().filter_map(own).fold(0_u64, |sum, it| sum.saturating_add(it.bytes));
    ask(device, whole.bytes.saturating_sub(held), KIND)?.keep();
    // For a moment these are charged twice.
    device.hold(held.min(whole.bytes), KIND);
    let Some(slab) = export(whole.bytes) else {
        device.give_back(whole.bytes, KIND);
        return Ok(());
    };
    for address in granules.filter(|address| own(*address).is_some()) {
        block::share(address, false, &|entry| {
            tenant::keep_shared(slab);
            device.give_back(entry.bytes, entry.kind);
            Some(slab)
        });
    }
    exports::charge(whole.base, slab);
    Ok(())
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
        block::share(base, false, &|entry| {
            device.export_shared(&bytes_of(handle), entry.bytes, MemoryKind::Block)
        });
    }
}

/// Opens another process's block: `call` asks the driver.
pub(crate) fn open(
    handle: &CUipcMemHandle,
    flags: u32,
    dptr: Out<'_, CUdeviceptr>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    let bytes = bytes_of(handle);
    let passed = PassedHandle::read(bytes);
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    if let Some(passed) = passed {
        return open_passed(place, passed, flags, dptr);
    }
    let shared = tenant::open_shared(&bytes);
    opened(place, dptr, shared, 0, call())
}

/// Opens a block that another process of the tenant has exported by [`pass`].
#[inline(never)]
fn open_passed(
    place: CallPlace,
    of: PassedHandle,
    flags: u32,
    dptr: Out<'_, CUdeviceptr>,
) -> CUresult {
    let tenant = tenant::oversubscribed();
    let own = tenant.and_then(|tenant| Some((tenant, tenant.own_place()?)));
    let is_wrong = dptr.is_null() || flags & LAZY_PEER_ACCESS == 0;
    let (why, code) = match own.filter(|(_, [number, _])| *number == of.tenant) {
        None => ("is shared with processes of its tenant alone", INVALID),
        Some(_) if is_wrong => return INVALID,
        Some((_, [_, slot])) if slot == of.slot && exports::knows(of.base, of.key) => {
            return CUresult::CUDA_ERROR_INVALID_CONTEXT;
        }
        Some((tenant, _)) => {
            let shared = tenant.open_shared(&of.name());
            match beside_captures(|| imports::open(tenant, of, place.context)) {
                Ok((address, whole_bytes)) => {
                    dptr.set(address);
                    return opened(place, dptr, shared, whole_bytes, SUCCESS);
                }
                Err(code) => {
                    shared.into_iter().for_each(tenant::close_shared);
                    let why = match code {
                        imports::REFUSED => "was freed, or its process has ended",
                        imports::UNANSWERED => {
                            "is of a process that does not answer, or no descriptor is left"
                        }
                        _ => "cannot be mapped here",
                    };
                    (why, code)
                }
            }
        }
    };
    reason::tell(
        Reason::Unshared,
        format_args!("cuIpcOpenMemHandle: memory that may leave the card {why}"),
    );
    code
}

/// Closes once what [`open_passed`] has opened at an address; false where it has nothing there.
fn close_passed(address: u64) -> bool {
    let is_closed = imports::close(address);
    if is_closed {
        while let Some(closing) = imports::take_closed(None) {
            beside_captures(|| {
                // Of a context that is broken nothing runs any more.
                let _ = block::await_work(closing.context);
                closing.unmap();
            });
        }
    }
    is_closed
}

/// Settles what the driver answered; `shared` when the tenant is charged for the block already. It has `whole_bytes`, 0 where
/// the driver is to say.
#[inline(never)]
fn opened(
    place: CallPlace,
    dptr: Out<'_, CUdeviceptr>,
    shared: Option<SharedEntry>,
    whole_bytes: u64,
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
            let bytes = match whole_bytes {
                0 => driver::address_range(address).map_or(0, |(_, bytes)| bytes),
                bytes => bytes,
            };
            let charged = charge::whole_granules(bytes);
            match ask(place.device, charged, MemoryKind::Shared) {
                Ok(held) => MemoryRecord { bytes: held.keep(), ..entry },
                Err(code) => {
                    if !close_passed(address) {
                        let _ = driver::ipc_close(address);
                    }
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

/// Handle of the context that the block at `address` was opened in.
pub(crate) fn context_of(address: u64) -> Option<u64> {
    CONTEXTS.get(address).map(|[context, _]| context)
}

/// A context is gone, and with it what was opened in it.
pub(super) fn forget_context(context: u64) {
    while let Some(closing) = imports::take_closed(Some(context)) {
        closing.unmap();
    }
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
    let call = || if close_passed(dptr) { SUCCESS } else { call() };
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
