//! State of a tenant's other devices, as a thread sees it that waits at the closed gate of one.
//!
//! Promises: plain data; none of it where the tenant has one device. Does not look: that is done in `linked`.

/// State of the tenant's other devices.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Time until which a cap keeps a device closed that is linked with this one; 0 for none.
    pub closed_until_ns: u64,
    /// True if this device is linked with any.
    pub is_linked: bool,
    /// A number that changes when work in flight that should have ended gets on; 0 while there is no such work.
    pub overdue: u64,
    /// Devices with such work, a bit for each of [`Words::beside`](super::Words::beside).
    pub devices: u32,
    /// Time to look again while the gate is closed; 0 where there is no other device.
    pub look_ns: u64,
}
