//! Promise of host memory: what is asked for is given only if all that may have to leave the device finds room.
//!
//! The copies are the processes' own memory, so that it is the machine that must have room, and each control group for
//! what its tenants may have away. Such a place is a [`HostPlace`]; place 0 is everybody's.
//!
//! Promises: no place is promised more by an admission than it has. What is promised stays promised, also where a place
//! comes to have less: then nothing more is given. A tenant's death gives its promise back. A tenant counts with no more
//! than the device has, whatever it says. Does not know what a limit is, nor who moves.

/// Most places: their numbers are bits.
pub const MAX_PLACES: usize = 64;

/// A place that copies are in: the machine, or a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostPlace {
    /// Bytes that it has for copies of this device's memory, those that are there already included.
    pub room_bytes: u64,
}

/// One tenant of the device, as the promise sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostClaim {
    /// Bytes that it holds, resident or away: a claim.
    pub held_bytes: u64,
    /// Bytes that it asks for: a claim.
    pub asked_bytes: u64,
    /// Bytes of it that room on the host is promised for, as far as they do not fit the device. Starts at 0; belongs to
    /// the decision from then on.
    pub promised_bytes: u64,
    /// A user sent it away: all of it leaves.
    pub is_frozen: bool,
    /// The places that its copies are in, a bit for each beside place 0.
    pub places: u64,
    /// Why what it asks for is not given, as the last decision has it; `None` also for more than the device has, of which
    /// nothing is given either.
    pub shortage: Option<HostShortage>,
    /// Its ask is not given.
    pub is_refused: bool,
}

/// Reason for a refusal: a place that cannot hold what might have to leave the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostShortage {
    /// Number of the place.
    pub place: usize,
    /// Bytes that would have to be promised there, the ask included.
    pub needed_bytes: u64,
    /// Bytes that it has.
    pub room_bytes: u64,
}

/// The promise of one device to its tenants.
#[derive(Clone, Copy, Debug)]
pub struct HostPromise<'a> {
    /// Bytes of the device for memory that can move.
    pub capacity_bytes: u64,
    /// Bytes of the largest piece that memory leaves in: a tenant gives away up to so much more than is short.
    pub piece_bytes: u64,
    /// The places.
    pub places: &'a [HostPlace],
}

impl HostPromise<'_> {
    /// Decides about all that is asked for, in the order of the rows. The claims are one device's; a row of nobody is
    /// `default()`. Cost: rows that ask, times rows, times places.
    pub fn settle(&self, claims: &mut [HostClaim]) {
        for claim in claims.iter_mut() {
            // It could not run with more; one that was smaller than the device may be larger now.
            let most_bytes = self.capacity_bytes.max(claim.promised_bytes);
            let held_bytes = claim.held_bytes.min(most_bytes);
            let all_bytes = held_bytes.saturating_add(claim.asked_bytes);
            (claim.is_refused, claim.shortage) = (false, None);
            claim.promised_bytes = all_bytes.min(claim.promised_bytes).max(held_bytes);
        }
        for row in 0..claims.len() {
            let Some(claim) = claims.get(row).copied() else { continue };
            let all_bytes = claim.held_bytes.saturating_add(claim.asked_bytes);
            if claim.asked_bytes == 0 || claim.promised_bytes >= all_bytes {
                continue;
            }
            // Of what the device could never hold nothing needs room on the host.
            let is_larger = all_bytes > self.capacity_bytes;
            let shortage = if is_larger { None } else { self.promise(row, all_bytes, claims) };
            if let Some(claim) = claims.get_mut(row) {
                (claim.is_refused, claim.shortage) = (is_larger || shortage.is_some(), shortage);
            }
        }
    }

    /// Raises a promise to `bytes`, unless a place has no room for it.
    fn promise(&self, row: usize, bytes: u64, claims: &mut [HostClaim]) -> Option<HostShortage> {
        let asked = Some((row, bytes));
        let shortage =
            self.places.iter().enumerate().find_map(|(place, HostPlace { room_bytes })| {
                let needed_bytes = self.needed_with(place, claims, asked);
                let grows = needed_bytes > self.needed_bytes(place, claims);
                let is_short = grows && needed_bytes > *room_bytes;
                is_short.then_some(HostShortage { place, needed_bytes, room_bytes: *room_bytes })
            });
        if shortage.is_none()
            && let Some(claim) = claims.get_mut(row)
        {
            claim.promised_bytes = bytes;
        }
        shortage
    }

    /// Bytes that a place is promised for: the most that tenants in it may have away. What is frozen is away, and of
    /// the others what the device is short of, rounded up to pieces of each.
    pub fn needed_bytes(&self, place: usize, claims: &[HostClaim]) -> u64 {
        self.needed_with(place, claims, None)
    }

    /// The same if a row were promised so much.
    fn needed_with(&self, place: usize, claims: &[HostClaim], asked: Option<(usize, u64)>) -> u64 {
        let bit = 1_u64.checked_shl(u32::try_from(place).unwrap_or(u32::MAX)).unwrap_or(0);
        let promised = |row: usize, claim: &HostClaim| match asked {
            Some((other, bytes)) if other == row => bytes,
            _ => claim.promised_bytes,
        };
        let (mut all_bytes, mut here_bytes, mut frozen_bytes, mut pieces_bytes) =
            (0_u64, 0_u64, 0_u64, 0_u64);
        for (row, claim) in claims.iter().enumerate() {
            let bytes = promised(row, claim);
            let is_here = place == 0 || claim.places & bit != 0;
            if !claim.is_frozen {
                all_bytes = all_bytes.saturating_add(bytes);
            }
            match (is_here, claim.is_frozen) {
                (false, _) => {}
                (true, true) => frozen_bytes = frozen_bytes.saturating_add(bytes),
                (true, false) => {
                    here_bytes = here_bytes.saturating_add(bytes);
                    pieces_bytes = pieces_bytes.saturating_add(bytes.min(self.piece_bytes));
                }
            }
        }
        let leaving_bytes = match all_bytes.saturating_sub(self.capacity_bytes) {
            0 => 0,
            short_bytes => short_bytes.saturating_add(pieces_bytes).min(here_bytes),
        };
        frozen_bytes.saturating_add(leaving_bytes)
    }
}
