//! The driver as a value that programs, hooks and the daemon are given, and its clock beside the run's.
//!
//! Does not do what a driver does: that is [`super::driver`]'s, and for programs `calls`'s.

use crate::SECOND;

/// The driver, the clock and the processor, as the calling thread finds them.
#[derive(Clone, Copy, Default, Debug)]
pub struct SimDriver;

/// How long the machine has been up when a run begins: a clock near 0 would be a machine that has never
/// worked, and a time one second ago would not exist.
pub(super) const BOOT_NS: u64 = 3_600 * SECOND;

/// The run's time at a time of the clock.
pub(crate) fn in_run_ns(clock_ns: u64) -> u64 {
    clock_ns.saturating_sub(BOOT_NS)
}
