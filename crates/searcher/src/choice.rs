//! Choices by key: a hash of the seed and of what is chosen.
//!
//! A stream of random numbers shifts when one more is drawn, and every later choice of an old seed with
//! it. Here each choice is a function of the seed and of who chooses what for the which time, so that a
//! new kind of choice leaves the others as they were.
//!
//! Promises: integers only, so that every machine chooses alike. Does not resist an adversary.

/// One round of splitmix64.
pub const fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The choices of one seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choices {
    seed: u64,
}

impl Choices {
    /// Choices of `seed`. Neighbouring seeds have nothing in common.
    pub const fn new(seed: u64) -> Self {
        Self { seed: mix(seed) }
    }

    /// Choices of a part, named by `key`.
    pub const fn of(self, key: u64) -> Self {
        Self { seed: mix(self.seed ^ mix(key)) }
    }

    /// Choices of a part with a name.
    pub fn named(self, name: &str) -> Self {
        self.of(name.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))))
    }

    /// The choice itself, uniform over all words.
    pub const fn word(self) -> u64 {
        mix(self.seed)
    }

    /// Uniform below `count`; 0 where that is 0.
    pub const fn below(self, count: u64) -> u64 {
        // The upper half of a product: no division, and no bias that could matter.
        ((self.word() as u128 * count as u128) >> 64) as u64
    }

    /// Uniform from `least` to `most`, both among them.
    pub const fn between(self, least: u64, most: u64) -> u64 {
        least + self.below((most.saturating_sub(least)).saturating_add(1))
    }

    /// True `ppm` times in a million.
    pub const fn is(self, ppm: u64) -> bool {
        self.below(1_000_000) < ppm
    }

    /// From `least` to `most`, each doubling as probable as the next.
    pub const fn spread(self, least: u64, most: u64) -> u64 {
        let least = if least == 0 { 1 } else { least };
        if most <= least {
            return least;
        }
        let doublings = (most / least).ilog2() as u64;
        let from = least << self.of(1).below(doublings + 1);
        let to = if from > most / 2 { most } else { 2 * from };
        self.of(2).between(from, to)
    }

    /// One of `all`; `None` of none.
    pub fn one_of<T>(self, all: &[T]) -> Option<&T> {
        let at = usize::try_from(self.below(all.len() as u64)).ok()?;
        all.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_depends_on_its_key_alone() {
        let choices = Choices::new(7);
        assert_eq!(choices.of(1).of(2).word(), Choices::new(7).of(1).of(2).word());
        assert_ne!(choices.of(1).of(2).word(), choices.of(2).of(1).word());
        assert_ne!(choices.named("a").word(), choices.named("b").word());
        // 2k and 2k + 1 are different seeds.
        assert_ne!(Choices::new(2).word(), Choices::new(3).word());
    }

    #[test]
    fn ranges_are_kept_and_reached() {
        let mut seen = [0_u32; 10];
        let mut doublings = [0_u32; 10];
        for key in 0..10_000 {
            let choices = Choices::new(1).of(key);
            seen[choices.between(3, 12) as usize - 3] += 1;
            let spread = choices.spread(100, 100_000);
            assert!((100..=100_000).contains(&spread), "{spread}");
            doublings[((spread / 100).ilog2() as usize).min(9)] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert!(doublings.iter().all(|count| (500..2_200).contains(count)), "{doublings:?}");
        assert_eq!(Choices::new(1).below(0), 0);
        assert_eq!(Choices::new(1).spread(5, 5), 5);
    }
}
