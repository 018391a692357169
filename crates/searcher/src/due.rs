//! What each of several is due of a device: by weight, by cap, and by what it reaches alone.
//!
//! Promises: what a cap leaves goes to the others by their weights. Does not judge: how far what came may be off is in
//! [`crate::oracle`].

use crate::oracle::HANDED_OVER;

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
pub fn of(claims: &[Claim]) -> Vec<f64> {
    of_time(claims, 1.0)
}

/// The least that each is due: hand-overs take their part of the device, and who is bound by a cap gives up none of
/// it.
pub fn least(claims: &[Claim]) -> Vec<f64> {
    let handed_on = 1.0 - HANDED_OVER;
    let each = of(claims).into_iter().zip(of_time(claims, handed_on));
    each.map(|(due, left)| left.min(due * handed_on)).collect()
}

/// The same of so much of the device's time.
fn of_time(claims: &[Claim], time: f64) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_by_weight_and_what_a_cap_leaves_is_too() {
        let claim = |weight, cap, alone| Claim { weight, cap, alone };
        let near = |claims: &[Claim], wanted: &[f64]| {
            for (due, wanted) in of(claims).iter().zip(wanted) {
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
