//! What graphs' memory takes: as an H200 was seen to reserve it, and never more than node by node.

use divvy_policy::charge::{GraphNeed, POOL_CHUNK_BYTES, pool_reserve};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn need(nodes: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    nodes.into_iter().fold(GraphNeed::NONE, |need, (at, bytes)| need.with(at, bytes)).bytes()
}

/// `a3@12320:95`, in MiB: where a node's memory lies, and how much it is.
fn allocation(word: &str) -> Option<(u64, u64)> {
    let (at, bytes) = word.strip_prefix('a')?.split_once('@')?.1.split_once(':')?;
    Some((at.parse::<u64>().ok()? * MIB, bytes.parse::<u64>().ok()? * MIB))
}

#[test]
fn is_what_the_card_reserved() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../bench/results/h200-2026-11-22/graph-memory.txt"
    );
    let text = std::fs::read_to_string(path).expect("it is stored");
    let mut seen = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (reserved, nodes) = line.split_once(':').expect("reserved: nodes");
        let reserved: u64 = reserved.parse().expect("a number");
        assert_eq!(need(nodes.split(' ').filter_map(allocation)), reserved * MIB, "{line}");
        seen += 1;
    }
    assert!(seen > 400, "{seen} graphs");
}

#[test]
fn what_cannot_be_is_no_less() {
    assert_eq!(need([]), 0);
    assert_eq!(need([(0, 1), (u64::MAX, 1)]), 2 * POOL_CHUNK_BYTES);
    assert!(need([(0, u64::MAX), (0, u64::MAX)]) > u64::MAX - POOL_CHUNK_BYTES);
}

proptest! {
    /// Whatever order and addresses a driver has: at least what lies in the largest node's place, at most
    /// each node by itself; and no node more makes it less.
    #[test]
    fn lies_between_one_node_and_all(nodes in prop::collection::vec((0..4096_u64, 1..512_u64), 1..40)) {
        let nodes: Vec<(u64, u64)> =
            nodes.into_iter().map(|(at, bytes)| (at * MIB, bytes * MIB)).collect();
        let whole = need(nodes.iter().copied());
        prop_assert!(whole <= nodes.iter().map(|node| pool_reserve(node.1)).sum());
        prop_assert!(nodes.iter().all(|node| pool_reserve(node.1) <= whole));
        prop_assert!(need(nodes[..nodes.len() - 1].iter().copied()) <= whole);
    }
}
