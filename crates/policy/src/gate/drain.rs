//! Evidence from a synchronisation: work submitted before it has ended, and was charged too little where the thread was
//! blocked for longer than that.
//!
//! Promises: only time blocked inside a synchronisation of a context or a stream stands for device time, once for all
//! threads that are, only where nothing but the tenant's own work can have been waited for, and only as far as it
//! exceeds the charges. Where anything else can have been, or several threads launch, the excess is doubt. The host's
//! delay in waking is part of it, so it leads to measurements, not to estimates; the time for which a process is
//! stopped is part of it too, so there is an upper bound.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::GateLine;
use divvy_abi::usage::gate;

use super::credit::signed;
use super::driver::{Driver, Words};
use super::here::Here;
use super::lane::Lane;
use super::rivals::in_turns;
use super::tuning;
use crate::cost::{Costs, is_far};

/// Progress of a lane's work at the beginning of a synchronisation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) submitted_ns: u64,
    done_ns: u64,
    pub(super) at_ns: u64,
    /// Breaks of spans until the synchronisation began.
    breaks: u32,
}

impl Lane {
    /// Reads the lane's progress as a synchronisation begins.
    pub(super) fn begin_wait(&self, now_ns: u64) -> Begun {
        let (submitted_ns, done_ns) = (self.submitted_ns(), self.done_ns.load(Relaxed));
        Begun { submitted_ns, done_ns, at_ns: now_ns, breaks: self.breaks.load(Relaxed) }
    }

    /// True if a mark is in flight, and work behind it that no mark covers.
    pub(super) fn has_open_end(&self) -> bool {
        self.ring.pending() != 0 && self.submitted_ns() > self.marked_ns.load(Relaxed)
    }

    /// True if a synchronisation that returned at `now_ns` may show more than the end of its work.
    #[inline(always)]
    pub(super) fn may_be_late(&self, begun: &Begun, now_ns: u64) -> bool {
        now_ns.saturating_sub(begun.at_ns) >= tuning::WAIT_LATE_NS || self.ring.pending() != 0
    }

    /// Takes work submitted before the synchronisation for ended; returns the time at which the rest will have.
    #[inline(always)]
    pub(super) fn has_ended(&self, begun: &Begun, now_ns: u64) -> u64 {
        // Two steps instead of one atomic change: between them another thread may have shown more to have ended. That
        // counts as in flight until the next return then, as it would had its thread returned a moment later.
        let done_ns = self.done_ns.load(Relaxed).max(begun.submitted_ns);
        self.done_ns.store(done_ns, Relaxed);
        self.breaks_done.store(begun.breaks, Relaxed);
        self.unknown.store(0, Relaxed);
        let submitted_ns = self.submitted_ns();
        let left_ns = submitted_ns.saturating_sub(done_ns);
        if left_ns == 0 {
            self.forget_streams();
        }
        self.doubt.look(now_ns, submitted_ns, 0);
        let until_ns = now_ns.saturating_add(left_ns);
        self.busy_until_ns.store(until_ns, Relaxed);
        until_ns
    }

    /// Charges for a synchronisation that took long: work that ran meanwhile took no less than the time for which the
    /// thread was blocked, if nothing but work was waited for.
    #[cold]
    #[inline(never)]
    pub(super) fn long_wait<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        begun: &Begun,
        returned_ns: u64,
    ) {
        let certain_ns = self.certain_until_ns.fetch_max(returned_ns, Relaxed);
        let blocked_ns = returned_ns.saturating_sub(begun.at_ns.max(certain_ns));
        let line = here.line();
        let since_ns = self.unsettled_since_ns(self.submitted_ns(), returned_ns);
        let put_right_ns = self.settle(here, costs, &line);
        let now_ns = here.now_ns();
        // Another tenant's work may lie in the wait.
        let quiet_ns = match in_turns(here, &line) {
            true => begun.at_ns,
            false => begun.at_ns.min(now_ns.saturating_sub(tuning::QUIET_NS)),
        };
        let is_others =
            line.epoch != self.epoch.load(Relaxed) || !self.is_quiet_since(here, &line, quiet_ns);
        // Work that another thread is about to settle is not charged twice.
        if self.ring.pending() != 0 {
            return;
        }
        // Other threads' work may have run meanwhile: all that was submitted by now counts as charged for the wait.
        let submitted_ns = self.submitted_ns();
        let charged_ns = signed(submitted_ns.saturating_sub(begun.done_ns));
        let charged_ns = charged_ns.saturating_add(put_right_ns);
        let charged_ns = u64::try_from(charged_ns).unwrap_or(0);
        if is_others {
            // Its part of the wait if as many as can be were at work. A kernel that was short once may be so long now
            // that all of its launches end behind their turns.
            let part_ns = blocked_ns.saturating_sub(tuning::SLICE_NS) / tuning::MOST_AT_ONCE;
            self.doubt.look(now_ns, submitted_ns, part_ns.saturating_sub(charged_ns));
            return;
        }
        let is_first = now_ns.saturating_sub(blocked_ns)
            < self.epoch_at_ns.load(Relaxed).saturating_add(tuning::SWITCH_NS);
        let switch_ns = if in_turns(here, &line) && is_first { tuning::SWITCH_NS } else { 0 };
        let ran_ns = blocked_ns.saturating_sub(tuning::WAKE_LATE_NS).saturating_sub(switch_ns);
        let more_ns = ran_ns.saturating_sub(charged_ns).min(tuning::WAIT_MOST_NS);
        // Draws charge for the launches they stand for. In turns draws are few: launches lie beside others' too often.
        let is_unseen = match in_turns(here, &line) {
            true => more_ns > charged_ns / 8,
            false => is_far(charged_ns, ran_ns),
        };
        if more_ns <= tuning::WAIT_LATE_NS || !is_unseen {
            return;
        }
        // A copy, a wait or a host function since the last synchronisation may be the cause of the long wait, or a stop
        // of the process amid several threads' launches; or a kernel that was short when it was measured: what is not
        // certain is measured from here on.
        let is_broken = self.breaks.load(Relaxed) != self.breaks_done.load(Relaxed);
        if is_broken || self.has_threads() {
            self.doubt.look(now_ns, submitted_ns, more_ns);
            return;
        }
        self.charge(here, &line, since_ns, signed(more_ns));
        if more_ns >= tuning::HUNT_FROM_NS {
            costs.hunt(tuning::HUNT);
        }
        self.window.put_right(submitted_ns);
    }

    /// Notes the end of a wait, which is not to be doubted.
    #[inline(never)]
    pub(super) fn end_look(&self, now_ns: u64) {
        self.doubt.look(now_ns, self.submitted_ns(), 0);
    }

    /// Looks at the time since the last look, as a wait begins or a launch asks: all of it beyond the charges may be
    /// work that nothing has shown.
    #[inline(never)]
    pub(super) fn look_back<D: Driver>(&self, here: &Here<'_, D>, line: &GateLine, now_ns: u64) {
        let submitted_ns = self.submitted_ns();
        let unseen_ns = self.doubt.unseen_ns(now_ns, submitted_ns);
        // The end of another thread's wait will show what ran meanwhile.
        let is_own = || {
            line.strangers == 0
                && here.words.own(gate::SLEEPERS).load(Relaxed) == 0
                && self.is_quiet_since(here, line, self.doubt.since_ns())
        };
        let unseen_ns = if unseen_ns != 0 && is_own() { unseen_ns } else { 0 };
        self.doubt.look(now_ns, submitted_ns, unseen_ns);
    }
}
