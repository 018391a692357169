//! A tenant's ceiling, divided among its processes.
//!
//! Promises: the ceilings never exceed the tenant's in sum; what is there is covered before what is about to come, that before
//! what is away, that before what is asked for, and headroom comes last, in equal parts of those that have any memory, or of all if none has. Of two processes that cannot both be covered the first
//! is, so that the same ones are from step to step. Does not know tenants.

/// Claims of one process about its memory on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Bytes on the device, of the memory that can move, and those about to come.
    pub resident_bytes: u64,
    /// The part of `resident_bytes` that is about to come: raised, and perhaps not looked at yet. Covered before what is
    /// there, one process would create before another has let go.
    pub coming_bytes: u64,
    /// The part of `coming_bytes` that was away, and is of no use before it is there.
    pub returning_bytes: u64,
    /// Bytes that are away and not about to come.
    pub away_bytes: u64,
    /// Bytes that it asks for.
    pub asked_bytes: u64,
}

impl ProcessMemory {
    const PARTS: [fn(&Self) -> u64; 4] = [
        |p| p.resident_bytes.saturating_sub(p.coming_bytes),
        |p| p.coming_bytes.min(p.resident_bytes),
        |p| p.away_bytes,
        |p| p.asked_bytes,
    ];

    /// From what a process says: bytes that are there; those and what is about to come; bytes that are away; bytes asked for.
    ///
    /// Memory that comes back is away until it is there: it counts once, or a tenant nearly as large as the device would be larger
    /// than that for as long as its memory comes back.
    pub fn said(there_bytes: u64, resident_bytes: u64, away_bytes: u64, asked_bytes: u64) -> Self {
        let resident_bytes = resident_bytes.max(there_bytes);
        let coming_bytes = resident_bytes.saturating_sub(there_bytes);
        let returning_bytes = coming_bytes.min(away_bytes);
        let away_bytes = away_bytes.saturating_sub(returning_bytes);
        Self { resident_bytes, coming_bytes, returning_bytes, away_bytes, asked_bytes }
    }
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
        ProcessMemory { resident_bytes, away_bytes, asked_bytes, ..ProcessMemory::default() }
    }

    #[test]
    fn what_comes_back_counts_once_and_what_is_there_first() {
        let said = ProcessMemory::said(60, 70, 30, 0);
        assert_eq!((said.resident_bytes, said.coming_bytes, said.away_bytes), (70, 10, 20));
        // One that is about to make a block, and one whose memory is there and must not be let go for it.
        let both = [ProcessMemory::said(0, 40, 0, 0), ProcessMemory::said(60, 60, 0, 0)];
        let mut ceilings = [0; 2];
        divide(80, &both, &mut ceilings);
        assert_eq!(ceilings, [20, 60]);
        assert_eq!(ProcessMemory::said(9, 7, 0, 0).resident_bytes, 9);
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
