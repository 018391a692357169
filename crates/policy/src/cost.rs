//! What work is expected to cost: device time by function and grid, by graph, by kind of copy.
//!
//! A table of fixed size with a few places for each key; what does not fit pushes out what lay there,
//! which is then learnt anew. Promises: a look-up is a few loads, whatever is known; two threads that
//! learn at once lose a sample, never mix two keys' times for longer than one look-up.
//!
//! Does not measure, and promises no more than an estimate: what was charged by it is put right by
//! what is measured.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Places a key may lie in.
const WAYS: usize = 4;
/// Sets of so many places.
const SETS: usize = 1024;
/// A new sample counts for one part in so many.
const WEIGHT: u64 = 8;

/// What is known of one key, in one word so that it cannot be torn: a tag of the key above, the
/// estimate in steps of 4 ns below it, and whether that is a rough one in the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place(u64);

/// Bits below the tag.
const BITS: u32 = 38;
/// Fine, and rounded to: a moving mean that cuts off half a step each time loses [`WEIGHT`] times that.
const STEP_NS: u64 = 4;
const ROUGH: u64 = 1;

impl Place {
    fn new(key: u64, ns: u64) -> Self {
        let steps = (ns.saturating_add(STEP_NS / 2) / STEP_NS).clamp(1, (1 << (BITS - 1)) - 1);
        Self(tag(key) << BITS | steps << 1)
    }

    fn rough(key: u64, ns: u64) -> Self {
        Self(Self::new(key, ns).0 | ROUGH)
    }

    fn is_rough(self) -> bool {
        self.0 & ROUGH != 0
    }

    fn ns_of(self, key: u64) -> Option<u64> {
        (self.0 != 0 && self.0 >> BITS == tag(key))
            .then_some(((self.0 & ((1 << BITS) - 1)) >> 1) * STEP_NS)
    }
}

/// The part of a key that is kept; never 0.
const fn tag(key: u64) -> u64 {
    key >> BITS | 1
}

/// What kind of work a key stands for. Kinds share no keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One kernel.
    Kernel = 1,
    /// A graph: what was captured into it, as one.
    Graph = 2,
    /// A fill or a copy by the device.
    Copy = 3,
}

/// Where a key holds its kind, above its lowest bit, which is always set. Neither chooses a key's place.
const KIND_SHIFT: u32 = 1;
const KIND_MASK: u64 = 0b11 << KIND_SHIFT;

/// Mixes what is launched, of some kind, into a key.
pub const fn key(kind: Kind, parts: [u64; 3]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let [a, b, c] = parts;
    let a = a ^ (kind as u64) << 56;
    let mixed = (a ^ b.rotate_left(24) ^ c.rotate_left(47)).wrapping_mul(ODD);
    (mixed ^ mixed >> 29).wrapping_mul(ODD) & !KIND_MASK | (kind as u64) << KIND_SHIFT | 1
}

/// Whether a key is a graph's.
pub const fn is_graph(key: u64) -> bool {
    key & KIND_MASK == (Kind::Graph as u64) << KIND_SHIFT
}

/// The table: 32 KiB, of which only pages that are used become real.
#[derive(Debug)]
pub struct Costs {
    sets: [[AtomicU64; WAYS]; SETS],
}

impl Default for Costs {
    fn default() -> Self {
        Self::new()
    }
}

impl Costs {
    /// Nothing known.
    pub const fn new() -> Self {
        Self { sets: [const { [const { AtomicU64::new(0) }; WAYS] }; SETS] }
    }

    #[inline(always)]
    fn ways(&self, key: u64) -> impl Iterator<Item = &AtomicU64> {
        // The lowest three bits are left out, so that a mask makes the offset.
        let set = (key as usize / (2 * WAYS)) % SETS;
        self.sets.get(set).into_iter().flatten()
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<(Place, u64)> {
        self.ways(key).find_map(|place| {
            let place = Place(place.load(Relaxed));
            Some((place, place.ns_of(key)?))
        })
    }

    /// The expected device time in nanoseconds; `None` for a key that is not known.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u64> {
        self.find(key).map(|(_, ns)| ns)
    }

    /// The same; `None` also where all that is known is rough.
    #[inline]
    pub fn firm(&self, key: u64) -> Option<u64> {
        self.find(key).filter(|(place, _)| !place.is_rough()).map(|(_, ns)| ns)
    }

    /// Learns that work of this key took `ns`. What was known roughly is forgotten.
    pub fn learn(&self, key: u64, ns: u64) {
        let new_ns = match self.firm(key) {
            Some(old_ns) => (old_ns.saturating_mul(WEIGHT - 1).saturating_add(ns)) / WEIGHT,
            None => ns,
        };
        self.put(key, Place::new(key, new_ns));
    }

    /// Learns that work of this key took about `ns`, where nothing is known of it.
    pub fn learn_roughly(&self, key: u64, ns: u64) {
        if self.get(key).is_none() {
            self.put(key, Place::rough(key, ns));
        }
    }

    fn put(&self, key: u64, new: Place) {
        let known = |place: &&AtomicU64| Place(place.load(Relaxed)).ns_of(key).is_some();
        let empty = || self.ways(key).find(|place| place.load(Relaxed) == 0);
        // Whatever lies in the way its tag names is pushed out.
        let victim = || self.ways(key).nth((tag(key) >> 1) as usize % WAYS);
        if let Some(place) = self.ways(key).find(known).or_else(empty).or_else(victim) {
            place.store(new.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_learnt_is_found_and_follows_the_samples() {
        let costs = Costs::new();
        let key = key(Kind::Kernel, [1, 2, 3]);
        assert_eq!(costs.get(key), None);
        costs.learn(key, 80_000);
        assert_eq!(costs.get(key), Some(80_000));
        for _ in 0..60 {
            costs.learn(key, 160_000);
        }
        let ns = costs.get(key).expect("known");
        assert!((159_000..=160_000).contains(&ns), "{ns}");
    }

    #[test]
    fn a_day_is_a_cost_and_so_is_nothing() {
        let costs = Costs::new();
        costs.learn(1, 0);
        costs.learn(3 << 40, 86_400_000_000_000);
        assert_eq!(costs.get(1), Some(4));
        costs.learn(5 << 40, 82_924_497_162);
        assert_eq!(costs.get(5 << 40), Some(82_924_497_164), "to the nearest step");
        assert!(costs.get(3 << 40).expect("known") > 500_000_000_000);
    }

    #[test]
    fn what_is_known_roughly_gives_way_to_what_is_measured() {
        let (costs, key) = (Costs::new(), key(Kind::Kernel, [1, 2, 3]));
        costs.learn_roughly(key, 400_000);
        assert_eq!((costs.get(key), costs.firm(key)), (Some(400_000), None));
        costs.learn_roughly(key, 100_000);
        assert_eq!(costs.get(key), Some(400_000), "the first stands");
        costs.learn(key, 80_000);
        assert_eq!((costs.get(key), costs.firm(key)), (Some(80_000), Some(80_000)));
        costs.learn_roughly(key, 400_000);
        assert_eq!(costs.firm(key), Some(80_000));
    }

    #[test]
    fn a_thousand_kernels_are_kept_apart() {
        let costs = Costs::new();
        let keys: Vec<u64> =
            (0..1_000).map(|n| key(Kind::Kernel, [0x7f12_3456_0000 + 64 * n, 5, 9])).collect();
        for (n, key) in keys.iter().enumerate() {
            costs.learn(*key, 1_000 + 8 * n as u64);
        }
        let right = keys.iter().enumerate();
        let right = right.filter(|(n, key)| costs.get(**key) == Some(1_000 + 8 * *n as u64));
        assert!(right.count() > 980);
    }

    proptest! {
        #[test]
        fn a_key_says_its_kind(parts: [u64; 3]) {
            let keys = [Kind::Kernel, Kind::Graph, Kind::Copy].map(|kind| key(kind, parts));
            prop_assert_eq!(keys.map(is_graph), [false, true, false]);
            let [kernel, graph, copy] = keys;
            prop_assert!(kernel != graph && graph != copy && kernel != copy);
        }

        #[test]
        fn an_estimate_lies_among_the_samples(key: u64, samples in prop::collection::vec(8_u64..1 << 38, 1..40)) {
            let costs = Costs::new();
            samples.iter().for_each(|ns| costs.learn(key, *ns));
            let ns = costs.get(key).expect("known");
            let low = samples.iter().min().expect("some") - 64;
            let high = samples.iter().max().expect("some") + STEP_NS / 2;
            prop_assert!((low.min(ns)..=high).contains(&ns));
        }
    }
}
