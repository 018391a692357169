//! Sites: the places at which a simulated thread can be delayed, stopped or killed.
//!
//! Each call to the driver, the clock and the tenant's files is one, and each atomic operation may be.
//! A site has a cost, which its thread's clock is charged when it comes there.
//!
//! Does not do what the site is for.

use serde::{Deserialize, Serialize};

use crate::card::CardModel;

/// Place of a simulated thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is the call of that name")]
pub enum Site {
    Begin,
    Now,
    SleepUntil,
    Spin,
    Context,
    ContextId,
    Device,
    CreateEvent,
    Record,
    RecordContext,
    IsDone,
    Elapsed,
    IsCaptured,
    Relaxed,
    Terms,
    State,
    Slot,
    Word,
    Line,
    Wait,
    Wake,
    BoardRead,
    BoardWrite,
    Atomic,
    Launch,
    LaunchBack,
    Graph,
    Copy,
    HostFunction,
    StreamWait,
    Synchronise,
    SynchroniseBack,
    Query,
    Capture,
    CreateContext,
    DestroyContext,
    Pause,
    Fork,
    Exit,
    DaemonStep,
    DaemonRead,
    DaemonWrite,
}

/// How many sites there are.
pub const SITES: usize = Site::DaemonWrite as usize + 1;

/// Cost of each site.
pub type Costs = [u64; SITES];

impl Site {
    /// All of them.
    pub const ALL: [Self; SITES] = [
        Self::Begin,
        Self::Now,
        Self::SleepUntil,
        Self::Spin,
        Self::Context,
        Self::ContextId,
        Self::Device,
        Self::CreateEvent,
        Self::Record,
        Self::RecordContext,
        Self::IsDone,
        Self::Elapsed,
        Self::IsCaptured,
        Self::Relaxed,
        Self::Terms,
        Self::State,
        Self::Slot,
        Self::Word,
        Self::Line,
        Self::Wait,
        Self::Wake,
        Self::BoardRead,
        Self::BoardWrite,
        Self::Atomic,
        Self::Launch,
        Self::LaunchBack,
        Self::Graph,
        Self::Copy,
        Self::HostFunction,
        Self::StreamWait,
        Self::Synchronise,
        Self::SynchroniseBack,
        Self::Query,
        Self::Capture,
        Self::CreateContext,
        Self::DestroyContext,
        Self::Pause,
        Self::Fork,
        Self::Exit,
        Self::DaemonStep,
        Self::DaemonRead,
        Self::DaemonWrite,
    ];

    /// Its place in a table.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its cost to the thread that comes there, without the part that its call adds by circumstance.
    const fn cost_ns(self, model: &CardModel) -> u64 {
        match self {
            Self::Now => model.clock_call_ns,
            Self::Spin => model.spin_ns,
            Self::Context | Self::ContextId | Self::Device => model.context_call_ns,
            Self::CreateEvent => model.create_event_call_ns,
            Self::Record => model.record_call_ns,
            Self::RecordContext => model.record_context_call_ns,
            Self::IsDone | Self::Query => model.query_call_ns,
            Self::Elapsed => model.elapsed_call_ns,
            Self::IsCaptured => model.captured_call_ns,
            Self::Relaxed => model.relaxed_call_ns,
            Self::Terms | Self::State | Self::Slot | Self::Word | Self::Line | Self::Atomic => {
                model.atomic_ns
            }
            // Opened, read or written, closed.
            Self::BoardRead | Self::BoardWrite => 3 * model.system_call_ns,
            Self::DaemonRead | Self::DaemonWrite | Self::DaemonStep => model.system_call_ns,
            Self::Wait | Self::Wake | Self::SleepUntil | Self::Pause => model.system_call_ns,
            Self::HostFunction => model.host_function_call_ns,
            Self::StreamWait | Self::Capture => model.record_plain_call_ns,
            Self::CreateContext => model.create_context_ns,
            // A launch's and a copy's call cost what the driver draws for them.
            Self::Launch | Self::Graph | Self::Copy | Self::LaunchBack | Self::Begin => 0,
            Self::Synchronise | Self::SynchroniseBack => 0,
            Self::DestroyContext | Self::Fork | Self::Exit => 0,
        }
    }

    /// The costs of all.
    pub fn costs(model: &CardModel) -> Costs {
        Self::ALL.map(|site| site.cost_ns(model))
    }
}

/// A simulated thread by name: the same in each run of a case, whatever was drawn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// Number of the tenant in the case; [`Actor::DAEMON`]'s for the daemon.
    pub tenant: u32,
    /// Number of the process in the tenant, in the order of their beginnings.
    pub process: u32,
    /// Number of the thread in the process.
    pub thread: u32,
}

impl Actor {
    /// The daemon's only thread.
    pub const DAEMON: Self = Self { tenant: u32::MAX, process: 0, thread: 0 };

    /// The same as one word.
    pub const fn word(self) -> u64 {
        (self.tenant as u64) << 40 ^ (self.process as u64) << 20 ^ self.thread as u64
    }

    /// Whether both are of one process.
    pub const fn is_beside(self, other: Self) -> bool {
        self.tenant == other.tenant && self.process == other.process
    }
}

/// Fault of a thread at a site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Fault {
    /// The thread stands still for so long.
    Delay(u64),
    /// Its process is killed there, all threads of it.
    Kill,
    /// Its process is stopped for so long.
    Stop(u64),
    /// The call is refused.
    Refuse,
    /// The object that is asked says that it is not ready.
    Busy,
    /// The word that is read is this.
    Garbage(u64),
    /// The kernel that is launched takes so many millionths of its length.
    Longer(u64),
}

/// One deviation of a case from nothing going wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dev {
    /// Its thread.
    pub who: Actor,
    /// Its site.
    pub site: Site,
    /// At which of its visits there, from 0.
    pub nth: u32,
    /// The fault.
    pub what: Fault,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_has_its_place() {
        for (index, site) in Site::ALL.iter().enumerate() {
            assert_eq!(site.index(), index);
        }
    }
}
