//! A lane's questions to the thread and process it runs in, in four traits.
//!
//! [`Time`] is the host's, [`Access`] tells what the limits, the owner and other tenants allow, [`Marks`] are the
//! driver's events, and [`Published`] is the state that others read of this process. Holds no code of its own but for a
//! process that is alone in its tenant; the shipped implementation is [`super::here`].

use divvy_abi::config::GateLine;

use super::elsewhere::Elsewhere;
use super::turn::{Had, Patience, Queued, Turned};
use crate::pace::Clock;

/// The limits of this tenant on this device that the gate goes by.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Cap in millionths; 0 for none.
    pub share_ppm: u64,
    /// True while nothing may be submitted.
    pub paused: bool,
}

/// The clock, and the processor that the calling thread runs on.
pub trait Time {
    /// Returns CLOCK_MONOTONIC.
    fn now_ns(&self) -> u64;
    /// Sleeps until `deadline_ns`, regardless of the gate.
    fn sleep_until(&self, deadline_ns: u64);
    /// Makes one step of a loop that waits awake.
    fn spin(&self);
    /// Waits as [`Time::sleep_until`], but awake, for a time shorter than a sleep can be.
    fn spin_until(&self, deadline_ns: u64) {
        while self.now_ns() < deadline_ns {
            self.spin();
        }
    }
}

/// Permissions: what the limits, the owner and other tenants allow.
pub trait Access {
    /// Returns the limits as they are now.
    fn terms(&self) -> Terms;
    /// Returns the owner's line as it is now.
    fn line(&self) -> GateLine;
    /// True if no other context of the process, process of the tenant or tenant that is met has had work on the device
    /// since then, as far as is known.
    fn is_alone_since(&self, since_ns: u64) -> bool;
    /// True if another thread of the process waits for work.
    fn is_waited_in(&self) -> bool {
        false
    }
    /// True if the tenant's processes take turns.
    fn has_turns(&self) -> bool {
        false
    }
    /// True if work of the tenant here and on another device has waited for each other of late.
    fn is_linked(&self, _now_ns: u64) -> bool {
        false
    }
    /// Returns the state of the tenant's other devices.
    fn elsewhere(&self, _now_ns: u64) -> Elsewhere {
        Elsewhere::default()
    }
    /// Returns the device time that was let go through the closed gate of late.
    fn ahead_ns(&self, _now_ns: u64) -> u64 {
        0
    }
    /// Adds to [`Access::ahead_ns`].
    fn add_ahead(&self, _ns: u64, _now_ns: u64) {}
    /// Notes that work of these devices of the tenant has waited for this one's.
    fn link(&self, _devices: u32, _now_ns: u64) {}
    /// Waits while the gate's word is `state`, at most until `deadline_ns`.
    fn wait(&self, state: u32, deadline_ns: u64);
    /// Asks for the tenant's turn among its processes, as [`super::Inside::ask`].
    ///
    /// # Errors
    /// A place in the queue for it.
    fn ask_turn(
        &self,
        _now_ns: u64,
        _had: Had,
        _patience: &mut Patience,
    ) -> Result<Turned, Queued> {
        Ok(Turned::GoesOn)
    }
    /// Waits in the tenant's queue, at most until `deadline_ns`.
    fn wait_for_turn(&self, _queued: Queued, _deadline_ns: u64) {}
    /// Returns the time since which any process of the tenant has work whose charge may be wrong, where the calling one
    /// has since `own_ns`; `u64::MAX` for none.
    fn unsettled_since_ns(&self, own_ns: u64, _now_ns: u64) -> u64 {
        own_ns
    }
    /// Keeps the tenant's turn while the calling thread waits until `until_ns` for the cap or something else.
    fn keep_turn(&self, _until_ns: u64, _is_cap: bool) {}
    /// Asks for the device where no owner makes turns, for what is in flight and a launch of `next_ns`:
    /// 0 when it may be used, else when to ask again.
    fn ask_device(&self, now_ns: u64, next_ns: u64) -> u64;
    /// Returns the credit to take at a time: while others wait for the device, a part of [`super::CHUNK_NS`].
    fn chunk_ns(&self, now_ns: u64) -> u64;
    /// Lets the device go: nothing more will be submitted for a while.
    fn leave_device(&self);
}

/// The work that an event was recorded behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// One stream's work.
    Stream,
    /// All of a context's work.
    Context,
}

/// The driver's events, on the calling thread's context and stream.
pub trait Marks {
    /// Returns the life of the lane in which the calling thread found its context; [`super::NO_LIFE`] where it cannot
    /// tell. A thread with another life neither marks nor measures.
    fn life(&self) -> u64;
    /// Returns the calling thread's stripe of credit: threads that launch at once should have different ones.
    fn stripe(&self) -> usize;
    /// Returns the stream of the calling thread's launch.
    fn stream(&self) -> u64;
    /// Records event `event` behind all work that the calling thread's launch follows on its stream, or, `whole`,
    /// behind all of the context's work where the driver can; `None` where it refuses, or the stream is being captured.
    fn record(&self, event: u32, whole: bool) -> Option<Behind>;
    /// True if the event has completed. An error counts as completed.
    fn is_done(&self, event: u32) -> bool;
    /// Returns the device time from one completed event to another, negative if the second came first.
    fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64>;
}

/// State of this process that the tenant's other processes and its owner read.
pub trait Published {
    /// The type of the cap's shared words.
    type Clock: Clock;

    /// Returns the cap's shared words.
    fn clock(&self) -> &Self::Clock;
    /// Publishes the time at which the work in flight will have ended.
    fn set_busy_until_ns(&self, until_ns: u64);
    /// Publishes that work in flight should have ended; true if any reader needs that.
    fn note_late(&self, _now_ns: u64) -> bool {
        false
    }
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
    /// Counts a drain that was given up; `is_stuck` where its work may have waited for another process's.
    fn count_drain_given_up(&self, is_stuck: bool);
}

/// All of a lane's questions.
pub trait World: Time + Access + Marks + Published {}

impl<W: Time + Access + Marks + Published> World for W {}
