//! What a block of device memory is charged.
//!
//! The driver hands memory out in granules of 2 MiB: a large block takes whole ones, small blocks
//! share one, and a granule goes back when its last block does. Charging requested bytes instead
//! would let a program hold twice its limit with blocks of 2 MiB and a byte.

/// The driver's granule, in bytes.
pub const GRANULE_BYTES: u64 = 2 << 20;

/// `bytes` rounded up to whole granules; the largest multiple where that would overflow.
pub const fn whole_granules(bytes: u64) -> u64 {
    match bytes.checked_next_multiple_of(GRANULE_BYTES) {
        Some(rounded) => rounded,
        None => u64::MAX / GRANULE_BYTES * GRANULE_BYTES,
    }
}

/// Whether a block of `bytes` shares granules with others.
pub const fn is_small(bytes: u64) -> bool {
    bytes < GRANULE_BYTES
}

/// First granule of a block, as a number.
pub const fn first_granule(address: u64) -> u64 {
    address / GRANULE_BYTES
}

/// Last granule of a block of `bytes` at `address`.
pub const fn last_granule(address: u64, bytes: u64) -> u64 {
    address.saturating_add(bytes.saturating_sub(1)) / GRANULE_BYTES
}

/// Bytes a pitched allocation may take: rows of at least 512 bytes' alignment.
pub const fn pitched_bytes(width_bytes: u64, height: u64) -> u64 {
    let pitch = match width_bytes.checked_next_multiple_of(512) {
        Some(pitch) => pitch,
        None => return u64::MAX,
    };
    pitch.saturating_mul(height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_as_the_driver_was_measured_to() {
        assert_eq!(whole_granules(1), 2 << 20);
        assert_eq!(whole_granules(2 << 20), 2 << 20);
        assert_eq!(whole_granules((2 << 20) + 1), 4 << 20);
        assert_eq!(whole_granules(0), 0);
        assert!(whole_granules(u64::MAX) > u64::MAX - GRANULE_BYTES);
        assert!(is_small(GRANULE_BYTES - 1) && !is_small(GRANULE_BYTES));
    }

    #[test]
    fn a_block_across_a_border_occupies_both_granules() {
        assert_eq!(first_granule(GRANULE_BYTES - 1), 0);
        assert_eq!(last_granule(GRANULE_BYTES - 1, 2), 1);
        assert_eq!(last_granule(GRANULE_BYTES, 0), 1);
        assert_eq!(pitched_bytes(513, 2), 2048);
        assert_eq!(pitched_bytes(u64::MAX, 2), u64::MAX);
    }
}
