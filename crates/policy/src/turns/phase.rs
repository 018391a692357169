//! The phases of a domain: a lull with all gates open, turns with at most one holder on each device, the drain between
//! two turns, and all tenants together. A domain that was free or counted, for which `domain` makes no such step,
//! begins with a lull.
//!
//! Promises: a closed gate is opened by its tenant's next turn, by a lull, by the phase of all together, or by a
//! hand-over after which it [stays open](Domain::stays_open); only where there is no floor (`floor`) may a tenant of
//! lower priority than others find none of these for as long as the others work. A drain ends at the first full step
//! after its time-out. No drain begins for the work of a tenant of lower priority than the one that is picked.
//!
//! Does not choose holders or the length of their turns (`pick`), nor decide trials (`together`).

use core::cmp::Ordering;

use super::domain::{Domain, TurnMode};
use super::mean::mean;
use super::tenant::TenantState;
use super::tuning;

/// The kinds of hand-over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Handover {
    /// All holders are picked anew.
    All,
    /// Holders that still work keep their turns; devices without one are filled.
    Fill,
    /// Turns begin after a drain. Holders are picked as by [`Self::Fill`], and no second drain follows.
    Drained,
}

impl Domain<'_> {
    /// One step: charges, changes the phase, and returns the time of the next step.
    pub(super) fn drive(&mut self) -> u64 {
        self.divide();
        self.divide_cycle();
        self.settle_floors();
        self.charge();
        self.end_pieces();
        self.change_levels();
        self.settle_lingering();
        if self.is_full_step() {
            self.take_along();
            match self.state.mode {
                TurnMode::Lull => self.lull(),
                TurnMode::Held => self.held(),
                TurnMode::Drain => self.drain(),
                TurnMode::Together => self.together(),
                TurnMode::Free | TurnMode::Counted => self.begin_lull(),
            }
        }
        self.note_leads();
        self.expect_next();
        self.state.looks = match self.state.mode {
            TurnMode::Held if self.state.since_ns != self.now_ns => {
                self.state.looks.wrapping_add(1)
            }
            _ => 0,
        };
        self.next_wake_ns()
    }

    /// True if a tenant that demands a device shares one with a tenant of lower rank that may launch: the lower one
    /// holds the turn or, in another phase than turns, has an open gate.
    pub(super) fn overtaken(&self) -> bool {
        let runs = |t: &&TenantState| {
            t.seat.is_open() && (t.seat.holds() || self.state.mode != TurnMode::Held)
        };
        self.demanders().any(|high| {
            let mut lower = self.members().filter(|t| t.rank() < high.rank());
            lower.any(|low| runs(&low) && low.shares_device(high))
        })
    }

    /// True if the phase may change. A light step has read new samples only of those idle tenants that would go first,
    /// by their priority or the latency class, and has old ones of all others; so it changes the phase only for such a
    /// tenant.
    pub(super) fn is_full_step(&self) -> bool {
        let hurries = |t: &TenantState| t.seen.latency && self.contends(t);
        !self.state.light_step || self.overtaken() || self.members().any(hurries)
    }

    fn settle_lingering(&mut self) {
        let now_ns = self.now_ns;
        for tenant in self.members_mut() {
            let over = now_ns.saturating_sub(tenant.seat.closed_ns) > tuning::LINGER_NS;
            let at_work = tenant.busy(now_ns) || tenant.may_be_launching(now_ns);
            // Behind a lease that has ended it launches as it likes. What is let go for another device is no such
            // launch.
            let is_new = !tenant.may_let_go() && tenant.has_launched_closed();
            if over || !at_work || is_new || tenant.has_ended_step() {
                tenant.seat.settle();
            }
        }
    }

    /// Begins a lull: ends all turns and opens all gates of the domain.
    pub(super) fn begin_lull(&mut self) {
        let now_ns = self.now_ns;
        for tenant in self.members_mut() {
            tenant.end_turn(now_ns, true);
            tenant.open_gate(now_ns);
            tenant.picked = false;
        }
        self.state.mode = TurnMode::Lull;
        self.state.since_ns = now_ns;
        self.state.turn_end_ns = 0;
        self.state.overlap_since_ns = 0;
    }

    fn lull(&mut self) {
        // A tenant that comes back while others are active needs no proof that they overlap: turns begin at once.
        let comes_back = core::mem::take(&mut self.state.is_another) && self.count_active() > 1;
        if comes_back || self.overtaken() {
            return self.hand_over(Handover::All);
        }
        if !self.any_pair(|_| true) {
            self.state.overlap_since_ns = 0;
        } else if self.state.overlap_since_ns == 0 {
            self.state.overlap_since_ns = self.now_ns;
            self.members_mut().for_each(TenantState::mark_overlap);
        } else if self.lasted(self.state.overlap_since_ns, tuning::OVERLAP_NS)
            && self.any_pair(|t| t.keeps_on(self.now_ns))
        {
            self.hand_over(Handover::All);
        }
    }

    /// True if two tenants that share a device and both demand it satisfy `is`.
    fn any_pair(&self, is: impl Fn(&TenantState) -> bool) -> bool {
        let both = |a: &TenantState, b: &TenantState| {
            !core::ptr::eq(a, b) && a.shares_device(b) && is(a) && is(b)
        };
        self.demanders().any(|a| self.demanders().any(|b| both(a, b)))
    }

    fn held(&mut self) {
        if self.trial_due() {
            return self.begin_trial();
        }
        self.renew_window();
        if self.release_idle() {
            return self.hand_over(Handover::Fill);
        }
        if self.overtaken() {
            self.count_preemption();
            return self.hand_over(Handover::All);
        }
        self.end_overlaps();
        if self.may_lull() {
            return self.begin_lull();
        }
        if self.members().any(|t| self.contends(t) && self.finds_room(t)) {
            return self.hand_over(Handover::Fill);
        }
        if !self.members().any(|t| self.contends(t)) {
            return;
        }
        if self.is_over() {
            self.hand_over(Handover::All);
        } else if self.left_behind() {
            self.count_preemption();
            self.hand_over(Handover::All);
        }
    }

    fn drain(&mut self) {
        if self.overtaken() {
            return self.hand_over(Handover::All);
        }
        let since_ns = self.state.since_ns;
        let now_ns = self.now_ns;
        let timed_out = self.lasted(since_ns, tuning::DRAIN_TIMEOUT_NS);
        let closed_now = |t: &&TenantState| t.seat.closed_ns >= since_ns;
        let busy = self
            .members()
            .filter(closed_now)
            .any(|t| t.seat.lingers() && self.may_be_waited_for(t));
        if busy && !timed_out {
            return;
        }
        if timed_out {
            self.state.counters.drain_timeouts =
                self.state.counters.drain_timeouts.saturating_add(1);
        } else if let Some(end_ns) =
            self.members().filter(closed_now).map(|t| t.seen.busy_until_ns).max()
        {
            // The bubble is the time that a drain leaves the device idle. On one device it begins with the end of the
            // work. Of several devices one may look busy while it waits for another, so the bubble counts from the
            // drain's beginning.
            let is_one = self.state.group.count_ones() == 1;
            let from_ns = if is_one { end_ns.max(since_ns) } else { since_ns };
            let bubble_ns = self.now_ns.saturating_sub(from_ns).min(1_000_000);
            self.state.bubble_ns = mean(self.state.bubble_ns, bubble_ns);
        }
        for tenant in self.members_mut().filter(|t| t.seat.closed_ns >= since_ns) {
            let drain_ns = now_ns.saturating_sub(tenant.seat.closed_ns);
            tenant.seat.drain_ns = mean(tenant.seat.drain_ns, drain_ns);
        }
        self.hand_over(Handover::Drained);
    }

    /// Picks the next holders as `how` says, and ends the turns of all others. Their gates are closed, except where
    /// [`Self::stays_open`] says that a gate is to be open: such a gate is opened if it was closed. Then the turns
    /// begin, or the drain before them. If no tenant can be picked, or a lull is allowed, one begins instead.
    pub(super) fn hand_over(&mut self, how: Handover) {
        let Some(first) = self.pick(how != Handover::All) else { return self.begin_lull() };
        if self.may_lull() {
            return self.begin_lull();
        }
        let now_ns = self.now_ns;
        // A lull that was short and changed nothing about who is active leaves a trial's window as it is; else a new
        // one begins.
        let slept = self.lasted(self.state.since_ns, tuning::SLEEP_NS);
        if self.state.mode == TurnMode::Lull && (slept || self.actives_changed()) {
            self.begin_window();
        }
        let mut must_drain = false;
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row) else { continue };
            if !self.is_member(tenant) || tenant.picked {
                continue;
            }
            let stays_open = self.stays_open(tenant);
            must_drain |= !stays_open && tenant.seat.is_open() && self.is_waited_for(tenant);
            let Some(tenant) = self.tenants.get_mut(row) else { continue };
            tenant.end_turn(now_ns, false);
            if !stays_open {
                tenant.close_gate(now_ns);
            } else if !tenant.seat.is_open() {
                tenant.open_gate(now_ns);
            }
        }
        if must_drain && how != Handover::Drained {
            self.state.mode = TurnMode::Drain;
            self.state.since_ns = now_ns;
            return;
        }
        self.begin_turns(first, how == Handover::Fill);
    }

    fn begin_turns(&mut self, first: usize, fill: bool) {
        let now_ns = self.now_ns;
        let carries_on = fill && self.members().any(|t| t.picked && t.seat.holds());
        let owed_ns = self.turn_ns(first);
        // A tenant that goes on in the midst of a step makes another one.
        let (more_ns, from_ns) = (2 * self.half_step_ns(), self.step_end_ns());
        let mut handovers = 0_u64;
        for tenant in self.members_mut().filter(|t| t.picked) {
            handovers = handovers.saturating_add(u64::from(!tenant.seat.holds()));
            tenant.begin_turn(now_ns);
            tenant.picked = false;
        }
        self.begin_pieces();
        self.state.mode = TurnMode::Held;
        self.state.turn = self.state.turn.wrapping_add(1);
        self.state.counters.turns = self.state.counters.turns.saturating_add(1);
        self.state.counters.handovers = self.state.counters.handovers.saturating_add(handovers);
        // A turn that goes on while another device of the domain is filled began when it began: its end, and what a
        // tenant of the latency class waits, count from there.
        if !carries_on {
            self.state.since_ns = now_ns;
            self.state.turn_end_ns = match handovers {
                0 => from_ns.saturating_add(owed_ns.max(more_ns)),
                _ => now_ns.saturating_add(tuning::TAKEOVER_NS).saturating_add(owed_ns),
            };
        }
    }

    /// True if the gate of a tenant that is not picked is to be open during the turns: it shares no device with a
    /// tenant that is picked, or has a higher priority than all such tenants, or is idle, under no closed cap and not
    /// known for long work, so that it may come back for a moment.
    fn stays_open(&self, tenant: &TenantState) -> bool {
        let mut beside = self.members().filter(|t| t.picked && t.shares_device(tenant)).peekable();
        if beside.peek().is_none() {
            return true;
        }
        let mut outranks_all = true;
        for picked in beside {
            if picked.rank() > tenant.rank() {
                return false;
            }
            outranks_all &= picked.rank() < tenant.rank();
        }
        // A tenant whose work lasts for several turns would, with an open gate, be sliced with the holder until
        // that is noticed, which costs some six switches between contexts. Its gate is closed instead, so that it waits
        // there for its turn.
        let idle = !tenant.demands(self.now_ns) && !tenant.works_long();
        let capped = tenant.seen.cap_opens_ns(self.now_ns) != 0;
        outranks_all || idle && !capped && (tenant.seat.is_open() || self.is_calm(tenant))
    }

    /// True if closing this tenant's gate makes the next turn wait until its work has drained: it has work, or may be
    /// about to launch some, and a tenant of its priority or a lower one is picked that shares a device with it and
    /// whose gate is closed. One whose gate is open already runs beside that work.
    fn is_waited_for(&self, tenant: &TenantState) -> bool {
        let launches = tenant.work.last_launch_ns.saturating_add(tuning::IDLE_NS) > self.now_ns;
        // Its process says what is in flight as its gate closes.
        let has_piece = tenant.floor.drains(self.now_ns) && tenant.has_launched();
        (tenant.busy(self.now_ns) || launches || has_piece) && self.may_be_waited_for(tenant)
    }

    fn may_be_waited_for(&self, tenant: &TenantState) -> bool {
        let comes = |t: &TenantState| {
            t.picked
                && !t.seat.is_open()
                && t.shares_device(tenant)
                && t.seen.priority <= tenant.seen.priority
        };
        tenant.floor.drains(self.now_ns) || self.members().any(comes)
    }

    /// Ends the turn of each holder that has been idle beyond its patience; its gate stays open until a hand-over
    /// closes it. True if a turn was ended, or no tenant holds one.
    fn release_idle(&mut self) -> bool {
        let now_ns = self.now_ns;
        let mut released = !self.members().any(|t| t.seat.holds());
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row) else { continue };
            let idle_at_ns = tenant.idle_at_ns(now_ns);
            let is_idle = self.is_member(tenant) && tenant.seat.holds() && idle_at_ns <= now_ns;
            if is_idle && idle_at_ns.saturating_add(self.patience_ns(tenant)) <= now_ns {
                if let Some(tenant) = self.tenants.get_mut(row) {
                    tenant.end_turn(now_ns, true);
                }
                released = true;
            }
        }
        released
    }

    /// Time for which an idle holder keeps its turn although another waits. It is charged for that time. One that has
    /// had less than a peer that never pauses keeps it through its usual pauses, unless they last longer than it
    /// would wait elsewhere: for a slice behind its open gate, or, where that is closed in pauses, for the peer's
    /// work to end.
    pub(super) fn patience_ns(&self, holder: &TenantState) -> u64 {
        let waiting = || self.members().filter(|t| self.contends(t) && t.shares_device(holder));
        let Some(highest) = waiting().map(|t| t.seen.priority).max() else { return 0 };
        match highest.cmp(&holder.seen.priority) {
            // Two hand-overs between two of its steps would cost it more than lower ones get.
            Ordering::Less if holder.steps.is_stepper() => return tuning::GRACE_NS,
            Ordering::Less | Ordering::Greater => return 0,
            Ordering::Equal if holder.seen.cap_opens_ns(self.now_ns) != 0 => return 0,
            Ordering::Equal => {}
        }
        let has_more = |t: &&TenantState| t.place.virtual_ns > holder.place.virtual_ns;
        let steady = waiting().filter(has_more).filter(|t| t.seat.is_steady());
        let most_ns = match steady.map(|t| t.seat.drain_ns).max() {
            None => 0,
            Some(drain_ns) if holder.works_long() => drain_ns.max(tuning::PAUSE_NS),
            Some(_) => tuning::PAUSE_NS,
        };
        if holder.work.pause_ns() <= most_ns { most_ns } else { 0 }
    }

    /// Closes the gates of tenants that are open beside a holder, have demanded the device together with it for too
    /// long, and keep on launching.
    fn end_overlaps(&mut self) {
        let now_ns = self.now_ns;
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row) else { continue };
            let in_domain = self.is_member(tenant);
            if !in_domain || !tenant.seat.is_open() || tenant.seat.holds() {
                continue;
            }
            let holder = self.members().find(|h| h.seat.holds() && h.shares_device(tenant));
            let overlaps = holder.is_some_and(|h| tenant.demands(now_ns) && h.demands(now_ns));
            let Some(tenant) = self.tenants.get_mut(row) else { continue };
            if !overlaps {
                tenant.overlap.since_ns = 0;
            } else if tenant.overlap.since_ns == 0 {
                tenant.overlap.since_ns = now_ns;
                tenant.mark_overlap();
            } else if now_ns.saturating_sub(tenant.overlap.since_ns) >= tuning::OVERLAP_NS
                && tenant.keeps_on(now_ns)
            {
                tenant.close_gate(now_ns);
            }
        }
    }

    /// True if a lull may begin: no tenant was active recently, or one was and no member of the domain has a lower
    /// priority, which an open gate would let run beside it. Work behind a closed gate keeps its tenant active: in a
    /// lull it would be service, which takes others along, and no debt.
    fn may_lull(&self) -> bool {
        let mut active = self.members().filter(|t| !self.is_calm(t));
        let Some(only) = active.next() else { return true };
        active.next().is_none() && !self.members().any(|t| t.seen.priority < only.seen.priority)
    }

    /// True if the tenant does not demand a device, and has not done so for a while.
    pub(super) fn is_calm(&self, tenant: &TenantState) -> bool {
        !tenant.demands(self.now_ns) && self.lasted(tenant.last_demand_ns, tuning::CALM_NS)
    }

    /// True if the tenant demands a device (has work, or waits at its gate) and does not hold it.
    pub(super) fn contends(&self, tenant: &TenantState) -> bool {
        !tenant.seat.holds() && tenant.demands(self.now_ns)
    }

    fn finds_room(&self, tenant: &TenantState) -> bool {
        !self.members().any(|h| h.seat.holds() && h.shares_device(tenant))
    }

    /// End of the running turn. If each waiting tenant had its last turn ended by its own cap, or none waits, it lasts
    /// a whole quantum at least, since nobody is kept from what is due to it. If a tenant of the latency class waits,
    /// it ends after that class's quantum at the latest.
    pub(super) fn turn_end_ns(&self) -> u64 {
        let mut planned_ns = self.state.turn_end_ns;
        if self.members().filter(|t| self.contends(t)).all(|t| t.seat.ended_by_cap) {
            let full_ns = self.state.quantum_ns();
            planned_ns = planned_ns.max(self.state.since_ns.saturating_add(full_ns));
        }
        if !self.members().any(|t| t.seen.latency && self.contends(t)) {
            return planned_ns;
        }
        planned_ns.min(self.state.since_ns.saturating_add(tuning::LATENCY_QUANTUM_NS))
    }

    /// True if a waiting tenant of the holder's priority has had less than the holder by a whole round's virtual time,
    /// and the holder has had the device for long enough to be worth a hand-over.
    fn left_behind(&self) -> bool {
        let step_ns = self.round_step_ns();
        let held_long_enough = |h: &TenantState| self.lasted(h.seat.opened_ns, self.min_hold_ns());
        self.members().filter(|t| self.contends(t)).any(|waiting| {
            self.members().any(|h| {
                h.seat.holds()
                    && h.shares_device(waiting)
                    && h.seen.priority == waiting.seen.priority
                    && held_long_enough(h)
                    && waiting.place.virtual_ns.saturating_add(step_ns) <= h.place.virtual_ns
            })
        })
    }

    pub(super) fn lasted(&self, since_ns: u64, for_ns: u64) -> bool {
        self.now_ns.saturating_sub(since_ns) >= for_ns
    }

    fn count_preemption(&mut self) {
        self.state.counters.preemptions = self.state.counters.preemptions.saturating_add(1);
    }
}
