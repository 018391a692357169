//! Backing of memory that may leave: by handles of virtual memory management, or managed by the driver.
//!
//! Handles are the first choice: what is away takes nothing of the card, and a call finds all of its memory there or
//! waits. Managed memory is for devices and drivers without such handles, and for a process that is larger than the card:
//! the driver fetches what a kernel touches, so that calls may go on while a part is away.
//!
//! Promises: a device's choice is made once in a process, at its first block. Does not move anything.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{FLAG_BACKEND_MANAGED, FLAG_BACKEND_VMM};
use divvy_driver_api::types::CUdevice_attribute as Attribute;
use divvy_page::Tenant;

use super::addresses::Backing;
use super::state;
use crate::sys::{driver, log};
use crate::tenant::device::Device;

const UNDECIDED: u32 = 0;
const HANDLES: u32 = 1;
const MANAGED: u32 = 2;
const PLAIN: u32 = 3;

/// Backing of the next block on a device for a context; none where its memory cannot leave.
pub(crate) fn of(tenant: &Tenant, device: &Device, context: u64) -> Option<Backing> {
    let index = usize::try_from(device.ordinal).ok()?;
    let word: &AtomicU32 = state::make()?.backings.get(index)?;
    if word.load(Relaxed) == UNDECIDED {
        // Threads that meet here choose the same.
        word.store(choose(tenant, device), Relaxed);
    }
    match word.load(Relaxed) {
        HANDLES => Some(Backing::Handles),
        MANAGED => Some(Backing::Managed(context)),
        _ => None,
    }
}

/// The driver has refused to make a handle on a device, whatever it says of itself: the backing that is left.
pub(crate) fn without_handles(tenant: &Tenant, device: &Device, context: u64) -> Option<Backing> {
    let index = usize::try_from(device.ordinal).ok()?;
    let word: &AtomicU32 = state::get()?.backings.get(index)?;
    let is_free = tenant.config().flags & FLAG_BACKEND_VMM == 0;
    let is_there = is_free && has_managed(device);
    word.store(if is_there { MANAGED } else { PLAIN }, Relaxed);
    is_there.then_some(Backing::Managed(context))
}

/// Whether the device fetches managed memory by pages, so that the host and other work may use it meanwhile.
fn has_managed(device: &Device) -> bool {
    let attribute = Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    driver::device_attribute(device.ordinal, attribute) == Ok(1)
}

fn choose(tenant: &Tenant, device: &Device) -> u32 {
    let config = tenant.config();
    let attribute = Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    let has_handles = driver::device_attribute(device.ordinal, attribute) == Ok(1);
    let is_larger = device.limit_bytes().is_some_and(|bytes| bytes > device.total_bytes());
    let is_larger = is_larger || config.may_exceed_card();
    let wants_managed = match config.flags & (FLAG_BACKEND_VMM | FLAG_BACKEND_MANAGED) {
        0 => is_larger || !has_handles,
        FLAG_BACKEND_VMM => false,
        _ => true,
    };
    match (wants_managed, has_handles, wants_managed && has_managed(device)) {
        (true, _, true) => MANAGED,
        (false, true, _) => HANDLES,
        _ => {
            log!(
                Error,
                "device {}: memory cannot leave the card: the device or its driver has no {}",
                device.number(),
                if wants_managed {
                    "managed memory that moves by pages"
                } else {
                    "virtual memory management"
                }
            );
            PLAIN
        }
    }
}
