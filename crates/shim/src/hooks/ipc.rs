//! Legacy IPC: memory shared between processes by a 64-byte handle.
//!
//! Within a tenant such memory is charged once, while any living process refers to it: exporting a
//! block moves its charge to the tenant's shared table, and the exporter's death does not free it,
//! as the driver does not free the memory either. Memory from outside the tenant is charged to
//! whoever opens it. A packed block's granule stays charged to its exporter; who opens it pays one of
//! its own, since opening pins that granule.

use core::ffi::c_uint;

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{CUdeviceptr, CUipcMemHandle, CUresult};
use divvy_policy::charge;

use super::charge::{Next, OUT_OF_MEMORY, Place, SUCCESS, ask_quietly, here};
use super::entry::Entry;
use super::memory;
use crate::sys::map::Map;
use crate::sys::{Out, driver, real};

/// Handles of exported blocks: four pieces each, keyed by address and piece.
static EXPORTS: Map = Map::new(12);
/// Handles of opened blocks, likewise.
static OPENED: Map = Map::new(13);
/// Opened blocks by address: an [`Entry`] whose owner counts how often it was opened.
static IMPORTS: Map = Map::new(14);
/// The context each opened block was opened in.
static CONTEXTS: Map = Map::new(27);

type Handle = [u8; 64];

fn bytes_of(handle: &CUipcMemHandle) -> Handle {
    let mut bytes = [0_u8; 64];
    for (to, from) in bytes.iter_mut().zip(handle.reserved) {
        *to = from.to_ne_bytes()[0];
    }
    bytes
}

/// Keeps a handle beside an address; blocks are aligned to far more than four.
fn keep(map: &Map, address: u64, handle: &Handle) -> bool {
    let mut kept = true;
    for (piece, bytes) in (0_u64..).zip(handle.chunks_exact(16)) {
        let word = |half: Option<&[u8]>| {
            let half = half.and_then(|half| half.first_chunk().copied());
            u64::from_ne_bytes(half.unwrap_or_default())
        };
        let pair = [word(bytes.get(..8)), word(bytes.get(8..))];
        kept &= map.insert(address.saturating_add(piece), pair).is_ok();
    }
    kept
}

/// Takes a handle out again.
fn take(map: &Map, address: u64) -> Option<Handle> {
    let mut handle = [0_u8; 64];
    for (piece, to) in (0_u64..).zip(handle.chunks_exact_mut(16)) {
        let [low, high] = map.take(address.saturating_add(piece))?;
        for (to, from) in to.iter_mut().zip(low.to_ne_bytes().into_iter().chain(high.to_ne_bytes()))
        {
            *to = from;
        }
    }
    Some(handle)
}

/// An exported block was freed here; others may still refer to it.
pub(crate) fn let_go(address: u64, entry: Entry) {
    if let (Some(handle), Some(device)) = (take(&EXPORTS, address), entry.device()) {
        device.close_shared(&handle);
    }
}

/// Exports a block.
pub(crate) fn cuIpcGetMemHandle(
    real: real::cuIpcGetMemHandle,
    handle: Out<'_, CUipcMemHandle>,
    dptr: CUdeviceptr,
) -> CUresult {
    let result = real.call(handle, dptr);
    if result != SUCCESS {
        return result;
    }
    // The handle is of the whole block, whatever address inside it was named.
    let block = memory::block(dptr).map(|entry| (dptr, entry)).or_else(|| {
        let (base, _) = driver::address_range(dptr).ok()?;
        memory::block(base).map(|entry| (base, entry))
    });
    let (Some((base, entry)), Some(handle)) = (block, handle.get()) else { return result };
    if entry.packed || entry.shared || entry.kind != Kind::Block {
        return result;
    }
    let handle = bytes_of(&handle);
    let Some(device) = entry.device() else { return result };
    // Without room for it in the table the charge stays here, and ends with this process.
    if keep(&EXPORTS, base, &handle) && device.export_shared(&handle, entry.bytes, Kind::Block) {
        memory::mark_shared(base);
    } else {
        take(&EXPORTS, base);
    }
    result
}

fn open(
    handle: &CUipcMemHandle,
    dptr: Out<'_, CUdeviceptr>,
    call: impl Fn() -> CUresult,
) -> CUresult {
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    let handle = bytes_of(handle);
    let is_ours = place.device.open_shared(&handle);
    opened(place, &handle, dptr, is_ours, call())
}

/// Settles what the driver answered; `is_ours` when the tenant is charged for the block already.
#[inline(never)]
fn opened(
    place: Place,
    handle: &Handle,
    dptr: Out<'_, CUdeviceptr>,
    is_ours: bool,
    result: CUresult,
) -> CUresult {
    let Some(address) = dptr.get().filter(|_| result == SUCCESS) else {
        if is_ours && !is_open(handle) {
            place.device.close_shared(handle);
        }
        return result;
    };
    if again(address) {
        return result;
    }
    // Without memory for it the block is forgotten at its close only.
    let _ = CONTEXTS.insert(address, [place.context, 0]);
    if is_ours {
        let kept = keep(&OPENED, address, handle);
        let entry = imported(place, 0);
        if !kept || IMPORTS.insert(address, entry.pack()).is_err() {
            // The reference stays until the process ends.
            place.device.tell_no_table();
        }
        return result;
    }
    let bytes = driver::address_range(address).map_or(0, |(_, bytes)| bytes);
    let charged = charge::whole_granules(bytes);
    match ask_quietly(place.device, charged, Kind::Shared) {
        Ok(held) => {
            if IMPORTS.insert(address, imported(place, held.keep()).pack()).is_err() {
                place.device.tell_no_table();
            }
            result
        }
        Err(refusal) => {
            place.device.tell(charged, Kind::Shared, refusal);
            CONTEXTS.take(address);
            let _ = driver::ipc_close(address);
            OUT_OF_MEMORY
        }
    }
}

fn imported(place: Place, bytes: u64) -> Entry {
    Entry {
        bytes,
        kind: Kind::Shared,
        ordinal: place.device.ordinal,
        packed: false,
        shared: bytes == 0,
        owner: 1,
    }
}

/// Whether this process has the handle open.
fn is_open(handle: &Handle) -> bool {
    let first = handle.first_chunk().copied().map(u64::from_ne_bytes).unwrap_or_default();
    let second = handle.get(8..16).and_then(|half| half.first_chunk().copied());
    let second = second.map(u64::from_ne_bytes).unwrap_or_default();
    let mut open = false;
    OPENED.for_each(|_, pair| open |= pair == [first, second]);
    open
}

/// A context is gone, and with it what was opened in it.
pub(crate) fn forget_context(context: u64) {
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
            close(address, Entry::unpack(words));
        }
    }
}

/// The last reference to an opened block is gone.
fn close(address: u64, entry: Entry) {
    if !entry.shared {
        entry.give_back();
    } else if let (Some(handle), Some(device)) = (take(&OPENED, address), entry.device()) {
        device.close_shared(&handle);
    }
}

/// Counts one more opening of a block that is open already.
fn again(address: u64) -> bool {
    let mut known = false;
    let _ = IMPORTS.update(address, |old| {
        known = old.is_some();
        old.map(Entry::counted)
    });
    known
}

/// Opens another process's block.
pub(crate) fn cuIpcOpenMemHandle_v2(
    real: real::cuIpcOpenMemHandle_v2,
    dptr: Out<'_, CUdeviceptr>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> CUresult {
    open(&handle, dptr, || real.call(dptr, handle, flags))
}

/// The first form.
pub(crate) fn cuIpcOpenMemHandle(
    real: real::cuIpcOpenMemHandle,
    dptr: Out<'_, CUdeviceptr>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> CUresult {
    open(&handle, dptr, || real.call(dptr, handle, flags))
}

/// Closes another process's block; the last close of it lets go.
pub(crate) fn cuIpcCloseMemHandle(real: real::cuIpcCloseMemHandle, dptr: CUdeviceptr) -> CUresult {
    let result = real.call(dptr);
    if result != SUCCESS {
        return result;
    }
    let mut over = None;
    let _ = IMPORTS.update(dptr, |old| {
        let entry = Entry::unpack(old?);
        if entry.owner <= 1 {
            over = Some(entry);
            return None;
        }
        Some(Entry { owner: entry.owner.saturating_sub(1), ..entry }.pack())
    });
    if let Some(entry) = over {
        CONTEXTS.take(dptr);
        close(dptr, entry);
    }
    result
}
