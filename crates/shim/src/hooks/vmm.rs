//! Virtual memory management: memory made, mapped, unmapped and let go ([`crate::account::vmm`],
//! [`crate::account::allocation`]).

use core::ffi::c_uint;

use divvy_driver_api::types::{
    CUarrayMapInfo, CUdeviceptr, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUmemOperationType, CUresult, CUstream,
};

use crate::account::allocation::{allocation_of, refer, release, retain, unmap};
use crate::account::vmm::{create, map};
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Opaque, Out, OutArray, layout, real};

/// Makes physical memory. Memory of the host is not counted.
pub(crate) fn cuMemCreate(
    real: real::cuMemCreate,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    size: usize,
    prop: In<'_, CUmemAllocationProp>,
    flags: u64,
) -> CUresult {
    let call = || real.call(handle, size, prop, flags);
    let Some(ordinal) = prop.get().and_then(|prop| layout::device_of(&prop.location)) else {
        return call();
    };
    create(ordinal, size, handle, call)
}

/// Gives a handle back; memory that is mapped stays.
pub(crate) fn cuMemRelease(
    real: real::cuMemRelease,
    handle: CUmemGenericAllocationHandle,
) -> CUresult {
    release(handle, || real.call(handle))
}

/// A handle for memory that is mapped.
pub(crate) fn cuMemRetainAllocationHandle(
    real: real::cuMemRetainAllocationHandle,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    addr: Opaque,
) -> CUresult {
    retain(handle, addr, || real.call(handle, addr))
}

/// Maps memory, which then lives at least as long as the mapping.
pub(crate) fn cuMemMap(
    real: real::cuMemMap,
    ptr: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: u64,
) -> CUresult {
    map(ptr, size, offset, handle, || real.call(ptr, size, offset, handle, flags))
}

/// Unmaps one or several whole mappings. The driver goes first: nobody can map the range anew
/// before the program knows that it is free.
pub(crate) fn cuMemUnmap(real: real::cuMemUnmap, ptr: CUdeviceptr, size: usize) -> CUresult {
    unmap(ptr, size, || real.call(ptr, size))
}

/// Maps memory into sparse arrays, which keeps it: from then on it is charged until the process
/// ends.
pub(crate) fn cuMemMapArrayAsync(
    real: real::cuMemMapArrayAsync,
    list: OutArray<'_, CUarrayMapInfo>,
    count: c_uint,
    stream: CUstream,
) -> CUresult {
    let result = real.call(list, count, stream);
    if result == SUCCESS {
        for info in (0..list.length()).filter_map(|index| list.get(index)) {
            if info.memOperationType == CUmemOperationType::CU_MEM_OPERATION_TYPE_MAP
                && let Some(number) = allocation_of(layout::sparse_handle(&info))
            {
                refer(number);
            }
        }
    }
    result
}
