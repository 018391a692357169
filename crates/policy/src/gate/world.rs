//! The world of a lane, the thread and process it runs in, as four traits.
//!
//! [`Time`] is the host's, [`Access`] is the permission of limits, owner and other tenants,
//! [`Marks`] are the driver's events, and [`Published`] are the words that others read of this process. Holds no
//! code of its own but for a process that is alone in its tenant; the shipped implementation is [`super::here`].

use divvy_abi::config::GateLine;

use super::elsewhere::Elsewhere;
use super::turn::{Had, Patience, Queued, Turned};
use crate::pace::Clock;

/// The limits of this tenant on this device that the gate goes by.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Cap in millionths; 0 for none.
    pub share_ppm: u64,
    /// Nothing may be submitted.
    pub paused: bool,
}

/// The clock, and the processor that the calling thread runs on.
pub trait Time {
    /// CLOCK_MONOTONIC.
    fn now_ns(&self) -> u64;
    /// Sleeps until `deadline_ns`, whatever the gate does.
    fn sleep_until(&self, deadline_ns: u64);
    /// One step of a loop that waits awake.
    fn spin(&self);
    /// [`Time::sleep_until`] awake, for a time shorter than a sleep can be.
    fn spin_until(&self, deadline_ns: u64) {
        while self.now_ns() < deadline_ns {
            self.spin();
        }
    }
}

/// Permission of the limits, the owner and other tenants.
pub trait Access {
    /// The limits as they are now.
    fn terms(&self) -> Terms;
    /// The owner's line as it is now.
    fn line(&self) -> GateLine;
    /// Whether no other context of the process, process of the tenant or tenant that is met has had work on the
    /// device since then, as far as is known.
    fn is_alone_since(&self, since_ns: u64) -> bool;
    /// Whether the tenant's processes take turns.
    fn has_turns(&self) -> bool {
        false
    }
    /// Whether work of the tenant here and on another device has waited for each other of late.
    fn is_linked(&self, _now_ns: u64) -> bool {
        false
    }
    /// View of the tenant's other devices.
    fn elsewhere(&self, _now_ns: u64) -> Elsewhere {
        Elsewhere::default()
    }
    /// Device time that was let go through the closed gate of late.
    fn ahead_ns(&self, _now_ns: u64) -> u64 {
        0
    }
    /// Adds to it.
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
    /// Since when any process of the tenant has work whose charge may be wrong, where the calling one has since
    /// `own_ns`; `u64::MAX` for none.
    fn unsettled_since_ns(&self, own_ns: u64, _now_ns: u64) -> u64 {
        own_ns
    }
    /// Keeps it while the calling thread waits for something else until then, the cap or another thing.
    fn keep_turn(&self, _until_ns: u64, _is_cap: bool) {}
    /// Asks for the device where no owner makes turns, for what is in flight and a launch of `next_ns`:
    /// 0 when it may be used, else when to ask again.
    fn ask_device(&self, now_ns: u64, next_ns: u64) -> u64;
    /// Credit to take at a time: while others wait for the device, a part of [`super::CHUNK_NS`].
    fn chunk_ns(&self, now_ns: u64) -> u64;
    /// Lets it go: nothing more will be submitted for a while.
    fn leave_device(&self);
}

/// Work that an event was recorded behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// One stream's work.
    Stream,
    /// All of a context's.
    Context,
}

/// The driver's events, on the calling thread's context and stream.
pub trait Marks {
    /// The life of the lane in which the calling thread found its context; [`super::NO_LIFE`] where it
    /// cannot tell. With another one it neither marks nor measures.
    fn life(&self) -> u64;
    /// The calling thread's stripe of credit: threads that launch at once should have different ones.
    fn stripe(&self) -> usize;
    /// The stream of the calling thread's launch.
    fn stream(&self) -> u64;
    /// Records event `event` behind all that the calling thread's launch follows on its stream, or,
    /// `whole`, behind all of the context's work where the driver can; `None` where it refuses, or the
    /// stream is being captured.
    fn record(&self, event: u32, whole: bool) -> Option<Behind>;
    /// Whether the event has completed. An error counts as completed.
    fn is_done(&self, event: u32) -> bool;
    /// Device time from one completed event to another, negative if it came first.
    fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64>;
}

/// Words of this process that the tenant's other processes and its owner read.
pub trait Published {
    /// The cap's shared words.
    type Clock: Clock;

    /// The cap's shared words.
    fn clock(&self) -> &Self::Clock;
    /// Publishes when the work in flight will have ended.
    fn set_busy_until_ns(&self, until_ns: u64);
    /// Publishes that work in flight should have ended; whether anybody reads that.
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

/// All of it.
pub trait World: Time + Access + Marks + Published {}

impl<W: Time + Access + Marks + Published> World for W {}
