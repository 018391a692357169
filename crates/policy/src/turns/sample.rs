//! A sample of one tenant on one device, for the scheduler.
//!
//! Promises: plain data, all of it a claim of the tenant's or a limit of its operator's. Does not read anything: that
//! is done in `line`.

/// State of one tenant on one device: sums and maxima over its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// A process of the tenant has a context on the device.
    pub attached: bool,
    /// A thread waits at the gate for a turn. Not looked at while the gate is open.
    pub wants: bool,
    /// The operator has paused the tenant.
    pub paused: bool,
    /// The tenant is of the latency class.
    pub latency: bool,
    /// When the work in flight is expected to end.
    pub busy_until_ns: u64,
    /// When work was last submitted.
    pub last_launch_ns: u64,
    /// Device time charged so far.
    pub used_ns: u64,
    /// Submissions so far.
    pub launches: u64,
    /// Time that threads have waited for turns so far.
    pub waited_ns: u64,
    /// A thread sleeps until work in flight has ended.
    pub sleeps: bool,
    /// How many do.
    pub sleepers: u64,
    /// Processes that have work in flight or sleep until it has ended: the driver gives each its part of the device.
    pub contexts: u32,
    /// Closed by its own cap until then; 0 when not.
    pub closed_until_ns: u64,
    /// Longest kernel or graph seen.
    pub longest_ns: u64,
    /// Weight among tenants of one priority; 0 where none is set: then a part like the others', of
    /// which a cap leaves them what it does not let be used.
    pub weight: u32,
    /// Priority: a higher one goes first.
    pub priority: i32,
    /// Share the tenant is capped at, in millionths; 0 or a million and more when not capped.
    pub share_ppm: u32,
}
