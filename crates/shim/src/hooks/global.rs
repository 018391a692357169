//! Addresses of global variables: where an image could not be read when it was loaded, its variables
//! are charged as the program asks for them.
//!
//! A library's variables take their memory at exactly this call, a module's took it at the load
//! (measured). Variables of less than 1 MiB share granules and are left out.

use core::ffi::{c_char, c_uint};

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{CUdeviceptr, CUdeviceptr_v1, CUlibrary, CUmodule, CUresult};
use divvy_policy::charge;

use super::charge::{Next, OUT_OF_MEMORY, SUCCESS, ask, here};
use super::entry::Entry;
use super::module;
use crate::sys::map::Map;
use crate::sys::{In, Out, real};

/// Variables by address; the owner is the module or library.
static GLOBALS: Map = Map::new(21);

/// A variable of `bytes` at `address` was found; the code to return.
fn found(owner: u64, is_counted: bool, address: Option<u64>, bytes: Option<u64>) -> CUresult {
    let (Some(address), Some(bytes)) = (address, bytes) else { return SUCCESS };
    if is_counted || charge::is_small(bytes) || GLOBALS.get(address).is_some() {
        return SUCCESS;
    }
    let Next::Count(place) = here() else { return SUCCESS };
    let held = match ask(place.device, charge::whole_granules(bytes), Kind::Module) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let entry = Entry {
        bytes: charge::whole_granules(bytes),
        kind: Kind::Module,
        ordinal: place.device.ordinal,
        packed: false,
        shared: false,
        owner,
    };
    match GLOBALS.insert(address, entry.pack()) {
        Ok(None) => {
            held.keep();
            SUCCESS
        }
        // Another thread found it first.
        Ok(Some(_)) => SUCCESS,
        Err(_) => {
            place.device.tell_no_table();
            OUT_OF_MEMORY
        }
    }
}

/// A module or library was unloaded.
pub(super) fn forget(owner: u64) {
    loop {
        let mut any = None;
        GLOBALS.for_each(|address, words| {
            if Entry::unpack(words).owner == owner {
                any = Some(address);
            }
        });
        let Some(words) = any.and_then(|address| GLOBALS.take(address)) else { return };
        Entry::unpack(words).give_back();
    }
}

/// A library's variable.
pub(crate) fn cuLibraryGetGlobal(
    real: real::cuLibraryGetGlobal,
    dptr: Out<'_, CUdeviceptr>,
    bytes: Out<'_, usize>,
    library: CUlibrary,
    name: In<'_, c_char>,
) -> CUresult {
    let spread = module::spread(library);
    if spread != SUCCESS {
        return spread;
    }
    let mut own_bytes = 0_usize;
    let place = if bytes.is_null() { Out::to(&mut own_bytes) } else { bytes };
    let result = real.call(dptr, place, library, name);
    if result != SUCCESS {
        return result;
    }
    let counted = module::is_library_counted(library);
    found(library.0.addr() as u64, counted, dptr.get(), place.get().map(|bytes| bytes as u64))
}

/// A module's variable.
pub(crate) fn cuModuleGetGlobal_v2(
    real: real::cuModuleGetGlobal_v2,
    dptr: Out<'_, CUdeviceptr>,
    bytes: Out<'_, usize>,
    module: CUmodule,
    name: In<'_, c_char>,
) -> CUresult {
    let result = real.call(dptr, bytes, module, name);
    if result != SUCCESS {
        return result;
    }
    let counted = module::is_module_counted(module);
    found(module.0.addr() as u64, counted, dptr.get(), bytes.get().map(|bytes| bytes as u64))
}

/// The 32-bit form.
pub(crate) fn cuModuleGetGlobal(
    real: real::cuModuleGetGlobal,
    dptr: Out<'_, CUdeviceptr_v1>,
    bytes: Out<'_, c_uint>,
    module: CUmodule,
    name: In<'_, c_char>,
) -> CUresult {
    let result = real.call(dptr, bytes, module, name);
    if result != SUCCESS {
        return result;
    }
    let counted = module::is_module_counted(module);
    found(module.0.addr() as u64, counted, dptr.get().map(u64::from), bytes.get().map(u64::from))
}
