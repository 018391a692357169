//! Times of the gate that more than one of its files goes by: defaults of work in flight, of credit and of patience,
//! and how long others' work may hide in a measurement.
//!
//! Promises: nanoseconds, all of them. Does not hold times of one file alone: these stand there, with their purpose.

/// Work in flight that is allowed where the owner says nothing.
pub const HORIZON_NS: u64 = 2_000_000;
/// Burst and idle credit of a cap, in device time, where the owner says nothing.
pub const QUANTUM_NS: u64 = 4_000_000;
/// Credit taken at a time.
pub(super) const CHUNK_NS: u64 = 400_000;
/// Credit taken at a time while others share the device: a process that has lost it stops soon.
pub(super) const SHARED_CHUNK_NS: u64 = 150_000;
/// Length from which each launch of a kernel on a drained device is measured.
pub(super) const LONG_NS: u64 = 400_000;
/// Age below which others' work may lie within a measurement.
pub(super) const QUIET_NS: u64 = 10_000_000;
/// Longest wait for work to drain beyond what it was expected to take.
pub(super) const DRAIN_PATIENCE_NS: u64 = 50_000_000;
/// Longest time between two announcements of a waiting thread.
pub(super) const WANT_EVERY_NS: u64 = 20_000_000;
/// Charge of a launch whose key is unknown.
pub(super) const UNKNOWN_NS: u64 = 10_000;
/// Upper bound of the device's switch to a turn's first work.
pub(super) const SWITCH_NS: u64 = 500_000;
