//! Multicast objects: memory is bound to them and unbound ([`crate::account::multicast`]).

use divvy_driver_api::types::{CUdevice, CUdeviceptr, CUmemGenericAllocationHandle, CUresult};

use crate::account::allocation::{allocation_at, allocation_of};
use crate::account::multicast::{bind, unbind};
use crate::sys::real;

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
    bind(object, offset, allocation_of(handle), &|| {
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
    bind(object, offset, allocation_of(handle), &|| {
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
    bind(object, offset, allocation_at(address), &|| {
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
    bind(object, offset, allocation_at(address), &|| {
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
    unbind(object, dev, offset, size, || real.call(object, dev, offset, size))
}
