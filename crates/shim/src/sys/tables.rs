//! The names we know, found by the hash that ELF symbol tables already hold.
//!
//! Made by the build from the driver-api table: arrays of numbers and one run of bytes, so that
//! loading the library relocates nothing. Does not hold addresses; those are `resolve`'s.

#![allow(non_upper_case_globals, reason = "positions are named as the symbols they stand for")]
#![allow(dead_code, reason = "not every name's position is used")]

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The hash of GNU symbol tables, without the lowest bit, which they use as a mark.
pub(super) fn hash(name: &[u8]) -> u32 {
    name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
        & !1
}

/// The position of `name`, whose [`hash`] is `hash`.
///
/// Cost: about ten comparisons of numbers and one of names.
pub(super) fn position(hash: u32, name: &[u8]) -> Option<usize> {
    let mut index = HASHES.partition_point(|entry| *entry < hash);
    while HASHES.get(index) == Some(&hash) {
        if self::name(index) == name {
            return Some(index);
        }
        index += 1;
    }
    None
}

/// The name at `index`; empty beyond the table.
pub(super) fn name(index: usize) -> &'static [u8] {
    let end = |index: usize| NAME_ENDS.get(index).copied().map_or(0, usize::from);
    let start = if index == 0 { 0 } else { end(index - 1) };
    NAMES.get(start..end(index)).unwrap_or(&[])
}

/// The number of the hook of the name at `index`, where it has one.
pub(super) fn hook(index: usize) -> Option<usize> {
    HOOKS.get(index).copied().filter(|hook| *hook != NO_HOOK).map(usize::from)
}

/// Whether the name at `index` is NVML's.
pub(super) fn is_nvml(index: usize) -> bool {
    name(index).first() == Some(&b'n')
}
