//! Multicast objects: memory bound to one lives until it is unbound, whatever becomes of its handle
//! and its mappings, so it stays charged until then. What is bound to an object that is released
//! whole stays charged until the process ends, which errs on the safe side.

use divvy_driver_api::types::{CUdevice, CUmemGenericAllocationHandle, CUresult};
use divvy_policy::charge;

use super::allocation;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;

/// Allocations by where they are bound.
static BOUND: Map = Map::new(20);

/// A place of a multicast object: its handle, a device and the granule of an offset.
fn key(object: CUmemGenericAllocationHandle, ordinal: CUdevice, granule: u64) -> u64 {
    let place = granule << 4 | u64::from(ordinal.cast_unsigned() & 0xf);
    object.rotate_left(20) ^ place
}

/// Binds an allocation, if it is known, to a place of an object: `call` asks the driver.
pub(crate) fn bind(
    object: CUmemGenericAllocationHandle,
    offset: usize,
    number: Option<u64>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    // Referred to before the driver is called: another thread may release the handle meanwhile.
    let number = number.filter(|number| allocation::refer(*number));
    let result = call();
    if let Some(number) = number.filter(|_| result != SUCCESS) {
        allocation::let_go(number);
    } else if let Some(number) = number {
        let ordinal = allocation::ordinal_of(number).unwrap_or(0);
        let key = key(object, ordinal, charge::first_granule(offset as u64));
        if let Ok(Some([stale, _])) = BOUND.insert(key, [number, 0]) {
            allocation::let_go(stale);
        }
    }
    result
}

/// Unbinds a range of a device's.
pub(crate) fn unbind(
    object: CUmemGenericAllocationHandle,
    dev: CUdevice,
    offset: usize,
    size: usize,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = call();
    if result == SUCCESS {
        let first = charge::first_granule(offset as u64);
        let last = charge::last_granule(offset as u64, size as u64);
        for granule in first..=last {
            if let Some([number, _]) = BOUND.take(key(object, dev, granule)) {
                allocation::let_go(number);
            }
        }
    }
    result
}
