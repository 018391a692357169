//! A tenant's other devices, as seen by a thread that waits at the closed gate of one.
//!
//! Promises: plain data; none of it where the tenant has one device. Does not look: that is done in `linked`.

/// View of the tenant's other devices.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Until when a cap keeps one closed that is linked with this one; 0 for none.
    pub closed_until_ns: u64,
    /// Whether this one is linked with any.
    pub is_linked: bool,
    /// Work is in flight that should have ended: a number that is another one when it gets on. 0 for none.
    pub overdue: u64,
    /// On which devices, a bit for each of [`Words::beside`](super::Words::beside).
    pub devices: u32,
    /// When to look again while the gate is closed; 0 where there is no other device.
    pub look_ns: u64,
}
