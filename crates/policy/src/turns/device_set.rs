//! Sets of devices, a bit for each.
//!
//! Promises: a number that no device has is in no set.

/// The bit of a device in a set of devices.
pub(super) fn bit(device: usize) -> u32 {
    u32::try_from(device).ok().and_then(|d| 1_u32.checked_shl(d)).unwrap_or(0)
}
