//! Turns by steps: a tenant that launches, waits for it and launches again has turns that end as a
//! step does.
//!
//! A decode server has nothing queued, so a hand-over at the end of its step costs it nothing but
//! the switch of contexts, and the host's time between two steps is another's. So beside such
//! steppers turns are short: a cycle, in which each has its turn, is a step of each, or as long as
//! its hand-overs are worth. A turn ends with the step that ends nearest to its planned end: half a
//! step before that the gate of who waits for its step is closed.
//!
//! Steppers are told by how they come to a closed gate: a stepper comes there when all it launched
//! has ended, a queue before that. The length of a step is that of a turn's first one, and the gap
//! is the time until it comes again.
//!
//! Promises: a turn has one step at least; it ends half a step beyond its planned end at the
//! latest. Without a stepper turns are as they are else. What a tenant claims shortens turns, and
//! gives it no more of the device.
//!
//! Does not choose who goes next.

use super::domain::Domain;
use super::mean::mean;
use super::tenant::{TenantState, VIRTUAL_SCALE};
use crate::scaled::scaled;

/// Longest step of a stepper.
const MOST_NS: u64 = 20_000_000;
/// Times that a tenant came to its gate behind all its work until it is a stepper; and most that
/// are counted.
const SURE: u32 = 2;
const MOST_SURE: u32 = 4;
/// Part of the device that hand-overs beside steppers may cost, in millionths: what the goal of 97
/// % in sum leaves, less what is not known of the bubble.
const COST_PPM: u64 = 25_000;

/// A take-over between two decode servers, which took 30 to 100 us on an H200 with the bubble
/// before it.
const TAKEOVER_NS: u64 = 100_000;
/// So much before the usual end of a step it is looked for: a sleeper may take as long to be awake.
const EARLY_NS: u64 = 150_000;

/// Progress of a turn's first step.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
enum First {
    /// None is looked at.
    #[default]
    Over,
    /// It has not been seen to wait for it.
    Awaited,
    /// It waits for it, having submitted so much.
    Waits { launches: u64 },
}

/// One look at a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) now_ns: u64,
    pub(super) opened_ns: u64,
    pub(super) launches: u64,
    /// It has launched since the look before.
    pub(super) launched: bool,
    /// It has launched since its gate opened.
    pub(super) has_launched: bool,
    /// Time of its last launch, as it says.
    pub(super) launch_ns: u64,
    /// Time that it has waited for turns so far.
    pub(super) waited_ns: u64,
    /// It has a cap.
    pub(super) has_cap: bool,
    /// Its longest kernel.
    pub(super) longest_ns: u64,
    /// It waits at its closed gate.
    pub(super) wants: bool,
    /// When its work ends or has ended, as it says.
    pub(super) busy_until_ns: u64,
    pub(super) sleeps: bool,
    pub(super) sleepers: u64,
    pub(super) is_busy: bool,
    /// All it launched has ended, beyond doubt.
    pub(super) drained: bool,
}

/// A tenant's steps, as far as they are known. Starts as `default()`.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    first: First,
    /// Moving means of a step, and of the time from its end to the next launch.
    step_ns: u64,
    gap_ns: u64,
    /// The same from its last launch to its end.
    tail_ns: u64,
    sure: u32,
    /// It has no cap, which it would wait for and not for its turns, and no kernel that outlasts a
    /// step.
    is_free: bool,
    /// When all it launched was seen to have ended; 0 while some has not.
    ended_ns: u64,
    /// Time that it had waited for turns by then.
    waited_ns: u64,
    /// It slept for its work at the look before.
    slept: bool,
    /// It has come to its closed gate.
    came: bool,
}

impl Steps {
    /// Whether it is a stepper, at work for half of the time and more.
    pub(super) fn is_stepper(&self) -> bool {
        // The take-over is in the first step.
        let pause_ns = self.gap_ns.saturating_add(TAKEOVER_NS);
        let is_short = self.step_ns <= MOST_NS && pause_ns <= self.step_ns;
        self.is_free && self.may_be_one() && is_short
    }

    /// Whether it comes to its closed gate as steppers do.
    fn may_be_one(&self) -> bool {
        self.sure >= SURE
    }

    /// Half of a step; 0 of who makes none.
    pub(super) fn half_ns(&self) -> u64 {
        if self.is_stepper() { self.step_ns / 2 } else { 0 }
    }

    /// When to look for the end of its step: a moment before it should end, as steps ended so far.
    fn end_look_ns(&self, launch_ns: u64) -> u64 {
        launch_ns.saturating_add(self.tail_ns).saturating_sub(EARLY_NS)
    }

    /// Its gate has been opened.
    pub(super) fn opened(&mut self) {
        self.came = false;
        self.first = First::Awaited;
    }

    /// One look.
    pub(super) fn look(&mut self, look: &Look) {
        let Look { now_ns, is_busy, drained, wants, .. } = *look;
        // A length that was measured beside others is longer by their slices.
        self.is_free = !look.has_cap && look.longest_ns / 3 <= MOST_NS / 2;
        let comes = wants && !self.came;
        if look.sleepers > 1 {
            // Work of the other threads runs behind the first one's.
            self.sure = 0;
        } else if comes && is_busy {
            self.sure = self.sure.saturating_sub(SURE);
        } else if comes && (self.ended_ns != 0 || self.slept) {
            self.sure = self.sure.saturating_add(1).min(MOST_SURE);
        }
        self.came |= comes;
        if look.launched && self.ended_ns != 0 {
            let waited_ns = look.waited_ns.saturating_sub(self.waited_ns);
            let back_ns = look.launch_ns.saturating_sub(waited_ns);
            self.gap_ns = of_so_far(self.gap_ns, back_ns.saturating_sub(self.ended_ns));
        }
        self.look_at_first(look);
        let has_ended = drained && !is_busy;
        if has_ended && (self.ended_ns == 0 || look.launched) {
            self.ended_ns = look.busy_until_ns.clamp(look.launch_ns.min(now_ns), now_ns);
            self.waited_ns = look.waited_ns;
            let tail_ns = self.ended_ns.saturating_sub(look.launch_ns);
            self.tail_ns = of_so_far(self.tail_ns, tail_ns.min(MOST_NS));
        } else if !has_ended {
            self.ended_ns = 0;
        }
        self.slept = look.sleeps && !wants;
    }

    fn look_at_first(&mut self, look: &Look) {
        let has_ended = look.has_launched && look.drained && !look.is_busy;
        let elapsed_ns = look.now_ns.saturating_sub(look.opened_ns);
        let took_ns = match self.first {
            First::Over => return,
            First::Waits { launches } if launches != look.launches => {
                look.launch_ns.saturating_sub(look.opened_ns)
            }
            _ if has_ended => look.busy_until_ns.min(look.now_ns).saturating_sub(look.opened_ns),
            _ if elapsed_ns > MOST_NS => {
                self.sure = 0;
                elapsed_ns
            }
            First::Awaited if look.has_launched && look.sleeps => {
                self.first = First::Waits { launches: look.launches };
                return;
            }
            First::Awaited | First::Waits { .. } => return,
        };
        self.first = First::Over;
        self.step_ns = of_so_far(self.step_ns, took_ns);
    }
}

/// Moving mean, which begins with the first value.
fn of_so_far(mean_ns: u64, ns: u64) -> u64 {
    if mean_ns == 0 { ns } else { mean(mean_ns, ns) }
}

impl TenantState {
    /// When to look whether work in flight has ended.
    pub(super) fn end_look_ns(&self) -> u64 {
        match self.steps.is_stepper() {
            true => self.busy_until_ns.min(self.steps.end_look_ns(self.said_launch_ns())),
            false => self.busy_until_ns,
        }
    }

    /// When the step will have ended that it waits for; `now_ns` where it waits for none.
    fn step_end_ns(&self, now_ns: u64) -> u64 {
        let step_ns = if self.sleeps() { self.steps.half_ns() * 2 } else { 0 };
        self.busy_until_ns.clamp(now_ns, now_ns.saturating_add(step_ns))
    }

    /// Its virtual time then, where it has the turn.
    pub(super) fn virtual_at_end_ns(&self, now_ns: u64) -> u64 {
        let end_ns = if self.holder { self.step_end_ns(now_ns) } else { now_ns };
        let left_ns = end_ns.saturating_sub(now_ns);
        let more = left_ns.saturating_mul(VIRTUAL_SCALE) / self.weight.max(1);
        self.place.virtual_ns.saturating_add(more)
    }

    /// It has made a step in its turn, or is about to end one: it has nothing more to submit before
    /// that.
    fn ends_step(&self) -> bool {
        self.has_launched() && self.waits_for_end()
    }

    /// When to look at the first step of its turn, if its length is worth knowing.
    fn step_look_ns(&self, now_ns: u64, poll_ns: u64) -> Option<u64> {
        let is_short = self.steps.step_ns == 0 || self.steps.gap_ns <= self.steps.step_ns;
        if !(self.steps.is_free && self.steps.may_be_one() && is_short) {
            return None;
        }
        let part_ns = now_ns.saturating_sub(self.opened_ns) / 4;
        let again_ns = now_ns.saturating_add(part_ns.max(poll_ns));
        match self.steps.first {
            First::Over => None,
            First::Awaited => Some(again_ns),
            First::Waits { .. } if self.busy_until_ns > now_ns => Some(self.busy_until_ns),
            First::Waits { .. } => Some(now_ns.saturating_add(part_ns.clamp(poll_ns / 8, poll_ns))),
        }
    }
}

impl Domain<'_> {
    /// Says how long a mean turn is beside steppers.
    pub(super) fn divide_cycle(&mut self) {
        self.state.step_turn_ns = self.step_turn_ns().unwrap_or(0);
    }

    /// The mean turn of a cycle: `None` where nobody at work is a stepper.
    fn step_turn_ns(&self) -> Option<u64> {
        let at_work = || self.members().filter(|t| self.is_at_work(t));
        let level = at_work().map(|t| t.priority).max()?;
        let these = || at_work().filter(|t| t.priority == level);
        let steppers = || these().filter(|t| t.steps.is_stepper()).map(|t| &t.steps);
        steppers().next()?;
        // Short turns would end in the midst of a kernel that outlasts them all, and cost a cap
        // what it cannot make good.
        let full_ns = self.state.full_quantum_ns(self.tuning);
        let outlasts = |t: &TenantState| !t.steps.is_stepper() && t.longest_ns > full_ns;
        if these().any(|t| outlasts(t) || t.asked.cap_ppm.is_some()) {
            return None;
        }
        let sum = |of: fn(&Steps) -> u64| steppers().map(of).fold(0, u64::saturating_add);
        let (count, steps_ns, gaps_ns) = (sum(|_| 1), sum(|s| s.step_ns), sum(|s| s.gap_ns));
        let mean_ns = (steps_ns.saturating_add(gaps_ns) / count.max(1)).max(1);
        let count = u64::try_from(these().count()).unwrap_or(u64::MAX);
        let handover_ns = self.state.bubble_ns.saturating_add(TAKEOVER_NS);
        let lost_ns = handover_ns.saturating_mul(count).saturating_sub(gaps_ns);
        let worth_ns = scaled(lost_ns, 1_000_000, COST_PPM);
        // Whole steps, so that who makes none has a turn as long as a step beside it.
        let steps = (worth_ns / count / mean_ns).max(1);
        Some(mean_ns.saturating_mul(steps))
    }

    /// The virtual time to which a tenant's turn takes it: a round beyond who is furthest behind,
    /// or to who is furthest ahead. A round that went on by itself would leave steps behind, each
    /// of which ends before or behind its planned end.
    pub(super) fn round_of_steps_ns(&self, tenant: &TenantState, step_ns: u64) -> u64 {
        let level = self.members().filter(|t| t.priority == tenant.priority);
        let these = level.filter(|t| t.demands(self.tuning, self.now_ns) || self.comes_soon(t));
        let own_ns = tenant.virtual_at_end_ns(self.now_ns);
        let (lowest_ns, highest_ns) = these
            .map(|t| t.virtual_at_end_ns(self.now_ns))
            .fold((own_ns, own_ns), |(low, high), at| (low.min(at), high.max(at)));
        let next_ns = lowest_ns.saturating_add(step_ns);
        let is_near = highest_ns <= next_ns.saturating_add(step_ns / 2);
        if is_near { next_ns } else { highest_ns }
    }

    /// Whether the turn is at its end: at the planned one, or where the step under way ends nearer
    /// to that than the next.
    pub(super) fn is_over(&self) -> bool {
        let (half_ns, end_ns) = (self.half_step_ns(), self.turn_end_ns());
        let ends_step = || self.members().filter(|t| t.holder).all(TenantState::ends_step);
        let is_nearest = || end_ns < self.step_end_ns().saturating_add(half_ns);
        self.now_ns >= end_ns.saturating_add(half_ns) || half_ns != 0 && is_nearest() && ends_step()
    }

    /// When to look whether it is: in the midst of a step, since between two it may launch another
    /// one meanwhile.
    pub(super) fn over_look_ns(&self) -> u64 {
        let (half_ns, end_ns) = (self.half_step_ns(), self.turn_end_ns());
        let from_ns = self.step_end_ns();
        let left_ns = end_ns.saturating_sub(half_ns).saturating_sub(from_ns);
        let look_ns = match left_ns.checked_div(2 * half_ns) {
            None => end_ns,
            Some(_) if left_ns == 0 => self.now_ns.saturating_add(self.tuning.gappy_poll_ns),
            Some(steps) => from_ns.saturating_add(steps * 2 * half_ns).saturating_add(half_ns),
        };
        look_ns.min(end_ns.saturating_add(half_ns))
    }

    /// When the steps will have ended that holders wait for.
    pub(super) fn step_end_ns(&self) -> u64 {
        let holders = self.members().filter(|t| t.holder);
        holders.map(|t| t.step_end_ns(self.now_ns)).max().unwrap_or(self.now_ns)
    }

    /// When to look at the first steps of holders.
    pub(super) fn first_step_ns(&self) -> u64 {
        let of = |t: &TenantState| t.step_look_ns(self.now_ns, self.tuning.gappy_poll_ns);
        self.members().filter(|t| t.holder).filter_map(of).min().unwrap_or(u64::MAX)
    }

    /// How long a turn lasts at least before a tenant that is far behind ends it: half of a mean
    /// turn beside steppers.
    pub(super) fn min_hold_ns(&self) -> u64 {
        match self.state.has_steps() {
            true => self.tuning.min_hold_ns.min(self.state.step_turn_ns / 2),
            false => self.tuning.min_hold_ns,
        }
    }

    /// Whether it is a stepper at work, which comes back between two steps.
    pub(super) fn comes_soon(&self, tenant: &TenantState) -> bool {
        tenant.steps.is_stepper() && self.is_at_work(tenant)
    }

    /// Whether it waits for the turn to end, or soon will.
    pub(super) fn awaits(&self, tenant: &TenantState) -> bool {
        !tenant.holder && (tenant.demands(self.tuning, self.now_ns) || self.comes_soon(tenant))
    }

    /// Half of the longest step of a holder.
    pub(super) fn half_step_ns(&self) -> u64 {
        self.members().filter(|t| t.holder).map(|t| t.steps.half_ns()).max().unwrap_or(0)
    }
}
