//! Placement of blocks in a slab: device memory of up to 256 MiB that is taken from the driver at once and
//! handed out in parts, as the driver hands out its own.
//!
//! Blocks up to [`SMALL_BYTES`] share granules of 2 MiB, on places of 512 bytes, first fit; larger ones get whole
//! granules that lie side by side. So a program finds its pointers aligned and packed as it does without us, and what
//! the ledger charges by granules is what a slab uses.
//!
//! Promises: two blocks never overlap; what is given back is joined with the room beside it; a place that was not
//! taken as a block's start is refused and changes nothing. All zeroes are an empty slab without room, of which
//! [`Slab::open`] makes one with. Does not know addresses, or who holds what: places are offsets in bytes.
//!
//! Cost: one pass over at most 128 granules, and over the 64 words of each that might have room.

use zerocopy::FromZeros;

use crate::charge::{GRANULE_BYTES, SMALL_BYTES};

/// Granules of the largest slab.
pub const MAX_GRANULES: u32 = 128;
/// Bytes of the largest slab.
pub const MAX_BYTES: u64 = GRANULE_BYTES * MAX_GRANULES as u64;
/// Place of a small block is a multiple of it.
pub const UNIT_BYTES: u64 = 512;

const UNITS: usize = (GRANULE_BYTES / UNIT_BYTES) as usize;
const WORDS: usize = UNITS / 64;

/// Marks of a granule that small blocks share: one bit a unit.
#[derive(Clone, Copy, Debug, FromZeros)]
struct Shared {
    taken: [u64; WORDS],
    /// First units of blocks.
    starts: [u64; WORDS],
}

/// The marks of a slab, some 128 KiB.
#[derive(Clone, Debug, FromZeros)]
pub struct Slab {
    granules: u32,
    /// Units taken in each shared granule.
    used_units: [u16; MAX_GRANULES as usize],
    /// Granules that are taken, by a large block or by small ones.
    taken: u128,
    /// Of these, the ones that small blocks share.
    shared: u128,
    /// First granules of large blocks.
    starts: u128,
    units: [Shared; MAX_GRANULES as usize],
}

/// A block's place and size in its slab, in bytes; the size is what it takes, not what was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it starts.
    pub at: u64,
    /// Its bytes, rounded up to places.
    pub bytes: u64,
}

impl Slab {
    /// Without room, until it is opened.
    pub const CLOSED: Self = Self {
        granules: 0,
        used_units: [0; MAX_GRANULES as usize],
        taken: 0,
        shared: 0,
        starts: 0,
        units: [Shared { taken: [0; WORDS], starts: [0; WORDS] }; MAX_GRANULES as usize],
    };

    /// Makes it an empty slab of `bytes`, at most [`MAX_BYTES`] and cut to whole granules.
    pub fn open(&mut self, bytes: u64) {
        let granules = bytes.min(MAX_BYTES) / GRANULE_BYTES;
        (self.taken, self.shared, self.starts) = (0, 0, 0);
        self.granules = u32::try_from(granules).unwrap_or(0);
    }

    /// Bytes of it, taken or not.
    pub fn bytes(&self) -> u64 {
        u64::from(self.granules) * GRANULE_BYTES
    }

    /// Bytes of the granules that blocks occupy, as the ledger charges them.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.taken.count_ones()) * GRANULE_BYTES
    }

    /// Takes room for a block of `bytes`, where there is some; none for no bytes.
    pub fn take(&mut self, bytes: u64) -> Option<Part> {
        if bytes == 0 || bytes > self.bytes() {
            return None;
        }
        if bytes <= SMALL_BYTES { self.take_small(bytes) } else { self.take_granules(bytes) }
    }

    fn take_small(&mut self, bytes: u64) -> Option<Part> {
        let count = u16::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        let most = (UNITS as u16).checked_sub(count)?;
        let used = self.used_units;
        let shared = bits(self.shared).find_map(|granule| {
            let has_room = used.get(granule).is_some_and(|used| *used <= most);
            has_room.then(|| Some((granule, self.units.get(granule)?.gap(count)?))).flatten()
        });
        let (granule, unit) = match shared {
            Some(place) => place,
            None => {
                let granule = self.gap(1)?;
                self.taken |= bit(granule);
                self.shared |= bit(granule);
                *self.used_units.get_mut(granule)? = 0;
                *self.units.get_mut(granule)? = Shared { taken: [0; WORDS], starts: [0; WORDS] };
                (granule, 0)
            }
        };
        let units = self.units.get_mut(granule)?;
        units.mark(unit, count, true);
        set(&mut units.starts, unit, true);
        let used = self.used_units.get_mut(granule)?;
        *used = used.saturating_add(count);
        let at = granule as u64 * GRANULE_BYTES + unit as u64 * UNIT_BYTES;
        Some(Part { at, bytes: u64::from(count) * UNIT_BYTES })
    }

    fn take_granules(&mut self, bytes: u64) -> Option<Part> {
        let count = u32::try_from(bytes.div_ceil(GRANULE_BYTES)).ok()?;
        let first = self.gap(count)?;
        self.taken |= run(first, count);
        self.starts |= bit(first);
        let bytes = u64::from(count) * GRANULE_BYTES;
        Some(Part { at: first as u64 * GRANULE_BYTES, bytes })
    }

    /// Gives the block that starts at `at` back; what it took. `None`, and nothing changed, where none starts there.
    pub fn give(&mut self, at: u64) -> Option<Part> {
        let part = self.find(at).filter(|part| part.at == at)?;
        let granule = usize::try_from(at / GRANULE_BYTES).ok()?;
        if self.shared & bit(granule) == 0 {
            let count = u32::try_from(part.bytes / GRANULE_BYTES).ok()?;
            self.taken &= !run(granule, count);
            self.starts &= !bit(granule);
            return Some(part);
        }
        let unit = usize::try_from(at % GRANULE_BYTES / UNIT_BYTES).ok()?;
        let count = u16::try_from(part.bytes / UNIT_BYTES).ok()?;
        let units = self.units.get_mut(granule)?;
        units.mark(unit, count, false);
        set(&mut units.starts, unit, false);
        let used = self.used_units.get_mut(granule)?;
        *used = used.saturating_sub(count);
        if *used == 0 {
            self.taken &= !bit(granule);
            self.shared &= !bit(granule);
        }
        Some(part)
    }

    /// The block that the place `at` lies in.
    pub fn find(&self, at: u64) -> Option<Part> {
        let granule = usize::try_from(at / GRANULE_BYTES).ok()?;
        if granule >= self.granules as usize || self.taken & bit(granule) == 0 {
            return None;
        }
        if self.shared & bit(granule) != 0 {
            let unit = usize::try_from(at % GRANULE_BYTES / UNIT_BYTES).ok()?;
            let (first, count) = self.units.get(granule)?.block(unit)?;
            let start = granule as u64 * GRANULE_BYTES + first as u64 * UNIT_BYTES;
            return Some(Part { at: start, bytes: count as u64 * UNIT_BYTES });
        }
        let upto = self.starts & (u128::MAX >> (127 - granule));
        let first = 127_u32.checked_sub(upto.leading_zeros())? as usize;
        // It ends before the next block, the next shared granule or the next free one.
        let behind = u128::MAX.checked_shl(u32::try_from(first).ok()?.saturating_add(1));
        let ends = (self.starts | self.shared | !self.taken) & behind.unwrap_or(0);
        let end = ends.trailing_zeros().min(self.granules) as usize;
        let count = end.saturating_sub(first) as u64;
        Some(Part { at: first as u64 * GRANULE_BYTES, bytes: count * GRANULE_BYTES })
    }

    /// The first of `count` free granules side by side.
    fn gap(&self, count: u32) -> Option<usize> {
        let last = self.granules.checked_sub(count)?;
        // A bit is left where it and the `count - 1` behind it are free.
        let mut free = !self.taken;
        let mut joined = 1;
        while joined < count {
            let step = joined.min(count - joined);
            free &= free >> step;
            joined += step;
        }
        let first = free.trailing_zeros();
        (first <= last).then_some(first as usize)
    }
}

impl Shared {
    /// The first of `count` free units side by side.
    fn gap(&self, count: u16) -> Option<usize> {
        let count = usize::from(count);
        let mut from = 0;
        while let Some(first) = next(&self.taken, from, false) {
            let end = next(&self.taken, first, true).unwrap_or(UNITS);
            if end - first >= count {
                return Some(first);
            }
            from = end;
        }
        None
    }

    /// First unit and count of the block that `unit` is of.
    fn block(&self, unit: usize) -> Option<(usize, usize)> {
        if !is_set(&self.taken, unit) {
            return None;
        }
        let first = (0..=unit / 64).rev().find_map(|word| {
            let bits = *self.starts.get(word)?;
            let bits = if word == unit / 64 { bits & (u64::MAX >> (63 - unit % 64)) } else { bits };
            (bits != 0).then(|| word * 64 + 63 - bits.leading_zeros() as usize)
        })?;
        let free = next(&self.taken, first, false).unwrap_or(UNITS);
        let other = next(&self.starts, first + 1, true).unwrap_or(UNITS);
        Some((first, free.min(other) - first))
    }

    fn mark(&mut self, first: usize, count: u16, taken: bool) {
        let (mut unit, end) = (first, first + usize::from(count));
        while unit < end {
            let (word, inside) = (unit / 64, unit % 64);
            let length = (64 - inside).min(end - unit);
            let mask = (u64::MAX >> (64 - length)) << inside;
            if let Some(word) = self.taken.get_mut(word) {
                *word = if taken { *word | mask } else { *word & !mask };
            }
            unit += length;
        }
    }
}

fn bit(granule: usize) -> u128 {
    1_u128.checked_shl(u32::try_from(granule).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// `count` bits from `first` on; `count` is not 0.
fn run(first: usize, count: u32) -> u128 {
    let ones = u128::MAX.checked_shr(128_u32.saturating_sub(count)).unwrap_or(0);
    ones.checked_shl(u32::try_from(first).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// The positions of the bits that are set.
fn bits(mut of: u128) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = of.trailing_zeros();
        of &= of.wrapping_sub(1);
        (first < 128).then_some(first as usize)
    })
}

fn is_set(words: &[u64; WORDS], unit: usize) -> bool {
    words.get(unit / 64).is_some_and(|word| word >> (unit % 64) & 1 != 0)
}

fn set(words: &mut [u64; WORDS], unit: usize, value: bool) {
    if let Some(word) = words.get_mut(unit / 64) {
        let mask = 1 << (unit % 64);
        *word = if value { *word | mask } else { *word & !mask };
    }
}

/// The first unit from `from` on that is set, or is not.
fn next(words: &[u64; WORDS], from: usize, wanted: bool) -> Option<usize> {
    (from / 64..WORDS).find_map(|index| {
        let word = *words.get(index)?;
        let bits = if wanted { word } else { !word };
        let bits = if index == from / 64 { bits & (u64::MAX << (from % 64)) } else { bits };
        (bits != 0).then(|| index * 64 + bits.trailing_zeros() as usize)
    })
}
