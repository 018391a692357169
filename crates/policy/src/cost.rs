//! Expected cost of work: device time by function and grid, by graph, by kind of copy.
//!
//! A table of fixed size with a few places for each key; a key that finds none pushes out another,
//! which is then learnt again. Promises: a look-up is a few loads, whatever is known; two threads that
//! learn at once lose a sample, never mix two keys' times for longer than one look-up.
//!
//! Does not measure, and promises no more than an estimate: measurements put right the charges that rest
//! on it.

mod before;
mod uneven;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use before::Before;
pub use uneven::Moments;
use uneven::Uneven;
pub(crate) use uneven::is_far;

/// Places a key may lie in.
const WAYS: usize = 4;
/// Sets of so many places.
const SETS: usize = 1024;
/// Slices of the driver last 1 to 2 ms, so a kernel of this length or more lies in several.
pub(crate) const SLICED_FROM_NS: u64 = 2_000_000;
/// A new sample counts for one part in so many.
const WEIGHT: u64 = 8;

/// Knowledge of one key, in one word so that it cannot be torn: a tag of the key above, the
/// estimate in steps of 4 ns below it, and in the lowest bit a flag for a rough one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place(u64);

/// Bits below the tag.
const BITS: u32 = 39;
/// Fine, and rounded to: a moving mean that cuts off half a step each time loses [`WEIGHT`] times that.
const STEP_NS: u64 = 4;
const ROUGH: u64 = 1;
/// Its lengths differ by so much that each is to be measured.
const UNEVEN: u64 = 1 << 1;
/// Bits below the estimate.
const FLAG_BITS: u32 = 2;

impl Place {
    fn new(key: u64, ns: u64) -> Self {
        let steps =
            (ns.saturating_add(STEP_NS / 2) / STEP_NS).clamp(1, (1 << (BITS - FLAG_BITS)) - 1);
        Self(tag(key) << BITS | steps << FLAG_BITS)
    }

    fn rough(key: u64, ns: u64) -> Self {
        Self(Self::new(key, ns).0 | ROUGH)
    }

    fn is_rough(self) -> bool {
        self.0 & ROUGH != 0
    }

    fn ns_of(self, key: u64) -> Option<u64> {
        (self.0 != 0 && self.0 >> BITS == tag(key))
            .then_some(((self.0 & ((1 << BITS) - 1)) >> FLAG_BITS) * STEP_NS)
    }
}

/// The part of a key that is kept; never 0.
const fn tag(key: u64) -> u64 {
    key >> BITS | 1
}

/// Kind of work that a key stands for. Kinds share no keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// One kernel.
    Kernel = 1,
    /// A graph: what was captured into it, as one.
    Graph = 2,
    /// A fill or a copy by the device.
    Copy = 3,
}

/// Bit at which a key holds its kind, above its lowest bit, which is always set. Neither has a part in the choice of
/// the key's place.
const KIND_SHIFT: u32 = 1;
const KIND_MASK: u64 = 0b11 << KIND_SHIFT;

/// Mixes what is launched, of some kind, into a key.
pub const fn key(kind: WorkKind, parts: [u64; 3]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let [a, b, c] = parts;
    let a = a ^ (kind as u64) << 56;
    let mixed = (a ^ b.rotate_left(24) ^ c.rotate_left(47)).wrapping_mul(ODD);
    (mixed ^ mixed >> 29).wrapping_mul(ODD) & !KIND_MASK | (kind as u64) << KIND_SHIFT | 1
}

/// Whether a key is a graph's.
pub const fn is_graph(key: u64) -> bool {
    key & KIND_MASK == (WorkKind::Graph as u64) << KIND_SHIFT
}

/// The table: 32 KiB, of which only pages that are used become real.
#[derive(Debug)]
pub struct Costs {
    sets: [[AtomicU64; WAYS]; SETS],
    uneven: Uneven,
    before: Before,
    /// Launches that are still to be measured one by one, whatever is known of them.
    hunted: AtomicU32,
}

/// How long work is expected to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Nothing is known.
    Unknown,
    /// About so long each time.
    Even(u64),
    /// Sometimes much longer than at others.
    Uneven(Moments),
}

/// How well it is known how long work takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// Not at all.
    Nothing,
    /// The next that is measured replaces it; or each is measured.
    Roughly,
    /// It is charged.
    Firmly,
}

impl Default for Costs {
    fn default() -> Self {
        Self::new()
    }
}

impl Costs {
    /// Nothing known.
    pub const fn new() -> Self {
        let sets = [const { [const { AtomicU64::new(0) }; WAYS] }; SETS];
        Self { sets, uneven: Uneven::new(), before: Before::new(), hunted: AtomicU32::new(0) }
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
    #[inline(never)]
    pub fn get(&self, key: u64) -> Option<u64> {
        self.find(key).map(|(_, ns)| ns)
    }

    /// The same; `None` also where all that is known is rough, where its lengths differ, and while
    /// launches are measured one by one.
    #[inline]
    pub fn firm(&self, key: u64) -> Option<u64> {
        let (place, ns) = self.find(key)?;
        (place.0 & (ROUGH | UNEVEN) == 0 && self.hunted.load(Relaxed) == 0).then_some(ns)
    }

    /// How well it is known how long work of this key takes.
    #[inline(never)]
    pub fn known(&self, key: u64) -> Known {
        match (self.get(key), self.firm(key)) {
            (None, _) => Known::Nothing,
            (_, None) => Known::Roughly,
            _ => Known::Firmly,
        }
    }

    /// Counts work of this key as even again, whatever was seen of it.
    pub fn forget_uneven(&self, key: u64) {
        if let Some((place, _)) = self.find(key).filter(|(place, _)| place.0 & UNEVEN != 0) {
            self.put(key, Place(place.0 & !UNEVEN));
        }
    }

    /// The same, where others' slices may have made it look so.
    pub fn doubt_uneven(&self, key: u64, now_ns: u64) {
        if !self.uneven.is_sure(key, now_ns) {
            self.forget_uneven(key);
        }
    }

    /// Work of this key, which counts as uneven, has shown it whoever was there.
    pub fn make_sure(&self, key: u64, now_ns: u64) {
        self.uneven.make_sure(key, now_ns);
    }

    /// Whether work of this key has counted as uneven of late, also where that was forgotten.
    pub fn was_uneven(&self, key: u64, now_ns: u64) -> bool {
        self.get(key).is_some() && self.uneven.get(key, now_ns).is_some()
    }

    /// How long work of this key is expected to take.
    pub fn expect(&self, key: u64, now_ns: u64) -> Length {
        match self.find(key) {
            None => Length::Unknown,
            Some((place, ns)) if place.0 & UNEVEN != 0 => match self.uneven.get(key, now_ns) {
                Some(moments) => Length::Uneven(moments),
                None => {
                    self.forget_uneven(key);
                    Length::Even(ns)
                }
            },
            Some((_, ns)) => Length::Even(ns),
        }
    }

    /// Has so many launches measured one by one.
    pub fn hunt(&self, launches: u32) {
        self.hunted.fetch_max(launches, Relaxed);
    }

    /// One of them was made.
    pub fn hunted(&self) {
        if self.hunted.load(Relaxed) != 0 {
            let _ = self.hunted.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        }
    }

    /// Learns that work of this key took `ns`. A rough estimate is forgotten.
    pub fn learn(&self, key: u64, ns: u64) {
        let (new_ns, uneven) = match self.find(key).filter(|(place, _)| !place.is_rough()) {
            Some((place, old_ns)) => {
                let mean_ns = old_ns.saturating_mul(WEIGHT - 1).saturating_add(ns) / WEIGHT;
                (mean_ns, place.0 & UNEVEN)
            }
            None => (ns, 0),
        };
        self.put(key, Place(Place::new(key, new_ns).0 | uneven));
    }

    /// The same of a launch that ran alone, so that how far it was from what was expected is the kernel's doing:
    /// by much, and its lengths count as uneven for a while.
    pub fn learn_alone(&self, key: u64, ns: u64, now_ns: u64) {
        if let Some((place, expected_ns)) = self.find(key).filter(|(place, _)| !place.is_rough()) {
            let is_far = is_far(expected_ns, ns);
            if is_far && place.0 & UNEVEN == 0 {
                // The length it had until now still occurs.
                self.uneven.learn(key, expected_ns, false, now_ns);
            }
            if is_far || place.0 & UNEVEN != 0 {
                self.uneven.learn(key, ns, is_far, now_ns);
            }
            if is_far {
                self.put(key, Place(place.0 | UNEVEN));
            }
        }
        self.learn(key, ns);
        self.seen_alone(key, ns, now_ns);
    }

    /// Counts work of this key as uneven, until what is learnt of it shows otherwise.
    pub fn count_as_uneven(&self, key: u64) {
        if let Some((place, _)) = self.find(key) {
            self.put(key, Place(place.0 | UNEVEN));
        }
    }

    /// Learns of a launch of this key, whose lengths differ, that it took so long; what it takes on average stays as it is.
    pub fn learn_uneven(&self, key: u64, ns: u64, now_ns: u64) {
        if let Some(known_ns) = self.get(key) {
            self.uneven.learn(key, ns, is_far(known_ns, ns), now_ns);
        }
    }

    /// The longest that work of this key took alone, before others may have come that nobody has noticed yet.
    pub fn longest_alone(&self, key: u64) -> Option<u64> {
        self.before.get(key)
    }

    /// Work of this key took so long alone, which has been learnt: beside strangers no more than what is known now is
    /// charged for it, or than this where its lengths differ.
    pub fn seen_alone(&self, key: u64, ns: u64, now_ns: u64) {
        if let Some((place, known_ns)) = self.find(key) {
            let ns = if place.0 & UNEVEN == 0 { known_ns } else { ns };
            self.before.learn(key, ns, now_ns);
        }
    }

    /// Keeps the estimate of this key, even or uneven, although it was measured beside others; `longest_ns` is the longest
    /// that was measured alone.
    pub fn keep(&self, key: u64, longest_ns: u64, now_ns: u64) {
        let Some((place, known_ns)) = self.find(key) else { return };
        let is_so = known_ns < longest_ns || self.uneven.is_sure(key, now_ns);
        if place.0 & UNEVEN != 0 && is_so {
            self.uneven.keep(key, now_ns);
        } else {
            // It counts as uneven only since others' slices were in it.
            self.put(key, Place::new(key, known_ns.min(longest_ns)));
        }
    }

    /// Learns that work of this key took about `ns`, where nothing is known of it.
    pub fn learn_roughly(&self, key: u64, ns: u64) {
        if self.get(key).is_none() {
            self.put(key, Place::rough(key, ns));
        }
    }

    /// Learns that work of this key took no more than `ns`, where no more than roughly so is known of it.
    pub fn learn_at_most(&self, key: u64, ns: u64) {
        if self.get(key).is_none_or(|known_ns| ns < known_ns) {
            self.put(key, Place::rough(key, ns));
        }
    }

    fn put(&self, key: u64, new: Place) {
        let known = |place: &&AtomicU64| Place(place.load(Relaxed)).ns_of(key).is_some();
        let empty = || self.ways(key).find(|place| place.load(Relaxed) == 0);
        // The entry in the way that its tag names is pushed out.
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
        let key = key(WorkKind::Kernel, [1, 2, 3]);
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
        let (costs, key) = (Costs::new(), key(WorkKind::Kernel, [1, 2, 3]));
        costs.learn_roughly(key, 400_000);
        assert_eq!((costs.get(key), costs.firm(key)), (Some(400_000), None));
        costs.learn_roughly(key, 100_000);
        assert_eq!(costs.get(key), Some(400_000), "the first stands");
        costs.learn_at_most(key, 500_000);
        assert_eq!(costs.get(key), Some(400_000), "that is known");
        costs.learn_at_most(key, 200_000);
        assert_eq!((costs.get(key), costs.firm(key)), (Some(200_000), None));
        costs.learn(key, 80_000);
        assert_eq!((costs.get(key), costs.firm(key)), (Some(80_000), Some(80_000)));
        costs.learn_roughly(key, 400_000);
        assert_eq!(costs.firm(key), Some(80_000));
    }

    #[test]
    fn that_a_kernel_was_uneven_is_known_beyond_its_being_forgotten() {
        const MS: u64 = 1_000_000;
        let (costs, key) = (Costs::new(), key(WorkKind::Kernel, [1, 2, 3]));
        costs.learn_alone(key, MS / 10, 5 * MS);
        assert!(!costs.was_uneven(key, 6 * MS));
        costs.learn_alone(key, 3 * MS, 9 * MS);
        assert!(matches!(costs.expect(key, 10 * MS), Length::Uneven(_)));
        costs.forget_uneven(key);
        assert!(matches!(costs.expect(key, 11 * MS), Length::Even(_)));
        assert!(costs.was_uneven(key, 11 * MS));
        assert!(!costs.was_uneven(key, 6_000 * MS), "nor for ever");
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_thousand_kernels_are_kept_apart() {
        let costs = Costs::new();
        let keys: Vec<u64> =
            (0..1_000).map(|n| key(WorkKind::Kernel, [0x7f12_3456_0000 + 64 * n, 5, 9])).collect();
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
            let keys = [WorkKind::Kernel, WorkKind::Graph, WorkKind::Copy].map(|kind| key(kind, parts));
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
