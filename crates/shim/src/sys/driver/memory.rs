//! Memory: what there is of it, where it lies, and giving back what must not be kept.

use divvy_driver_api::types::*;

use super::call::ask;

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

/// A 64-bit attribute of an address; use only where the driver documents eight bytes or fewer.
pub(crate) fn pointer_u64(
    address: CUdeviceptr,
    attribute: CUpointer_attribute,
) -> Result<u64, CUresult> {
    let mut value = 0_u64;
    ask!(cuPointerGetAttribute((&raw mut value).cast(), attribute, address))?;
    Ok(value)
}

/// A 32-bit attribute of an address, such as its device's ordinal.
pub(crate) fn pointer_i32(
    address: CUdeviceptr,
    attribute: CUpointer_attribute,
) -> Result<i32, CUresult> {
    // Room for eight bytes: a wrong attribute must not write beyond.
    let mut value = [0_i32; 2];
    ask!(cuPointerGetAttribute((&raw mut value).cast(), attribute, address))?;
    Ok(value[0])
}

/// Start and bytes of the block that an address lies in.
pub(crate) fn address_range(address: CUdeviceptr) -> Result<(CUdeviceptr, u64), CUresult> {
    let (mut base, mut bytes) = (0, 0_usize);
    ask!(cuMemGetAddressRange_v2(&mut base, &mut bytes, address))?;
    Ok((base, bytes as u64))
}

fn no_requirements() -> CUDA_ARRAY_MEMORY_REQUIREMENTS {
    CUDA_ARRAY_MEMORY_REQUIREMENTS { size: 0, alignment: 0, reserved: [0; 4] }
}

/// Bytes that an array takes on a device (drivers from 11.7 on).
pub(crate) fn array_bytes(array: CUarray, device: CUdevice) -> Result<u64, CUresult> {
    let mut needs = no_requirements();
    ask!(cuArrayGetMemoryRequirements(&mut needs, array, device))?;
    Ok(needs.size as u64)
}

/// Bytes that a mipmapped array takes on a device (drivers from 11.7 on).
pub(crate) fn mipmap_bytes(array: CUmipmappedArray, device: CUdevice) -> Result<u64, CUresult> {
    let mut needs = no_requirements();
    ask!(cuMipmappedArrayGetMemoryRequirements(&mut needs, array, device))?;
    Ok(needs.size as u64)
}

/// What an array was made as.
pub(crate) fn array_descriptor(array: CUarray) -> Result<CUDA_ARRAY3D_DESCRIPTOR, CUresult> {
    let mut descriptor = core::mem::MaybeUninit::<CUDA_ARRAY3D_DESCRIPTOR>::zeroed();
    ask!(cuArray3DGetDescriptor_v2(descriptor.as_mut_ptr(), array))?;
    // SAFETY: numbers only, zeroed and then written by the driver.
    Ok(unsafe { descriptor.assume_init() })
}

/// What a memory handle was made as.
pub(crate) fn handle_properties(
    handle: CUmemGenericAllocationHandle,
) -> Result<CUmemAllocationProp, CUresult> {
    let mut properties = core::mem::MaybeUninit::<CUmemAllocationProp>::zeroed();
    ask!(cuMemGetAllocationPropertiesFromHandle(properties.as_mut_ptr(), handle))?;
    // SAFETY: numbers and a pointer, zeroed and then written by the driver.
    Ok(unsafe { properties.assume_init() })
}

/// The granularity that memory of these properties is made in.
pub(crate) fn granularity(properties: &CUmemAllocationProp) -> Result<usize, CUresult> {
    let mut bytes = 0;
    let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    ask!(cuMemGetAllocationGranularity(&mut bytes, properties, least))?;
    Ok(bytes)
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

/// Takes a mapping down.
pub(crate) fn mem_unmap(address: CUdeviceptr, bytes: usize) -> Result<(), CUresult> {
    ask!(cuMemUnmap(address, bytes))
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
