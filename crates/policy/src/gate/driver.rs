//! Foundations of a process's gates: the driver with the clock, a device of the tenant, and the words of the tenant's
//! files.
//!
//! The preloaded library implements these over the driver's entry points and the mapped files; the searcher over a
//! simulated card, simulated files and virtual time, as the tests of this crate do. The code above is the same in all.
//!
//! Promises: handles are plain words, 0 for none. Does not decide: that is [`super::process`].

use core::fmt::Debug;
use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::GateLine;
use divvy_abi::usage::gate;

use super::meet::{Board, Meeting};
use super::tuning;
use crate::atomic::AtomicU64;
use crate::pace::Clock;

/// A stream as the program names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchStream {
    /// The driver's handle; 0 for the default stream.
    pub handle: u64,
    /// True if the default stream is the calling thread's own.
    pub per_thread: bool,
}

impl LaunchStream {
    /// The default stream of a context.
    pub const NULL: Self = Self { handle: 0, per_thread: false };

    /// `CU_STREAM_PER_THREAD`.
    const PER_THREAD: u64 = 2;

    /// True if this is the calling thread's own default stream, by either name.
    pub(super) fn is_own(self) -> bool {
        self.handle == Self::PER_THREAD || (self.handle == 0 && self.per_thread)
    }

    /// Returns a stream that is no thread's own in one word. `CU_STREAM_LEGACY` is 1, and the default stream is that.
    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        self.handle.max(1)
    }
}

/// The limits of this tenant on this device that the gate goes by.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Cap in millionths; 0 for none.
    pub share_ppm: u64,
    /// True while nothing may be submitted.
    pub paused: bool,
}

/// The driver as the calling thread finds it, and the clock and the processor that the thread runs on.
pub trait Driver: Debug {
    /// A device of the tenant.
    type Device: Device;
    /// The place where a context keeps its device.
    type Home: Home<Device = Self::Device>;

    /// Returns CLOCK_MONOTONIC.
    fn now_ns(&self) -> u64;
    /// Sleeps until `deadline_ns`, regardless of the gate.
    fn sleep_until(&self, deadline_ns: u64);
    /// Makes one step of a loop that waits awake.
    fn spin(&self);
    /// Returns the current context.
    fn context(&self) -> u64;
    /// Returns the current context's number, which no other context ever has; 0 where the driver does not tell it.
    fn context_id(&self) -> u64;
    /// Returns the current context's device, where it is counted.
    fn device(&self) -> Option<Self::Device>;
    /// Returns the number of the calling thread. May be a system call.
    fn thread(&self) -> u32;
    /// Returns the stripe of credit of the calling thread, the same at each call: threads that launch at once should
    /// have different ones.
    fn stripe(&self) -> usize;
    /// Makes an event that keeps the time, in the current context.
    fn create_event(&self) -> u64;
    /// Records an event on a stream.
    fn record(&self, event: u64, stream: LaunchStream) -> bool;
    /// Records an event behind all work of a context; false where the driver cannot.
    fn record_context(&self, context: u64, event: u64) -> bool;
    /// True if the event has completed. An error counts as completed.
    fn is_done(&self, event: u64) -> bool;
    /// Returns the device time from one completed event to another, negative if the second came first.
    fn elapsed_ns(&self, from: u64, to: u64) -> Option<i64>;
    /// True if the stream is being captured.
    fn is_captured(&self, stream: LaunchStream) -> bool;
    /// Runs `act` with the calling thread's mode of capture relaxed.
    fn relaxed<T>(&self, act: impl FnOnce() -> T) -> T;
}

/// A place for a device, empty at first.
pub trait Home: Debug {
    /// The device type.
    type Device;
    /// An empty place.
    const NONE: Self;

    /// Returns the device that was put in last.
    fn get(&self) -> Option<Self::Device>;
    /// Puts a device in.
    fn set(&self, device: Self::Device);
}

/// A device of the tenant as this process sees it.
pub trait Device: Copy + Debug {
    /// Its words in the tenant's files.
    type Words: Words;
    /// The board where tenants meet on it.
    type Board: Board;

    /// Returns the limits as they are now.
    fn terms(&self) -> Terms;
    /// Returns the state of its gate, one of [`divvy_abi::config::gate`].
    fn state(&self) -> u32;
    /// Returns its meeting, used where no owner makes turns.
    fn meeting(&self) -> &Meeting;
    /// Returns this process's words; none where it can get no slot.
    fn words(&self) -> Option<Self::Words>;
    /// Returns the board, opened; none where there is none.
    fn board(&self) -> Option<Self::Board>;
    /// True if `other` is the same device.
    fn is(&self, other: Self) -> bool;
}

/// The words of one device in the tenant's files: a line for each process, the tenant's, the owner's.
///
/// A process's line is written by it alone, with plain loads and stores of atomic words.
pub trait Words: Clock + Copy + Debug {
    /// Returns the slot of this process.
    fn slot(&self) -> usize;
    /// Returns one more than the highest slot that was ever in use.
    fn slots_high(&self) -> usize;
    /// Returns a word of a slot's line, by the numbers of [`divvy_abi::usage::gate`].
    fn word(&self, slot: usize, word: usize) -> &'static AtomicU64;
    /// Returns the owner's line.
    fn gate_line(&self) -> GateLine;
    /// Waits while the gate's word is `state`, at most until `deadline_ns` on CLOCK_MONOTONIC.
    fn wait(&self, state: u32, deadline_ns: u64);
    /// Waits while the lower half of [`divvy_abi::usage::gate_tenant::TURN`] is that of `turn`, until this
    /// process's slot is woken, at most until `deadline_ns`.
    fn wait_for_turn(&self, turn: u64, deadline_ns: u64);
    /// Wakes the threads of a slot that are in [`Words::wait_for_turn`]; those of another slot may wake too.
    fn wake_for_turn(&self, slot: usize);
    /// Returns the process's words on the tenant's `nth` device, this one among them; none where the tenant has no
    /// more.
    ///
    /// Cost: a load or two.
    fn beside(&self, nth: usize) -> Option<Self>;

    /// Returns a word of this process's line.
    fn own(&self, word: usize) -> &'static AtomicU64 {
        self.word(self.slot(), word)
    }

    /// Returns [`gate::BUSY_UNTIL_NS`].
    fn busy_until_ns(&self) -> &'static AtomicU64 {
        self.own(gate::BUSY_UNTIL_NS)
    }

    /// Counts the tenant's other living processes, except the one in slot `but`, that have work on the device at
    /// `now_ns`, as far as their lines tell: one that sleeps until its work has ended may have it for longer than
    /// expected.
    ///
    /// Cost: a load or three for each slot that was ever in use, of the first 64: the lowest free slot is the next to
    /// be taken.
    fn others_at_work(&self, now_ns: u64, but: usize) -> u32 {
        let others = (1..self.slots_high().min(tuning::LOOKED_AT))
            .filter(|slot| *slot != self.slot() && *slot != but);
        let at_work = others.filter(|slot| self.works_until_ns(*slot) > now_ns);
        u32::try_from(at_work.count()).unwrap_or(u32::MAX)
    }

    /// Returns the time at which a process's work will have ended, as far as its line tells. A process that sleeps
    /// until then may have a launch in flight as long as any before, and another behind it; its first launch may be as
    /// long as any.
    fn works_until_ns(&self, slot: usize) -> u64 {
        let word = |word| self.word(slot, word).load(Relaxed);
        let busy_ns = word(gate::BUSY_UNTIL_NS);
        if word(gate::SLEEPERS) == 0 {
            return busy_ns;
        }
        let longest_ns = match word(gate::LONGEST_NS) {
            0 => tuning::LONGEST_LAUNCH_NS,
            ns => ns.min(tuning::LONGEST_LAUNCH_NS),
        };
        let left_ns = (2 * longest_ns).max(tuning::SLEEP_BELIEVED_NS);
        busy_ns.max(word(gate::LAST_LAUNCH_NS).saturating_add(left_ns))
    }

    /// Notes that a thread waits for a turn at `now_ns`.
    fn note_want(&self, now_ns: u64) {
        self.own(gate::WANT_NS).store(now_ns, Relaxed);
    }

    /// Notes work submitted at `now_ns`.
    fn note_launch(&self, now_ns: u64) {
        self.own(gate::LAST_LAUNCH_NS).store(now_ns, Relaxed);
    }

    /// Adds to the device time charged; a correction may be negative.
    fn add_used(&self, ns: i64) {
        // Wrapping: a negative correction is added as its complement.
        self.own(gate::USED_NS).fetch_add(ns.cast_unsigned(), Relaxed);
    }

    /// Counts launches.
    fn count_launches(&self, launches: u64) {
        self.own(gate::LAUNCHES).fetch_add(launches, Relaxed);
    }

    /// Publishes, until the answer is dropped, that a thread sleeps until work in flight has ended.
    fn sleeper(&self) -> Sleeper {
        let word = self.own(gate::SLEEPERS);
        word.fetch_add(1, Relaxed);
        Sleeper(word)
    }

    /// Notes that this process's work may wait for another process's.
    fn join(&self) {
        self.own(gate::JOINED).store(1, Relaxed);
    }

    /// Notes the length of a kernel or graph.
    #[inline(never)]
    fn note_length(&self, ns: u64) {
        self.own(gate::LONGEST_NS).fetch_max(ns, Relaxed);
    }

    /// Adds to the time threads waited for the cap.
    fn add_throttled(&self, ns: u64) {
        self.own(gate::THROTTLED_NS).fetch_add(ns, Relaxed);
    }

    /// Adds to the time threads waited for turns.
    fn add_waited(&self, ns: u64) {
        self.own(gate::WAITED_NS).fetch_add(ns, Relaxed);
    }

    /// Counts a drain that was given up.
    fn count_drain_given_up(&self) {
        self.own(gate::DRAINS_GIVEN_UP).fetch_add(1, Relaxed);
    }
}

/// A thread that sleeps until work in flight has ended; see [`Words::sleeper`].
#[derive(Debug)]
#[must_use = "the thread counts as awake when this is dropped"]
pub struct Sleeper(&'static AtomicU64);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
