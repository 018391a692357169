//! A tenant's ceiling, divided among its processes.
//!
//! Promises: the ceilings never exceed the tenant's in sum; what is there is covered before what is about to come, that before
//! what is away, that before what is asked for, and headroom comes last, in equal parts of those that have any memory, or of
//! all if none has. Of two processes that cannot both be covered the first is, so that the same ones are from step to step; but
//! one that has said that its memory stays is before those that have not, until the tenant is no longer short. A ceiling falls at once, and
//! rises into room that no other process may still fill by one that stood. Does not know tenants.

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
    /// It has said that it could not let go: calls or work did not end in time, a stream captures, or there was no room for copies.
    pub stays: bool,
}

impl ProcessMemory {
    /// From what a process says: bytes that are there; those and what is about to come; bytes that are away; bytes asked for.
    ///
    /// Memory that comes back is away until it is there: it counts once, or a tenant nearly as large as the device would be larger
    /// than that for as long as its memory comes back.
    pub fn said(there_bytes: u64, resident_bytes: u64, away_bytes: u64, asked_bytes: u64) -> Self {
        let resident_bytes = resident_bytes.max(there_bytes);
        let coming_bytes = resident_bytes.saturating_sub(there_bytes);
        let returning_bytes = coming_bytes.min(away_bytes);
        let away_bytes = away_bytes.saturating_sub(returning_bytes);
        Self {
            resident_bytes,
            coming_bytes,
            returning_bytes,
            away_bytes,
            asked_bytes,
            stays: false,
        }
    }

    fn there_bytes(&self) -> u64 {
        self.resident_bytes.saturating_sub(self.coming_bytes)
    }
}

/// Ceiling of one process, from step to step. Starts as `default()` where the process has no room yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCeiling {
    /// Bytes that it may have on the device.
    pub bytes: u64,
    /// The ceiling that stood when the process was read before.
    before_bytes: u64,
    /// Bytes that it may have looked at and be making: those that it says, as far as a ceiling allowed them.
    believed_bytes: u64,
    /// It has said that its memory stays, and the tenant has been short since.
    has_stayed: bool,
    /// Bytes that it is to have once no other may fill them.
    next_bytes: u64,
}

impl ProcessCeiling {
    /// Of a process that had no order until now: all that it says may be there.
    pub fn found(memory: &ProcessMemory) -> Self {
        let bytes = memory.resident_bytes;
        Self { bytes, before_bytes: bytes, believed_bytes: bytes, ..Self::default() }
    }

    /// Bytes that the process may have before another ceiling.
    fn in_use_bytes(&self, memory: &ProcessMemory) -> u64 {
        self.bytes.max(self.believed_bytes).max(memory.there_bytes())
    }

    fn observe(&mut self, memory: &ProcessMemory, is_short: bool) {
        let stood_bytes = core::mem::replace(&mut self.before_bytes, self.bytes).max(self.bytes);
        let most_bytes = stood_bytes.max(self.believed_bytes);
        self.believed_bytes = memory.resident_bytes.min(most_bytes);
        self.has_stayed = is_short && (self.has_stayed || memory.stays);
        self.next_bytes = 0;
    }

    /// Parts of what a process has and wants, in the order in which they are covered.
    const PARTS: [fn(&Self, &ProcessMemory) -> u64; 6] = [
        |c, p| if c.has_stayed { p.there_bytes() } else { 0 },
        |c, p| if c.has_stayed { 0 } else { p.there_bytes() },
        // Perhaps being made, by a ceiling that stood.
        |c, p| c.believed_bytes.saturating_sub(p.there_bytes()),
        |c, p| p.resident_bytes.saturating_sub(c.believed_bytes.max(p.there_bytes())),
        |_, p| p.away_bytes,
        |_, p| p.asked_bytes,
    ];
}

/// Divides `allowed_bytes` among processes: `ceilings` are those that stood when these were read, and then those that are to.
/// Entries missing in `ceilings` get nothing.
pub fn divide(allowed_bytes: u64, processes: &[ProcessMemory], ceilings: &mut [ProcessCeiling]) {
    let resident = processes.iter().map(|p| p.resident_bytes).fold(0, u64::saturating_add);
    for (process, ceiling) in processes.iter().zip(ceilings.iter_mut()) {
        ceiling.observe(process, resident > allowed_bytes);
    }
    aim(allowed_bytes, processes, ceilings);
    let in_use = processes.iter().zip(ceilings.iter()).map(|(p, c)| c.in_use_bytes(p));
    let mut free_bytes = allowed_bytes.saturating_sub(in_use.fold(0, u64::saturating_add));
    for (process, ceiling) in processes.iter().zip(ceilings.iter_mut()) {
        let in_use_bytes = ceiling.in_use_bytes(process);
        let given_bytes = ceiling.next_bytes.saturating_sub(in_use_bytes).min(free_bytes);
        free_bytes -= given_bytes;
        ceiling.bytes = ceiling.next_bytes.min(in_use_bytes.saturating_add(given_bytes));
    }
}

/// Sets what each is to have once no other may fill it.
fn aim(allowed_bytes: u64, processes: &[ProcessMemory], ceilings: &mut [ProcessCeiling]) {
    let mut left_bytes = allowed_bytes;
    for part in ProcessCeiling::PARTS {
        for (process, ceiling) in processes.iter().zip(ceilings.iter_mut()) {
            let given_bytes = part(ceiling, process).min(left_bytes);
            left_bytes -= given_bytes;
            ceiling.next_bytes = ceiling.next_bytes.saturating_add(given_bytes);
        }
    }
    let none = ProcessMemory::default();
    let is_any = processes.iter().any(|process| *process != none);
    let has_part = |process: &ProcessMemory| !is_any || *process != none;
    let parts = processes.iter().filter(|process| has_part(process)).count();
    let each_bytes = left_bytes.checked_div(parts as u64).unwrap_or(0);
    for (process, ceiling) in processes.iter().zip(ceilings.iter_mut()) {
        let part_bytes = if has_part(process) { each_bytes } else { 0 };
        ceiling.next_bytes = ceiling.next_bytes.saturating_add(part_bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(resident_bytes: u64, away_bytes: u64, asked_bytes: u64) -> ProcessMemory {
        ProcessMemory { resident_bytes, away_bytes, asked_bytes, ..ProcessMemory::default() }
    }

    /// Ceilings of processes that had none.
    fn divided<const N: usize>(allowed: u64, processes: &[ProcessMemory; N]) -> [u64; N] {
        let mut ceilings = [ProcessCeiling::default(); N];
        step(allowed, processes, &mut ceilings)
    }

    fn step<const N: usize>(
        allowed: u64,
        processes: &[ProcessMemory; N],
        ceilings: &mut [ProcessCeiling; N],
    ) -> [u64; N] {
        divide(allowed, processes, ceilings);
        ceilings.map(|ceiling| ceiling.bytes)
    }

    #[test]
    fn what_comes_back_counts_once_and_what_is_there_first() {
        let said = ProcessMemory::said(60, 70, 30, 0);
        assert_eq!((said.resident_bytes, said.coming_bytes, said.away_bytes), (70, 10, 20));
        // One that is about to make a block, and one whose memory is there and must not be let go for it.
        let both = [ProcessMemory::said(0, 40, 0, 0), ProcessMemory::said(60, 60, 0, 0)];
        assert_eq!(divided(80, &both), [20, 60]);
        assert_eq!(ProcessMemory::said(9, 7, 0, 0).resident_bytes, 9);
    }

    #[test]
    fn what_is_there_comes_first_and_headroom_last() {
        let of = |allowed| divided(allowed, &[process(10, 5, 1), process(20, 0, 2)]);
        assert_eq!(of(0), [0, 0]);
        assert_eq!(of(15), [10, 5]);
        assert_eq!(of(30), [10, 20]);
        assert_eq!(of(33), [13, 20]);
        assert_eq!(of(37), [16, 21]);
        assert_eq!(of(48), [21, 27]);
        divide(7, &[], &mut []);
        let three = [process(0, 0, 0), process(10, 0, 0), process(4, 2, 0)];
        assert_eq!(divided(30, &three), [0, 17, 13]);
        assert_eq!(divided(30, &[process(0, 0, 0); 3]), [10; 3]);
    }

    #[test]
    fn what_was_raised_under_a_ceiling_is_no_other_s() {
        let mut ceilings = [ProcessCeiling::default(); 2];
        let asks = [process(0, 0, 0), process(0, 0, 60)];
        assert_eq!(step(100, &asks, &mut ceilings), [0, 100]);
        // It makes what it asked for, and one that has just started raises in vain.
        let raised = [ProcessMemory::said(0, 70, 0, 0), ProcessMemory::said(0, 60, 0, 0)];
        assert_eq!(
            step(100, &raised, &mut ceilings),
            [0, 60],
            "what falls is given in a later step"
        );
        assert_eq!(step(100, &raised, &mut ceilings), [40, 60]);
        // The tenant has less for a while: what is being made is there soon.
        assert_eq!(step(20, &raised, &mut ceilings), [20, 0]);
        assert_eq!(step(100, &raised, &mut ceilings), [40, 60]);
        let mut found = raised.map(|memory| ProcessCeiling::found(&memory));
        assert_eq!(
            step(130, &raised, &mut found),
            [70, 60],
            "no order stood: both may be making it"
        );
    }

    #[test]
    fn what_was_raised_behind_a_read_counts_by_the_ceiling_of_before() {
        let mut ceilings = [ProcessCeiling::default(); 2];
        assert_eq!(step(100, &[process(10, 0, 0), process(0, 0, 90)], &mut ceilings), [10, 90]);
        // It no longer asks; 40 that it raises now it makes under the 90, which fall behind that.
        assert_eq!(step(100, &[process(10, 0, 0), process(0, 0, 0)], &mut ceilings), [10, 0]);
        let raised = [ProcessMemory::said(10, 80, 0, 0), ProcessMemory::said(0, 40, 0, 0)];
        assert_eq!(step(100, &raised, &mut ceilings), [60, 40]);
    }

    #[test]
    fn one_that_cannot_let_go_does_so_last() {
        let mut ceilings = [ProcessCeiling::default(); 2];
        let captures =
            |stays, first| [process(first, 0, 0), ProcessMemory { stays, ..process(60, 0, 0) }];
        assert_eq!(step(70, &captures(false, 40), &mut ceilings), [40, 30]);
        assert_eq!(step(70, &captures(true, 40), &mut ceilings), [10, 60]);
        // It says so no more, since it is no longer told to.
        assert_eq!(step(70, &captures(false, 40), &mut ceilings), [10, 60]);
        assert_eq!(step(70, &captures(false, 10), &mut ceilings), [10, 60]);
        // The tenant was not short in between.
        assert_eq!(step(40, &captures(false, 10), &mut ceilings), [10, 30]);
    }

    /// A process as the library is one: it raises its word, looks at its ceiling, and makes what that allows.
    #[derive(Clone, Copy, Default)]
    struct Maker {
        there: u64,
        coming: u64,
        makes: bool,
        asked: u64,
        ceiling: u64,
    }

    impl Maker {
        fn says(&self) -> ProcessMemory {
            ProcessMemory::said(self.there, self.there + self.coming, 0, self.asked)
        }

        fn act(&mut self, act: u8, bytes: u64) {
            match act {
                0 if self.coming == 0 => (self.coming, self.asked) = (bytes, 0),
                1 if self.coming > 0 && !self.makes => {
                    match self.there + self.coming > self.ceiling {
                        true => (self.asked, self.coming) = (self.coming, 0),
                        false => self.makes = true,
                    }
                }
                2 if self.makes => {
                    self.there += self.coming;
                    (self.coming, self.makes) = (0, false);
                }
                3 => self.there -= bytes.min(self.there),
                _ => {}
            }
        }
    }

    proptest! {
        #[test]
        fn ceilings_add_up_to_no_more(
            allowed in any::<u64>(),
            claims in prop::collection::vec(any::<[u64; 3]>(), 0..6),
        ) {
            let processes: Vec<_> = claims.iter().map(|[a, b, c]| process(*a, *b, *c)).collect();
            let mut ceilings = vec![ProcessCeiling::default(); processes.len()];
            divide(allowed, &processes, &mut ceilings);
            let sum: u128 = ceilings.iter().map(|ceiling| u128::from(ceiling.bytes)).sum();
            prop_assert!(sum <= u128::from(allowed));
            let resident: u128 = processes.iter().map(|p| u128::from(p.resident_bytes)).sum();
            if resident <= u128::from(allowed) {
                let is_covered = |(p, c): (&ProcessMemory, &ProcessCeiling)| p.resident_bytes <= c.bytes;
                prop_assert!(processes.iter().zip(&ceilings).all(is_covered));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Between what the owner reads and what it writes they go on.
        #[test]
        fn processes_that_look_behind_their_raise_never_have_more(
            acts in prop::collection::vec((0_usize..4, 0_u8..6, 1_u64..70), 1..300),
        ) {
            let mut makers = [Maker::default(); 3];
            let mut ceilings = [ProcessCeiling::default(); 3];
            let mut read = None;
            for (who, act, bytes) in acts {
                match (makers.get_mut(who), read.take()) {
                    (Some(maker), said) => {
                        maker.act(act, bytes);
                        read = said;
                    }
                    (None, None) => read = Some(makers.map(|maker| maker.says())),
                    (None, Some(said)) => {
                        step(100, &said, &mut ceilings);
                        makers.iter_mut().zip(&ceilings).for_each(|(m, c)| m.ceiling = c.bytes);
                    }
                }
                let made = |m: &Maker| m.there + if m.makes { m.coming } else { 0 };
                prop_assert!(makers.iter().map(made).sum::<u64>() <= 100);
            }
            // The rest is had once the others make nothing.
            makers.iter_mut().for_each(|maker| {
                (maker.there, maker.coming, maker.makes, maker.asked) = (maker.there / 2, 0, false, 0);
            });
            makers[0].asked = 100 - makers.iter().map(|maker| maker.there).sum::<u64>();
            for _ in 0..3 {
                step(100, &makers.map(|maker| maker.says()), &mut ceilings);
            }
            prop_assert_eq!(ceilings[0].bytes, makers[0].there + makers[0].asked);
        }
    }
}
