//! The share gate of one context: whether a launch may go now, and what it was really worth.
//!
//! A launch takes its expected cost ([`crate::cost`]) from a chunk of credit; that is all while the
//! chunk lasts ([`Lane::take`]). When it is spent ([`Lane::admit`]) the slow path looks at the owner's
//! gate, at the cap ([`crate::pace`]) and at how much work is still in flight, waits where it must,
//! takes the next chunk, and may ask for *marks*: timing events behind the launch, and for a *probe*
//! one before it as well. When marks complete ([`Lane::settle`]) what was charged is put right.
//!
//! What is measured. A mark is *linked* if an earlier one was still incomplete when it was recorded:
//! then the device was busy from that one's end to this one's, on whatever streams, and the time
//! between their ends replaces the estimates. Spans that a copy, a wait or a host function breaks, or
//! that begin on a drained device, are not linked: waiting is never charged as work. There the
//! estimates stand, which probes keep right: a probe's two events enclose one launch.
//!
//! Promises: a launch returns only when it may go, and never fails because of the gate; every wait has
//! an absolute deadline after which the gate is looked at again; work that does not drain (kernels that
//! wait for others) is given up after 50 ms, counted, and charged; nobody ever waits for a lock: a
//! thread that meets another one at the marks leaves them to it.
//!
//! While others' work may run at once (`active` above 1) the driver gives each context its slice in
//! turn: a linked span is worth its part of the time, and no less than the estimates, which are charged
//! elsewhere. They do not grow then: of what is measured the shortest is the kernel's own.
//! Who makes no turns for its tenants leaves it to them: they take the device burst by burst (`meet`).
//!
//! Does not call a driver or read a clock: that is its [`World`]'s.

mod captures;
mod claim;
mod credit;
mod lane;
mod marks;
mod measure;
mod meet;

pub use captures::{Captures, Undisturbed};
pub use claim::NO_LIFE;
pub use credit::{Paid, stripe_of};
pub use lane::{Lane, Ticket};
pub use marks::{EVENTS, Mark};
pub use meet::{Board, Meeting};

use divvy_abi::config::GateLine;

use crate::pace::Clock;

/// The limits of this tenant on this device that the gate goes by.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Cap in millionths; 0 for none.
    pub share_ppm: u64,
    /// Nothing may be submitted.
    pub paused: bool,
}

/// What the gate asks of the process it runs in.
pub trait World {
    /// The cap's shared words.
    type Clock: Clock;

    /// CLOCK_MONOTONIC.
    fn now_ns(&self) -> u64;
    /// The limits as they are now.
    fn terms(&self) -> Terms;
    /// The owner's line as it is now.
    fn line(&self) -> GateLine;
    /// The cap's shared words.
    fn clock(&self) -> &Self::Clock;
    /// Waits while the gate's word is `state`, at most until `deadline_ns`.
    fn wait(&self, state: u32, deadline_ns: u64);
    /// Asks for the device where no owner makes turns, for what is in flight and a launch of `next_ns`:
    /// 0 when it may be used, else when to ask again.
    fn ask_device(&self, now_ns: u64, next_ns: u64) -> u64;
    /// Credit to take at a time: while others wait for the device, a part of [`CHUNK_NS`].
    fn chunk_ns(&self, now_ns: u64) -> u64;
    /// Lets it go: nothing more will be submitted for a while.
    fn leave_device(&self);
    /// Sleeps until `deadline_ns`, whatever the gate does.
    fn sleep_until(&self, deadline_ns: u64);
    /// The same awake, for a time shorter than a sleep can be.
    fn spin_until(&self, deadline_ns: u64);

    /// Publishes when the work in flight will have ended.
    fn set_busy_until_ns(&self, until_ns: u64);
    /// Publishes that a thread waits for a turn.
    fn note_want(&self, now_ns: u64);
    /// Publishes that work is submitted.
    fn note_launch(&self, now_ns: u64);
    /// Adds to the time charged.
    fn add_used(&self, ns: i64);
    /// Counts launches.
    fn count_launches(&self, launches: u64);
    /// Publishes a kernel's length.
    fn note_length(&self, ns: u64);
    /// Adds to the time waited for the cap.
    fn add_throttled(&self, ns: u64);
    /// Adds to the time waited for turns.
    fn add_waited(&self, ns: u64);
    /// Counts a drain that was given up.
    fn count_drain_given_up(&self);

    /// The life of the lane in which the calling thread found its context; [`NO_LIFE`] where it cannot
    /// tell. With another one it neither marks nor measures.
    fn life(&self) -> u64;
    /// The calling thread's stripe of credit: threads that launch at once should have different ones.
    fn stripe(&self) -> usize;
    /// The stream of the calling thread's launch.
    fn stream(&self) -> u64;
    /// Records event `event` behind all that the calling thread's launch follows on its stream, or,
    /// `whole`, behind all of the context's work where the driver can; false where it refuses, or the
    /// stream is being captured.
    fn record(&self, event: u32, whole: bool) -> bool;
    /// Whether the event has completed. An error counts as completed.
    fn is_done(&self, event: u32) -> bool;
    /// Device time from one completed event to another, negative if it came first.
    fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64>;
}

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
/// Time between two probes of short kernels, on average.
pub const PROBE_EVERY_NS: u64 = 1_000_000;
/// Longest wait for work to drain beyond what it was expected to take.
pub const DRAIN_PATIENCE_NS: u64 = 50_000_000;
/// A waiting thread says so at least this often.
pub const WANT_EVERY_NS: u64 = 20_000_000;
/// What a launch is charged while nothing at all is known of it.
pub const UNKNOWN_NS: u64 = 10_000;
