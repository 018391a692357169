//! Charges of device memory: blocks, reserves of pools and graphs, local memory.
//!
//! The driver hands memory out in granules of 2 MiB: a large block takes whole ones, small blocks
//! share one, and a granule goes back when its last block does. Charging requested bytes instead
//! would let a program hold twice its limit with blocks of 2 MiB and a byte. Measured on an H200.

/// The driver's granule, in bytes.
pub const GRANULE_BYTES: u64 = 2 << 20;

/// `bytes` rounded up to whole granules; the largest multiple where that would overflow.
pub const fn whole_granules(bytes: u64) -> u64 {
    match bytes.checked_next_multiple_of(GRANULE_BYTES) {
        Some(rounded) => rounded,
        None => u64::MAX / GRANULE_BYTES * GRANULE_BYTES,
    }
}

/// Largest block that shares a granule with others, in bytes; a larger one takes granules of its own.
pub const SMALL_BYTES: u64 = 1 << 20;

/// Step in which pools and graphs grow their reserve, in bytes.
pub const POOL_CHUNK_BYTES: u64 = 32 << 20;

/// Local memory per thread that a context's own charge covers, in bytes.
const LOCAL_INCLUDED_BYTES: u64 = 1024;

/// Whether a block of `bytes` shares granules with others.
pub const fn is_small(bytes: u64) -> bool {
    bytes <= SMALL_BYTES
}

/// Reserve of a pool, or of a device's graphs, while `used_bytes` of it are in use.
pub const fn pool_reserve(used_bytes: u64) -> u64 {
    match used_bytes.checked_next_multiple_of(POOL_CHUNK_BYTES) {
        Some(reserved) => reserved,
        None => u64::MAX / POOL_CHUNK_BYTES * POOL_CHUNK_BYTES,
    }
}

/// Reserve of the driver for a graph's allocation nodes on one device. [`GraphNeed::with`] is given the nodes
/// in the order they were made.
///
/// Nodes share addresses where the graph's order lets them. One that fits nowhere makes the graph's
/// addresses grow by its size in whole chunks, and a launch has memory behind all of them: so on an
/// H200 for 500 graphs of 500. Addresses that do not lie behind one another are counted
/// separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GraphNeed {
    from: u64,
    to: u64,
    bytes: u64,
}

impl GraphNeed {
    /// No node.
    pub const NONE: Self = Self { from: 0, to: 0, bytes: 0 };

    /// With a node of `bytes` at the address `at`.
    #[must_use]
    pub const fn with(self, at: u64, bytes: u64) -> Self {
        let is_behind = self.from <= at && at <= self.to;
        if is_behind && at.saturating_add(bytes) <= self.to {
            return self;
        }
        let step = pool_reserve(bytes);
        let (from, end) = if is_behind { (self.from, self.to) } else { (at, at) };
        Self { from, to: end.saturating_add(step), bytes: self.bytes.saturating_add(step) }
    }

    /// The reserve, in bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Local memory that a context takes at a launch, if its hungriest function needs `bytes_per_thread` and the
/// device holds `resident_threads` at once.
pub const fn local_memory(bytes_per_thread: u64, resident_threads: u64) -> u64 {
    bytes_per_thread.saturating_sub(LOCAL_INCLUDED_BYTES).saturating_mul(resident_threads)
}

/// First granule of a block, as a number.
pub const fn first_granule(address: u64) -> u64 {
    address / GRANULE_BYTES
}

/// Last granule of a block of `bytes` at `address`.
pub const fn last_granule(address: u64, bytes: u64) -> u64 {
    address.saturating_add(bytes.saturating_sub(1)) / GRANULE_BYTES
}

/// Alignment of the rows of a pitched allocation, in bytes.
pub const PITCH_BYTES: u64 = 512;

/// Bytes a pitched allocation may take.
pub const fn pitched_bytes(width_bytes: u64, height: u64) -> u64 {
    let pitch = match width_bytes.checked_next_multiple_of(PITCH_BYTES) {
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
        assert!(is_small(1 << 20) && !is_small((1 << 20) + 1));
        assert_eq!([1, 33 << 20, 100 << 20].map(pool_reserve), [32 << 20, 64 << 20, 128 << 20]);
        assert!(pool_reserve(u64::MAX) > u64::MAX - POOL_CHUNK_BYTES);
        assert_eq!(local_memory(8192, 270_336), 1_937_768_448);
        assert_eq!(local_memory(512, 270_336), 0);
        assert_eq!(local_memory(u64::MAX, 2), u64::MAX);
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
