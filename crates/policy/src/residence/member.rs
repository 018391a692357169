//! Place of a tenant in the running set: its turn.
//!
//! Promises: plain values. Does not know the tenant.

/// Turn of a tenant that runs or is on its way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// It runs in room that a waiter before it cannot use yet, and goes as soon as that one can.
    pub(super) filler: bool,
    /// When it was admitted.
    pub(super) granted_ns: u64,
    /// Since when it had waited then; 0 where it had not.
    pub(super) waited_since_ns: u64,
    /// Its size then.
    pub(super) granted_bytes: u64,
    /// Bytes that were away then.
    pub(super) away_bytes: u64,
    /// Since when it is wholly resident; 0 before. The quantum counts from here.
    pub(super) resident_since_ns: u64,
    /// When it was so first, while its turn waits for another device's memory; 0 once it has begun.
    pub(super) held_from_ns: u64,
    /// Time from the grant until then.
    pub(super) cost_ns: u64,
    /// Time by which earlier turns were too short for their movement.
    pub(super) carried_ns: u64,
}

impl Member {
    /// Lets the turn begin anew while it waits for another device's memory, for `most_ns` at most: time in which nothing
    /// can run is none of it.
    pub(super) fn wait_elsewhere(&mut self, now_ns: u64, waits: bool, most_ns: u64) {
        let held_ns = now_ns.saturating_sub(self.held_from_ns);
        if self.held_from_ns != 0 && waits && held_ns < most_ns {
            self.resident_since_ns = now_ns.max(1);
        } else {
            self.held_from_ns = 0;
        }
    }

    /// Time that it has run at `now_ns`.
    pub(super) fn ran_ns(&self, now_ns: u64) -> u64 {
        match self.resident_since_ns {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_once_it_waits_for_no_other_device() {
        let mut member = Member { resident_since_ns: 100, held_from_ns: 100, ..Member::default() };
        member.wait_elsewhere(150, true, 1000);
        assert_eq!((member.resident_since_ns, member.ran_ns(160)), (150, 10));
        member.wait_elsewhere(300, true, 1000);
        member.wait_elsewhere(310, false, 1000);
        assert_eq!(member.ran_ns(400), 100);
        // A device that is lost later gives it no more time here.
        member.wait_elsewhere(400, true, 1000);
        assert_eq!(member.resident_since_ns, 300);
        let mut patient = Member { resident_since_ns: 100, held_from_ns: 100, ..Member::default() };
        patient.wait_elsewhere(1099, true, 1000);
        patient.wait_elsewhere(1100, true, 1000);
        assert_eq!(patient.resident_since_ns, 1099, "others wait for this one");
    }
}
