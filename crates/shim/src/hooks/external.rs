//! Memory of other interfaces (Vulkan, OpenGL, Direct3D): charged to who imports it, as imported.

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUexternalMemory, CUresult};
use divvy_policy::charge;

use super::charge::{Next, OUT_OF_MEMORY, SUCCESS, ask, here};
use super::entry::Entry;
use crate::sys::map::Map;
use crate::sys::{In, Out, driver, real};
use crate::tenant::device::Device;

/// Imports by handle.
static IMPORTS: Map = Map::new(15);

/// Imports memory of a stated size.
pub(crate) fn cuImportExternalMemory(
    real: real::cuImportExternalMemory,
    memory: Out<'_, CUexternalMemory>,
    desc: In<'_, CUDA_EXTERNAL_MEMORY_HANDLE_DESC>,
) -> CUresult {
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return real.call(memory, desc),
        Next::Refuse(code) => return code,
    };
    let bytes = desc.get().map_or(0, |desc| desc.size);
    let held = match ask(place.device, charge::whole_granules(bytes), Kind::Imported) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = real.call(memory, desc);
    let Some(imported) = memory.get().filter(|_| result == SUCCESS) else { return result };
    let entry = Entry {
        bytes: held.keep(),
        kind: Kind::Imported,
        ordinal: place.device.ordinal,
        packed: false,
        shared: false,
        owner: place.context,
    };
    if IMPORTS.insert(imported.0.addr() as u64, entry.pack()).is_err() {
        place.device.tell_no_table();
        let _ = driver::external_destroy(imported);
        entry.give_back();
        return OUT_OF_MEMORY;
    }
    result
}

/// Lets imported memory go.
pub(crate) fn cuDestroyExternalMemory(
    real: real::cuDestroyExternalMemory,
    memory: CUexternalMemory,
) -> CUresult {
    let handle = memory.0.addr() as u64;
    let taken = IMPORTS.take(handle);
    let result = real.call(memory);
    match taken {
        Some(words) if result == SUCCESS => Entry::unpack(words).give_back(),
        Some(words) => {
            let _ = IMPORTS.insert(handle, words);
        }
        None => {}
    }
    result
}

/// A context is gone, and with it its imports.
pub(crate) fn forget_context(context: u64, device: &'static Device) {
    let mut bytes = 0_u64;
    IMPORTS.take_if(|_, words| {
        let entry = Entry::unpack(words);
        let is_its = entry.owner == context;
        if is_its {
            bytes = bytes.saturating_add(entry.bytes);
        }
        is_its
    });
    device.give_back(bytes, Kind::Imported);
}
