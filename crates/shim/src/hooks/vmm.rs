//! Virtual memory management: memory is made, and mapped into sparse arrays ([`crate::account::vmm`],
//! [`crate::account::allocation`]). The other calls are rows of `around.txt`.

use core::ffi::c_uint;

use divvy_driver_api::types::{
    CUarrayMapInfo, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemOperationType,
    CUresult, CUstream,
};

use crate::account::allocation::{allocation_of, refer};
use crate::account::vmm::create;
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Out, OutArray, layout, real};

/// Makes physical memory. Memory of the host is not counted.
pub(crate) fn cuMemCreate(
    real: real::cuMemCreate,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    size: usize,
    prop: In<'_, CUmemAllocationProp>,
    flags: u64,
) -> CUresult {
    let call = || real.call(handle, size, prop, flags);
    let Some(ordinal) = layout::device_of(prop) else { return call() };
    create(ordinal, size, handle, call)
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
