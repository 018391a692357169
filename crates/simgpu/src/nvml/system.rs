//! NVML calls about the system: versions, error texts, and finding a device.

use super::card;
use super::failure::{Answer, Failure};
use super::library::{Handle, Library, handle_of};
use crate::calibration::{CUDA_DRIVER_VERSION, DRIVER_RELEASE};
use crate::sys::driver::{Out, OutArray, Text};
use divvy_driver_api::nvml_types::*;
use std::ffi::{CStr, c_char, c_int, c_uint};

/// Writes text into a caller's buffer; one that is too short is refused, not cut.
pub(super) fn text(buffer: OutArray<c_char>, text: &str) -> Answer {
    buffer.check()?;
    if buffer.length() <= text.len() {
        return Err(Failure::INSUFFICIENT_SIZE);
    }
    Ok(buffer.put_text(text)?)
}

pub(super) fn driver_version(library: &Library, buffer: OutArray<c_char>) -> Answer {
    library.with(|_| text(buffer, DRIVER_RELEASE))
}

pub(super) fn nvml_version(library: &Library, buffer: OutArray<c_char>) -> Answer {
    library.with(|_| text(buffer, &format!("13.{DRIVER_RELEASE}")))
}

/// Answers without initialisation, as the hardware's does.
pub(super) fn cuda_version(version: Out<c_int>) -> Answer {
    Ok(version.put(CUDA_DRIVER_VERSION)?)
}

pub(super) fn process_name(library: &Library, pid: c_uint, buffer: OutArray<c_char>) -> Answer {
    library.with(|_| {
        let name = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| Failure::NOT_FOUND)?;
        let first = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(first);
        Ok(buffer.put_text(&name)?)
    })
}

pub(super) fn count(library: &Library, count: Out<c_uint>) -> Answer {
    library.with(|client| {
        let cards = client.devices().iter().filter(|device| device.is_card()).count();
        Ok(count.put(u32::try_from(cards).map_err(|_| Failure::UNKNOWN)?)?)
    })
}

pub(super) fn by_index(library: &Library, index: c_uint, device: Out<nvmlDevice_t>) -> Answer {
    library.with(|client| {
        let found = client.devices().get(index as usize).filter(|device| device.is_card());
        found.ok_or(Failure::INVALID_ARGUMENT)?;
        Ok(device.put(handle_of(index))?)
    })
}

/// The device for which `is` holds.
fn find(library: &Library, device: Out<nvmlDevice_t>, is: impl Fn(&Handle<'_>) -> bool) -> Answer {
    library.with(|client| {
        let found = (0..).zip(client.devices()).find(|(index, device)| {
            is(&Handle { client, index: *index, card: device.card(*index), device })
        });
        let (index, _) = found.ok_or(Failure::NOT_FOUND)?;
        Ok(device.put(handle_of(index))?)
    })
}

pub(super) fn by_uuid(library: &Library, uuid: Text, device: Out<nvmlDevice_t>) -> Answer {
    let wanted = uuid.read()?;
    find(library, device, |handle| handle.device.uuid_text().eq_ignore_ascii_case(&wanted))
}

pub(super) fn by_pci(library: &Library, bus: Text, device: Out<nvmlDevice_t>) -> Answer {
    let wanted = bus.read()?;
    let (domain, rest) = match wanted.matches(':').count() {
        2 => wanted.split_once(':').ok_or(Failure::INVALID_ARGUMENT)?,
        1 => ("0", wanted.as_str()),
        _ => return Err(Failure::INVALID_ARGUMENT),
    };
    let (bus, rest) = rest.split_once(':').ok_or(Failure::INVALID_ARGUMENT)?;
    let number = rest.split_once('.').map_or(rest, |(number, _)| number);
    let hexadecimal = |text| u32::from_str_radix(text, 16).map_err(|_| Failure::INVALID_ARGUMENT);
    let address = (hexadecimal(domain)?, hexadecimal(bus)?, hexadecimal(number)?);
    let is_there = |handle: &Handle<'_>| address == (0, 0, card::PCI_DEVICE + handle.card);
    find(library, device, |handle| handle.device.is_card() && is_there(handle))
}

/// A set of events: nothing ever happens to the simulated card, so all sets are the same empty one.
const EVENT_SET: usize = 0x7e12_0000_0000;

pub(super) fn event_set() -> nvmlEventSet_t {
    std::ptr::without_provenance_mut(EVENT_SET)
}

pub(super) fn free_event_set(set: nvmlEventSet_t) -> Answer {
    if set.addr() == EVENT_SET { Ok(()) } else { Err(Failure::INVALID_ARGUMENT) }
}

/// The text of an error code. The texts are those users search for.
pub(super) fn error_text(result: nvmlReturn_t) -> &'static CStr {
    match result.0 {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"vGPU ECC not supported",
        23 => c"Insufficient Resources",
        24 => c"Invalid Frequency",
        25 => c"Argument version mismatch",
        26 => c"Requested functionality has been deprecated",
        27 => c"System is not in ready state",
        28 => c"No supported GPUs were found",
        29 => c"Resource not in correct state to perform requested operation",
        30 => c"Reset type is not supported for given device",
        _ => c"Unknown Error",
    }
}
