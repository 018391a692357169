//! A tenant's last pauses: moments within its work, or the end of it.
//!
//! A holder that has nothing in flight may launch again in a few microseconds or in seconds, and a wrong
//! guess costs the same either way: about two hand-overs. So the scheduler waits for an idle holder
//! about as long as those take, unless its last pauses have all been ends.
//!
//! Promises: a single false end of work resets the streak of ends; samples taken too late to tell are
//! ignored.

use super::tuning;

/// The streak of ends. Starts as `default()`: nothing is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses {
    /// Fades with each short turn that ended in a pause after one that was long.
    long_turns: u32,
    /// Pauses in a row that were ends.
    ends: u32,
    /// When a turn was ended at once, while it is not known whether rightly; 0 otherwise.
    ended_ns: u64,
}

impl Pauses {
    /// Whether it comes back from a pause with work for long, as it did of late.
    pub(super) fn works_long(&self) -> bool {
        self.long_turns > 0
    }

    /// Whether a pause is an end as soon as it is seen.
    pub(super) fn end_at_once(&self) -> bool {
        self.works_long() && self.ends >= tuning::SURE_ENDS
    }

    /// A turn has ended that was long or not; `paused` when because the holder had no work, of which
    /// `drained` is proof.
    pub(super) fn turn_ended(&mut self, now_ns: u64, was_long: bool, paused: bool, drained: bool) {
        if paused && drained && self.end_at_once() {
            self.ended_ns = now_ns;
        } else if paused && drained {
            self.ends = self.ends.saturating_add(1);
        }
        self.long_turns = match was_long {
            true => tuning::LONG_TURNS,
            false => self.long_turns.saturating_sub(u32::from(paused)),
        };
    }

    /// Work came in the middle of a turn after all had ended.
    pub(super) fn went_on(&mut self) {
        self.ends = 0;
    }

    /// A look after a turn that was ended at once: whether it has come back since.
    pub(super) fn look(&mut self, now_ns: u64, came_back: bool) {
        if self.ended_ns == 0 {
            return;
        }
        let since_ns = now_ns.saturating_sub(self.ended_ns);
        if came_back && since_ns < tuning::IDLE_NS.saturating_mul(tuning::LATE_LOOKS) {
            self.ends = 0;
        }
        if came_back || since_ns >= tuning::IDLE_NS {
            self.ended_ns = 0;
        }
    }

    /// When it should be looked at whether a turn was ended rightly.
    pub(super) fn look_ns(&self) -> Option<u64> {
        (self.ended_ns != 0).then(|| self.ended_ns.saturating_add(tuning::IDLE_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// One that works for long, and whose turns have ended in so many pauses since.
    fn after(pauses: u32) -> Pauses {
        let mut seen = Pauses::default();
        seen.turn_ended(MS, true, false, false);
        for _ in 0..pauses {
            seen.turn_ended(MS, true, true, true);
        }
        seen
    }

    #[test]
    fn a_pause_is_an_end_when_the_last_ones_were() {
        assert!(!Pauses::default().end_at_once());
        assert!(!after(tuning::SURE_ENDS - 1).end_at_once());
        assert!(after(tuning::SURE_ENDS).end_at_once());
        let mut seen = after(tuning::SURE_ENDS);
        seen.went_on();
        assert!(!seen.end_at_once(), "one that was none takes it back");
    }

    #[test]
    fn an_estimate_proves_no_end() {
        let mut seen = after(0);
        for _ in 0..10 {
            seen.turn_ended(MS, true, true, false);
        }
        assert!(!seen.end_at_once());
    }

    #[test]
    fn who_comes_back_soon_was_not_at_its_end() {
        let ended_ns = 7 * MS;
        for (later_ns, came_back, still) in [
            (tuning::IDLE_NS / 2, true, false),
            (tuning::IDLE_NS / 2, false, true),
            (tuning::IDLE_NS, true, false),
            (tuning::IDLE_NS, false, true),
            // Too late to tell when it came.
            (10 * tuning::IDLE_NS, true, true),
        ] {
            let mut seen = after(tuning::SURE_ENDS);
            seen.turn_ended(ended_ns, true, true, true);
            assert_eq!(seen.look_ns(), Some(ended_ns + tuning::IDLE_NS));
            seen.look(ended_ns + later_ns, came_back);
            assert_eq!(seen.end_at_once(), still, "{later_ns} {came_back}");
            let is_open = later_ns < tuning::IDLE_NS && !came_back;
            assert_eq!(seen.look_ns().is_some(), is_open, "{later_ns} {came_back}");
        }
    }
}
