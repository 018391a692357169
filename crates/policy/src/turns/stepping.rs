//! Knowledge of a tenant's steps: how long one takes, the gap behind it, and whether the tenant is a stepper.
//!
//! Steppers are told by how they come to a closed gate: a stepper comes there when all it launched
//! has ended, a queue before that. The length of a step is that of a turn's first one, and the gap
//! is the time until it comes again.
//!
//! Promises: what a tenant claims changes what is known of itself alone. Does not end turns: that is
//! done in `steps`.

use super::mean::mean;
use super::tuning;

/// Progress of a turn's first step.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) enum First {
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
pub(super) struct Stepping {
    pub(super) first: First,
    /// Moving means of a step, and of the host's time from its end until it comes to its gate.
    pub(super) step_ns: u64,
    pub(super) gap_ns: u64,
    /// The same of the time between the ends and the launches that are seen: of several steps between two looks, or of
    /// many launches, that is too long.
    pub(super) pause_ns: u64,
    /// The same from its last launch to its end.
    tail_ns: u64,
    sure: u32,
    /// It has no kernel that outlasts a step.
    pub(super) is_free: bool,
    /// When all it launched was seen to have ended; 0 while some has not.
    ended_ns: u64,
    /// Time that it had waited for turns by then.
    waited_ns: u64,
    /// It slept for its work at the look before.
    slept: bool,
    /// It has come to its closed gate.
    came: bool,
}

impl Stepping {
    /// Whether it is a stepper, at work for half of the time and more.
    pub(super) fn is_stepper(&self) -> bool {
        // The take-over is in the first step.
        let pause_ns = self.pause_ns.saturating_add(tuning::STEP_TAKEOVER_NS);
        let is_short = self.step_ns <= tuning::LONGEST_STEP_NS && pause_ns <= self.step_ns;
        self.is_free && self.may_be_one() && is_short
    }

    /// Whether it comes to its closed gate as steppers do.
    pub(super) fn may_be_one(&self) -> bool {
        self.sure >= tuning::SURE_STEPS
    }

    /// Half of a step; 0 of who makes none.
    pub(super) fn half_ns(&self) -> u64 {
        if self.is_stepper() { self.step_ns / 2 } else { 0 }
    }

    /// When to look for the end of its step: a moment before it should end, as steps ended so far.
    pub(super) fn end_look_ns(&self, launch_ns: u64) -> u64 {
        launch_ns.saturating_add(self.tail_ns).saturating_sub(tuning::STEP_EARLY_NS)
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
        self.is_free = look.longest_ns / 3 <= tuning::LONGEST_STEP_NS / 2;
        let comes = wants && !self.came;
        if look.sleepers > 1 {
            // Work of the other threads runs behind the first one's.
            self.sure = 0;
        } else if comes && is_busy {
            self.sure = self.sure.saturating_sub(tuning::SURE_STEPS);
        } else if comes && (self.ended_ns != 0 || self.slept) {
            self.sure = self.sure.saturating_add(1).min(tuning::MOST_SURE_STEPS);
        }
        self.came |= comes;
        if look.launched && self.ended_ns != 0 {
            self.look_at_pause(look);
        }
        self.look_at_first(look);
        let has_ended = drained && !is_busy;
        if has_ended && (self.ended_ns == 0 || look.launched) {
            self.ended_ns = look.busy_until_ns.clamp(look.launch_ns.min(now_ns), now_ns);
            self.waited_ns = look.waited_ns;
            let tail_ns = self.ended_ns.saturating_sub(look.launch_ns);
            self.tail_ns = of_so_far(self.tail_ns, tail_ns.min(tuning::LONGEST_STEP_NS));
        } else if !has_ended {
            self.ended_ns = 0;
        }
        self.slept = look.sleeps && !wants;
    }

    /// It has launched again.
    fn look_at_pause(&mut self, look: &Look) {
        let waited_ns = look.waited_ns.saturating_sub(self.waited_ns);
        // A pause of seconds before the first turn kept four decode servers from short turns for 1.8 s (an H200,
        // bench/results/h200-2026-11-30/steps.txt).
        let until = |began_ns: u64| {
            began_ns
                .saturating_sub(waited_ns)
                .saturating_sub(self.ended_ns)
                .min(tuning::LONGEST_STEP_NS)
        };
        let pause_ns = until(look.launch_ns);
        // The last launch is not the first of its step; who waited has gone on within a take-over.
        let taken_ns = look.opened_ns.saturating_add(tuning::STEP_TAKEOVER_NS);
        let gap_ns = until(look.launch_ns.min(taken_ns));
        self.pause_ns = of_so_far(self.pause_ns, pause_ns);
        if look.opened_ns > self.ended_ns && waited_ns != 0 {
            self.gap_ns = of_so_far(self.gap_ns, gap_ns);
        }
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
            _ if elapsed_ns > tuning::LONGEST_STEP_NS => {
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
