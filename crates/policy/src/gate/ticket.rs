//! A launch that may go, as its lane knows it until the driver has answered to it.
//!
//! Promises: plain data, which a lane gives ([`Lane::admit`](super::lane::Lane::admit)) and takes back
//! ([`Lane::launched`](super::lane::Lane::launched)) once. Does not decide that the launch goes: that has been done.

use super::marks::Probed;

/// A launch that may go, with the steps due once the driver has it.
#[derive(Debug)]
#[must_use = "the launch must be reported by `Lane::launched`"]
pub(super) struct Ticket {
    pub(super) key: u64,
    pub(super) charged_ns: u64,
    pub(super) is_unknown: bool,
    /// True if work is in flight whose end is to be seen. Work behind a synchronisation is marked by the next launch
    /// that comes here, if it has not been synchronised by then: a mark delays a thread that waits.
    pub(super) is_marked: bool,
    /// The event recorded before it, and the host's time after that.
    pub(super) probed: Option<Probed>,
    /// The begun event at its admission: the launch is behind it.
    pub(super) begun: Option<u32>,
    /// The turn it is in.
    pub(super) epoch: u64,
    /// Contexts that worked on the device when it was let go.
    pub(super) sharers: u32,
}
