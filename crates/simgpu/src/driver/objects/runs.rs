//! Runs of free addresses, by where they start, none of which touches the next.

use std::collections::BTreeMap;

/// Adds a run to those that are free, joined with the ones that it touches; answers the whole of it.
pub(crate) fn add(free: &mut BTreeMap<u64, u64>, at: u64, bytes: u64) -> (u64, u64) {
    let (mut at, mut bytes) = (at, bytes);
    if let Some((before, length)) = free.range(..at).next_back().map(|(a, l)| (*a, *l))
        && before + length == at
    {
        free.remove(&before);
        (at, bytes) = (before, bytes + length);
    }
    if let Some(length) = free.remove(&(at + bytes)) {
        bytes += length;
    }
    free.insert(at, bytes);
    (at, bytes)
}
