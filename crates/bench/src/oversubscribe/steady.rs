//! Turns that copies took, and the time between them in which nothing is the first or the last of its kind.
//!
//! Promises: a window begins and ends with the first step of a turn, so that as many hand-overs as turns lie in it; within a
//! turn steps are as far apart as on average. Does not know what a turn costs.

use serde_json::Value;

/// Time in which a copy did steps without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// When its first step had ended.
    pub(super) began_ns: u64,
    /// When its last one had.
    pub(super) ended_ns: u64,
    pub(super) steps: u64,
}

impl Turn {
    /// Those in a copy's last words.
    pub(super) fn all_of(said: &Value) -> Vec<Self> {
        let turns = said.get("turns").and_then(Value::as_array).into_iter().flatten();
        let numbers = |turn: &Value| -> Option<Self> {
            let at = |index: usize| turn.get(index).and_then(Value::as_u64);
            Some(Self { began_ns: at(0)?, ended_ns: at(1)?, steps: at(2)? })
        };
        turns.filter_map(numbers).collect()
    }

    /// Steps that ended after `from_ns`, and not after `until_ns`.
    fn steps_in(&self, [from_ns, until_ns]: [u64; 2]) -> u64 {
        self.steps_until(until_ns).saturating_sub(self.steps_until(from_ns))
    }

    fn steps_until(&self, at_ns: u64) -> u64 {
        if at_ns < self.began_ns {
            return 0;
        }
        if at_ns >= self.ended_ns {
            return self.steps;
        }
        let (past, all) = (at_ns - self.began_ns, self.ended_ns - self.began_ns);
        let between = u128::from(past) * u128::from(self.steps.saturating_sub(1)) / u128::from(all);
        1 + u64::try_from(between).unwrap_or(u64::MAX)
    }
}

/// Steps of all copies in a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) seconds: f64,
    pub(super) steps: u64,
}

impl Window {
    pub(super) fn steps_per_s(&self) -> f64 {
        self.steps as f64 / self.seconds
    }
}

/// The time from the first turn that begins when every copy's first is over to the last that begins while all copies have
/// work. Where nothing `may_move` there need be no turns: then all copies run from their first step to the first one's end.
pub(super) fn window(copies: &[Vec<Turn>], may_move: bool) -> Option<Window> {
    let firsts = || copies.iter().map(|turns| turns.first());
    let lasts = copies.iter().map(|turns| turns.last().map(|turn| turn.ended_ns));
    let all_have_work_until = lasts.min()??;
    let all_had_one_at = firsts().map(|turn| turn.map(|turn| turn.ended_ns)).max()??;
    let all_began_at = firsts().map(|turn| turn.map(|turn| turn.began_ns)).max()??;
    let turns = || copies.iter().flatten();
    let begins = || turns().map(|turn| turn.began_ns).filter(|at| *at <= all_have_work_until);
    let from = begins().filter(|at| *at > all_had_one_at).min();
    let of_turns = from.zip(begins().max()).filter(|(from, until)| from < until);
    let together = Some((all_began_at, all_have_work_until)).filter(|_| !may_move);
    let (from, until) = of_turns.or(together).filter(|(from, until)| from < until)?;
    let steps = turns().map(|turn| turn.steps_in([from, until])).sum();
    Some(Window { seconds: (until - from) as f64 / 1e9, steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn turn(began_s: u64, ended_s: u64) -> Turn {
        Turn { began_ns: began_s * S, ended_ns: ended_s * S, steps: ended_s - began_s + 1 }
    }

    #[test]
    fn a_window_has_as_many_hand_overs_as_turns() {
        // A step a second, and two seconds of hand-over behind each turn.
        let a = vec![turn(1, 9), turn(23, 31), turn(45, 53)];
        let b = vec![turn(12, 20), turn(34, 42), turn(56, 64)];
        let found = window(&[a.clone(), b], true).unwrap();
        assert_eq!((found.seconds, found.steps), (22.0, 18));
        assert_eq!(window(&[a.clone(), vec![turn(12, 20)]], true), None);
        assert_eq!(window(&[a, vec![]], false), None);
    }

    #[test]
    fn copies_that_fit_run_together_from_the_first_step() {
        let both = [vec![turn(1, 11)], vec![turn(2, 15)]];
        assert_eq!(window(&both, false), Some(Window { seconds: 9.0, steps: 18 }));
        assert_eq!(window(&both, true), None);
    }

    #[test]
    fn turns_are_read() {
        let said = serde_json::json!({"turns": [[1, 5, 3], [9, 9, 1], ["x"]]});
        let turns = Turn::all_of(&said);
        assert_eq!(turns.len(), 2);
        assert_eq!(turns[0], Turn { began_ns: 1, ended_ns: 5, steps: 3 });
        assert_eq!(Turn::all_of(&serde_json::json!({})), []);
    }

    #[test]
    fn no_step_counts_twice_or_is_lost() {
        for (began_ns, lasts, steps) in [(0, 0, 1), (5, 0, 2), (7, 100, 3), (7, 99, 41), (1, 3, 9)]
        {
            let turn = Turn { began_ns: began_ns + 1, ended_ns: began_ns + 1 + lasts, steps };
            for at in 0..300 {
                let parts = [[0, at], [at, u64::MAX]].map(|part| turn.steps_in(part));
                assert_eq!(parts.iter().sum::<u64>(), steps, "{turn:?} at {at}");
            }
        }
    }
}
