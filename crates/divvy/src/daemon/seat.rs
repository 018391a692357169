//! The rows of a scheduler: who sits where, who leaves for others, and who because it cannot be written.

use divvy_abi::MAX_SLOTS;
use divvy_page::AttachError;
use divvy_policy::turns::{Served, Tenants};

use super::adopted::{Adopted, Hand, LEAST_SLOTS, MOST_SLOTS, NotAdopted, Open};
use super::quota;
use super::scan::Scanner;

/// One row of samples.
#[derive(Debug)]
pub(super) enum Seat {
    /// Held by no tenant.
    Empty,
    /// Left since the last step.
    Left,
    /// A tenant's, with the number of its arrival.
    Taken(Box<Adopted>, u64),
}

impl Seat {
    /// The tenant of the seat.
    pub(super) fn tenant(&self) -> Option<&Adopted> {
        match self {
            Self::Taken(tenant, _) => Some(tenant),
            Self::Empty | Self::Left => None,
        }
    }

    /// The same, to write its files.
    pub(super) fn tenant_mut(&mut self) -> Option<&mut Adopted> {
        match self {
            Self::Taken(tenant, _) => Some(tenant),
            Self::Empty | Self::Left => None,
        }
    }

    /// Lets go of who sits there, and has `scanner` say why.
    pub(super) fn refuse(&mut self, scanner: &mut Scanner, refusal: NotAdopted) {
        if let Self::Taken(tenant, _) = self {
            let Hand { path, uid, dir, .. } = tenant.hand().as_ref();
            scanner.refuse(path, dir.identity(), *uid, refusal);
            *self = Self::Left;
        }
    }
}

/// The seats, as the scheduler's step has them.
#[derive(Debug)]
pub(super) struct Seats<'a> {
    pub(super) seats: &'a mut [Seat],
    /// Keeper of the notes on tenants that are not served.
    pub(super) scanner: &'a mut Scanner,
    /// Whether one has been let go of.
    pub(super) is_any_refused: bool,
}

impl Tenants for Seats<'_> {
    type Files = Open;

    fn get(&self, seat: usize) -> Option<&Served<Open>> {
        Some(&self.seats.get(seat)?.tenant()?.served)
    }

    fn get_mut(&mut self, seat: usize) -> Option<&mut Served<Open>> {
        match self.seats.get_mut(seat)? {
            Seat::Taken(tenant, _) => Some(&mut tenant.served),
            Seat::Empty | Seat::Left => None,
        }
    }

    fn vacate(&mut self, seat: usize) -> bool {
        let left = self.seats.get_mut(seat).filter(|seat| matches!(seat, Seat::Left));
        left.map(|seat| *seat = Seat::Empty).is_some()
    }

    fn refuse(&mut self, seat: usize, error: AttachError) {
        let Some(seat) = self.seats.get_mut(seat) else { return };
        seat.refuse(self.scanner, error.into());
        self.is_any_refused = true;
    }
}

/// Lets go of the tenants that `stays` does not keep, and calls `left` for each; whether it let go of any.
pub(super) fn keep(
    seats: &mut [Seat],
    stays: impl Fn(&Hand) -> bool,
    left: impl Fn(&Adopted),
) -> bool {
    let mut is_any = false;
    for seat in seats {
        if let Some(tenant) = seat.tenant().filter(|tenant| !stays(tenant.hand())) {
            left(tenant);
            *seat = Seat::Left;
            is_any = true;
        }
    }
    is_any
}

/// Divides among a user's tenants how many slots are looked at, where tenants of all users sit here, so
/// that none takes the others' time.
pub(super) fn share_slots(seats: &mut [Seat], is_of_all: bool) {
    let uids = seats.iter().filter_map(|seat| Some(seat.tenant()?.hand().uid));
    let held = quota::count(uids);
    for seat in seats {
        let Seat::Taken(tenant, _) = seat else { continue };
        let own = held.get(&tenant.hand().uid).copied().unwrap_or(1);
        let part = MOST_SLOTS.checked_div(own).unwrap_or(0).clamp(LEAST_SLOTS, MAX_SLOTS);
        tenant.most_slots = if is_of_all { part } else { MAX_SLOTS };
    }
}

/// Takes the seat of one of a user's tenants: of one that nobody runs in, or of the last to come. The
/// tenant, and how many others of the user sit here.
pub(super) fn leave_one(seats: &mut [Seat], uid: u32) -> Option<(Box<Adopted>, usize)> {
    let of_user = |seat: &&mut Seat| seat.tenant().is_some_and(|tenant| tenant.hand().uid == uid);
    let mut own: Vec<&mut Seat> = seats.iter_mut().filter(of_user).collect();
    let others = own.len().saturating_sub(1);
    let last = own.iter_mut().max_by_key(|seat| match &***seat {
        Seat::Taken(tenant, at) => (!tenant.is_in_use(), *at),
        Seat::Empty | Seat::Left => (false, 0),
    })?;
    match std::mem::replace(&mut **last, Seat::Left) {
        Seat::Taken(tenant, _) => Some((tenant, others)),
        Seat::Empty | Seat::Left => None,
    }
}
