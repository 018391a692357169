//! Room of the host for copies of device memory: what the machine and the tenants' control groups can still give, with the copies that
//! are there, and how much of it devices have promised. The daemon's own group does not count, for the copies are the tenants'; a
//! tenant in another container sees its own, and lets nothing go that it has no room for.
//!
//! Promises: looked at no more than once in [`LOOK_NS`]; what cannot be read of the machine is no room; what a process
//! says of its copies counts as far as it has so much memory. Where not every tenant can keep all that may have to leave of it,
//! each keeps a part, so that what is away and what is to leave finds room whatever others keep, in each of its places. Does not make or take
//! anything, nor decide who is promised what: that is [`divvy_policy::residence::HostPromise`]'s.

use std::path::PathBuf;

use divvy_abi::Uuid;
use divvy_policy::residence::{HostPlace, KEPT_BEYOND_BYTES, MAX_PLACES};

use super::seat::Seat;
use crate::machine::host_memory;
use crate::wire::HostView;

/// Time between two looks.
const LOOK_NS: u64 = 1_000_000_000;

/// Part of the room that copies leave to others. With an eighth four tenants of 48 GiB on a card of 137 and a host of 126 gave
/// copies back and made them anew at each turn, at 4 GB/s: their parts were 26 GiB of the 27.5 that leave. With a sixteenth
/// 121 GiB were taken, and one of the four waited for 44 s, once.
const LEFT_PART: u64 = 12;

/// All of it, in millionths.
const WHOLE_PPM: u64 = 1_000_000;

/// Bytes that a tenant may keep beyond those that all are short of.
const PIECES_BYTES: u64 = 1 << 30;

/// The room, as it was at the last look.
#[derive(Debug)]
pub(super) struct HostRoom {
    /// No more than so much is promised.
    most_bytes: u64,
    looked_ns: u64,
    /// First the machine, then groups of tenants.
    places: Vec<Place>,
    /// Tenants by arrival, and the places they are in, a bit for each.
    tenants: Vec<(u64, u64)>,
}

/// A place that copies are in.
#[derive(Debug, Default)]
struct Place {
    /// The group's directory; empty for the machine.
    path: PathBuf,
    /// Free and in copies, at the same time.
    bytes: u64,
    /// Bytes that devices have promised.
    promised: Vec<(Uuid, u64)>,
}

impl Place {
    fn new(path: PathBuf, bytes: u64, before: &[Self]) -> Self {
        let before = before.iter().find(|place| place.path == path);
        Self { path, bytes, promised: before.map(|b| b.promised.clone()).unwrap_or_default() }
    }

    /// Bytes for copies. A part is left to whatever grows between two looks.
    fn room_bytes(&self, most_bytes: u64) -> u64 {
        (self.bytes - self.bytes / LEFT_PART).min(most_bytes)
    }

    /// Bytes that devices have promised, but for one.
    fn promised_bytes(&self, but: Option<&Uuid>) -> u64 {
        let others = self.promised.iter().filter(|(device, _)| Some(device) != but);
        others.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

impl HostRoom {
    /// Room of which no more than `most_bytes` are promised, if that is less than there is.
    pub(super) fn new(most_bytes: Option<u64>) -> Self {
        Self {
            most_bytes: most_bytes.unwrap_or(u64::MAX),
            looked_ns: 0,
            places: Vec::new(),
            tenants: Vec::new(),
        }
    }

    /// Looks again if that is due: at the machine, and at the control groups of tenants that oversubscribe.
    pub(super) fn look(&mut self, now_ns: u64, seats: &[Seat]) {
        if self.looked_ns != 0 && now_ns < self.looked_ns.saturating_add(LOOK_NS) {
            return;
        }
        self.looked_ns = now_ns;
        let bytes = host_memory::room(std::iter::empty()).unwrap_or(0);
        let before = std::mem::take(&mut self.places);
        self.places.push(Place::new(PathBuf::new(), bytes, &before));
        self.tenants.clear();
        for seat in seats {
            let Seat::Taken(tenant, arrival) = seat else { continue };
            if !tenant.oversubscribes() {
                continue;
            }
            let copies_bytes = tenant.copies_bytes();
            let groups = tenant.pids_here().next().map(host_memory::groups_of);
            let mut bits = 1;
            for (path, bytes) in groups.unwrap_or_default() {
                bits |= 1 << self.place(path, bytes, &before);
            }
            for (at, place) in self.places.iter_mut().enumerate() {
                if bits & 1 << at != 0 {
                    place.bytes = place.bytes.saturating_add(copies_bytes);
                }
            }
            self.tenants.push((*arrival, bits));
        }
    }

    /// Number of the place of a group. Groups beyond those that have a number are the last one.
    fn place(&mut self, path: PathBuf, bytes: u64, before: &[Place]) -> usize {
        if let Some(at) = self.places.iter().position(|place| place.path == path) {
            return at;
        }
        if self.places.len() < MAX_PLACES {
            self.places.push(Place::new(path, bytes, before));
        } else if let Some(last) = self.places.last_mut() {
            last.bytes = last.bytes.min(bytes);
        }
        self.places.len() - 1
    }

    /// Places of the tenant that arrived as this number, a bit for each.
    pub(super) fn places_of(&self, arrival: u64) -> u64 {
        self.tenants.iter().find(|(other, _)| *other == arrival).map_or(1, |(_, bits)| *bits)
    }

    /// Room of each place for copies of a device's memory.
    pub(super) fn rooms(&self, device: &Uuid, rooms: &mut Vec<HostPlace>) {
        rooms.clear();
        rooms.extend(self.places.iter().map(|place| {
            let others_bytes = place.promised_bytes(Some(device));
            HostPlace { room_bytes: place.room_bytes(self.most_bytes).saturating_sub(others_bytes) }
        }));
    }

    /// Notes what a device has promised in the place of this number.
    pub(super) fn note(&mut self, device: &Uuid, place: usize, bytes: u64) {
        let Some(place) = self.places.get_mut(place) else { return };
        match place.promised.iter_mut().find(|(other, _)| other == device) {
            Some((_, promised)) => *promised = bytes,
            None => place.promised.push((*device, bytes)),
        }
    }

    /// A device is served no more.
    pub(super) fn forget(&mut self, device: &Uuid) {
        for place in &mut self.places {
            place.promised.retain(|(other, _)| other != device);
        }
    }

    /// The view of it, for people.
    pub(super) fn view(&self) -> HostView {
        let Some(host) = self.places.first() else { return HostView::default() };
        let (promised_bytes, room_bytes) =
            (host.promised_bytes(None), host.room_bytes(self.most_bytes));
        HostView { promised_bytes, free_bytes: room_bytes.saturating_sub(promised_bytes) }
    }
}

/// Bytes of copies that tenants may keep on a host, of which some do not fit the device.
#[derive(Clone, Copy, Debug, Default)]
struct Keep {
    short_bytes: u64,
    /// Part that each may keep of what may have to leave of it, in millionths.
    part_ppm: u64,
}

impl Keep {
    /// On a host with `host_bytes` for it, where `short_bytes` of all tenants do not fit the device: of tenants of these sizes,
    /// and what is away of each now, or will be by the orders that stand. That has room whatever others keep.
    pub(super) fn new(
        host_bytes: u64,
        short_bytes: u64,
        tenants: impl Iterator<Item = (u64, u64)> + Clone,
    ) -> Self {
        let mut keep = Self { short_bytes, part_ppm: WHOLE_PPM };
        // A tenant with more away than its part leaves less to the others, of which more may be beyond theirs then.
        loop {
            let is_beyond =
                |(size_bytes, away_bytes): &(u64, u64)| keep.of(*size_bytes) < *away_bytes;
            let away = tenants.clone().filter(is_beyond).map(|(_, away_bytes)| away_bytes);
            let away_bytes = away.fold(0, u64::saturating_add);
            let within = tenants.clone().filter(|tenant| !is_beyond(tenant));
            let needs = within.map(|(size_bytes, _)| keep.needed_bytes(size_bytes));
            let needed_bytes = needs.fold(0, u64::saturating_add);
            let left_bytes = host_bytes.saturating_sub(away_bytes);
            let part = u128::from(left_bytes) * u128::from(WHOLE_PPM);
            let part = part.checked_div(u128::from(needed_bytes)).unwrap_or(u128::MAX);
            let part_ppm = u64::try_from(part).unwrap_or(u64::MAX);
            if part_ppm >= keep.part_ppm {
                return keep;
            }
            keep.part_ppm = part_ppm;
        }
    }

    /// Bytes that may have to leave of a tenant of `size_bytes`. Memory leaves in pieces.
    fn needed_bytes(self, size_bytes: u64) -> u64 {
        size_bytes.min(self.short_bytes.saturating_add(PIECES_BYTES))
    }

    /// Bytes that a tenant of `size_bytes` may keep.
    pub(super) fn of(self, size_bytes: u64) -> u64 {
        if self.short_bytes == 0 {
            return 0;
        }
        let part = u128::from(self.needed_bytes(size_bytes)) * u128::from(self.part_ppm);
        u64::try_from(part / u128::from(WHOLE_PPM)).unwrap_or(u64::MAX)
    }
}

/// Copies of a tenant, in the places that it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// Bytes that it has, resident or away.
    pub(super) size_bytes: u64,
    /// Bytes that are away, or will be.
    pub(super) away_bytes: u64,
    /// All of it is on its way back, or there.
    pub(super) is_coming: bool,
    /// Its places, a bit for each beside place 0.
    pub(super) places: u64,
}

/// Bytes of copies that tenants may keep, whatever others have at the moment.
#[derive(Clone, Copy, Debug)]
struct Keeps {
    /// By what will be away when all have followed their orders, so that it does not change while one comes for another.
    then: Keep,
    /// By what is away now, or leaves, on a host that is filled further meanwhile.
    now: Keep,
}

impl Keeps {
    /// Of these tenants, all of one place.
    fn new(
        host_bytes: u64,
        short_bytes: u64,
        tenants: impl Iterator<Item = Copies> + Clone,
    ) -> Self {
        let then = tenants.clone();
        let then = then.map(|it| (it.size_bytes, if it.is_coming { 0 } else { it.away_bytes }));
        let now = tenants.map(|it| (it.size_bytes, it.away_bytes));
        // Half of what is left for the while.
        let most_bytes = host_bytes.saturating_add(host_bytes / (2 * (LEFT_PART - 1)));
        Self {
            then: Keep::new(host_bytes, short_bytes, then),
            now: Keep::new(most_bytes, short_bytes, now),
        }
    }

    /// Bytes that a tenant of `size_bytes` may keep. It keeps a little more, since it is held up where it gives them back.
    fn of(&self, size_bytes: u64) -> u64 {
        // Where the host has room for all, nothing is given back.
        let is_whole = self.now.part_ppm == WHOLE_PPM && self.then.part_ppm == WHOLE_PPM;
        let bytes = self.then.of(size_bytes).min(self.now.of(size_bytes));
        if is_whole { bytes } else { bytes.saturating_sub(KEPT_BEYOND_BYTES) }
    }
}

/// Bytes of copies that each tenant may keep: where it is in several places, as the tightest of them has it.
pub(super) fn keep_in_places(
    places: &[HostPlace],
    short_bytes: u64,
    tenants: impl Iterator<Item = Copies> + Clone,
    kept_bytes: &mut Vec<u64>,
) {
    kept_bytes.clear();
    kept_bytes.extend(tenants.clone().map(|_| if places.is_empty() { 0 } else { u64::MAX }));
    for (number, place) in places.iter().enumerate() {
        let is_in = |tenant: &Copies| number == 0 || tenant.places & 1 << number != 0;
        let keeps = Keeps::new(place.room_bytes, short_bytes, tenants.clone().filter(is_in));
        for (kept, tenant) in kept_bytes.iter_mut().zip(tenants.clone()) {
            if is_in(&tenant) {
                *kept = keeps.of(tenant.size_bytes).min(*kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Bytes that tenants of these sizes may keep, of which so much is away.
    fn kept<const N: usize>(host: u64, short: u64, tenants: [(u64, u64); N]) -> [u64; N] {
        let all = tenants.iter().map(|(size, away)| (size * GIB, away * GIB));
        let keep = Keep::new(host * GIB, short * GIB, all);
        tenants.map(|(size, _)| keep.of(size * GIB) / GIB)
    }

    #[test]
    fn each_keeps_what_may_leave_of_it_where_the_host_has_room_for_all() {
        assert_eq!(kept(100, 40, [(90, 40), (90, 0)]), [41, 41]);
        assert_eq!(kept(100, 40, [(90, 40), (10, 0)]), [41, 10]);
        assert_eq!(kept(100, 0, [(90, 0), (90, 0)]), [0, 0], "nothing leaves where all fits");
        // Too little for all: in parts, but what is away has room.
        assert_eq!(kept(100, 56, [(48, 28), (48, 28), (48, 0), (48, 0)]), [21, 21, 21, 21]);
        assert_eq!(kept(60, 40, [(90, 40), (90, 0)]).map(|gib| gib <= 20), [true, true]);
        assert_eq!(kept(30, 40, [(90, 40), (90, 0)]), [0, 0]);
    }

    #[test]
    fn what_each_keeps_stays_while_one_comes_for_another_as_long_as_there_is_room() {
        let keep = |host: u64, tenants: [(u64, u64, bool); 4]| {
            let all = tenants.iter().map(|(size, away, is_coming)| Copies {
                size_bytes: size * GIB,
                away_bytes: away * GIB,
                is_coming: *is_coming,
                places: 1,
            });
            Keeps::new(host * GIB, 55 * GIB, all).of(48 * GIB) / GIB
        };
        let still = [(48, 27, false), (48, 27, false), (48, 0, true), (48, 0, true)];
        let moving = [(48, 27, false), (48, 27, true), (48, 27, false), (48, 0, true)];
        assert_eq!((keep(107, still), keep(107, moving)), (24, 24));
        // Three are away, which leaves little to the one that runs.
        let [much, little] = [35, 38].map(|away| {
            keep(107, [(48, away, false), (48, away, true), (48, away, false), (48, 0, true)])
        });
        assert!(much < 10 && little < 3, "{much} {little}");
        assert_eq!(keep(300, moving), 48);
    }

    #[test]
    fn a_tenant_in_a_small_group_keeps_what_that_has_room_for() {
        let copies = |places: u64, away_gib: u64| Copies {
            size_bytes: 40 * GIB,
            away_bytes: away_gib * GIB,
            is_coming: false,
            places,
        };
        let places = [300, 17, 60].map(|gib| HostPlace { room_bytes: gib * GIB });
        let mut kept = Vec::new();
        let mut of = |places: &[HostPlace], tenants: &[Copies]| {
            keep_in_places(places, 20 * GIB, tenants.iter().copied(), &mut kept);
            kept.iter().map(|bytes| bytes / GIB).collect::<Vec<_>>()
        };
        let mixed = [copies(0b1, 20), copies(0b11, 0), copies(0b101, 0), copies(0b110, 0)];
        assert_eq!(of(&places, &mixed), [21, 6, 21, 6], "two share the group of 17 GiB");
        assert_eq!(of(&places[..1], &mixed), [21; 4]);
        assert_eq!(of(&[], &mixed), [0; 4], "what cannot be read is no room");
    }

    proptest! {
        #[test]
        fn what_is_kept_and_what_is_away_have_room_together(
            host_gib in 0_u64..300,
            short_gib in 1_u64..200,
            tenants in proptest::collection::vec((1_u64..100, 0_u64..100), 1..6),
        ) {
            let all: Vec<_> = tenants.iter().map(|(size, away)| (size * GIB, away.min(size) * GIB)).collect();
            let keep = Keep::new(host_gib * GIB, short_gib * GIB, all.iter().copied());
            let sum = all.iter().map(|(size, away)| keep.of(*size).max(*away)).sum::<u64>();
            let away = all.iter().map(|(_, away)| away).sum::<u64>();
            prop_assert!(sum <= (host_gib * GIB).max(away));
        }
    }

    #[test]
    fn what_devices_have_promised_is_not_there_for_others() {
        let mut room = HostRoom::new(Some(40 * GIB));
        room.places.push(Place { bytes: 80 * GIB, ..Place::default() });
        let [one, other] = [[1; 16], [2; 16]];
        let of = |room: &HostRoom, device: &Uuid| {
            let mut rooms = Vec::new();
            room.rooms(device, &mut rooms);
            rooms.iter().map(|place| place.room_bytes / GIB).collect::<Vec<_>>()
        };
        assert_eq!(of(&room, &one), [40]);
        room.note(&one, 0, 30 * GIB);
        assert_eq!((of(&room, &one), of(&room, &other)), (vec![40], vec![10]));
        // More than there is, since the host has less than when it was promised.
        room.note(&other, 0, 20 * GIB);
        assert_eq!(room.view(), HostView { promised_bytes: 50 * GIB, free_bytes: 0 });
        room.forget(&one);
        assert_eq!(room.view(), HostView { promised_bytes: 20 * GIB, free_bytes: 20 * GIB });
        room.most_bytes = u64::MAX;
        assert_eq!(of(&room, &other), [73], "a twelfth is left");
    }

    #[test]
    fn this_machine_has_room_and_groups_have_numbers() {
        let mut room = HostRoom::new(None);
        room.look(1, &[]);
        assert!(room.view().free_bytes > 0, "this machine has some memory");
        let path = |number: usize| PathBuf::from(format!("/sys/fs/cgroup/{number}"));
        assert_eq!([1, 2, 1].map(|number| room.place(path(number), GIB, &[])), [1, 2, 1]);
        for number in 3..100 {
            room.place(path(number), (200 - number as u64) * GIB, &[]);
        }
        assert_eq!(room.places.len(), MAX_PLACES);
        assert_eq!(room.places.last().map(|place| place.bytes), Some(101 * GIB));
    }
}
