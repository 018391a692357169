//! Addresses of global variables: where an image could not be read when it was loaded, its variables
//! are charged as the program asks for them.
//!
//! A library's variables take their memory at exactly this call, a module's took it at the load
//! (measured). Variables of less than 1 MiB share granules and are left out.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::CUresult;
use divvy_policy::charge;

use super::charge::ask;
use super::context::here;
use super::entry::MemoryRecord;
use super::place::{Next, OUT_OF_MEMORY};
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;

/// Variables by address; the owner is the module or library.
static GLOBALS: Map = Map::new(21);

/// A variable of `bytes` at `address` was found; the code to return.
pub(super) fn found(owner: u64, address: u64, bytes: u64) -> CUresult {
    if charge::is_small(bytes) || GLOBALS.get(address).is_some() {
        return SUCCESS;
    }
    let Next::Count(place) = here() else { return SUCCESS };
    let held = match ask(place.device, charge::whole_granules(bytes), MemoryKind::Module) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let entry = MemoryRecord {
        bytes: charge::whole_granules(bytes),
        kind: MemoryKind::Module,
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
            if MemoryRecord::unpack(words).owner == owner {
                any = Some(address);
            }
        });
        let Some(words) = any.and_then(|address| GLOBALS.take(address)) else { return };
        MemoryRecord::unpack(words).give_back();
    }
}
