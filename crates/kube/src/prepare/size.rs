//! Size of a prepared claim's shares, in the place of what they have claimed: what may be asked for, and what a share has then. Pure.
//!
//! Within the claim always: the scheduler counts what is claimed, so less of it is at nobody's cost. Above it cores alone, and as
//! a burst: a share that others want back is due what it has claimed. Memory never: what a program holds of a card cannot be taken
//! from it, so a share that has more than its claim would still have it when the scheduler gives the rest to another.
//!
//! Promises: a size fits all of the shares that it is for, or is refused in words; nothing is rounded.

use serde::{Deserialize, Serialize};

use super::allocated::{AllocatedClaim, AllocatedShare, is_of_request};
use crate::quantity;

/// The least memory that a share is made to have, unless it has claimed less: that of a context is more on most cards.
pub const LEAST_MEMORY_BYTES: u64 = 64 << 20;

/// Size of a claim's shares; what is left out is as claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimSize {
    /// The request whose shares are meant; all where none is named.
    pub request: Option<String>,
    /// Bytes of a card's memory, for each share.
    pub memory_bytes: Option<u64>,
    /// Percent of a card's time, for each share.
    pub cores_percent: Option<u32>,
    /// Whether cores may be above what is claimed.
    pub above: bool,
}

/// Part of a card that a share has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharePart {
    pub(super) memory_bytes: u64,
    /// Percent of the time that it is due.
    pub(super) due_cores: u32,
    /// The most that it may have while others leave it.
    pub(super) most_cores: u32,
}

impl SharePart {
    fn claimed(share: &AllocatedShare) -> Self {
        let cores = share.cores_percent;
        Self { memory_bytes: share.memory_bytes, due_cores: cores, most_cores: cores }
    }

    /// Part of a share, by the size of its claim where there is one.
    pub(super) fn of(share: &AllocatedShare, size: Option<&ClaimSize>) -> Self {
        let claimed = Self::claimed(share);
        let Some(size) = size.filter(|size| size.is_for(share)) else { return claimed };
        let most_cores = size.cores_percent.unwrap_or(claimed.most_cores);
        Self {
            memory_bytes: size.memory_bytes.unwrap_or(claimed.memory_bytes),
            due_cores: most_cores.min(claimed.due_cores),
            most_cores,
        }
    }
}

impl ClaimSize {
    fn is_for(&self, share: &AllocatedShare) -> bool {
        self.request.as_ref().is_none_or(|name| is_of_request(name, &share.request))
    }

    /// Whether all shares that it is for may have it.
    ///
    /// # Errors
    /// In words, with the value and what may be asked for.
    pub(super) fn check(&self, claim: &AllocatedClaim) -> Result<(), String> {
        let mut shares = claim.shares.iter().filter(|share| self.is_for(share)).peekable();
        if shares.peek().is_none() {
            let mut names: Vec<&str> = claim.shares.iter().map(|share| &*share.request).collect();
            names.dedup();
            let name = self.request.as_deref().unwrap_or_default();
            return Err(format!("request {name:?} is none of the claim's: {}", names.join(", ")));
        }
        shares.try_for_each(|share| self.check_share(share))
    }

    fn check_share(&self, share: &AllocatedShare) -> Result<(), String> {
        let AllocatedShare { request, memory_bytes, cores_percent, .. } = share;
        let claimed = quantity::binary(*memory_bytes);
        if let Some(memory) = self.memory_bytes {
            let least = LEAST_MEMORY_BYTES.min(*memory_bytes);
            let (asked, lowest) = (quantity::binary(memory), quantity::binary(least));
            if memory < least {
                return Err(format!(
                    "memory {asked} for request {request:?}: give {lowest} to {claimed}"
                ));
            }
            if memory > *memory_bytes {
                return Err(format!(
                    "memory {asked} for request {request:?} is above the claim's {claimed}, which `above` does not allow: what a \
                     program holds could not be taken back for the next claim on the card. Give {lowest} to {claimed}, or make a \
                     larger claim"
                ));
            }
        }
        match self.cores_percent {
            Some(cores) if !(1..=100).contains(&cores) => {
                Err(format!("cores {cores} for request {request:?}: give 1 to {cores_percent}"))
            }
            Some(cores) if cores > *cores_percent && !self.above => Err(format!(
                "cores {cores} for request {request:?} are above the claim's {cores_percent}: give 1 to {cores_percent}, or set \
                 `above: true`, for which you need the right to update sharesizes/above"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim() -> AllocatedClaim {
        let share = |request: &str, memory_bytes, cores_percent| AllocatedShare {
            request: request.to_owned(),
            memory_bytes,
            cores_percent,
            ..AllocatedShare::default()
        };
        let shares = vec![share("gpu", 8 << 30, 30), share("other/small", 32 << 20, 5)];
        AllocatedClaim { shares, ..AllocatedClaim::default() }
    }

    fn size(request: &str, memory_bytes: u64, cores_percent: u32) -> ClaimSize {
        ClaimSize {
            request: Some(request.to_owned()),
            memory_bytes: (memory_bytes > 0).then_some(memory_bytes),
            cores_percent: Some(cores_percent),
            above: false,
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_does() {
        for (size, part) in [
            (size("none", 0, 1), "request \"none\" is none of the claim's: gpu, other/small"),
            (size("gpu", (64 << 20) - 1, 1), "give 64Mi to 8Gi"),
            (size("gpu", (8 << 30) + 1, 1), "memory 8589934593 for request \"gpu\" is above"),
            (size("gpu", u64::MAX, 1), "make a larger claim"),
            (size("gpu", 1 << 30, 31), "cores 31 for request \"gpu\" are above the claim's 30"),
            (size("gpu", 1 << 30, 0), "cores 0 for request \"gpu\": give 1 to 30"),
            (size("gpu", 1 << 30, u32::MAX), "give 1 to 30"),
            // Less than the least was claimed.
            (size("other", 16 << 20, 1), "give 32Mi to 32Mi"),
            // All that it is for are to fit.
            (ClaimSize { request: None, ..size("", 1 << 30, 1) }, "request \"other/small\""),
        ] {
            let words = size.check(&claim()).unwrap_err();
            assert!(words.contains(part), "{words}");
        }
        let above = ClaimSize { above: true, ..size("gpu", (8 << 30) + 1, 100) };
        assert!(above.check(&claim()).unwrap_err().contains("`above` does not allow"));
    }

    #[test]
    fn cores_above_the_claim_are_a_burst() {
        let above = ClaimSize { above: true, ..size("gpu", 0, 100) };
        assert_eq!(above.check(&claim()), Ok(()));
        let part = SharePart::of(&claim().shares[0], Some(&above));
        assert_eq!(part, SharePart { memory_bytes: 8 << 30, due_cores: 30, most_cores: 100 });
        let other = SharePart::of(&claim().shares[1], Some(&above));
        assert_eq!(other, SharePart::of(&claim().shares[1], None));
    }

    proptest! {
        #[test]
        fn a_size_that_fits_takes_nothing_from_others(
            request in prop_oneof![Just(None), Just(Some("gpu".to_owned())), Just(Some("other".to_owned()))],
            memory_bytes in prop::option::of(prop_oneof![any::<u64>(), 0..9_u64 << 30]),
            cores_percent in prop::option::of(prop_oneof![any::<u32>(), 0..110_u32]),
            above in any::<bool>(),
        ) {
            let size = ClaimSize { request, memory_bytes, cores_percent, above };
            if size.check(&claim()).is_ok() {
                for share in &claim().shares {
                    let part = SharePart::of(share, Some(&size));
                    prop_assert!((1..=share.memory_bytes).contains(&part.memory_bytes));
                    prop_assert!((1..=share.cores_percent).contains(&part.due_cores));
                    prop_assert!((part.due_cores..=100).contains(&part.most_cores));
                    prop_assert!(above || part.most_cores == part.due_cores);
                }
            }
        }
    }
}
