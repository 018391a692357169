//! Waits of a launch before it may go: for its cap, for a turn, for the end of a pause, for others that have the
//! device, and for work in flight to become less.
//!
//! The amount in flight is known from the charges, and bounded by what marks have shown.
//!
//! Promises: every wait has a deadline after which the gate is looked at again; work that does not drain is given up
//! after [`tuning::DRAIN_PATIENCE_NS`], counted, and charged. Does not ask for the cap or a turn: that is done in
//! `admit`.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{GateLine, gate};

use super::driver::{Driver, Words};
use super::here::Here;
use super::lane::Lane;
use super::rivals::has_rivals;
use super::tuning;
use super::turn::{Had, Queued};
use crate::cost::{Costs, Length, Moments};

impl Lane {
    /// Waits for the cap, for a turn or the end of a pause, or for others that have the device where tenants share it
    /// among themselves; no longer than until the tenant's other devices are to be looked at.
    pub(super) fn wait<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        now_ns: u64,
        (what, elsewhere_ns): (Wait, u64),
        line: &GateLine,
    ) {
        // A mark behind work that has ended would have the device to itself, taking it from its present user for two
        // switches of contexts.
        let is_alone = line.gate == gate::FREE && matches!(what, Wait::Cap(_) | Wait::Pause);
        let surely_ns = self.busy_until_ns.load(Relaxed).saturating_sub(tuning::UNSURE_NS);
        if is_alone || self.pending(now_ns) != 0 || now_ns <= surely_ns {
            self.close_burst(here, costs, line);
        }
        // Exact from here on: time promised for the rest of a chunk is not submitted.
        let is_late = self.narrow(here, now_ns);
        let (until_ns, at_most_ns) = match what {
            // The owner wakes the waiters when it changes a limit.
            Wait::Cap(until_ns) => {
                here.leave_device();
                (until_ns, 5 * tuning::WANT_EVERY_NS)
            }
            Wait::Turn => {
                here.words.note_want(now_ns);
                (line.lease_ns, tuning::WANT_EVERY_NS)
            }
            Wait::Pause => (u64::MAX, tuning::WANT_EVERY_NS),
            Wait::Device(until_ns) => (until_ns, tuning::WANT_EVERY_NS),
            Wait::Inside(queued) => {
                here.leave_device();
                here.words.note_want(now_ns);
                (queued.until_ns, tuning::WANT_EVERY_NS)
            }
        };
        // The thread wakes when the work in flight should have ended, to publish that or how much longer it runs; the
        // work may turn out to be worth less than its charge.
        let deadline_ns = until_ns.min(now_ns.saturating_add(at_most_ns));
        let deadline_ns =
            if elsewhere_ns == 0 { deadline_ns } else { deadline_ns.min(elsewhere_ns) };
        let look_ns = deadline_ns.min(self.settled_at_ns(now_ns));
        let look_ns = if is_late {
            look_ns.min(now_ns.saturating_add(tuning::LATE_LOOK_NS))
        } else {
            look_ns
        };
        match what {
            Wait::Inside(queued) => here.words.wait_for_turn(queued.turn, look_ns),
            _ => {
                here.keep_turn(look_ns, matches!(what, Wait::Cap(_)));
                here.wait(line.gate, look_ns);
            }
        }
        self.doubt.look(here.now_ns(), self.submitted_ns(), 0);
        let is_cap = matches!(what, Wait::Cap(_));
        if !matches!(what, Wait::Inside(_)) {
            self.turn_from_ns.store(here.now_ns(), Relaxed);
        }
        let line = if is_cap { &here.line() } else { line };
        self.settle(here, costs, line);
        let waited_ns = here.now_ns().saturating_sub(now_ns);
        if is_cap { here.words.add_throttled(waited_ns) } else { here.words.add_waited(waited_ns) }
    }

    /// Lets another thread go first that has waited longer for the cap. Looks at no mark: the calling thread is awake
    /// for moments only, in which the other would find the claim taken.
    pub(super) fn make_way<D: Driver>(&self, here: &Here<'_, D>, now_ns: u64) {
        let until_ns = now_ns.saturating_add(tuning::YIELD_NS);
        here.keep_turn(until_ns, true);
        here.gates.driver.sleep_until(until_ns);
        let awake_ns = here.now_ns();
        self.turn_from_ns.store(awake_ns, Relaxed);
        here.words.add_throttled(awake_ns.saturating_sub(now_ns));
    }

    /// Publishes the time at which the work in flight will have ended.
    #[inline(never)]
    pub(super) fn set_busy_until<D: Driver>(&self, here: &Here<'_, D>, until_ns: u64) {
        self.busy_until_ns.store(until_ns, Relaxed);
        let (_, others_ns) = here.gates.siblings(here.current, 0);
        here.words.busy_until_ns().store(until_ns.max(others_ns), Relaxed);
    }

    /// Takes all work that was submitted for ended.
    pub(super) fn count_as_done<D: Driver>(&self, here: &Here<'_, D>, now_ns: u64) {
        self.done_ns.store(self.submitted_ns(), Relaxed);
        self.set_busy_until(here, now_ns);
    }

    /// Publishes how long the work in flight takes from now on, no more than was submitted; a moment longer where a
    /// mark shows that it takes longer than expected. True if another thread waits to hear that.
    #[inline(never)]
    pub(super) fn narrow<D: Driver>(&self, here: &Here<'_, D>, now_ns: u64) -> bool {
        let mut is_late = false;
        let left_ns = self.in_flight_ns(now_ns, self.submitted_ns());
        let left_ns = match self.pending(now_ns) {
            0 => {
                self.is_overdue.store(0, Relaxed);
                left_ns
            }
            _ => {
                let uneven_ns = self.uneven_until_ns.load(Relaxed).saturating_sub(now_ns);
                // Overdue work stays so until a mark shows its end. Uneven work was charged little at first, which does
                // not say how much longer it takes; a thread that waits for its end looks at the expected time.
                let is_expected = self.busy_until_ns.load(Relaxed) <= now_ns
                    || (1..tuning::OVERDUE_NS).contains(&uneven_ns);
                let is_awaited = || here.has_turns() || has_rivals(&here.line());
                if left_ns == 0 || (is_expected && is_awaited()) {
                    self.is_overdue.store(1, Relaxed);
                }
                let is_overdue = self.is_overdue.load(Relaxed);
                let until_ns = now_ns.saturating_add(left_ns);
                // The other case of lateness: more was submitted after an incomplete mark than is left.
                if is_overdue != 0 || self.busy_until_ns.load(Relaxed) < until_ns {
                    is_late = here.note_late(now_ns);
                }
                let overdue_ns = tuning::OVERDUE_NS * u64::from(is_overdue);
                left_ns.max(overdue_ns).max(uneven_ns)
            }
        };
        self.set_busy_until(here, now_ns.saturating_add(left_ns));
        is_late
    }

    /// Returns the times since which the process has had its turn in its tenant. While work in flight is charged at its
    /// end only, the used part of the turn is unknown, and the time that it still takes is published anew.
    pub(super) fn had_turn<D: Driver>(&self, here: &Here<'_, D>, now_ns: u64) -> Had {
        let [began_ns, since_ns] = [&self.turn_ns, &self.turn_from_ns].map(|at| at.load(Relaxed));
        if self.pending(now_ns) == 0 {
            self.uneven_until_ns.store(0, Relaxed);
        }
        if self.uneven_until_ns.load(Relaxed) != 0 {
            // The turn may be handed on: the next process waits for the time that is published now.
            self.narrow(here, now_ns);
        }
        let is_unknown = self.unknown.load(Relaxed) != 0;
        let is_charged = !is_unknown && self.uneven_until_ns.load(Relaxed) == 0;
        Had { began_ns, since_ns: if is_charged { since_ns } else { now_ns } }
    }

    /// Returns the time at which incomplete marks are worth a look; `u64::MAX` when there are none.
    fn settled_at_ns(&self, now_ns: u64) -> u64 {
        if self.pending(now_ns) == 0 {
            return u64::MAX;
        }
        // Looks come halfway, and halfway again, then often: the work may end earlier than expected.
        let left_ns = self.busy_until_ns.load(Relaxed).saturating_sub(now_ns);
        let is_soon = left_ns < tuning::OFTEN_NS || self.uneven_until_ns.load(Relaxed) > now_ns;
        let look_ns = if is_soon { (left_ns / 2).min(tuning::OFTEN_NS / 16) } else { left_ns / 2 };
        now_ns.saturating_add(look_ns).saturating_add(tuning::SETTLE_NS)
    }

    /// Bounds the time in flight; true after a wait.
    pub(super) fn wait_for_horizon<D: Driver>(
        &self,
        here: &Here<'_, D>,
        now_ns: u64,
        submitted_ns: u64,
        horizon_ns: u64,
        next: Length,
        drain: &mut Drain,
    ) -> bool {
        let (crowded, next_ns) = match next {
            Length::Unknown => (self.unknown.load(Relaxed) >= tuning::UNKNOWN_AT_ONCE, 0),
            Length::Even(ns) => (false, ns),
            // Each has a mark: as many may go as are unlikely to exceed the horizon.
            Length::Uneven(Moments { mean_ns, rms_ns }) => {
                let at_once = horizon_ns / rms_ns.max(1);
                (
                    u64::from(self.pending(now_ns)) >= at_once.max(tuning::UNKNOWN_AT_ONCE.into()),
                    mean_ns,
                )
            }
        };
        let ahead_ns = self.in_flight_ns(now_ns, submitted_ns);
        // A short horizon is set for a tenant that waits, so the launch to come counts as well.
        let next_ns = if horizon_ns < tuning::SHORT_HORIZON_NS { next_ns } else { 0 };
        let fits = ahead_ns == 0 || ahead_ns.saturating_add(next_ns) <= horizon_ns;
        if fits && !crowded {
            return false;
        }
        let is_blind = self.is_blind(now_ns);
        if self.ring.pending() == 0 || (is_blind && !crowded) {
            // No mark would show the drain.
            if !is_blind {
                self.unknown.store(0, Relaxed);
            }
            if ahead_ns > horizon_ns {
                self.count_as_done(here, now_ns);
            }
            return false;
        }
        let done_ns = self.done_ns.load(Relaxed);
        if drain.deadline_ns == 0 || drain.done_ns != done_ns {
            let patience_ns = ahead_ns.saturating_add(tuning::DRAIN_PATIENCE_NS);
            let deadline_ns = now_ns.saturating_add(patience_ns);
            *drain = Drain { since_ns: now_ns, deadline_ns, done_ns };
        }
        if now_ns >= drain.deadline_ns {
            self.give_up_drain(here, now_ns);
            *drain = Drain::default();
            return false;
        }
        // Beside others the work takes longer than expected, and is in flight for as long.
        let is_late = self.narrow(here, now_ns);
        // The wait is for work ahead alone, even if the launch to come is long.
        let excess_ns = ahead_ns.saturating_add(next_ns).saturating_sub(horizon_ns).min(ahead_ns);
        let waited_ns = now_ns.saturating_sub(drain.since_ns);
        // The end of all but even work is unknown.
        let is_even = matches!(next, Length::Even(_));
        let is_short = horizon_ns < tuning::SHORT_HORIZON_NS;
        self.wait_for_work(here, now_ns, (excess_ns, waited_ns), (is_late, is_even, is_short));
        true
    }

    /// Waits for `excess_ns` of work to end, for which a thread has waited for `waited_ns` already, or for a part of
    /// that.
    fn wait_for_work<D: Driver>(
        &self,
        here: &Here<'_, D>,
        now_ns: u64,
        (excess_ns, waited_ns): (u64, u64),
        (is_late, is_even, is_short): (bool, bool, bool),
    ) {
        // Work that has not drained for long is looked at more rarely.
        let most_ns = if is_late { tuning::LATE_LOOK_NS } else { 1_000_000 };
        let look_ns = excess_ns.max(waited_ns / 8).clamp(5_000, most_ns);
        // A short horizon leaves so little in flight that the device would be idle before a sleeper is awake.
        let spins = is_short && excess_ns < tuning::WAKE_NS;
        let look_ns =
            if is_short && !spins { look_ns.saturating_sub(tuning::WAKE_NS / 2) } else { look_ns };
        let until_ns = now_ns.saturating_add(look_ns);
        if !is_even {
            // The end has not come yet.
            let busy_ns = self.busy_until_ns.load(Relaxed);
            self.set_busy_until(here, busy_ns.max(until_ns.saturating_add(tuning::OVERDUE_NS)));
        }
        if !spins {
            return here.gates.driver.sleep_until(until_ns);
        }
        while here.now_ns() < until_ns {
            here.gates.driver.spin();
        }
    }

    /// Takes work for ended that has not drained in time. Either kernels in flight wait for the very launch that waits
    /// for them, and it must go; or their length was unknown, and another tenant's slices lie between.
    fn give_up_drain<D: Driver>(&self, here: &Here<'_, D>, now_ns: u64) {
        let since_ns = self.ring.oldest().map_or(now_ns, |(_, mark)| mark.at_ns);
        let is_stuck = self.unknown.load(Relaxed) == 0
            || !has_rivals(&here.line())
            || now_ns.saturating_sub(since_ns) >= tuning::UNKNOWN_STUCK_NS;
        here.words.count_drain_given_up();
        if let Some(inside) = here.inside().filter(|_| is_stuck) {
            inside.drain_given_up(here.now_ns());
        }
        self.unknown.store(0, Relaxed);
        self.count_as_done(here, now_ns);
    }
}

/// Returns the time that may be in flight at `now_ns`: none beyond the planned end of a turn, unless the owner lets it
/// go on.
pub(super) fn horizon_ns(line: &GateLine, now_ns: u64) -> u64 {
    let horizon_ns = if line.horizon_ns == 0 { tuning::HORIZON_NS } else { line.horizon_ns };
    let in_turn = line.gate != gate::CLOSED
        && line.turn_end_ns != 0
        && now_ns < line.turn_end_ns.saturating_add(tuning::OVERTIME_NS);
    if in_turn { horizon_ns.min(line.turn_end_ns.saturating_sub(now_ns)) } else { horizon_ns }
}

/// Reason of a launch's wait, with the time to ask again.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    Cap(u64),
    Turn,
    Pause,
    Device(u64),
    Inside(Queued),
}

/// Progress of one thread's wait for work to drain.
#[derive(Clone, Copy, Default)]
pub(super) struct Drain {
    since_ns: u64,
    deadline_ns: u64,
    done_ns: u64,
}
