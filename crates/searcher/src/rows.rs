//! Rows of a table that is judged as a whole: what was due, what came, and whether a miss is known.
//!
//! Promises: a row that is farther off than its goal is wrong, unless the table of known misses names it and it is no farther
//! off than is said there; an entry that always missed and no longer does is wrong too, so that the table cannot grow stale.

use std::collections::BTreeMap;

use crate::oracle::{KNOWN, Within};
use crate::verdict::Verdict;

/// Rows of a table.
#[derive(Default, Debug)]
pub struct Rows {
    wrong: Vec<String>,
    /// Of entries of the table of known misses whether any row of theirs has missed its goal.
    known: BTreeMap<usize, bool>,
}

impl Rows {
    /// One: what was due, how far it may be off, and what came.
    pub fn row(&mut self, what: &str, due: impl Into<f64>, goal: Within, reached: f64) {
        let due = due.into();
        println!("{what:60} {due:9.2} due, reached {reached:9.2}");
        let named = || {
            let all = KNOWN.iter().enumerate();
            all.filter(|(_, known)| known.names(what))
        };
        let is_held = goal.holds(due, reached);
        let mut is_known = false;
        for (at, known) in named() {
            let is_this = !is_held && known.allows(due, reached);
            *self.known.entry(at).or_default() |= is_this;
            is_known |= is_this;
        }
        if !is_held && !is_known {
            let known: Vec<_> = named().map(|(_, known)| known).collect();
            self.wrong.push(format!("{what}: {reached:.3} of {due:.3}, {goal:?}, {known:?}"));
        }
    }

    /// How many times its tolerance a drawn case is off.
    pub fn verdict(&mut self, verdict: &Verdict) {
        println!("{:.2} tolerances, seed {}: {}", verdict.off, verdict.seed, verdict.text);
        let (tolerance, points) = (verdict.points.abs() / verdict.off, verdict.points);
        // One that is off by nothing has no tolerance to tell.
        let tolerance = if tolerance.is_finite() { tolerance } else { 0.0 };
        self.row(&format!("seed {}", verdict.seed), 0, Within::either(tolerance), points);
    }

    /// # Panics
    /// Where any was wrong.
    #[track_caller]
    pub fn judge(mut self) {
        let held = self.known.iter().filter(|(_, is_missed)| !**is_missed);
        let held = held.map(|(at, _)| &KNOWN[*at]).filter(|known| known.is_always);
        self.wrong.extend(held.map(|known| {
            format!("{} holds now: it is no longer to be among the known misses", known.row)
        }));
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{share, together};

    fn is_wrong(rows: Rows) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rows.judge())).is_err()
    }

    fn of(all: &[(&str, f64)]) -> Rows {
        let mut rows = Rows::default();
        all.iter().for_each(|(what, reached)| rows.row(what, 40, together(), *reached));
        rows
    }

    #[test]
    fn a_miss_is_wrong_unless_it_is_known() {
        assert!(!is_wrong(of(&[("any", 40.9), ("any", 39.1)])));
        assert!(is_wrong(of(&[("any", 41.1)])) && is_wrong(of(&[("any", 38.9)])));
        let known = "uneven ranks under 40";
        assert!(!is_wrong(of(&[(known, 38.6)])), "as far off as is known");
        assert!(is_wrong(of(&[(known, 37.9)])), "farther");
        assert!(is_wrong(of(&[(known, 41.2)])), "to the other side");
        assert!(is_wrong(of(&[(known, 40.0)])), "it holds, and is still listed");
        assert!(!is_wrong(of(&[(known, 40.0), (known, 38.6)])), "one of its rows misses");
        assert!(!is_wrong(of(&[("cap 80, daemon true", 40.0)])), "that missed at times alone");
        assert!(is_wrong(of(&[("any", f64::NAN)])));
    }

    #[test]
    fn every_known_miss_says_why_and_by_how_much() {
        for known in KNOWN {
            assert!(known.points != 0.0 && known.points.is_finite(), "{known:?}");
            assert!(!known.cause.is_empty(), "{known:?}");
        }
        assert!(share().holds(30.0, 31.5) && !share().holds(30.0, 31.6));
    }
}
