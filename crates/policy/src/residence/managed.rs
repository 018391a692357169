//! Managed memory of all processes on one device: how much each may have, wherever it is.
//!
//! Managed memory that exceeds what a device has makes the driver move pages at every fault, for all. So each process has
//! a ceiling of it, which it looks at before it asks the driver.
//!
//! Promises: the ceilings, those that stood before and what processes have included, never exceed the limit in sum by what is
//! granted here; a ceiling falls at once, and what falls is given on in a later step, when the process has been seen under
//! it. What is asked for is granted as a whole or not at all. Does not know tenants, nor where memory is.

/// Managed memory of one process on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagedUse {
    /// Bytes that it has: raised before they are taken, and taken back where its ceiling does not allow them.
    pub managed_bytes: u64,
    /// Bytes that a call waits to have beyond them.
    pub asked_bytes: u64,
    /// The ceiling that stood when these were read; none where it is not known: it may have anything.
    pub ceiling_bytes: Option<u64>,
}

/// Ceiling of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagedCeiling {
    /// Bytes that it may have.
    pub bytes: u64,
    /// Its request is not to be had.
    pub refused: bool,
}

impl ManagedUse {
    /// Bytes that it may have before another ceiling.
    fn in_use_bytes(&self) -> u64 {
        self.managed_bytes.max(self.ceiling_bytes.unwrap_or(u64::MAX))
    }

    fn wanted_bytes(&self) -> u64 {
        self.managed_bytes.saturating_add(self.asked_bytes)
    }
}

/// Divides `limit_bytes` among processes: the ceiling of each. Entries missing in `ceilings` get nothing; what is asked for
/// first in the list is granted first.
pub fn divide_managed(limit_bytes: u64, processes: &[ManagedUse], ceilings: &mut [ManagedCeiling]) {
    ceilings.fill(ManagedCeiling::default());
    let sum =
        |part: fn(&ManagedUse) -> u64| processes.iter().map(part).fold(0, u64::saturating_add);
    let mut free_bytes = limit_bytes.saturating_sub(sum(ManagedUse::in_use_bytes));
    // Room that a ceiling keeps which falls in this step is there in a later one.
    let had_bytes = sum(|process| process.managed_bytes);
    for (process, ceiling) in processes.iter().zip(ceilings.iter_mut()) {
        if process.ceiling_bytes.is_none() {
            // Its request is answered once it has one.
            ceiling.bytes = process.managed_bytes;
            continue;
        }
        let missing_bytes = process.wanted_bytes().saturating_sub(process.in_use_bytes());
        if missing_bytes <= free_bytes {
            free_bytes -= missing_bytes;
            ceiling.bytes = process.wanted_bytes();
            continue;
        }
        ceiling.bytes = process.managed_bytes;
        ceiling.refused = had_bytes.saturating_add(process.asked_bytes) > limit_bytes;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process([managed_bytes, asked_bytes, ceiling_bytes]: [u64; 3]) -> ManagedUse {
        ManagedUse { managed_bytes, asked_bytes, ceiling_bytes: Some(ceiling_bytes) }
    }

    fn divided(limit: u64, processes: &[[u64; 3]]) -> Vec<(u64, bool)> {
        let processes: Vec<_> = processes.iter().map(|words| process(*words)).collect();
        let mut ceilings = vec![ManagedCeiling { bytes: 9, refused: true }; processes.len()];
        divide_managed(limit, &processes, &mut ceilings);
        ceilings.iter().map(|ceiling| (ceiling.bytes, ceiling.refused)).collect()
    }

    #[test]
    fn what_is_asked_for_is_granted_whole_or_refused() {
        assert_eq!(divided(100, &[[0, 60, 0], [0, 60, 0]]), [(60, false), (0, false)]);
        // Once the first has taken it, the second cannot have it.
        assert_eq!(divided(100, &[[60, 0, 60], [0, 60, 0]]), [(60, false), (0, true)]);
        assert_eq!(divided(100, &[[60, 0, 60], [0, 40, 0]]), [(60, false), (40, false)]);
        assert_eq!(divided(100, &[[0, 101, 0]]), [(0, true)]);
        assert_eq!(divided(0, &[[0, 0, 0], [5, 0, 5]]), [(0, false), (5, false)]);
    }

    #[test]
    fn what_falls_is_given_on_in_a_later_step() {
        // The first has freed 50, which its ceiling still allows it.
        assert_eq!(divided(100, &[[50, 0, 100], [0, 50, 0]]), [(50, false), (0, false)]);
        assert_eq!(divided(100, &[[50, 0, 50], [0, 50, 0]]), [(50, false), (50, false)]);
    }

    #[test]
    fn beside_one_of_which_nothing_is_known_nothing_is_granted() {
        let new = ManagedUse { managed_bytes: 5, asked_bytes: 10, ceiling_bytes: None };
        let mut ceilings = [ManagedCeiling::default(); 2];
        divide_managed(100, &[new, process([0, 20, 0])], &mut ceilings);
        assert_eq!(
            ceilings.map(|ceiling| (ceiling.bytes, ceiling.refused)),
            [(5, false), (0, false)]
        );
    }

    proptest! {
        #[test]
        fn no_more_than_the_limit_is_granted(
            limit in 0_u64..1000,
            words in prop::collection::vec(prop::array::uniform3(0_u64..400), 0..6),
        ) {
            let before: Vec<_> = words.iter().map(|words| process(*words)).collect();
            let after = divided(limit, &words);
            let in_use: u64 = before.iter().map(ManagedUse::in_use_bytes).sum();
            // A process may go by its old ceiling or by its new one.
            let may: u64 = before.iter().zip(&after).map(|(p, (c, _))| p.in_use_bytes().max(*c)).sum();
            prop_assert!(may <= limit.max(in_use));
            for (process, (ceiling, refused)) in before.iter().zip(&after) {
                prop_assert!(*ceiling >= process.managed_bytes);
                prop_assert!(!refused || process.asked_bytes > 0);
            }
        }

        #[test]
        fn processes_that_obey_and_retry_are_answered(
            limit in 1_u64..1000,
            wants in prop::collection::vec(0_u64..400, 1..6),
        ) {
            let mut uses = vec![ManagedUse::default(); wants.len()];
            let mut open: Vec<_> = wants.iter().map(|want| *want > 0).collect();
            for _ in 0..4 * wants.len() {
                for ((process, want), open) in uses.iter_mut().zip(&wants).zip(&mut open) {
                    process.asked_bytes = if *open { *want } else { 0 };
                }
                let mut ceilings = vec![ManagedCeiling::default(); uses.len()];
                divide_managed(limit, &uses, &mut ceilings);
                for ((process, ceiling), open) in uses.iter_mut().zip(&ceilings).zip(&mut open) {
                    process.ceiling_bytes = Some(ceiling.bytes);
                    if *open && process.wanted_bytes() <= ceiling.bytes {
                        process.managed_bytes = process.wanted_bytes();
                        *open = false;
                    }
                    *open &= !ceiling.refused;
                }
                prop_assert!(uses.iter().map(|p| p.managed_bytes).sum::<u64>() <= limit);
            }
            prop_assert!(open.iter().all(|open| !open), "all were answered");
        }
    }
}
