//! How far what was promised may be from what came: the tolerances, as formulas.
//!
//! Promises: nothing here is fitted to a case. Each formula says which of the gate's figures it comes from.

use divvy_policy::turns::Tuning;

use crate::SECOND;
use crate::card::CardModel;

/// Points by which a share may be off its cap over a run: 1.5, and for what a program submits as one unit and is
/// paid for afterwards, that unit's part of the run.
pub fn run_points(unit_ns: u64, run_ns: u64) -> f64 {
    1.5 + 100.0 * unit_ns as f64 / run_ns.max(1) as f64
}

/// The same of a lone tenant whose longest kernel is known: two launches of what is not known are in flight at
/// most.
pub fn lone_points(longest_ns: u64, run_ns: u64) -> f64 {
    run_points(2 * longest_ns, run_ns)
}

/// What is not judged at the beginning of a run of a lone tenant: kernels are met for the first time, and what
/// they were charged too little is paid for.
pub fn first_ns(longest_ns: u64) -> u64 {
    2 * SECOND + 100 * longest_ns
}

/// What is not judged of tenants beside each other, the last of whom has begun by then: a second, and the longest unit of
/// work of any, which may all have been queued before others came. It runs in slices of as many as there are.
pub fn first_beside_ns(begun_ns: u64, tenants: usize, unit_ns: u64) -> u64 {
    begun_ns + SECOND + tenants as u64 * unit_ns
}

/// The most that a tenant may have of a device in so long, whatever happens: its cap, what a cap saves up, and the
/// longest that may be in flight before anything is known of it, charged behind the end of the run.
pub fn most_ns(share_ppm: u64, run_ns: u64, longest_ns: u64) -> u64 {
    share_ppm * (run_ns / 1_000_000) + 4 * longest_ns + SECOND / 20
}

/// Of a tenant that would use all of a device: its weight, its cap in percent where it has one, and what it reaches
/// alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// Among the others'.
    pub weight: f64,
    /// In percent.
    pub cap: Option<f64>,
    /// In percent.
    pub alone: f64,
}

impl Claim {
    /// The part of the time that it can use.
    fn most(self) -> f64 {
        self.cap.map_or(1.0, |cap| (cap / self.alone).min(1.0))
    }
}

/// The weight of a tenant that was given none: its cap, of which it is to have what it can use of its turns, down to
/// seven eighths; or a hundred.
pub fn usual_weight(cap: Option<f64>, alone: f64) -> f64 {
    cap.map_or(100.0, |cap| cap / (alone / 100.0).clamp(0.875, 1.0))
}

/// What each is due beside the others, in percent: time by weight, what a cap leaves to the others by theirs, and of
/// that time what it uses of time alone.
pub fn due(claims: &[Claim]) -> Vec<f64> {
    due_of(claims, 1.0)
}

/// The least that each is due: hand-overs take their part of the device, and who is bound by a cap gives up none of
/// it.
pub fn least(claims: &[Claim]) -> Vec<f64> {
    let handed_on = 1.0 - HANDED_OVER;
    let each = due(claims).into_iter().zip(due_of(claims, handed_on));
    each.map(|(due, left)| left.min(due * handed_on)).collect()
}

/// The same of so much of the device's time.
fn due_of(claims: &[Claim], time: f64) -> Vec<f64> {
    let mut parts: Vec<Option<f64>> = vec![None; claims.len()];
    loop {
        let open = || claims.iter().zip(&parts).filter(|(_, part)| part.is_none());
        let weights: f64 = open().map(|(claim, _)| claim.weight).sum();
        let left = time - parts.iter().flatten().sum::<f64>();
        let part = |claim: &Claim| left * claim.weight / weights;
        let is_full = |(claim, given): &(&Claim, &Option<f64>)| {
            given.is_none() && claim.most() <= part(claim)
        };
        let full: Vec<bool> = claims.iter().zip(&parts).map(|pair| is_full(&pair)).collect();
        if !full.contains(&true) {
            let all = claims.iter().zip(&parts);
            return all
                .map(|(claim, given)| claim.alone * given.unwrap_or_else(|| part(claim)))
                .collect();
        }
        for ((given, claim), is_full) in parts.iter_mut().zip(claims).zip(full) {
            if is_full {
                *given = Some(claim.most());
            }
        }
    }
}

/// The part of a device that hand-overs, and waits for the ends of what nobody can tell the length of, may take: what the
/// goal for caps that sum to all of a device leaves to them.
const HANDED_OVER: f64 = 0.045;

/// The longest that who wants the device beside one other has none of it: the other's longest turn, the time-out of the drain
/// behind it, and two slices of work that did not drain.
pub fn wait_ns() -> u64 {
    let tuning = Tuning::default();
    tuning.max_quantum_ns + tuning.drain_timeout_ns + 2 * CardModel::default().slice_ns
}

/// How far processes that want alike are from having alike, where 1 is at what is allowed: the one that had least has nine
/// tenths of the one that had most.
pub fn uneven(had: &[f64]) -> f64 {
    let most = had.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let least = had.iter().copied().fold(most, f64::min);
    (1.0 - least / most) / 0.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_by_weight_and_what_a_cap_leaves_is_too() {
        let claim = |weight, cap, alone| Claim { weight, cap, alone };
        let near = |claims: &[Claim], wanted: &[f64]| {
            for (due, wanted) in due(claims).iter().zip(wanted) {
                assert!((due - wanted).abs() < 0.01, "{due} for {wanted}: {claims:?}");
            }
        };
        near(&[claim(100.0, None, 100.0), claim(300.0, None, 100.0)], &[25.0, 75.0]);
        near(&[claim(100.0, None, 50.0), claim(300.0, None, 100.0)], &[12.5, 75.0]);
        near(&[claim(900.0, Some(30.0), 100.0), claim(100.0, None, 100.0)], &[30.0, 70.0]);
        // A cap above what it reaches alone is none.
        near(&[claim(100.0, Some(70.0), 60.0), claim(100.0, None, 100.0)], &[30.0, 50.0]);
        let three =
            [claim(200.0, Some(10.0), 100.0), claim(100.0, None, 100.0), claim(200.0, None, 90.0)];
        near(&three, &[10.0, 30.0, 54.0]);
    }
}
