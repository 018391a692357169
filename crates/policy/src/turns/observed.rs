//! One look at a tenant: what the samples of its devices say together.
//!
//! Promises: plain data of one look; times from the future are cut to the present where
//! the past is meant. Does not know what came before: that is kept in `tenant`.

use divvy_abi::MAX_DEVICES;

use super::device_set::bit;
use super::parts::Asked;
use super::sample::Sample;
use super::tuning;

/// A tenant's samples, as one. Starts as `default()`: it is attached to no device.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// Devices the tenant is attached to.
    pub(super) attached: u32,
    /// Attached devices with recent work of its own; while it has none, those it worked on last.
    uses: u32,
    /// The devices that the rest of the state was read from.
    pub(super) watched: u32,
    pub(super) asked: Asked,
    pub(super) priority: i32,
    pub(super) latency: bool,
    pub(super) paused: bool,
    pub(super) wants: bool,
    pub(super) busy_until_ns: u64,
    pub(super) launched_ns: u64,
    pub(super) launches: u64,
    /// Time that its threads have waited for turns, on the device where they have most.
    pub(super) waited_ns: u64,
    /// A thread sleeps until work in flight has ended.
    pub(super) sleeps: bool,
    /// How many do.
    pub(super) sleepers: u64,
    /// Processes that have work in flight, on the device where most have; one at least.
    pub(super) contexts: u64,
    /// The longest kernel it says it has had.
    pub(super) longest_ns: u64,
    pub(super) closed_until_ns: u64,
    /// Device time used so far, sum over the devices that are watched.
    pub(super) used_ns: u64,
}

impl Observed {
    /// Reads one sample for each device. Samples of devices where the tenant takes no turns say nothing about its
    /// turns: only those of its `seats` count, if it has any.
    pub(super) fn of(row: &[Sample], seats: u32, now_ns: u64) -> Self {
        let mut seen = Self { contexts: 1, priority: i32::MIN, ..Self::default() };
        let attached = |(_, sample): &(usize, &Sample)| sample.attached;
        let all = || row.iter().enumerate().take(MAX_DEVICES).filter(attached);
        let mut share_ppm = 0_u32;
        for (device, sample) in all() {
            seen.attached |= bit(device);
            if sample.has_work(now_ns) {
                seen.uses |= bit(device);
            }
            seen.paused |= sample.paused;
            seen.latency |= sample.latency;
            seen.priority = seen.priority.max(sample.priority);
            seen.asked.weight = seen.asked.weight.max(sample.weight);
            share_ppm = share_ppm.max(sample.share_ppm);
        }
        seen.asked.cap_ppm = (1..1_000_000).contains(&share_ppm).then_some(share_ppm);
        seen.watched = match seen.attached & seats {
            0 => seen.attached,
            seats => seats,
        };
        for (_, sample) in all().filter(|(device, _)| seen.watched & bit(*device) != 0) {
            seen.wants |= sample.wants;
            seen.busy_until_ns = seen.busy_until_ns.max(sample.busy_until_ns);
            seen.launched_ns = seen.launched_ns.max(sample.last_launch_ns.min(now_ns));
            seen.closed_until_ns = seen.closed_until_ns.max(sample.closed_until_ns);
            seen.launches = seen.launches.wrapping_add(sample.launches);
            seen.sleeps |= sample.sleeps;
            seen.sleepers = seen.sleepers.max(sample.sleepers);
            seen.waited_ns = seen.waited_ns.max(sample.waited_ns);
            seen.contexts = seen.contexts.max(sample.contexts.into());
            seen.longest_ns = seen.longest_ns.max(sample.longest_ns);
            seen.used_ns = seen.used_ns.wrapping_add(sample.used_ns);
        }
        seen
    }

    /// Takes the place of the look `before`: a tenant without recent work is where it worked last.
    pub(super) fn after(mut self, before: &Self) -> Self {
        if self.uses == 0 {
            self.uses = before.uses;
        }
        self
    }

    /// The tenant uses no device any more. How it worked it will work when it comes back.
    pub(super) fn detach(&mut self) {
        (self.attached, self.watched) = (0, 0);
        (self.wants, self.sleeps) = (false, false);
        (self.busy_until_ns, self.closed_until_ns) = (0, 0);
    }

    /// The devices on which it competes with others. A context without work takes part in nothing, so that those at
    /// work on its device need not wait for what its tenant does on other ones.
    pub(super) fn competes_on(&self) -> u32 {
        match self.attached & self.uses {
            _ if self.paused => 0,
            0 => self.attached,
            used => used,
        }
    }

    /// Waits for the device, and its own cap lets it.
    pub(super) fn waits(&self, now_ns: u64) -> bool {
        self.wants && self.closed_until_ns <= now_ns
    }

    /// When its own cap will let it launch again; 0 when it does.
    pub(super) fn cap_opens_ns(&self, now_ns: u64) -> u64 {
        if self.closed_until_ns > now_ns { self.closed_until_ns } else { 0 }
    }
}

impl Sample {
    /// Whether there is work, or was of late, or somebody waits to launch some.
    fn has_work(&self, now_ns: u64) -> bool {
        let is_of_late = self.last_launch_ns.saturating_add(tuning::USES_NS) > now_ns;
        let has_launched = self.last_launch_ns != 0 && is_of_late;
        self.wants || self.sleeps || self.busy_until_ns > now_ns || has_launched
    }
}
