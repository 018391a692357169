//! NVML calls about one device: identity, memory, utilisation, clocks, power and temperature.

use super::card;
use super::failure::{Answer, Failure};
use super::library::{Handle, Library};
use super::system::text;
use crate::sys::driver::{Out, OutArray};
use crate::sys::nvml::OldPciInfo;
use divvy_driver_api::nvml_types::*;
use std::ffi::{c_char, c_uint};

/// The structure of a version that a call completes, as its caller passed it.
macro_rules! asked {
    ($out:expr, $ty:ty, $version:literal) => {{
        let asked = $out.given()?;
        if asked.version != version_of::<$ty>($version) {
            return Err(Failure::VERSION_MISMATCH);
        }
        asked
    }};
}
pub(super) use asked;

/// The version word a structure of version `number` must begin with.
pub(super) fn version_of<T>(number: u32) -> c_uint {
    u32::try_from(size_of::<T>()).unwrap_or(0) | number << 24
}

pub(super) fn name(library: &Library, device: nvmlDevice_t, at: OutArray<c_char>) -> Answer {
    library.device(device, |handle| text(at, &handle.device.name))
}

pub(super) fn uuid(library: &Library, device: nvmlDevice_t, at: OutArray<c_char>) -> Answer {
    library.device(device, |handle| text(at, &handle.device.uuid_text()))
}

/// A serial number of its own for each device, derived from its UUID.
pub(super) fn serial(library: &Library, device: nvmlDevice_t, at: OutArray<c_char>) -> Answer {
    library.device(device, |handle| {
        let tail = handle.device.uuid.iter().rev().take(6);
        let number = tail.fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        text(at, &format!("{:013}", number % 10_000_000_000_000))
    })
}

pub(super) fn constant_text(
    library: &Library,
    device: nvmlDevice_t,
    at: OutArray<c_char>,
    value: Option<&str>,
) -> Answer {
    library.device(device, |_| text(at, value.ok_or(Failure::NOT_SUPPORTED)?))
}

fn bus_id<const N: usize>(handle: &Handle<'_>, domain_digits: usize) -> [c_char; N] {
    let number = card::PCI_DEVICE + handle.card;
    let text = format!("{:0domain_digits$X}:00:{number:02X}.0", 0);
    let mut bytes = [0; N];
    for (to, from) in bytes.iter_mut().zip(text.bytes()).take(N - 1) {
        *to = c_char::from_ne_bytes([from]);
    }
    bytes
}

fn pci_info(handle: &Handle<'_>) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: bus_id(handle, 4),
        domain: 0,
        bus: 0,
        device: card::PCI_DEVICE + handle.card,
        pciDeviceId: card::PCI_DEVICE_ID,
        pciSubSystemId: card::PCI_SUBSYSTEM_ID,
        busId: bus_id(handle, 8),
    }
}

pub(super) fn pci(handle: &Handle<'_>, out: Out<nvmlPciInfo_t>) -> Answer {
    Ok(out.put(pci_info(handle))?)
}

/// `nvmlDeviceGetPciInfo` before its third version.
pub(super) fn old_pci(handle: &Handle<'_>, out: Out<OldPciInfo>) -> Answer {
    Ok(out.put(OldPciInfo::of(&pci_info(handle)))?)
}

pub(super) fn pci_ext(handle: &Handle<'_>, out: Out<nvmlPciInfoExt_t>) -> Answer {
    let asked = asked!(out, nvmlPciInfoExt_t, 1);
    Ok(out.put(nvmlPciInfoExt_t {
        version: asked.version,
        domain: 0,
        bus: 0,
        device: card::PCI_DEVICE + handle.card,
        pciDeviceId: card::PCI_DEVICE_ID,
        pciSubSystemId: card::PCI_SUBSYSTEM_ID,
        baseClass: card::PCI_CLASS.0,
        subClass: card::PCI_CLASS.1,
        busId: bus_id(handle, 8),
    })?)
}

/// Version 1 counts what the driver reserves as used.
pub(super) fn memory(handle: &Handle<'_>, out: Out<nvmlMemory_t>) -> Answer {
    out.check()?;
    let info = handle.client.memory_info(handle.index)?;
    Ok(out.put(nvmlMemory_t {
        total: info.total_bytes + info.reserved_bytes,
        free: info.free_bytes,
        used: info.used_bytes + info.reserved_bytes,
    })?)
}

pub(super) fn memory_v2(handle: &Handle<'_>, out: Out<nvmlMemory_v2_t>) -> Answer {
    let asked = asked!(out, nvmlMemory_v2_t, 2);
    let info = handle.client.memory_info(handle.index)?;
    Ok(out.put(nvmlMemory_v2_t {
        version: asked.version,
        total: info.total_bytes + info.reserved_bytes,
        reserved: info.reserved_bytes,
        free: info.free_bytes,
        used: info.used_bytes,
    })?)
}

pub(super) fn bar1(_: &Handle<'_>, out: Out<nvmlBAR1Memory_t>) -> Answer {
    let (total, used) = card::BAR1_BYTES;
    let memory = nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - used, bar1Used: used };
    Ok(out.put(memory)?)
}

pub(super) fn utilisation(handle: &Handle<'_>, out: Out<nvmlUtilization_t>) -> Answer {
    let (gpu, memory) = handle.client.utilisation(handle.index)?;
    Ok(out.put(nvmlUtilization_t { gpu, memory })?)
}

/// Drawn in proportion to how busy the device is, between idle and the limit.
pub(super) fn power(handle: &Handle<'_>, out: Out<c_uint>) -> Answer {
    let (busy_percent, _) = handle.client.utilisation(handle.index)?;
    let span = card::POWER_LIMIT_MW.0 - card::POWER_IDLE_MW;
    Ok(out.put(card::POWER_IDLE_MW + span / 100 * busy_percent)?)
}

/// `nvmlDeviceGetTemperatureV`.
pub(super) fn temperature(_: &Handle<'_>, out: Out<nvmlTemperature_t>) -> Answer {
    let mut asked = *asked!(out, nvmlTemperature_t, 1);
    if asked.sensorType.0 != 0 {
        return Err(Failure::INVALID_ARGUMENT);
    }
    asked.temperature = i32::try_from(card::TEMPERATURE_C).map_err(|_| Failure::UNKNOWN)?;
    Ok(out.put(asked)?)
}

/// The entry of a table that a call's number picks; the card has no others.
pub(super) fn row(
    library: &Library,
    device: nvmlDevice_t,
    table: &[u32],
    number: u32,
    out: Out<c_uint>,
    beyond: Failure,
) -> Answer {
    library.device(device, |_| {
        let value = table.get(number as usize).ok_or(beyond)?;
        Ok(out.put(*value)?)
    })
}

/// Answers every field as not supported, which is what tools expect of fields they do not need.
pub(super) fn field_values(
    library: &Library,
    device: nvmlDevice_t,
    count: i32,
    out: OutArray<nvmlFieldValue_t>,
) -> Answer {
    library.device(device, |_| {
        if count < 0 {
            return Err(Failure::INVALID_ARGUMENT);
        }
        for index in 0..out.length() {
            let mut value = out.get(index)?;
            value.nvmlReturn = nvmlReturn_t(Failure::NOT_SUPPORTED.0);
            out.put(index, value)?;
        }
        Ok(())
    })
}

/// All processors are near every device.
pub(super) fn affinity(
    library: &Library,
    device: nvmlDevice_t,
    out: OutArray<std::ffi::c_ulong>,
) -> Answer {
    library.device(device, |_| {
        out.check()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for word in 0..out.length() {
            let here = processors.saturating_sub(word * 64).min(64);
            let mask = if here == 64 { u64::MAX } else { (1 << here) - 1 };
            out.put(word, mask)?;
        }
        Ok(())
    })
}
