//! Times of the gate that more than one of its files goes by: defaults of the work in flight, of chunks and of waits, and
//! bounds of what others' work may hide.
//!
//! Promises: nanoseconds, all of them. Does not hold the times of a single file: they stand there, beside their use.

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
/// Charge of a launch whose key is unknown.
pub const UNKNOWN_NS: u64 = 10_000;
/// Longest time until the device is switched to the first work of a turn.
pub(super) const SWITCH_NS: u64 = 500_000;
