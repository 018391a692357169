//! Sleeping, where a filter of system calls may forbid it.
//!
//! Promises: no panic, where `std::thread::sleep` panics if the kernel refuses. If one call is refused, another is made; if all
//! are, the thread passes the time awake.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

/// Sleeps for `time`, whatever signals come.
pub(crate) fn pause(time: Duration) {
    let now = Instant::now();
    // A time beyond the clock's end means for ever.
    let end = now.checked_add(time);
    loop {
        let left = end.map_or(time, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return;
        }
        let flags = ClockNanosleepFlags::empty();
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &TimeSpec::from(left)) {
            Ok(_) => return,
            Err(Errno::EINTR) => {}
            Err(_) => std::thread::park_timeout(left),
        }
    }
}
