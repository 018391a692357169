//! Memory: what there is of it, where it lies, and giving back what must not be kept.

use divvy_driver_api::types::*;

use super::call::ask;
use crate::sys::layout;

/// Free and total bytes of the current context's device, as the driver sees them.
pub(crate) fn mem_info() -> Result<(u64, u64), CUresult> {
    let (mut free, mut total) = (0_usize, 0_usize);
    ask!(cuMemGetInfo_v2(&mut free, &mut total))?;
    Ok((free as u64, total as u64))
}

/// A 64-bit attribute of a pool: its watermarks and its threshold.
pub(crate) fn pool_u64(
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
) -> Result<u64, CUresult> {
    let mut value = 0_u64;
    ask!(cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()))?;
    Ok(value)
}

/// Lets a pool give back what it keeps beyond `keep_bytes`.
pub(crate) fn pool_trim(pool: CUmemoryPool, keep_bytes: usize) -> Result<(), CUresult> {
    ask!(cuMemPoolTrimTo(pool, keep_bytes))
}

/// Start and bytes of the block that an address lies in.
pub(crate) fn address_range(address: CUdeviceptr) -> Result<(CUdeviceptr, u64), CUresult> {
    let (mut base, mut bytes) = (0, 0_usize);
    ask!(cuMemGetAddressRange_v2(&mut base, &mut bytes, address))?;
    Ok((base, bytes as u64))
}

/// The device that a handle's memory was made on, if it was made on one.
pub(crate) fn handle_device(
    handle: CUmemGenericAllocationHandle,
) -> Result<Option<CUdevice>, CUresult> {
    let mut properties = core::mem::MaybeUninit::<CUmemAllocationProp>::zeroed();
    ask!(cuMemGetAllocationPropertiesFromHandle(properties.as_mut_ptr(), handle))?;
    // SAFETY: numbers and a pointer, zeroed and then written by the driver.
    let properties = unsafe { properties.assume_init() };
    // SAFETY: 1. zeroed before the driver wrote it.
    Ok(unsafe { layout::device_at(&properties.location) })
}

/// Makes managed memory of the current context, which all of its devices reach.
pub(crate) fn managed_alloc(bytes: u64) -> Result<CUdeviceptr, CUresult> {
    /// `CU_MEM_ATTACH_GLOBAL`.
    const GLOBAL: u32 = 1;
    let mut address = 0;
    ask!(cuMemAllocManaged(&mut address, bytes as usize, GLOBAL))?;
    Ok(address)
}

/// Moves managed memory to a device, or to the host where it is none, in the order of a stream.
pub(crate) fn prefetch(
    address: CUdeviceptr,
    bytes: u64,
    to: Option<CUdevice>,
    stream: CUstream,
) -> Result<(), CUresult> {
    /// `CU_DEVICE_CPU`.
    const HOST: CUdevice = -1;
    ask!(cuMemPrefetchAsync(address, bytes as usize, to.unwrap_or(HOST), stream))
}

/// Frees a block.
pub(crate) fn mem_free(address: CUdeviceptr) -> Result<(), CUresult> {
    ask!(cuMemFree_v2(address))
}

/// Frees a stream-ordered block.
pub(crate) fn mem_free_async(
    address: CUdeviceptr,
    stream: CUstream,
    per_thread: bool,
) -> Result<(), CUresult> {
    if per_thread {
        ask!(cuMemFreeAsync_ptsz(address, stream))
    } else {
        ask!(cuMemFreeAsync(address, stream))
    }
}

/// Lets go of a memory handle.
pub(crate) fn mem_release(handle: CUmemGenericAllocationHandle) -> Result<(), CUresult> {
    ask!(cuMemRelease(handle))
}

/// Destroys an array.
pub(crate) fn array_destroy(array: CUarray) -> Result<(), CUresult> {
    ask!(cuArrayDestroy(array))
}

/// Destroys a mipmapped array.
pub(crate) fn mipmap_destroy(array: CUmipmappedArray) -> Result<(), CUresult> {
    ask!(cuMipmappedArrayDestroy(array))
}

/// Destroys a pool.
pub(crate) fn pool_destroy(pool: CUmemoryPool) -> Result<(), CUresult> {
    ask!(cuMemPoolDestroy(pool))
}

/// Closes memory opened by legacy IPC.
pub(crate) fn ipc_close(address: CUdeviceptr) -> Result<(), CUresult> {
    ask!(cuIpcCloseMemHandle(address))
}

/// Lets go of imported memory.
pub(crate) fn external_destroy(memory: CUexternalMemory) -> Result<(), CUresult> {
    ask!(cuDestroyExternalMemory(memory))
}
