//! The names we know, found by the hash that ELF symbol tables already hold.
//!
//! Made by the build from the driver-api table: arrays of numbers and one run of bytes, so that
//! loading the library relocates nothing. Of names that are neither hooked nor called there is
//! the hash alone: they only tell a known export from an unknown one. Does not hold
//! addresses; those are `resolve`'s.

#![expect(
    dead_code,
    reason = "generated: a position for each name, of which few are named in code"
)]
#![allow(non_upper_case_globals, reason = "positions are named as the symbols they stand for")]

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The hash of GNU symbol tables, without the lowest bit, which they use as a mark.
pub(crate) fn hash(name: &[u8]) -> u32 {
    extended(5381, name) & !1
}

fn extended(hash: u32, name: &[u8]) -> u32 {
    name.iter().fold(hash, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

/// The position of `name`, whose [`hash`] is `hash`.
///
/// Cost: about ten comparisons of numbers and one of names.
pub(super) fn position(hash: u32, name: &[u8]) -> Option<usize> {
    let mut index = HASHES.partition_point(|entry| *entry < hash);
    while HASHES.get(index) == Some(&hash) {
        let known = self::name(index);
        if known.is_empty() || known == name {
            return Some(index);
        }
        index += 1;
    }
    None
}

/// Whether the name at `index` is `name` with a version and a default-stream suffix at most.
pub(super) fn is_variant(index: usize, name: &[u8]) -> bool {
    let known = self::name(index);
    if !known.is_empty() {
        return known
            .strip_prefix(name)
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'_')));
    }
    let is = |hash: u32| HASHES.get(index) == Some(&(hash & !1));
    let start = extended(5381, name);
    (b'1'..=b'9').any(|digit| {
        let version = if digit == b'1' { start } else { extended(start, &[b'_', b'v', digit]) };
        is(version) || is(extended(version, b"_ptsz")) || is(extended(version, b"_ptds"))
    })
}

/// The name at `index`, if it was carried along; else empty.
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
