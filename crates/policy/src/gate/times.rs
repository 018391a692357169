//! Times of the gate that more than one of its files goes by: how much is in flight, taken or waited for where nobody
//! says more, and what others' work may hide.
//!
//! Promises: nanoseconds, all of them. What one file alone goes by stands there, with what it is for.

/// Work in flight that is allowed where the owner says nothing.
pub const HORIZON_NS: u64 = 2_000_000;
/// Burst and idle credit of a cap, in device time, where the owner says nothing.
pub const QUANTUM_NS: u64 = 4_000_000;
/// Credit taken at a time.
pub const CHUNK_NS: u64 = 400_000;
/// The same while others share the device: whoever has lost it stops soon.
pub const SHARED_CHUNK_NS: u64 = 150_000;
/// Length from which each launch of a kernel on a drained device is measured.
pub const LONG_NS: u64 = 400_000;
/// Others' work that ended less than this ago may lie within what is measured now.
pub(super) const QUIET_NS: u64 = 10_000_000;
/// Longest wait for work to drain beyond what it was expected to take.
pub const DRAIN_PATIENCE_NS: u64 = 50_000_000;
/// A waiting thread says so at least this often.
pub const WANT_EVERY_NS: u64 = 20_000_000;
/// What a launch is charged while nothing at all is known of it.
pub const UNKNOWN_NS: u64 = 10_000;
/// What the device may take to be switched to a turn's first work, which it is within that time.
pub(super) const SWITCH_NS: u64 = 500_000;
