//! One tenant's state: what its last samples say, and where it stands in the queue.
//!
//! A tenant competes where it has work: a context that nothing is launched in counts for nothing.
//!
//! Promises: samples only ever change the state of their own tenant; times from the future are cut
//! to the present where the past is meant.

use divvy_abi::MAX_DEVICES;

use super::device_set::bit;
use super::in_use::InUse;
use super::parts::Asked;
use super::pauses::Pauses;
use super::piece::Floor;
use super::place::Place;
use super::sample::Sample;
use super::stepping::{Look, Stepping};
use super::tuning::Tuning;

/// Virtual time of one nanosecond held by a tenant that is due a millionth of a device (`parts`); a larger due divides it.
pub(super) const VIRTUAL_SCALE: u64 = 1 << 20;

/// Turns in a row without a pause after which a holder is taken to be steady.
const STEADY_TURNS: u32 = 4;

/// A device without work for so long is not one that its tenant uses, if there are others.
const USED_NS: u64 = 1_000_000_000;

/// A launch so long after its gate was closed was not on its way.
const LET_GO_NS: u64 = 100_000;

/// Longest time that a tenant's work can take behind its last launch, or its gate's closing.
pub(super) const LINGER_NS: u64 = 1_000_000_000;

/// A tenant that sleeps may have the longest kernel it ever had in flight and another behind it, with as much of others'
/// between.
const LONGEST_IN_FLIGHT: u64 = 4;

/// State of one tenant in the scheduler. Starts as `default()`; its fields are the scheduler's own.
#[derive(Clone, Debug, Default)]
pub struct TenantState {
    /// Devices the tenant is attached to.
    pub(super) attached: u32,
    /// Attached devices with recent work of its own; while it has none, those it worked on last.
    uses: u32,
    /// Attached devices on which it takes turns with others.
    pub(super) seats: u32,
    /// The devices that its state was read from at the last look.
    watched: u32,
    pub(super) asked: Asked,
    /// Its part beside the others, in proportion.
    pub(super) weight: u64,
    pub(super) priority: i32,
    pub(super) latency: bool,
    pub(super) paused: bool,
    wants: bool,
    pub(super) busy_until_ns: u64,
    pub(super) last_launch_ns: u64,
    /// The same as it was written down.
    said_launch_ns: u64,
    launches: u64,
    /// Time that its threads have waited for turns, on the device where they have most.
    waited_ns: u64,
    /// A thread sleeps until work in flight has ended.
    sleeps: bool,
    /// How many do.
    sleepers: u64,
    /// Processes that have work in flight, on the device where most have; one at least.
    pub(super) contexts: u64,
    /// Until when that says that some is: it may sleep for a host function, or be stopped.
    sleeps_until_ns: u64,
    /// When its work ends at the latest, as far as it says and as long as its kernels have been.
    pub(super) works_until_ns: u64,
    /// Had work in flight at this look; at the last one, or since. A process that waits at the gate is busy until now.
    is_busy: bool,
    pub(super) has_worked: bool,
    /// Its work has ended beyond doubt, not by an estimate.
    drained: bool,
    /// The longest kernel it says it has had.
    pub(super) longest_ns: u64,
    closed_until_ns: u64,
    /// Submissions when the overlap it is in was first seen.
    pub(super) launches_at_overlap: u64,
    /// Device time used so far, mean over its devices, and what they said of it at the last look.
    pub(super) used_ns: u64,
    said_used_ns: u64,

    pub(super) place: Place,
    pub(super) open: bool,
    /// Has the turn on all its seats.
    pub(super) holder: bool,
    /// Closed while its work was still in flight.
    pub(super) lingering: bool,
    /// Device time, to be paid for, of what was let go through its closed gate since another device waits for it.
    pub(super) let_go_ns: u64,
    /// Chosen for the turn that is about to begin.
    pub(super) picked: bool,
    /// Expected to have the next turn.
    pub(super) next: bool,
    /// Had no work at the last step.
    pub(super) asleep_since_ns: u64,
    pub(super) opened_ns: u64,
    pub(super) closed_ns: u64,
    /// End of its last turn: who has waited longest goes first.
    pub(super) served_ns: u64,
    /// Since when it works beside a holder that works too.
    pub(super) overlap_since_ns: u64,
    pub(super) last_demand_ns: u64,
    /// Its own cap ended its last turn: it loses nothing by waiting for a full turn of the next.
    pub(super) ended_by_cap: bool,
    steady_turns: u32,
    pub(super) pauses: Pauses,
    /// Moving mean of how long its work takes to drain after a turn.
    pub(super) drain_ns: u64,
    pub(super) window_used_ns: u64,
    pub(super) in_use: InUse,
    pub(super) steps: Stepping,
    pub(super) floor: Floor,
    /// Progress under turns, and in the trial of everybody open that followed.
    pub(super) gated_ppm: u64,
    pub(super) tried_ppm: u64,
    held_ns: u64,
}

impl TenantState {
    /// Wall time the tenant was charged for while others shared its devices.
    pub fn held_ns(&self) -> u64 {
        self.held_ns
    }

    /// Takes the samples of one step, one for each device. Samples of devices where it takes no turns say
    /// nothing about its turns: only those of its seats count, if it has any.
    pub(super) fn observe(&mut self, tuning: &Tuning, now_ns: u64, row: &[Sample]) {
        let mut seen = Self::default();
        let mut used_ns = 0_u64;
        let mut share_ppm = 0_u32;
        let mut weight = 0_u32;
        let mut priority = i32::MIN;
        let attached = |(_, sample): &(usize, &Sample)| sample.attached;
        let all = || row.iter().enumerate().take(MAX_DEVICES).filter(attached);
        for (device, sample) in all() {
            seen.attached |= bit(device);
            if sample.has_work(now_ns) {
                seen.uses |= bit(device);
            }
            seen.paused |= sample.paused;
            seen.latency |= sample.latency;
            share_ppm = share_ppm.max(sample.share_ppm);
            weight = weight.max(sample.weight);
            priority = priority.max(sample.priority);
        }
        seen.watched = match seen.attached & self.seats {
            0 => seen.attached,
            seats => seats,
        };
        for (_, sample) in all().filter(|(device, _)| seen.watched & bit(*device) != 0) {
            seen.wants |= sample.wants;
            seen.busy_until_ns = seen.busy_until_ns.max(sample.busy_until_ns);
            seen.last_launch_ns = seen.last_launch_ns.max(sample.last_launch_ns.min(now_ns));
            seen.closed_until_ns = seen.closed_until_ns.max(sample.closed_until_ns);
            seen.launches = seen.launches.wrapping_add(sample.launches);
            seen.sleeps |= sample.sleeps;
            seen.sleepers = seen.sleepers.max(sample.sleepers);
            seen.waited_ns = seen.waited_ns.max(sample.waited_ns);
            seen.contexts = seen.contexts.max(sample.contexts.into());
            seen.longest_ns = seen.longest_ns.max(sample.longest_ns);
            used_ns = used_ns.wrapping_add(sample.used_ns);
        }
        if seen.attached == 0 {
            self.detach();
            return;
        }
        self.attached = seen.attached;
        if seen.uses != 0 {
            self.uses = seen.uses;
        }
        let is_same = self.watched == seen.watched;
        self.watched = seen.watched;
        self.wants = seen.wants;
        self.paused = seen.paused;
        self.latency = seen.latency;
        self.busy_until_ns = seen.busy_until_ns;
        self.said_launch_ns = seen.last_launch_ns;
        // Nothing was in flight when who slept for it woke.
        let launched = self.launches != seen.launches && is_same;
        if launched && self.holder && self.drained && self.has_launched() {
            self.pauses.went_on();
        }
        self.pauses.look(tuning, now_ns, launched || seen.wants);
        self.drained &= !launched && !seen.sleeps;
        // A stepper that wakes has nothing in flight, whatever it was charged.
        let has_ended = seen.busy_until_ns <= now_ns || self.steps.is_stepper();
        self.drained |= self.sleeps && !seen.sleeps && has_ended;
        // A launch whose time was not written down was since the last look.
        self.last_launch_ns = match launched {
            true => now_ns,
            false => self.last_launch_ns.max(seen.last_launch_ns),
        };
        self.launches = seen.launches;
        self.sleeps = seen.sleeps;
        self.contexts = seen.contexts.max(1);
        let ends_ns = seen.busy_until_ns.max(self.last_launch_ns);
        let longest_ns = seen.longest_ns.saturating_mul(LONGEST_IN_FLIGHT).min(LINGER_NS);
        self.sleeps_until_ns = ends_ns.saturating_add(longest_ns.max(tuning.drain_timeout_ns));
        self.works_until_ns = match seen.sleeps {
            true => ends_ns.saturating_add(longest_ns),
            false => seen.busy_until_ns,
        };
        self.has_worked = self.is_busy || launched;
        self.is_busy = self.busy(now_ns);
        self.look_at_steps(now_ns, launched, &seen);
        self.longest_ns = seen.longest_ns;
        self.closed_until_ns = seen.closed_until_ns;
        self.priority = priority;
        if is_same {
            // An earlier charge may have been too much.
            let more_ns = used_ns.wrapping_sub(self.said_used_ns).cast_signed();
            let each_ns = more_ns / i64::from(seen.watched.count_ones()).max(1);
            self.used_ns = self.used_ns.saturating_add_signed(each_ns);
            let may_let_go = self.attached.count_ones() > 1 && !self.open && !self.lingering;
            if may_let_go && self.has_launched_closed() {
                self.let_go_ns = self.let_go_ns.saturating_add_signed(each_ns);
            }
        }
        self.said_used_ns = used_ns;
        let cap_ppm = (1..1_000_000).contains(&share_ppm).then_some(share_ppm);
        self.asked = Asked { weight, cap_ppm };
        self.in_use.look(self.asked.yields(), self.held_ns, self.used_ns);
    }

    fn look_at_steps(&mut self, now_ns: u64, launched: bool, seen: &Self) {
        let look = Look {
            now_ns,
            opened_ns: self.opened_ns,
            launches: self.launches,
            launched,
            has_launched: self.has_launched(),
            launch_ns: self.said_launch_ns,
            waited_ns: seen.waited_ns,
            longest_ns: seen.longest_ns,
            wants: seen.wants,
            busy_until_ns: self.busy_until_ns,
            sleeps: self.sleeps,
            sleepers: seen.sleepers,
            is_busy: self.is_busy && !self.drained,
            drained: self.drained,
        };
        self.steps.look(&look);
    }

    /// Its step has ended, so that the next turn need not wait for it.
    pub(super) fn has_ended_step(&self) -> bool {
        self.drained && self.steps.is_stepper()
    }

    /// When it launched last, as it says.
    pub(super) fn said_launch_ns(&self) -> u64 {
        self.said_launch_ns
    }

    /// A thread sleeps until what is in flight has ended.
    pub(super) fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// Nothing is in flight, or a thread sleeps until what is has ended.
    pub(super) fn waits_for_end(&self) -> bool {
        self.sleeps || self.drained
    }

    /// It uses no device any more. It is known when it comes back: what it owes the others it still owes,
    /// and how it works it will work.
    fn detach(&mut self) {
        self.attached = 0;
        self.watched = 0;
        self.wants = false;
        self.busy_until_ns = 0;
        self.closed_until_ns = 0;
        self.sleeps = false;
        self.drained = true;
    }

    /// Work is in flight.
    pub(super) fn busy(&self, now_ns: u64) -> bool {
        self.waits_for_work(now_ns) || self.busy_until_ns > now_ns
    }

    /// A thread sleeps, and what it sleeps for may be work that takes longer than was expected.
    fn waits_for_work(&self, now_ns: u64) -> bool {
        self.sleeps && now_ns < self.sleeps_until_ns
    }

    /// Since its gate was closed, work that had passed it may not have reached the driver yet: nobody
    /// has come to the closed gate, and a call takes a moment.
    pub(super) fn may_be_launching(&self, tuning: &Tuning, now_ns: u64) -> bool {
        !self.wants && self.closed_ns.saturating_add(tuning.launch_ns) > now_ns
    }

    /// When it will count as idle if it launches nothing more.
    pub(super) fn idle_at_ns(&self, tuning: &Tuning, now_ns: u64) -> u64 {
        let sleeps = self.waits_for_work(now_ns);
        let worth_a_turn_ns = tuning.idle_ns.saturating_add(tuning.takeover_ns);
        if self.closed_until_ns > now_ns.saturating_add(worth_a_turn_ns) {
            // Its own cap keeps it from launching for a while: idle as soon as it has drained.
            return if sleeps { now_ns.saturating_add(1) } else { self.busy_until_ns };
        }
        // The estimate may be wrong by a part of itself.
        let late_ns = match self.drained {
            true => 0,
            false => self.busy_until_ns.saturating_sub(self.last_launch_ns) / 16,
        };
        let drained_ns = if sleeps { now_ns } else { self.busy_until_ns };
        let drained_ns = drained_ns.max(self.busy_until_ns.saturating_add(late_ns));
        let last_ns = drained_ns.max(self.last_launch_ns).max(self.closed_until_ns);
        // A short pause of who works little is no end; of who works for long it is one.
        let may_go_on = !self.works_long() || !self.has_launched();
        let is_awaited = self.holder && may_go_on;
        let grace_ns = if is_awaited { tuning.grace_ns } else { 0 };
        let idle_ns = if self.has_ended() { tuning.launch_ns } else { tuning.idle_ns };
        last_ns.saturating_add(idle_ns).max(self.opened_ns.saturating_add(grace_ns))
    }

    /// Work is in flight, or was a moment ago.
    pub(super) fn works(&self, now_ns: u64) -> bool {
        !self.paused && (self.busy(now_ns) || self.last_launch_ns.saturating_add(200_000) > now_ns)
    }

    /// It uses its open gate, or waits at its closed one.
    pub(super) fn demands(&self, tuning: &Tuning, now_ns: u64) -> bool {
        if self.paused {
            return false;
        }
        if self.open { self.idle_at_ns(tuning, now_ns) > now_ns } else { self.waits(now_ns) }
    }

    /// Begins to watch whether it keeps working beside others.
    pub(super) fn mark_overlap(&mut self) {
        self.launches_at_overlap = self.launches;
    }

    /// Has work in flight beyond doubt, or has launched since the overlap was first seen.
    pub(super) fn keeps_on(&self, now_ns: u64) -> bool {
        self.busy(now_ns) || self.launches != self.launches_at_overlap
    }

    fn waits(&self, now_ns: u64) -> bool {
        self.wants && self.closed_until_ns <= now_ns
    }

    /// It has wanted nothing for so long that it comes back as one that has slept.
    pub(super) fn has_slept(&self, tuning: &Tuning, now_ns: u64) -> bool {
        self.asleep_since_ns != 0 && now_ns.saturating_sub(self.asleep_since_ns) >= tuning.sleep_ns
    }

    /// When its own cap will let it launch again; 0 when it does.
    pub(super) fn cap_opens_ns(&self, now_ns: u64) -> u64 {
        if self.closed_until_ns > now_ns { self.closed_until_ns } else { 0 }
    }

    pub(super) fn shares_device(&self, other: &Self) -> bool {
        self.seats & other.seats != 0
    }

    pub(super) fn steady(&self) -> bool {
        self.steady_turns >= STEADY_TURNS
    }

    /// Pays for what was let go, as far as it can have run in the time that has passed.
    pub(super) fn pay_for_let_go(&mut self, wall_ns: u64) {
        let paid_ns = self.let_go_ns.min(wall_ns);
        self.let_go_ns = self.let_go_ns.saturating_sub(paid_ns);
        self.charge(paid_ns);
    }

    pub(super) fn open_gate(&mut self, now_ns: u64) {
        if !self.open {
            self.open = true;
            self.opened_ns = now_ns;
            self.steps.opened();
            // Launches that were let go and still run are in its own turn.
            self.let_go_ns = 0;
        }
        self.lingering = false;
    }

    pub(super) fn close_gate(&mut self, now_ns: u64) {
        if self.open {
            self.lingering = true;
            self.closed_ns = now_ns;
            self.wants = false;
        }
        self.open = false;
        self.overlap_since_ns = 0;
    }

    pub(super) fn begin_turn(&mut self, now_ns: u64) {
        self.open_gate(now_ns);
        if !self.holder {
            self.holder = true;
            self.opened_ns = now_ns;
            self.steps.opened();
            self.overlap_since_ns = 0;
        }
    }

    /// Whether work is in flight behind its closed gate, come before that was closed or let go since: that some takes
    /// longer than was expected is told behind its expected end, when it does not linger any more.
    pub(super) fn works_on(&self, now_ns: u64) -> bool {
        !self.open && self.busy_until_ns > now_ns
    }

    fn has_launched_closed(&self) -> bool {
        self.said_launch_ns > self.closed_ns.saturating_add(LET_GO_NS)
    }

    /// The devices on which it competes with who else is there. A context without work takes part in nothing, so that
    /// whoever works on its device need not wait for what its tenant does on others.
    pub(super) fn competes_on(&self) -> u32 {
        match self.attached & self.uses {
            _ if self.paused => 0,
            0 => self.attached,
            used => used,
        }
    }

    /// It has launched since its gate was opened.
    pub(super) fn has_launched(&self) -> bool {
        self.last_launch_ns >= self.opened_ns
    }

    /// Whether it comes back from a pause with work for long, as it did of late.
    pub(super) fn works_long(&self) -> bool {
        self.pauses.works_long() || self.steps.is_stepper()
    }

    /// Whether to look soon if a thread of it still sleeps: when it wakes, that is its end.
    pub(super) fn nears_its_end(&self) -> bool {
        self.sleeps && self.has_launched() && self.pauses.end_at_once()
    }

    /// Whether all it has launched is done, and that is the end of its work as a rule.
    fn has_ended(&self) -> bool {
        self.drained && self.has_launched() && self.pauses.end_at_once()
    }

    /// Ends a turn; `paused_work` when it ended because the holder had no work. One of `long_ns` was
    /// long.
    pub(super) fn end_turn(&mut self, now_ns: u64, paused_work: bool, long_ns: u64) {
        if !self.holder {
            return;
        }
        self.ended_by_cap = self.cap_opens_ns(now_ns) != 0;
        self.holder = false;
        self.floor.turn_ended();
        self.served_ns = now_ns;
        self.steady_turns = if paused_work { 0 } else { self.steady_turns.saturating_add(1) };
        let was_long = now_ns.saturating_sub(self.opened_ns) >= long_ns;
        self.pauses.turn_ended(now_ns, was_long, paused_work, self.drained);
    }

    /// Device time it says it has used since the running measurement began.
    pub(super) fn window_used(&self) -> u64 {
        self.used_ns.saturating_sub(self.window_used_ns)
    }

    /// Charges wall time.
    pub(super) fn charge(&mut self, wall_ns: u64) {
        let due_ns = self.in_use.of(wall_ns);
        let cost = due_ns.saturating_mul(VIRTUAL_SCALE) / self.weight.max(1);
        self.place.virtual_ns = self.place.virtual_ns.saturating_add(cost);
        self.held_ns = self.held_ns.saturating_add(wall_ns);
        self.floor.charge(wall_ns);
    }
}

impl Sample {
    /// Whether there is work, or was of late, or somebody waits to launch some.
    fn has_work(&self, now_ns: u64) -> bool {
        let is_of_late = self.last_launch_ns.saturating_add(USED_NS) > now_ns;
        let has_launched = self.last_launch_ns != 0 && is_of_late;
        self.wants || self.sleeps || self.busy_until_ns > now_ns || has_launched
    }
}

/// `part` of `whole` in millionths, at most a million.
pub(super) fn rate_ppm(part: u64, whole: u64) -> u64 {
    (part.saturating_mul(1_000_000) / whole.max(1)).min(1_000_000)
}
