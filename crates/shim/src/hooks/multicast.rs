//! Multicast objects: memory bound to one lives until it is unbound, whatever becomes of its handle
//! and its mappings, so it stays charged until then. What is bound to an object that is released
//! whole stays charged until the process ends, which errs on the safe side.

use divvy_driver_api::types::{CUdevice, CUdeviceptr, CUmemGenericAllocationHandle, CUresult};
use divvy_policy::charge;

use super::charge::SUCCESS;
use super::vmm;
use crate::sys::map::Map;
use crate::sys::real;

/// Allocations by where they are bound.
static BOUND: Map = Map::new(20);

/// A place of a multicast object: its handle, a device and the granule of an offset.
fn key(object: CUmemGenericAllocationHandle, ordinal: CUdevice, granule: u64) -> u64 {
    let place = granule << 4 | u64::from(ordinal.cast_unsigned() & 0xf);
    object.rotate_left(20) ^ place
}

fn bind(
    object: CUmemGenericAllocationHandle,
    offset: usize,
    number: Option<u64>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    // Referred to before the driver is called: another thread may release the handle meanwhile.
    let number = number.filter(|number| vmm::refer(*number));
    let result = call();
    if let Some(number) = number.filter(|_| result != SUCCESS) {
        vmm::let_go(number);
    } else if let Some(number) = number {
        let ordinal = vmm::ordinal_of(number).unwrap_or(0);
        let key = key(object, ordinal, charge::first_granule(offset as u64));
        if let Ok(Some([stale, _])) = BOUND.insert(key, [number, 0]) {
            vmm::let_go(stale);
        }
    }
    result
}

/// Binds a handle's memory.
pub(crate) fn cuMulticastBindMem(
    real: real::cuMulticastBindMem,
    object: CUmemGenericAllocationHandle,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    memory_offset: usize,
    size: usize,
    flags: u64,
) -> CUresult {
    bind(object, offset, vmm::allocation_of(handle), &|| {
        real.call(object, offset, handle, memory_offset, size, flags)
    })
}

/// Binds a handle's memory on a device.
pub(crate) fn cuMulticastBindMem_v2(
    real: real::cuMulticastBindMem_v2,
    object: CUmemGenericAllocationHandle,
    dev: CUdevice,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    memory_offset: usize,
    size: usize,
    flags: u64,
) -> CUresult {
    bind(object, offset, vmm::allocation_of(handle), &|| {
        real.call(object, dev, offset, handle, memory_offset, size, flags)
    })
}

/// Binds the memory mapped at an address.
pub(crate) fn cuMulticastBindAddr(
    real: real::cuMulticastBindAddr,
    object: CUmemGenericAllocationHandle,
    offset: usize,
    address: CUdeviceptr,
    size: usize,
    flags: u64,
) -> CUresult {
    bind(object, offset, vmm::allocation_at(address), &|| {
        real.call(object, offset, address, size, flags)
    })
}

/// Binds the memory mapped at an address on a device.
pub(crate) fn cuMulticastBindAddr_v2(
    real: real::cuMulticastBindAddr_v2,
    object: CUmemGenericAllocationHandle,
    dev: CUdevice,
    offset: usize,
    address: CUdeviceptr,
    size: usize,
    flags: u64,
) -> CUresult {
    bind(object, offset, vmm::allocation_at(address), &|| {
        real.call(object, dev, offset, address, size, flags)
    })
}

/// Unbinds a range of a device's.
pub(crate) fn cuMulticastUnbind(
    real: real::cuMulticastUnbind,
    object: CUmemGenericAllocationHandle,
    dev: CUdevice,
    offset: usize,
    size: usize,
) -> CUresult {
    let result = real.call(object, dev, offset, size);
    if result == SUCCESS {
        let first = charge::first_granule(offset as u64);
        let last = charge::last_granule(offset as u64, size as u64);
        for granule in first..=last {
            if let Some([number, _]) = BOUND.take(key(object, dev, granule)) {
                vmm::let_go(number);
            }
        }
    }
    result
}
