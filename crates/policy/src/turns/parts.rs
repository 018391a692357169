//! The part of a domain that each tenant is due: by weight, and where none has set one by the rest that caps leave.
//!
//! A weight is a tenant's part beside others, a cap is the most it has. A tenant with a cap and no weight is due an
//! equal part like the others, but the part it could not use is theirs: beside a tenant without a cap, 20 % leave it
//! 80. Tenants that all have caps and no weights are due parts in the proportion of their caps.
//!
//! Promises: a weight that was set holds; no tenant is due less because of another's cap, nor because of its own while
//! that does not bind. Does not know tenants: `divide` does.

/// A whole device, and what the weight 1 is where no cap is looked at.
const ALL: u64 = 1_000_000;
pub(super) const OF_WEIGHT: u64 = ALL / 100;

/// Limits that a tenant has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// 0 where none is set.
    pub(super) weight: u32,
    /// Cap in millionths of a device, where there is one.
    pub(super) cap_ppm: Option<u32>,
}

impl Asked {
    /// It has a cap, and is due no more than it can use.
    pub(super) fn yields(self) -> bool {
        self.weight == 0 && self.cap_ppm.is_some()
    }

    /// Most that it is due: a sixteenth more than its cap, so that it waits for its cap and not for its turns. With an
    /// eighth, a tenant that sets and takes back a cap a hundred times a second gained 2 points.
    fn most(self) -> u64 {
        match self.cap_ppm {
            Some(ppm) if self.yields() => u64::from(ppm).saturating_mul(17) / 16,
            _ => u64::MAX,
        }
    }

    pub(super) fn weight(self) -> u64 {
        if self.weight == 0 { 100 } else { self.weight.into() }
    }
}

/// Rest of a device for the tenants of a priority that are not full, and their weights.
pub(super) struct Left {
    all: u64,
    weights: u64,
    /// True if all of them have caps alone.
    by_caps: bool,
}

impl Left {
    /// Of a device that `these` want.
    pub(super) fn of<I: Iterator<Item = Asked>>(these: impl Fn() -> I) -> Self {
        let by_caps = these().all(Asked::yields);
        let mut left = Self { all: ALL, weights: these().map(Asked::weight).sum(), by_caps };
        // A full tenant leaves no less to each of the others. More of them may be full then, and none less: the loop
        // ends.
        let mut full = 0;
        loop {
            let is_full = |asked: &Asked| asked.most() <= left.part(*asked);
            let now_full = these().filter(is_full).count();
            if by_caps || now_full == full {
                return left;
            }
            full = now_full;
            let taken = these().filter(is_full).map(Asked::most).sum::<u64>();
            let weights = these().filter(|one| !is_full(one)).map(Asked::weight).sum();
            left = Self { all: ALL.saturating_sub(taken), weights, by_caps };
        }
    }

    /// The part due to one of them.
    pub(super) fn part(&self, asked: Asked) -> u64 {
        let by_weight = match self.by_caps {
            true => u64::MAX,
            false => self.all.saturating_mul(asked.weight()) / self.weights.max(1),
        };
        asked.most().min(by_weight).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(all: &[(u32, u32)]) -> Vec<u64> {
        let asked = |(weight, percent): &(u32, u32)| Asked {
            weight: *weight,
            cap_ppm: (*percent != 0).then_some(percent * 10_000),
        };
        let left = Left::of(|| all.iter().map(asked));
        all.iter().map(|one| left.part(asked(one)) / 1_000).collect()
    }

    proptest! {
        /// The files of a tenant may say anything.
        #[test]
        fn a_division_ends_and_gives_everybody_something(
            all in prop::collection::vec((any::<u32>(), prop::option::of(1..1_000_000_u32)), 0..40),
            unset: u64,
        ) {
            let weight = |at: usize, weight| if unset >> (at % 64) & 1 == 0 { weight } else { 0 };
            let each = all.iter().enumerate();
            let all: Vec<_> =
                each.map(|(at, (w, cap_ppm))| Asked { weight: weight(at, *w), cap_ppm: *cap_ppm }).collect();
            let left = Left::of(|| all.iter().copied());
            for asked in &all {
                prop_assert!((1..=asked.most()).contains(&left.part(*asked)));
            }
        }
    }

    #[test]
    fn what_a_cap_leaves_is_due_to_the_others() {
        // Weight and cap of each, 0 where none is set; thousandths of the device.
        assert_eq!(parts(&[(0, 0), (0, 0)]), [500, 500]);
        assert_eq!(parts(&[(0, 20), (0, 0)]), [212, 787]);
        assert_eq!(parts(&[(0, 20), (0, 40), (0, 0)]), [212, 393, 393]);
        assert_eq!(parts(&[(0, 20), (0, 30), (0, 0)]), [212, 318, 468]);
        // A cap above an equal part is none.
        assert_eq!(parts(&[(0, 90), (0, 0)]), [500, 500]);
        assert_eq!(parts(&[(0, 20), (300, 0)]), [212, 787]);
    }

    #[test]
    fn caps_alone_divide_a_device_among_them() {
        assert_eq!(parts(&[(0, 20), (0, 30), (0, 50)]), [212, 318, 531]);
        assert_eq!(parts(&[(0, 80), (0, 40)]), [850, 425]);
    }

    #[test]
    fn a_weight_that_is_set_is_kept_beside_any_cap() {
        assert_eq!(parts(&[(100, 20), (100, 0)]), [500, 500]);
        assert_eq!(parts(&[(900, 20), (100, 0), (0, 50)]), [818, 90, 90]);
        assert_eq!(parts(&[(10_000, 0), (1, 0), (0, 1)]), [990, 0, 9]);
    }

    #[test]
    fn any_number_of_tenants_is_divided_among() {
        assert_eq!(parts(&[]), []);
        assert_eq!(parts(&[(0, 1); 256]), [10; 256]);
        let many: Vec<_> = (0..256).map(|at| (0, at % 100)).collect();
        assert!(parts(&many).iter().sum::<u64>() <= 1_000);
        assert_eq!(parts(&[(u32::MAX, 0), (u32::MAX, 99)]), [500, 500]);
    }
}
