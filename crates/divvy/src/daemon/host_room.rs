//! Room of the host for copies that are made ahead and kept: what the machine and this daemon's control group can still
//! give.
//!
//! Promises: looked at no more than once in [`LOOK_NS`]; what cannot be read is no room. Where not every tenant can keep all
//! that may have to leave of it, as much as may be away of all is left free, so that what leaves finds room whatever others
//! keep. Does not make or take anything.

use crate::machine::host_memory;

/// Time between two looks.
const LOOK_NS: u64 = 1_000_000_000;

/// Bytes that a tenant may keep beyond those that all are short of.
const PIECES_BYTES: u64 = 1 << 30;

/// The room, as it was last.
#[derive(Debug, Default)]
pub(super) struct HostRoom {
    looked_ns: u64,
    free_bytes: u64,
}

impl HostRoom {
    /// Bytes of the host for copies, of which there are `copies_bytes` already.
    pub(super) fn bytes(&mut self, now_ns: u64, copies_bytes: u64) -> u64 {
        if self.looked_ns == 0 || now_ns >= self.looked_ns.saturating_add(LOOK_NS) {
            self.looked_ns = now_ns;
            self.free_bytes = host_memory::room(std::iter::once(std::process::id())).unwrap_or(0);
        }
        // An eighth is left to whatever grows between two looks.
        let bytes = self.free_bytes.saturating_add(copies_bytes);
        bytes - bytes / 8
    }
}

/// Bytes that tenants may keep on a host with `host_bytes` for it, where `short_bytes` of all of them do not fit the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keep {
    short_bytes: u64,
    /// All that may be kept, and the sum of those that it is divided among; `None` where each may keep what it needs.
    divided: Option<(u64, u64)>,
}

impl Keep {
    /// Of tenants of these sizes.
    pub(super) fn new(
        host_bytes: u64,
        short_bytes: u64,
        sizes: impl Iterator<Item = u64> + Clone,
    ) -> Self {
        // Memory leaves in pieces.
        let most_bytes = short_bytes.saturating_add(PIECES_BYTES);
        let needed = sizes.clone().map(|bytes| bytes.min(most_bytes));
        let needed_bytes = needed.fold(0, u64::saturating_add);
        let divided = (needed_bytes > host_bytes).then(|| {
            (host_bytes.saturating_sub(short_bytes), sizes.fold(0, u64::saturating_add).max(1))
        });
        Self { short_bytes, divided }
    }

    /// The part of a tenant of `size_bytes`.
    pub(super) fn of(self, size_bytes: u64) -> u64 {
        if self.short_bytes == 0 {
            return 0;
        }
        let needed_bytes = size_bytes.min(self.short_bytes.saturating_add(PIECES_BYTES));
        let part_bytes = self.divided.map_or(u64::MAX, |(bytes, sum_bytes)| {
            let part = u128::from(bytes) * u128::from(size_bytes) / u128::from(sum_bytes);
            u64::try_from(part).unwrap_or(u64::MAX)
        });
        needed_bytes.min(part_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn each_keeps_what_may_leave_of_it_where_the_host_has_room_for_all() {
        let of = |host, short, sizes: [u64; 2]| {
            let keep = Keep::new(host * GIB, short * GIB, sizes.iter().map(|gib| gib * GIB));
            sizes.map(|gib| keep.of(gib * GIB) / GIB)
        };
        assert_eq!(of(100, 40, [90, 90]), [41, 41]);
        assert_eq!(of(100, 40, [90, 10]), [41, 10]);
        assert_eq!(of(100, 0, [90, 90]), [0, 0], "nothing leaves where all fits");
        // Too little for both: room for what may be away stays free.
        assert_eq!(of(60, 40, [90, 90]), [10, 10]);
        assert_eq!(of(30, 40, [90, 90]), [0, 0]);
    }

    #[test]
    fn copies_that_are_there_count_as_room() {
        let mut room = HostRoom::default();
        let first = room.bytes(1, 0);
        assert!(first > 0, "this machine has some memory");
        assert_eq!(room.bytes(2, 8 << 20), first + (7 << 20));
    }
}
