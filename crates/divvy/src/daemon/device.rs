//! A device that tenants use: whose it is to divide, who else is on it, and what people are told.
//!
//! Does not divide it: that is [`super::engine`].

use divvy_abi::Uuid;
use divvy_policy::limit::UuidText;
use divvy_policy::turns::{DeviceState, TurnMode};

use super::card::Found;
use super::memory::{DeviceMemory, MemoryBounds};
use super::owned::{Locks, Ownership};
use crate::log::line::{Event, LogLine};
use crate::output::reason::Reason;
use crate::wire::DeviceView;

/// Time between two attempts at a device's lock.
const LOCK_NS: u64 = 1_000_000_000;

/// A device.
#[derive(Debug)]
pub(super) struct ServedDevice {
    pub(super) uuid: Uuid,
    /// The same for people and files.
    pub(super) text: String,
    /// Strangers there.
    pub(super) found: Found,
    /// Orders about the memory of tenants that oversubscribe it.
    pub(super) memory: DeviceMemory,
    ownership: Ownership,
    tried_ns: u64,
}

impl ServedDevice {
    /// The device with this UUID, which is made ours where that can be, with these bounds of the memory that can move.
    pub(super) fn new(uuid: Uuid, locks: &Locks, now_ns: u64, bounds: MemoryBounds) -> Self {
        let text = UuidText(&uuid).to_string();
        let ownership = locks.take(&text);
        Self {
            uuid,
            text,
            found: Found::default(),
            memory: DeviceMemory::new(uuid, bounds),
            ownership,
            tried_ns: now_ns,
        }
    }

    /// Tries now and then to make it ours where it is not; whether it may be another's now.
    pub(super) fn try_lock(&mut self, locks: &Locks, now_ns: u64) -> bool {
        if now_ns < self.tried_ns.saturating_add(LOCK_NS) {
            return false;
        }
        self.tried_ns = now_ns;
        if self.ownership.is_ours() {
            return false;
        }
        self.ownership = locks.take(&self.text);
        true
    }

    /// Whether this daemon had it at the last attempt, even if its lock has been taken since.
    pub(super) fn has_lock(&self) -> bool {
        matches!(self.ownership, Ownership::Ours(_))
    }

    /// The line about a lock that another daemon has now, or that this one can no longer get.
    pub(super) fn lost(&self) -> LogLine {
        let (reason, message) = match &self.ownership {
            Ownership::Unusable(why) => (Reason::DeviceLock, why.clone()),
            Ownership::Ours(_) | Ownership::Others(_) => (
                Reason::OtherDaemon,
                "another daemon divides the device now; this one counts its own tenants".to_owned(),
            ),
        };
        LogLine {
            device: Some(self.text.clone()),
            code: Some(reason.to_string()),
            message: Some(message),
            ..LogLine::new(Event::LockLost)
        }
    }

    /// Whether it is this daemon's to divide.
    pub(super) fn is_ours(&self) -> bool {
        self.ownership.is_ours()
    }

    /// Contexts that the scheduler must count on beside its own tenants'.
    pub(super) fn foreign(&self) -> u32 {
        match self.ownership {
            Ownership::Ours(_) => self.found.foreign,
            // At least those of whoever has the lock.
            Ownership::Others(_) | Ownership::Unusable(_) => self.found.foreign.max(1),
        }
    }

    /// The view of it, for people.
    pub(super) fn view(&self, state: &DeviceState) -> DeviceView {
        let (reason, detail) = match (&self.ownership, self.found) {
            (_, Found { mps: true, .. }) => {
                (Some(Reason::Mps), Some("an MPS daemon serves it: no turns are taken".to_owned()))
            }
            (Ownership::Others(path), _) => (
                Some(Reason::OtherDaemon),
                Some(format!("another daemon divides it: {} is locked", path.display())),
            ),
            (Ownership::Unusable(why), _) => (Some(Reason::DeviceLock), Some(why.clone())),
            (Ownership::Ours(_), Found { foreign: 1.., .. }) => (
                Some(Reason::ForeignProcesses),
                Some(format!("{} process(es) of no tenant use it", self.found.foreign)),
            ),
            (Ownership::Ours(_), _) => (None, None),
        };
        let counters = state.counters();
        let mode = match state.mode() {
            _ if self.found.mps => "mps",
            TurnMode::Free => "free",
            TurnMode::Counted => "counted",
            TurnMode::Lull => "lull",
            TurnMode::Held => "held",
            TurnMode::Drain => "drain",
            TurnMode::Together => "together",
        };
        DeviceView {
            uuid: self.text.clone(),
            mode: mode.to_owned(),
            reason: reason.map(|reason| reason.to_string()),
            detail,
            foreign: self.found.foreign,
            turns: counters.turns,
            handovers: counters.handovers,
            drain_timeouts: counters.drain_timeouts,
            preemptions: counters.preemptions,
            trials: counters.trials,
            together_ns: counters.together_ns,
            memory: self.memory.view(),
        }
    }
}
