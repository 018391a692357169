//! The part of a device that each of several tenants is due: by weight, by cap, and by its use alone.
//!
//! Promises: the rest that a cap leaves goes to the others by their weights. Does not judge: tolerances are in
//! [`crate::oracle`].

use crate::case::TenantPlan;
use crate::oracle::HANDED_OVER;

/// How much more than its cap a tenant without a weight is due at most, so that its cap binds and not its turns.
const BEYOND_CAP: f64 = 17.0 / 16.0;

/// Of a tenant that would use all of a device: its weight where it was given one, its cap in percent where it has one,
/// and what it reaches alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// Among the others'.
    pub weight: Option<f64>,
    /// In percent.
    pub cap: Option<f64>,
    /// In percent.
    pub alone: f64,
}

impl Claim {
    /// A tenant's limits, and what it reaches alone.
    pub fn of(plan: &TenantPlan, alone: f64) -> Self {
        let weight = (plan.weight != 0).then_some(f64::from(plan.weight));
        let cap = (plan.share_ppm != 0).then_some(plan.share_ppm as f64 / 10_000.0);
        Self { weight, cap, alone }
    }

    /// The part of the time that it can use.
    fn most(self) -> f64 {
        self.cap.map_or(1.0, |cap| (cap / self.alone).min(1.0))
    }

    /// Most that its weight can be, of a hundred: with a cap alone, its cap and a sixteenth.
    fn most_weight(self) -> f64 {
        match (self.weight, self.cap) {
            (None, Some(cap)) => cap * BEYOND_CAP,
            _ => f64::INFINITY,
        }
    }

    /// Worth of its turns: a tenant with a cap and no weight has the part that it can use of them, down to seven eighths.
    fn of_use(self) -> f64 {
        if self.most_weight().is_finite() { (self.alone / 100.0).clamp(0.875, 1.0) } else { 1.0 }
    }
}

/// The weights of all, those included that were given none: an equal part of a hundred each, of which a cap leaves the
/// others what it does not let be used; or the caps, where all have one and no weight.
fn weights(claims: &[Claim]) -> Vec<f64> {
    let each = |of: &dyn Fn(&Claim) -> f64| {
        claims.iter().map(|claim| of(claim) / claim.of_use()).collect::<Vec<_>>()
    };
    let of_each = |claim: &Claim| claim.weight.unwrap_or(100.0);
    if claims.iter().all(|claim| claim.most_weight().is_finite()) {
        return each(&|claim| claim.most_weight());
    }
    // Worth of a weight of one: it grows with each tenant that is full.
    let mut worth = 0.0;
    loop {
        let is_full = |claim: &&Claim| claim.most_weight() <= worth * of_each(claim);
        let taken: f64 = claims.iter().filter(is_full).map(|claim| claim.most_weight()).sum();
        let others: f64 = claims.iter().filter(|claim| !is_full(claim)).map(of_each).sum();
        let next = (100.0 - taken) / others;
        if next <= worth {
            return each(&|claim| claim.most_weight().min(worth * of_each(claim)));
        }
        worth = next;
    }
}

/// The part due to each beside the others, in percent: time by weight, the rest that a cap leaves to the others by theirs,
/// and of that time the part it uses of time alone.
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
    let weights = weights(claims);
    let mut parts: Vec<Option<f64>> = vec![None; claims.len()];
    loop {
        let open = (0..claims.len()).filter(|at| parts[*at].is_none());
        let sum: f64 = open.map(|at| weights[at]).sum();
        let left = time - parts.iter().flatten().sum::<f64>();
        let part = |at: usize| left * weights[at] / sum;
        let is_full = |at: &usize| parts[*at].is_none() && claims[*at].most() <= part(*at);
        let full: Vec<usize> = (0..claims.len()).filter(is_full).collect();
        if full.is_empty() {
            let of_time = |at: usize| parts[at].unwrap_or_else(|| part(at));
            return (0..claims.len()).map(|at| claims[at].alone * of_time(at)).collect();
        }
        for at in full {
            parts[at] = Some(claims[at].most());
        }
    }
}

/// The most that a tenant falls behind its part of a device, less what hand-overs take, between any two of these looks:
/// times, and the device time that it had by then.
pub fn most_behind_ns(looks: impl IntoIterator<Item = (u64, u64)>, part: f64) -> u64 {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for (at_ns, had_ns) in looks {
        let behind = at_ns as f64 * part * (1.0 - HANDED_OVER) - had_ns as f64;
        least = behind.min(least);
        most = most.max(behind - least);
    }
    most.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_by_weight_and_what_a_cap_leaves_is_too() {
        let claim = |weight, cap, alone| Claim { weight: Some(weight), cap, alone };
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

    #[test]
    fn what_a_cap_leaves_is_due_to_those_without_one() {
        let due = |caps: &[Option<f64>]| {
            let claim = |cap: &Option<f64>| Claim { weight: None, cap: *cap, alone: 100.0 };
            let due = of(&caps.iter().map(claim).collect::<Vec<_>>());
            due.into_iter().map(f64::round).collect::<Vec<_>>()
        };
        let wanted: [(&[_], Vec<f64>); 6] = [
            (&[Some(20.0), None], vec![20.0, 80.0]),
            (&[Some(90.0), None], vec![50.0, 50.0]),
            (&[Some(20.0), None, None], vec![20.0, 40.0, 40.0]),
            (&[Some(20.0), Some(30.0), Some(50.0)], vec![20.0, 30.0, 50.0]),
            (&[Some(80.0), Some(40.0)], vec![67.0, 33.0]),
            (&[Some(10.0), Some(30.0), None], vec![10.0, 30.0, 60.0]),
        ];
        for (caps, wanted) in wanted {
            assert_eq!(due(caps), wanted, "{caps:?}");
        }
    }
}
