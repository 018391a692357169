//! A hash that stays what it is from one version of Rust to the next: of sources, and by which samples are drawn.
//!
//! Pure.

/// Start value of FNV-1a.
pub(super) const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, mixed at its end, so that names that differ in their last letter lie far apart.
pub(super) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
