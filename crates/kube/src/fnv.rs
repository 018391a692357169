//! FNV-1a, for names that are to stay the same for ever. Does not resist who looks for two texts of one hash.

/// Where it begins.
pub(crate) const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of what came before, and of these bytes behind it.
pub(crate) fn fnv_1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
