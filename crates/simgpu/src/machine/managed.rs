//! Managed memory on the cards: which granules of which client's are resident, and who goes when room is
//! wanted.
//!
//! Promises: a granule is on one device or on the host; what is on a device is never more than the room it
//! is given there; who makes room is the granule that was used longest ago, whoever's it is. A granule is
//! resident as a whole. Does not know what else a card holds ([`super::memory`] does), nor where bytes lie
//! or how long they travel: it counts.

use crate::calibration::GRANULE_BYTES;
use crate::wire::Refusal;
use std::collections::BTreeMap;

/// Granules that follow each other: the first, and how many.
pub type Run = (u64, u64);

/// The most granules one operation goes through: 16 GiB, so that no request keeps the others for long and
/// each answer fits a packet.
pub const MOST_GRANULES: u64 = 8192;
/// The most bytes of one object.
const MOST_BYTES: u64 = 1 << 46;

/// Granules and bytes that an operation moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Granules that have come to where they were wanted, in order.
    pub came: Vec<Run>,
    /// Bytes of anybody's that had to go to the host for them.
    pub evicted_bytes: u64,
    /// Bytes that stay on the host, since nothing can make room for them.
    pub stayed_bytes: u64,
}

/// The operations' runs that a longer one consists of.
pub fn pieces((first, count): Run) -> impl Iterator<Item = Run> {
    let end = first.saturating_add(count);
    let starts = (first..end).step_by(MOST_GRANULES as usize);
    starts.map(move |start| (start, MOST_GRANULES.min(end - start)))
}

impl Moved {
    /// Adds what a later operation moved.
    pub fn add(&mut self, later: Self) {
        self.came.extend(later.came);
        self.evicted_bytes += later.evicted_bytes;
        self.stayed_bytes += later.stayed_bytes;
    }
}

/// Where a granule is on a card, and when it was last used.
#[derive(Clone, Copy, Debug)]
struct Seat {
    device: u32,
    used: u64,
}

/// A client's range of managed memory.
#[derive(Debug)]
struct Object {
    client: u64,
    granules: u64,
    /// Of the granules that are on a device, by index.
    seats: BTreeMap<u64, Seat>,
}

/// All managed memory.
#[derive(Debug, Default)]
pub struct Managed {
    objects: BTreeMap<u64, Object>,
    /// By device, the resident granules (object and index) in the order of their last use.
    order: BTreeMap<u32, BTreeMap<u64, (u64, u64)>>,
    last_object: u64,
    last_use: u64,
}

/// Adds an index to runs that end before it.
fn append(runs: &mut Vec<Run>, index: u64) {
    match runs.last_mut() {
        Some((first, count)) if *first + *count == index => *count += 1,
        _ => runs.push((index, 1)),
    }
}

impl Managed {
    /// Makes an object of a client, all of it on the host.
    pub fn make(&mut self, client: u64, bytes: u64) -> Result<u64, Refusal> {
        if bytes == 0 {
            return Err(Refusal::Invalid);
        }
        if bytes > MOST_BYTES {
            return Err(Refusal::OutOfMemory);
        }
        self.last_object += 1;
        let granules = bytes.div_ceil(GRANULE_BYTES);
        self.objects.insert(self.last_object, Object { client, granules, seats: BTreeMap::new() });
        Ok(self.last_object)
    }

    /// Ends an object of a client; what it had on devices is free.
    pub fn end(&mut self, client: u64, object: u64) -> Result<(), Refusal> {
        self.owned(client, object)?;
        self.drop_object(object);
        Ok(())
    }

    /// A client is gone with all its objects.
    pub fn forget(&mut self, client: u64) {
        let own = self.objects.iter().filter(|(_, object)| object.client == client);
        for object in own.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.drop_object(object);
        }
    }

    /// Bytes that are on a device.
    pub fn resident_bytes(&self, device: u32) -> u64 {
        self.order.get(&device).map_or(0, |order| order.len() as u64 * GRANULE_BYTES)
    }

    /// Bytes of a run of an object that are on any device.
    pub fn resident_of(&self, client: u64, object: u64, run: Run) -> Result<u64, Refusal> {
        let end = self.checked(client, object, run)?;
        let known = self.owned(client, object)?;
        Ok(known.seats.range(run.0..end).count() as u64 * GRANULE_BYTES)
    }

    /// Brings a run to a device, where managed memory may take `room_bytes` in all: what is there is used
    /// anew, what is on another device moves over.
    pub fn bring(
        &mut self,
        client: u64,
        object: u64,
        device: u32,
        run: Run,
        room_bytes: u64,
    ) -> Result<Moved, Refusal> {
        let end = self.checked(client, object, run)?;
        let mut moved = Moved::default();
        for index in run.0..end {
            match self.seat(object, index) {
                Some(seat) if seat.device == device => self.unseat(object, index),
                found => {
                    let is_full = self.resident_bytes(device) + GRANULE_BYTES > room_bytes;
                    if is_full && self.evict(device).is_none() {
                        moved.stayed_bytes += GRANULE_BYTES;
                        continue;
                    }
                    moved.evicted_bytes += if is_full { GRANULE_BYTES } else { 0 };
                    if found.is_some() {
                        self.unseat(object, index);
                    }
                    append(&mut moved.came, index);
                }
            }
            self.take_seat(object, index, device);
        }
        Ok(moved)
    }

    /// Brings a run back to the host.
    pub fn leave(&mut self, client: u64, object: u64, run: Run) -> Result<Moved, Refusal> {
        let end = self.checked(client, object, run)?;
        let mut moved = Moved::default();
        let seats = self.owned(client, object)?.seats.range(run.0..end);
        seats.for_each(|(index, _)| append(&mut moved.came, *index));
        for (first, count) in &moved.came {
            (*first..first + count).for_each(|index| self.unseat(object, index));
        }
        Ok(moved)
    }

    /// Has managed memory take no more than `room_bytes` of a device; answers the bytes that went.
    pub fn make_room(&mut self, device: u32, room_bytes: u64) -> u64 {
        let mut evicted_bytes = 0;
        while self.resident_bytes(device) > room_bytes && self.evict(device).is_some() {
            evicted_bytes += GRANULE_BYTES;
        }
        evicted_bytes
    }

    fn owned(&self, client: u64, object: u64) -> Result<&Object, Refusal> {
        let known = self.objects.get(&object).filter(|known| known.client == client);
        known.ok_or(Refusal::Unknown)
    }

    /// The end of a run that lies in an object of the client's.
    fn checked(&self, client: u64, object: u64, (first, count): Run) -> Result<u64, Refusal> {
        let known = self.owned(client, object)?;
        let end = first.checked_add(count).filter(|end| *end <= known.granules);
        end.filter(|_| count <= MOST_GRANULES).ok_or(Refusal::Invalid)
    }

    fn seat(&self, object: u64, index: u64) -> Option<Seat> {
        self.objects.get(&object)?.seats.get(&index).copied()
    }

    fn take_seat(&mut self, object: u64, index: u64, device: u32) {
        let Some(known) = self.objects.get_mut(&object) else { return };
        self.last_use += 1;
        known.seats.insert(index, Seat { device, used: self.last_use });
        self.order.entry(device).or_default().insert(self.last_use, (object, index));
    }

    fn unseat(&mut self, object: u64, index: u64) {
        let known = self.objects.get_mut(&object);
        let Some(seat) = known.and_then(|known| known.seats.remove(&index)) else { return };
        if let Some(order) = self.order.get_mut(&seat.device) {
            order.remove(&seat.used);
        }
    }

    /// Sends the granule of a device that was used longest ago to the host.
    fn evict(&mut self, device: u32) -> Option<()> {
        let (_, (object, index)) = self.order.get_mut(&device)?.pop_first()?;
        self.objects.get_mut(&object)?.seats.remove(&index).map(|_| ())
    }

    fn drop_object(&mut self, object: u64) {
        let Some(known) = self.objects.remove(&object) else { return };
        for seat in known.seats.values() {
            if let Some(order) = self.order.get_mut(&seat.device) {
                order.remove(&seat.used);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const G: u64 = GRANULE_BYTES;

    fn came(moved: &Moved) -> u64 {
        moved.came.iter().map(|(_, count)| count).sum()
    }

    #[test]
    fn who_was_used_longest_ago_goes_whoevers_it_is() {
        let mut managed = Managed::default();
        let (mine, theirs) = (managed.make(1, 3 * G).unwrap(), managed.make(2, 3 * G).unwrap());
        assert_eq!(managed.bring(1, mine, 0, (0, 3), 4 * G).unwrap().came, [(0, 3)]);
        assert_eq!(managed.bring(2, theirs, 0, (1, 1), 4 * G).unwrap().evicted_bytes, 0);
        // Used anew: the first is the youngest now.
        assert_eq!(managed.bring(1, mine, 0, (0, 1), 4 * G), Ok(Moved::default()));
        let moved = managed.bring(2, theirs, 0, (0, 3), 4 * G).unwrap();
        assert_eq!((moved.came, moved.evicted_bytes), (vec![(0, 1), (2, 1)], 2 * G));
        assert_eq!(managed.resident_of(1, mine, (0, 3)), Ok(G));
        assert_eq!(managed.resident_of(1, mine, (0, 1)), Ok(G));
        assert_eq!(managed.resident_of(2, theirs, (0, 3)), Ok(3 * G));
    }

    #[test]
    fn a_range_larger_than_the_room_goes_through_it() {
        let mut managed = Managed::default();
        let object = managed.make(1, 10 * G).unwrap();
        let moved = managed.bring(1, object, 0, (0, 10), 4 * G).unwrap();
        assert_eq!(
            (moved.came, moved.evicted_bytes, moved.stayed_bytes),
            (vec![(0, 10)], 6 * G, 0)
        );
        assert_eq!(managed.resident_of(1, object, (6, 4)), Ok(4 * G));
        // Without room nothing comes, and nobody goes.
        let other = managed.make(2, 2 * G).unwrap();
        let moved = managed.bring(2, other, 1, (0, 2), G - 1).unwrap();
        assert_eq!((came(&moved), moved.stayed_bytes), (0, 2 * G));
    }

    #[test]
    fn what_moves_to_another_device_leaves_the_first() {
        let mut managed = Managed::default();
        let object = managed.make(1, 2 * G).unwrap();
        managed.bring(1, object, 0, (0, 2), 8 * G).unwrap();
        assert_eq!(managed.bring(1, object, 1, (1, 1), 8 * G).unwrap().came, [(1, 1)]);
        assert_eq!((managed.resident_bytes(0), managed.resident_bytes(1)), (G, G));
        assert_eq!(managed.leave(1, object, (0, 2)).unwrap().came, [(0, 2)]);
        assert_eq!((managed.resident_bytes(0), managed.resident_bytes(1)), (0, 0));
    }

    #[test]
    fn nobody_moves_what_is_not_his_or_not_there() {
        let mut managed = Managed::default();
        let object = managed.make(1, 2 * G).unwrap();
        assert_eq!(managed.make(1, 0), Err(Refusal::Invalid));
        assert_eq!(managed.make(1, u64::MAX), Err(Refusal::OutOfMemory));
        assert_eq!(managed.bring(2, object, 0, (0, 1), G), Err(Refusal::Unknown));
        assert_eq!(managed.leave(2, object, (0, 1)), Err(Refusal::Unknown));
        assert_eq!(managed.end(2, object), Err(Refusal::Unknown));
        for run in [(0, 3), (3, 0), (u64::MAX, 2)] {
            assert_eq!(managed.bring(1, object, 0, run, G), Err(Refusal::Invalid), "{run:?}");
        }
        assert_eq!(managed.end(1, object), Ok(()));
        assert_eq!(managed.end(1, object), Err(Refusal::Unknown));
    }

    #[test]
    fn a_long_run_is_gone_through_in_pieces() {
        let all: Vec<Run> = pieces((5, 2 * MOST_GRANULES + 1)).collect();
        let most = MOST_GRANULES;
        assert_eq!(all, [(5, most), (5 + most, most), (5 + 2 * most, 1)]);
        assert_eq!(pieces((9, 0)).count(), 0);
    }

    /// The same, as a list in the order of use.
    #[derive(Default)]
    struct Listed(Vec<(u64, u64, u32)>);

    impl Listed {
        fn on(&self, device: u32) -> u64 {
            self.0.iter().filter(|at| at.2 == device).count() as u64 * G
        }

        fn evict(&mut self, device: u32) -> bool {
            let oldest = self.0.iter().position(|at| at.2 == device);
            oldest.map(|at| self.0.remove(at)).is_some()
        }

        fn bring(&mut self, object: u64, device: u32, run: Run, room: u64) -> (u64, u64, u64) {
            let (mut came, mut evicted, mut stayed) = (0, 0, 0);
            for index in run.0..run.0 + run.1 {
                if let Some(at) = self.0.iter().position(|at| *at == (object, index, device)) {
                    self.0.remove(at);
                } else if self.on(device) + G <= room {
                    came += 1;
                } else if self.evict(device) {
                    (came, evicted) = (came + 1, evicted + G);
                } else {
                    stayed += G;
                    continue;
                }
                self.0.retain(|at| (at.0, at.1) != (object, index));
                self.0.push((object, index, device));
            }
            (came, evicted, stayed)
        }
    }

    proptest! {
        #[test]
        fn it_is_a_list_in_the_order_of_use(
            steps in prop::collection::vec((0u8..8, 1u64..4, 0u32..2, 0u64..6, 0u64..7, 0u64..8), 1..150)
        ) {
            let (mut managed, mut listed) = (Managed::default(), Listed::default());
            // Objects 1 to 3, of clients 1 to 3, each of six granules.
            for client in 1..4 {
                managed.make(client, 6 * G).unwrap();
            }
            for (step, object, device, first, count, room) in steps {
                let run = (first, count.min(6 - first));
                match step {
                    0..=3 => {
                        // The room never shrinks by itself: `make_room` comes first, as memory does it.
                        managed.make_room(device, room * G);
                        while listed.on(device) > room * G && listed.evict(device) {}
                        let known = managed.objects.contains_key(&object);
                        match managed.bring(object, object, device, run, room * G) {
                            Ok(moved) => {
                                let expected = listed.bring(object, device, run, room * G);
                                prop_assert_eq!(
                                    (came(&moved), moved.evicted_bytes, moved.stayed_bytes), expected
                                );
                            }
                            Err(_) => prop_assert!(!known),
                        }
                        prop_assert!(managed.resident_bytes(device) <= room * G);
                    }
                    4 | 5 => {
                        let _ = managed.leave(object, object, run);
                        let inside = run.0..run.0 + run.1;
                        listed.0.retain(|at| at.0 != object || !inside.contains(&at.1));
                    }
                    6 => {
                        let before = listed.on(device);
                        while listed.on(device) > room * G && listed.evict(device) {}
                        let went = managed.make_room(device, room * G);
                        prop_assert_eq!(went, before - listed.on(device));
                    }
                    _ => {
                        managed.forget(object);
                        listed.0.retain(|at| at.0 != object);
                    }
                }
                for device in 0..2 {
                    prop_assert_eq!(managed.resident_bytes(device), listed.on(device));
                }
                let seats: usize = managed.objects.values().map(|known| known.seats.len()).sum();
                prop_assert_eq!(seats, listed.0.len());
            }
        }
    }
}
