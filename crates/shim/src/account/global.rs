//! Addresses of global variables: where an image could not be read when it was loaded, its variables
//! are charged as the program asks for them.
//!
//! A library's variables take their memory at exactly this call, a module's took it at the load
//! (measured). Variables of less than 1 MiB share granules and are left out. What is charged goes with the module, or
//! with the library's copy in the context.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::CUresult;
use divvy_policy::charge;

use super::charge::ask;
use super::place::{CallPlace, OUT_OF_MEMORY};
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;

/// Variables that are charged, by address; the key of what holds the charge.
static GLOBALS: Map = Map::new(21);

/// A variable of `bytes` at `address` was found: `keep` adds the bytes that it is charged to what is held by `key`. The code
/// to return.
pub(super) fn found(
    key: u64,
    place: CallPlace,
    address: u64,
    bytes: u64,
    keep: impl FnOnce(u64),
) -> CUresult {
    if charge::is_small(bytes) || GLOBALS.get(address).is_some() {
        return SUCCESS;
    }
    let held = match ask(place.device, charge::whole_granules(bytes), MemoryKind::Module) {
        Ok(held) => held,
        Err(code) => return code,
    };
    match GLOBALS.insert(address, [key, 0]) {
        Ok(None) => {
            keep(held.keep());
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

/// The charge held by `key` has gone.
pub(super) fn forget(key: u64) {
    GLOBALS.take_if(|_, [of, _]| of == key);
}
