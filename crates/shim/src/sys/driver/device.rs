//! Devices: which there are, who they are and what they have.

use core::ffi::c_int;

use divvy_driver_api::types::*;

use super::call::{ask, text_length};

/// How many devices the process sees.
pub(crate) fn device_count() -> Result<i32, CUresult> {
    let mut count = 0;
    ask!(cuDeviceGetCount(&mut count))?;
    Ok(count)
}

/// The device with this ordinal in the process.
pub(crate) fn device_get(ordinal: i32) -> Result<CUdevice, CUresult> {
    let mut device = 0;
    ask!(cuDeviceGet(&mut device, ordinal))?;
    Ok(device)
}

/// The device's UUID; a MIG instance's own, where the driver can tell.
pub(crate) fn device_uuid(device: CUdevice) -> Result<[u8; 16], CUresult> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    match ask!(cuDeviceGetUuid_v2(&mut uuid, device)) {
        Err(CUresult::CUDA_ERROR_NOT_FOUND) => return card_uuid(device),
        result => result?,
    }
    Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
}

/// The UUID of the card that the device is, or is an instance of.
pub(crate) fn card_uuid(device: CUdevice) -> Result<[u8; 16], CUresult> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    ask!(cuDeviceGetUuid(&mut uuid, device))?;
    Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
}

/// Writes the device's name and returns its length.
pub(crate) fn device_name(device: CUdevice, into: &mut [u8; 96]) -> Result<usize, CUresult> {
    ask!(cuDeviceGetName(into.as_mut_ptr().cast(), 96, device))?;
    Ok(text_length(into))
}

/// The card's memory.
pub(crate) fn device_total_bytes(device: CUdevice) -> Result<u64, CUresult> {
    let mut bytes = 0_usize;
    ask!(cuDeviceTotalMem_v2(&mut bytes, device))?;
    Ok(bytes as u64)
}

/// An attribute of the device.
pub(crate) fn device_attribute(
    device: CUdevice,
    attribute: CUdevice_attribute,
) -> Result<i32, CUresult> {
    let mut value: c_int = 0;
    ask!(cuDeviceGetAttribute(&mut value, attribute, device))?;
    Ok(value)
}

/// How many of the devices that the process sees come before this one by bus address.
pub(crate) fn place_on_bus(device: CUdevice) -> Option<u32> {
    let address = |device| {
        let part = |attribute| device_attribute(device, attribute).ok();
        let domain = part(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        let bus = part(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        Some((domain, bus, part(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?))
    };
    let (own, mut before) = (address(device)?, 0);
    for ordinal in 0..device_count().ok()? {
        before += u32::from(address(device_get(ordinal).ok()?)? < own);
    }
    Some(before)
}

/// Flags of the device's primary context, and whether it exists.
pub(crate) fn primary_ctx_state(device: CUdevice) -> Result<(u32, bool), CUresult> {
    let (mut flags, mut active) = (0, 0);
    ask!(cuDevicePrimaryCtxGetState(device, &mut flags, &mut active))?;
    Ok((flags, active != 0))
}

/// The device's default pool.
pub(crate) fn default_pool(device: CUdevice) -> Result<CUmemoryPool, CUresult> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    ask!(cuDeviceGetDefaultMemPool(&mut pool, device))?;
    Ok(pool)
}

/// Has `cuMemAllocAsync` take from a pool on the device.
pub(crate) fn set_current_pool(device: CUdevice, pool: CUmemoryPool) -> Result<(), CUresult> {
    ask!(cuDeviceSetMemPool(device, pool))
}

/// The pool that `cuMemAllocAsync` takes from on the device.
pub(crate) fn current_pool(device: CUdevice) -> Result<CUmemoryPool, CUresult> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    ask!(cuDeviceGetMemPool(&mut pool, device))?;
    Ok(pool)
}

/// A 64-bit attribute of the device's graph memory.
pub(crate) fn graph_mem_u64(
    device: CUdevice,
    attribute: CUgraphMem_attribute,
) -> Result<u64, CUresult> {
    let mut value = 0_u64;
    ask!(cuDeviceGetGraphMemAttribute(device, attribute, (&raw mut value).cast()))?;
    Ok(value)
}

/// One more reference to a device's primary context, which is made if there is none.
pub(crate) fn primary_retain(device: CUdevice) -> Result<CUcontext, CUresult> {
    let mut context = CUcontext(core::ptr::null_mut());
    ask!(cuDevicePrimaryCtxRetain(&mut context, device))?;
    Ok(context)
}

/// One reference less to a device's primary context.
pub(crate) fn primary_release(device: CUdevice) -> Result<(), CUresult> {
    ask!(cuDevicePrimaryCtxRelease_v2(device))
}
