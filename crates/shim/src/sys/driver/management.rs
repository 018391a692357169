//! NVML, to know a device by its number on the machine: as the program has loaded it, and where it has not, or has not
//! started it, for the length of that question alone.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use divvy_driver_api::nvml_types::{nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlReturn_t};

use super::call::text_length;
use crate::sys::resolve;

/// Calls NVML's `$name`; the arguments must be values, or pointers to places of ours.
macro_rules! ask_nvml {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match $crate::sys::resolve::function_by_call($crate::sys::tables::index::$name) {
            None => Err(nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND),
            Some(address) => {
                let _errno = $crate::sys::errno::Keep::new();
                // SAFETY: the address is that of NVML's function of this name.
                let function = unsafe {
                    core::mem::transmute::<usize, divvy_driver_api::nvml_sig::$name>(address.get())
                };
                match $crate::sys::driver::call::call_with!(function [] $($argument),*) {
                    nvmlReturn_t::NVML_SUCCESS => Ok(()),
                    code => Err(code),
                }
            }
        }
    };
}

/// Writes a device's UUID as NVML spells it (`GPU-…`) and returns its length.
pub(crate) fn nvml_uuid(device: nvmlDevice_t, into: &mut [u8; 96]) -> Result<usize, nvmlReturn_t> {
    ask_nvml!(nvmlDeviceGetUUID(device, into.as_mut_ptr().cast(), 96))?;
    Ok(text_length(into))
}

/// The card that an instance is of; the device itself where it is a card.
pub(crate) fn nvml_card(device: nvmlDevice_t) -> nvmlDevice_t {
    let mut card: nvmlDevice_t = core::ptr::null_mut();
    match ask_nvml!(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, &mut card)) {
        Ok(()) => card,
        Err(_) => device,
    }
}

fn nvml_index(device: nvmlDevice_t) -> Result<u32, nvmlReturn_t> {
    let mut index: c_uint = 0;
    ask_nvml!(nvmlDeviceGetIndex(device, &mut index))?;
    Ok(index)
}

/// Total and free bytes of a device, as NVML sees them.
pub(crate) fn nvml_memory(device: nvmlDevice_t) -> Result<(u64, u64), nvmlReturn_t> {
    let mut memory = nvmlMemory_t { total: 0, free: 0, used: 0 };
    ask_nvml!(nvmlDeviceGetMemoryInfo(device, &mut memory))?;
    Ok((memory.total, memory.free))
}

/// A card's number on the machine, by its UUID; `None` without NVML.
///
/// Cost: where the program has not started NVML, that is done, which takes some ten milliseconds.
pub(crate) fn machine_index(card: &[u8; 16]) -> Option<u32> {
    index_by_uuid(card).or_else(|| {
        let begin = || ask_nvml!(nvmlInit_v2());
        match begin() {
            Err(nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND) => {
                load();
                begin().ok()?;
            }
            begun => begun.ok()?,
        }
        let index = index_by_uuid(card);
        let _ = ask_nvml!(nvmlShutdown());
        index
    })
}

/// Loads NVML, which stays: its functions are known from then on. The program's names are not resolved by it.
fn load() {
    type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    let Some(address) = resolve::c_library(b"dlopen") else { return };
    let _errno = crate::sys::errno::Keep::new();
    // SAFETY: the C library's function of this name has this type.
    let dlopen = unsafe { core::mem::transmute::<usize, Dlopen>(address) };
    // SAFETY: a string; the vendor's library may be loaded at any time.
    unsafe { dlopen(c"libnvidia-ml.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
}

fn index_by_uuid(uuid: &[u8; 16]) -> Option<u32> {
    let text = spelled(uuid);
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    let mut device: nvmlDevice_t = core::ptr::null_mut();
    ask_nvml!(nvmlDeviceGetHandleByUUID(text.as_ptr(), &mut device)).ok()?;
    nvml_index(device).ok()
}

/// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` and a NUL.
fn spelled(uuid: &[u8; 16]) -> [u8; 41] {
    let mut text = [0_u8; 41];
    let mut places = text.iter_mut();
    let mut put = |byte: u8| {
        if let Some(place) = places.next() {
            *place = byte;
        }
    };
    b"GPU-".iter().for_each(|byte| put(*byte));
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble };
    for (position, byte) in uuid.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            put(b'-');
        }
        put(digit(byte >> 4));
        put(digit(byte & 15));
    }
    text
}

/// A device's name.
pub(crate) fn nvml_name(device: nvmlDevice_t, into: &mut [u8; 96]) -> Result<usize, nvmlReturn_t> {
    ask_nvml!(nvmlDeviceGetName(device, into.as_mut_ptr().cast(), 96))?;
    Ok(text_length(into))
}

/// Bytes of a device that programs can use, which is what the driver calls its total: NVML's less
/// what is reserved. Without the newer query it is NVML's total.
pub(crate) fn nvml_usable_bytes(device: nvmlDevice_t) -> Result<u64, nvmlReturn_t> {
    let version = size_of::<nvmlMemory_v2_t>() as c_uint | 2 << 24;
    let mut memory = nvmlMemory_v2_t { version, total: 0, reserved: 0, free: 0, used: 0 };
    match ask_nvml!(nvmlDeviceGetMemoryInfo_v2(device, &mut memory)) {
        Ok(()) => Ok(memory.total.saturating_sub(memory.reserved)),
        Err(_) => nvml_memory(device).map(|(total_bytes, _)| total_bytes),
    }
}
