//! Memory passed between processes by descriptor, out and in; how it is charged is
//! [`crate::account::export`]'s.

use divvy_driver_api::types::{
    CUdeviceptr, CUmemAllocationHandleType, CUmemGenericAllocationHandle, CUmemRangeHandleType,
    CUresult,
};
use divvy_page::mark::{self, DescriptorMark};

use crate::account::export::{export, export_block, refer_to_others};
use crate::account::{allocation, ipc, vmm};
use crate::residence::{backed, state};
use crate::sys::driver::SUCCESS;
use crate::sys::{Opaque, Out, OutHandle, driver, real};
use crate::tenant;

fn is_descriptor(handle_type: CUmemAllocationHandleType) -> bool {
    handle_type == CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
}

/// Exports a handle. A descriptor keeps the memory, so it keeps the charge.
pub(crate) fn cuMemExportToShareableHandle(
    real: real::cuMemExportToShareableHandle,
    shareable: OutHandle<'_>,
    handle: CUmemGenericAllocationHandle,
    handle_type: CUmemAllocationHandleType,
    flags: u64,
) -> CUresult {
    // Referred to before the driver is called: another thread may release the handle meanwhile.
    let number = allocation::allocation_of(handle).filter(|number| allocation::refer(*number));
    let result = real.call(shareable, handle, handle_type, flags);
    let Some(number) = number else { return result };
    let is_marked = |descriptor| export(number, descriptor, DescriptorMark::handle, true);
    let is_kept_by_mark = result != SUCCESS || shareable.descriptor().is_none_or(is_marked);
    // Memory behind a descriptor without a mark may live for ever: the reference stays.
    if is_kept_by_mark {
        allocation::let_go(number);
    }
    result
}

/// Exports memory as a buffer for other devices, which keeps it.
pub(crate) fn cuMemGetHandleForAddressRange(
    real: real::cuMemGetHandleForAddressRange,
    handle: OutHandle<'_>,
    dptr: CUdeviceptr,
    size: usize,
    handle_type: CUmemRangeHandleType,
    flags: u64,
) -> CUresult {
    // Memory behind a descriptor stays on the card, where it is by the time that this call is inside.
    let _inside = state::enter();
    backed::pin(dptr);
    // Referred to before the driver is called: another thread may unmap it meanwhile.
    let number = allocation::allocation_at(dptr).filter(|number| allocation::refer(*number));
    let result = real.call(handle, dptr, size, handle_type, flags);
    let descriptor = if result == SUCCESS { handle.descriptor() } else { None };
    match (number, descriptor) {
        (Some(number), Some(descriptor)) => {
            if export(number, descriptor, DescriptorMark::listed_handle, false) {
                allocation::let_go(number);
            }
            refer_to_others(dptr, size as u64, number);
        }
        (Some(number), None) => allocation::let_go(number),
        (None, Some(descriptor)) => export_block(dptr, descriptor),
        (None, None) => {}
    }
    result
}

/// A handle for another process's memory.
pub(crate) fn cuMemImportFromShareableHandle(
    real: real::cuMemImportFromShareableHandle,
    handle: Out<'_, CUmemGenericAllocationHandle>,
    os_handle: Opaque<'_>,
    handle_type: CUmemAllocationHandleType,
) -> CUresult {
    // A descriptor is passed as the pointer's value.
    let descriptor = i32::try_from(os_handle.address()).ok().filter(|_| is_descriptor(handle_type));
    let mark = descriptor.and_then(mark::of);
    // Referred to before the driver is called: the descriptor may be closed meanwhile.
    let shared = mark.and_then(|mark| tenant::open_shared(&mark.handle()));
    let result = real.call(handle, os_handle, handle_type);
    let imported = handle.get().filter(|_| result == SUCCESS);
    let noted = imported.map(|imported| (imported, vmm::note_import(imported, mark, shared)));
    if noted.is_some() {
        ipc::join();
    }
    match noted {
        Some((_, Ok(_))) => result,
        Some((imported, Err(code))) => {
            let _ = driver::mem_release(imported);
            code
        }
        None => {
            shared.into_iter().for_each(tenant::close_shared);
            result
        }
    }
}
