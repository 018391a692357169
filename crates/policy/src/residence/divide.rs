//! A tenant's ceiling, divided among its processes.
//!
//! Promises: the ceilings never exceed the tenant's in sum; what is resident is covered before what is away, that before
//! what is asked for, and headroom comes last, in equal parts of those that have any memory, or of all if none has. Of two processes that cannot both be covered the first
//! is, so that the same ones are from step to step. Does not know tenants.

/// Claims of one process about its memory on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Bytes on the device, of the memory that can move.
    pub resident_bytes: u64,
    /// Bytes that are away.
    pub away_bytes: u64,
    /// Bytes that it asks for.
    pub asked_bytes: u64,
}

impl ProcessMemory {
    const PARTS: [fn(&Self) -> u64; 3] =
        [|p| p.resident_bytes, |p| p.away_bytes, |p| p.asked_bytes];
}

/// Divides `allowed_bytes` among processes: the ceiling of each. Entries missing in `ceilings` get nothing.
pub fn divide(allowed_bytes: u64, processes: &[ProcessMemory], ceilings: &mut [u64]) {
    ceilings.fill(0);
    let mut left_bytes = allowed_bytes;
    for part in ProcessMemory::PARTS {
        for (process, ceiling) in processes.iter().zip(ceilings.iter_mut()) {
            let given_bytes = part(process).min(left_bytes);
            left_bytes -= given_bytes;
            *ceiling = ceiling.saturating_add(given_bytes);
        }
    }
    let none = ProcessMemory::default();
    let is_any = processes.iter().any(|process| *process != none);
    let has_part = |process: &ProcessMemory| !is_any || *process != none;
    let parts = processes.iter().filter(|process| has_part(process)).count();
    let each_bytes = left_bytes.checked_div(parts as u64).unwrap_or(0);
    for (process, ceiling) in processes.iter().zip(ceilings.iter_mut()) {
        *ceiling = ceiling.saturating_add(if has_part(process) { each_bytes } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(resident_bytes: u64, away_bytes: u64, asked_bytes: u64) -> ProcessMemory {
        ProcessMemory { resident_bytes, away_bytes, asked_bytes }
    }

    #[test]
    fn what_is_there_comes_first_and_headroom_last() {
        let both = [process(10, 5, 1), process(20, 0, 2)];
        let of = |allowed| {
            let mut ceilings = [9; 2];
            divide(allowed, &both, &mut ceilings);
            ceilings
        };
        assert_eq!(of(0), [0, 0]);
        assert_eq!(of(15), [10, 5]);
        assert_eq!(of(30), [10, 20]);
        assert_eq!(of(33), [13, 20]);
        assert_eq!(of(37), [16, 21]);
        assert_eq!(of(48), [21, 27]);
        divide(7, &[], &mut []);
        let mut ceilings = [9; 3];
        divide(30, &[process(0, 0, 0), process(10, 0, 0), process(4, 2, 0)], &mut ceilings);
        assert_eq!(ceilings, [0, 17, 13]);
        divide(30, &[process(0, 0, 0); 3], &mut ceilings);
        assert_eq!(ceilings, [10; 3]);
    }

    proptest! {
        #[test]
        fn ceilings_add_up_to_no_more(
            allowed in any::<u64>(),
            claims in prop::collection::vec(any::<[u64; 3]>(), 0..6),
        ) {
            let processes: Vec<_> = claims.iter().map(|[a, b, c]| process(*a, *b, *c)).collect();
            let mut ceilings = vec![3; processes.len()];
            divide(allowed, &processes, &mut ceilings);
            let sum: u128 = ceilings.iter().map(|bytes| u128::from(*bytes)).sum();
            prop_assert!(sum <= u128::from(allowed));
            let resident: u128 = processes.iter().map(|p| u128::from(p.resident_bytes)).sum();
            if resident <= u128::from(allowed) {
                prop_assert!(processes.iter().zip(&ceilings).all(|(p, c)| p.resident_bytes <= *c));
            }
        }
    }
}
