//! One tenant's state: what its last samples say, and where it stands in the queue.
//!
//! A tenant competes where it has work: a context that nothing is launched in counts for nothing.
//!
//! Promises: samples only ever change the state of their own tenant.

use super::in_use::{InUse, Sliced};
use super::observed::Observed;
use super::piece::Floor;
use super::place::Place;
use super::sample::Sample;
use super::seat::Seat;
use super::stepping::{Look, Stepping};
use super::tuning;
use super::work::Work;

/// Virtual time of one nanosecond held by a tenant that is due a millionth of a device (`parts`); a larger due divides
/// it.
pub(super) const VIRTUAL_SCALE: u64 = 1 << 20;

/// An overlap with a holder that works too: since when, 0 for none, and the launches by then.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlap {
    pub(super) since_ns: u64,
    launches: u64,
}

/// A tenant's side of a trial of "everybody open".
#[derive(Clone, Debug, Default)]
pub(super) struct Tried {
    /// Device time it had used when the running measurement began.
    pub(super) from_ns: u64,
    /// Launches by then, or, while all are open, by the trial's beginning.
    pub(super) from_launches: u64,
    /// Progress under turns, and in the trial that followed.
    pub(super) gated_ppm: u64,
    pub(super) tried_ppm: u64,
    /// Launches in a second under turns.
    pub(super) gated_launches: u64,
}

/// State of one tenant in the scheduler. Starts as `default()`; its fields are the scheduler's own.
#[derive(Clone, Debug, Default)]
pub struct TenantState {
    /// Attached devices on which it takes turns with others.
    pub(super) seats: u32,
    pub(super) seen: Observed,
    pub(super) work: Work,
    pub(super) seat: Seat,
    pub(super) place: Place,
    /// Its part beside the others, in proportion.
    pub(super) weight: u64,
    /// Chosen for the turn that is about to begin.
    pub(super) picked: bool,
    /// Expected to have the next turn.
    pub(super) next: bool,
    /// Had no work at the last step.
    pub(super) asleep_since_ns: u64,
    pub(super) last_demand_ns: u64,
    pub(super) overlap: Overlap,
    pub(super) steps: Stepping,
    pub(super) floor: Floor,
    pub(super) in_use: InUse,
    pub(super) sliced: Sliced,
    pub(super) tried: Tried,
    /// Device time used so far, mean over its devices.
    pub(super) used_ns: u64,
    /// Device time, to be paid for, of what was let go through its closed gate since another device waits for it.
    pub(super) let_go_ns: u64,
    held_ns: u64,
}

impl TenantState {
    /// Wall time the tenant was charged for while others shared its devices.
    pub fn held_ns(&self) -> u64 {
        self.held_ns
    }

    /// Takes the samples of one step, one for each device.
    pub(super) fn observe(&mut self, now_ns: u64, row: &[Sample]) {
        let seen = Observed::of(row, self.seats, now_ns);
        if seen.attached == 0 {
            // It is known when it comes back: what it owes the others it still owes.
            self.seen.detach();
            self.work.detach();
            return;
        }
        let is_same = self.seen.watched == seen.watched;
        let launched = is_same && self.seen.launches != seen.launches;
        let seen = seen.after(&self.seen);
        let is_stepper = self.steps.is_stepper();
        self.work.look(now_ns, [&self.seen, &seen], launched, is_stepper);
        // An earlier charge may have been too much.
        let more_ns = seen.used_ns.wrapping_sub(self.seen.used_ns).cast_signed();
        self.seen = seen;
        self.look_at_steps(now_ns, launched);
        if is_same {
            self.add_used(more_ns / i64::from(self.seen.watched.count_ones()).max(1));
        }
        self.in_use.look(self.seen.asked.yields(), self.held_ns, self.used_ns);
    }

    fn add_used(&mut self, more_ns: i64) {
        self.used_ns = self.used_ns.saturating_add_signed(more_ns);
        self.sliced.used(more_ns);
        let is_closed = !self.seat.is_open() && !self.seat.lingers();
        if self.may_let_go() && is_closed && self.has_launched_closed() {
            self.let_go_ns = self.let_go_ns.saturating_add_signed(more_ns);
        }
    }

    fn look_at_steps(&mut self, now_ns: u64, launched: bool) {
        let seen = &self.seen;
        self.steps.look(&Look {
            now_ns,
            opened_ns: self.seat.opened_ns,
            launches: seen.launches,
            launched,
            has_launched: self.has_launched(),
            launch_ns: seen.launched_ns,
            waited_ns: seen.waited_ns,
            longest_ns: seen.longest_ns,
            wants: seen.wants,
            busy_until_ns: seen.busy_until_ns,
            sleeps: seen.sleeps,
            sleepers: seen.sleepers,
            is_busy: self.work.is_known(),
            drained: self.work.drained,
        });
    }

    /// A launch that another of its devices waits for goes through its closed gate.
    pub(super) fn may_let_go(&self) -> bool {
        self.seen.attached.count_ones() > 1
    }

    /// Its step has ended, so that the next turn need not wait for it.
    pub(super) fn has_ended_step(&self) -> bool {
        self.work.drained && self.steps.is_stepper()
    }

    /// Nothing is in flight, or a thread sleeps until what is has ended.
    pub(super) fn waits_for_end(&self) -> bool {
        self.seen.sleeps || self.work.drained
    }

    /// Work is in flight.
    pub(super) fn busy(&self, now_ns: u64) -> bool {
        self.work.is_in_flight(&self.seen, now_ns)
    }

    /// Since its gate was closed, work that had passed it may not have reached the driver yet: nobody
    /// has come to the closed gate, and a call takes a moment.
    pub(super) fn may_be_launching(&self, now_ns: u64) -> bool {
        !self.seen.wants && self.seat.closed_ns.saturating_add(tuning::LAUNCH_NS) > now_ns
    }

    /// When it will count as idle if it launches nothing more.
    pub(super) fn idle_at_ns(&self, now_ns: u64) -> u64 {
        let sleeps = self.work.is_slept_for(&self.seen, now_ns);
        let worth_a_turn_ns = tuning::IDLE_NS.saturating_add(tuning::TAKEOVER_NS);
        if self.seen.closed_until_ns > now_ns.saturating_add(worth_a_turn_ns) {
            // Its own cap keeps it from launching for a while: idle as soon as it has drained.
            return if sleeps { now_ns.saturating_add(1) } else { self.seen.busy_until_ns };
        }
        // The estimate may be wrong by a part of itself.
        let late_ns = match self.work.drained {
            true => 0,
            false => self.seen.busy_until_ns.saturating_sub(self.work.last_launch_ns) / 16,
        };
        let drained_ns = if sleeps { now_ns } else { self.seen.busy_until_ns };
        let drained_ns = drained_ns.max(self.seen.busy_until_ns.saturating_add(late_ns));
        let last_ns = drained_ns.max(self.work.last_launch_ns).max(self.seen.closed_until_ns);
        // A short pause of who works little is no end; of who works for long it is one.
        let may_go_on = !self.works_long() || !self.has_launched();
        let is_awaited = self.seat.holds() && may_go_on;
        let grace_ns = if is_awaited { tuning::GRACE_NS } else { 0 };
        last_ns.saturating_add(tuning::IDLE_NS).max(self.seat.opened_ns.saturating_add(grace_ns))
    }

    /// Work is in flight, or was a moment ago.
    pub(super) fn works(&self, now_ns: u64) -> bool {
        !self.seen.paused && (self.busy(now_ns) || self.work.has_just_begun(now_ns))
    }

    /// It uses its open gate, waits at its closed one, or has work that outlasts its turn: that is due a part of the
    /// device without others.
    pub(super) fn demands(&self, now_ns: u64) -> bool {
        if self.seen.paused {
            return false;
        }
        match self.seat.is_open() {
            true => self.idle_at_ns(now_ns) > now_ns,
            false => self.seen.waits(now_ns) || self.outlasts_turn(now_ns) && self.busy(now_ns),
        }
    }

    /// Its work may go on behind its turn: a drain for it was given up.
    pub(super) fn outlasts_turn(&self, now_ns: u64) -> bool {
        let closed_ns = now_ns.saturating_sub(self.seat.closed_ns);
        self.seat.lingers() && closed_ns >= tuning::DRAIN_TIMEOUT_NS
    }

    /// Begins to watch whether it keeps working beside others.
    pub(super) fn mark_overlap(&mut self) {
        self.overlap.launches = self.seen.launches;
    }

    /// Has work in flight beyond doubt, or has launched since the overlap was first seen.
    pub(super) fn keeps_on(&self, now_ns: u64) -> bool {
        self.busy(now_ns) || self.seen.launches != self.overlap.launches
    }

    /// It has wanted nothing for so long that it comes back as one that has slept.
    pub(super) fn has_slept(&self, now_ns: u64) -> bool {
        self.asleep_since_ns != 0 && now_ns.saturating_sub(self.asleep_since_ns) >= tuning::SLEEP_NS
    }

    pub(super) fn shares_device(&self, other: &Self) -> bool {
        self.seats & other.seats != 0
    }

    /// Pays for what was let go, as far as it can have run in the time that has passed.
    pub(super) fn pay_for_let_go(&mut self, wall_ns: u64) {
        let paid_ns = self.let_go_ns.min(wall_ns);
        self.let_go_ns = self.let_go_ns.saturating_sub(paid_ns);
        self.charge(paid_ns);
    }

    pub(super) fn open_gate(&mut self, now_ns: u64) {
        if self.seat.open(now_ns) {
            self.steps.opened();
            // Launches that were let go and still run are in its own turn.
            self.let_go_ns = 0;
        }
    }

    pub(super) fn close_gate(&mut self, now_ns: u64) {
        if self.seat.close(now_ns) {
            self.seen.wants = false;
        }
        self.overlap.since_ns = 0;
    }

    pub(super) fn begin_turn(&mut self, now_ns: u64) {
        self.open_gate(now_ns);
        if self.seat.begin_turn(now_ns) {
            self.steps.opened();
            self.overlap.since_ns = 0;
        }
    }

    /// Whether work is in flight behind its closed gate, come before that was closed or let go since: that some takes
    /// longer than was expected is told behind its expected end, when it does not linger any more.
    pub(super) fn works_on(&self, now_ns: u64) -> bool {
        !self.seat.is_open() && self.seen.busy_until_ns > now_ns
    }

    /// It has launched through its closed gate.
    pub(super) fn has_launched_closed(&self) -> bool {
        self.seen.launched_ns > self.seat.closed_ns.saturating_add(tuning::LET_GO_NS)
    }

    /// It has launched since its gate was opened.
    pub(super) fn has_launched(&self) -> bool {
        self.work.last_launch_ns >= self.seat.opened_ns
    }

    /// Whether it comes back from a pause with work for long, as it did of late.
    pub(super) fn works_long(&self) -> bool {
        self.seat.works_long() || self.steps.is_stepper()
    }

    /// Ends a turn; `paused_work` when it ended because the holder had no work.
    pub(super) fn end_turn(&mut self, now_ns: u64, paused_work: bool) {
        if !self.seat.holds() {
            return;
        }
        let by_cap = self.seen.cap_opens_ns(now_ns) != 0;
        self.seat.end_turn(now_ns, paused_work, by_cap);
        self.floor.turn_ended();
    }

    /// Device time it says it has used since the running measurement began.
    pub(super) fn window_used(&self) -> u64 {
        self.used_ns.saturating_sub(self.tried.from_ns)
    }

    /// Launches in a second, over the `elapsed_ns` since [`Tried::from_launches`] was set.
    pub(super) fn launches_in_second(&self, elapsed_ns: u64) -> u64 {
        let launches = self.seen.launches.wrapping_sub(self.tried.from_launches);
        launches.saturating_mul(1_000_000_000) / elapsed_ns.max(1)
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

/// `part` of `whole` in millionths, at most a million.
pub(super) fn rate_ppm(part: u64, whole: u64) -> u64 {
    (part.saturating_mul(1_000_000) / whole.max(1)).min(1_000_000)
}
