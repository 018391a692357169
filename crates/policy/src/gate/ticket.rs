//! Ticket of a launch: its state from admission until the driver has answered.
//!
//! Promises: plain data, which a lane gives ([`Lane::admit`](super::Lane::admit)) and takes back
//! ([`Lane::launched`](super::Lane::launched)) once. Does not decide: the launch has been admitted.

use super::marks::Probed;

/// A launch that may go: what is to be done once the driver has it.
#[derive(Debug)]
#[must_use = "the launch must be reported by `Lane::launched`"]
pub struct Ticket {
    pub(super) key: u64,
    pub(super) charged_ns: u64,
    pub(super) is_unknown: bool,
    /// Work is in flight whose end is to be seen. Work behind a synchronisation is marked by the next
    /// launch that comes here, unless it has been synchronised by then: a mark delays a thread that waits.
    pub(super) is_marked: bool,
    /// The event recorded before it, and the host's time after that.
    pub(super) probed: Option<Probed>,
    /// Event that had begun when it was admitted: the launch is behind it.
    pub(super) begun: Option<u32>,
    /// The turn it is in.
    pub(super) epoch: u64,
    /// Contexts that worked on the device when it was let go.
    pub(super) sharers: u32,
}
