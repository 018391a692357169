//! Blocks of a slab against a plain list of them: no two overlap, each is found by all its places, and what is given
//! back is there again.

use divvy_policy::charge::{GRANULE_BYTES, SMALL_BYTES, whole_granules};
use divvy_policy::slab::{MAX_BYTES, Part, Slab, UNIT_BYTES};
use proptest::prelude::*;

fn slab(bytes: u64) -> Box<Slab> {
    let mut slab = Box::new(Slab::CLOSED);
    slab.open(bytes);
    slab
}

#[test]
fn small_blocks_share_a_granule_and_large_ones_lie_behind_it() {
    let mut slab = slab(32 << 20);
    let part = |at, bytes| Some(Part { at, bytes });
    assert_eq!(slab.take(1), part(0, 512));
    assert_eq!(slab.take(SMALL_BYTES), part(512, SMALL_BYTES));
    assert_eq!(slab.take(SMALL_BYTES + 1), part(GRANULE_BYTES, GRANULE_BYTES));
    assert_eq!(slab.take(SMALL_BYTES), part(2 * GRANULE_BYTES, SMALL_BYTES));
    assert_eq!(slab.used_bytes(), 3 * GRANULE_BYTES);
    assert_eq!(slab.take(30 << 20), None);
    assert_eq!(slab.take(26 << 20), part(3 * GRANULE_BYTES, 26 << 20));
    assert_eq!(slab.take(GRANULE_BYTES), None);
    assert_eq!(slab.find(40 << 20), None);
    assert_eq!(slab.give(0), part(0, 512));
    assert_eq!(slab.give(0), None);
    assert_eq!(slab.give(1024), None);
    assert_eq!(slab.take(513), part(512 + SMALL_BYTES, 1024));
    assert_eq!(slab.take(512), part(0, 512));
}

#[test]
fn a_closed_slab_and_no_bytes_get_nothing() {
    let mut closed = Box::new(Slab::CLOSED);
    assert_eq!((closed.take(1), closed.find(0), closed.give(0)), (None, None, None));
    let mut slab = slab(MAX_BYTES * 3);
    assert_eq!(slab.bytes(), MAX_BYTES);
    assert_eq!((slab.take(0), slab.take(MAX_BYTES + 1)), (None, None));
    assert_eq!(slab.take(MAX_BYTES), Some(Part { at: 0, bytes: MAX_BYTES }));
    assert_eq!(slab.find(MAX_BYTES - 1), Some(Part { at: 0, bytes: MAX_BYTES }));
    assert_eq!(slab.take(1), None);
    slab.open(GRANULE_BYTES);
    assert_eq!(slab.take(1), Some(Part { at: 0, bytes: 512 }));
}

/// What a block of so many bytes takes.
fn taken(bytes: u64) -> u64 {
    if bytes <= SMALL_BYTES { bytes.next_multiple_of(UNIT_BYTES) } else { whole_granules(bytes) }
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![1..=4096_u64, 1..=SMALL_BYTES, SMALL_BYTES..=32 << 20]
}

proptest! {
    #[test]
    fn no_two_blocks_overlap_and_each_is_found(
        granules in 1..=128_u64,
        steps in prop::collection::vec((sizes(), any::<prop::sample::Index>(), 0..5_u8), 1..160),
    ) {
        let mut slab = slab(granules * GRANULE_BYTES);
        let mut blocks: Vec<Part> = Vec::new();
        for (bytes, which, kind) in steps {
            if kind < 2 && !blocks.is_empty() {
                let gone = blocks.swap_remove(which.index(blocks.len()));
                prop_assert_eq!(slab.give(gone.at), Some(gone));
            } else if let Some(part) = slab.take(bytes) {
                prop_assert_eq!(part.bytes, taken(bytes));
                prop_assert!(part.at + part.bytes <= slab.bytes());
                let is_apart = |other: &Part| {
                    part.at + part.bytes <= other.at || other.at + other.bytes <= part.at
                };
                prop_assert!(blocks.iter().all(is_apart), "{:?} among {:?}", part, blocks);
                blocks.push(part);
            } else {
                // Whole granules that are free lie side by side nowhere.
                let mut free: Vec<bool> = vec![true; granules as usize];
                for block in &blocks {
                    let last = (block.at + block.bytes - 1) / GRANULE_BYTES;
                    free[(block.at / GRANULE_BYTES) as usize..=last as usize].fill(false);
                }
                let longest = free.split(|free| !free).map(<[bool]>::len).max().unwrap_or(0);
                prop_assert!((longest as u64) * GRANULE_BYTES < bytes);
            }
            for block in &blocks {
                let inside = which.index(block.bytes as usize) as u64;
                prop_assert_eq!(slab.find(block.at + inside), Some(*block));
            }
            let mut granules: Vec<u64> = blocks
                .iter()
                .flat_map(|b| b.at / GRANULE_BYTES..=(b.at + b.bytes - 1) / GRANULE_BYTES)
                .collect();
            granules.sort_unstable();
            granules.dedup();
            prop_assert_eq!(slab.used_bytes(), granules.len() as u64 * GRANULE_BYTES);
        }
        for block in blocks {
            prop_assert_eq!(slab.give(block.at), Some(block));
        }
        prop_assert_eq!(slab.used_bytes(), 0);
        prop_assert_eq!(slab.take(slab.bytes()).map(|part| part.at), Some(0));
    }
}
