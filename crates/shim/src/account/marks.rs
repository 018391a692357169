//! Marks of exported memory: the key that all descriptors of an allocation or a block get.
//!
//! Promises: one mark an allocation or block, however often it is exported; it is forgotten with what it
//! marks. Does not touch descriptors ([`divvy_page::mark`] does).

use divvy_page::mark::{self, DescriptorMark};
use divvy_policy::charge::GRANULE_BYTES;

use super::entry::MemoryRecord;
use crate::sys::map::Map;

/// Marks of allocations, by the allocation's number: key and granules.
pub(super) static MARKS: Map = Map::new(28);

/// Marks of blocks that were exported as buffers for other devices, by their address: key and granules.
pub(super) static BUFFERS: Map = Map::new(5);

/// A block that is shared was freed: its address is another's soon.
pub(super) fn forget_buffer(address: u64) {
    BUFFERS.take(address);
}

/// The mark that all descriptors of an allocation or block get.
pub(super) fn mark_of(marks: &Map, number: u64, entry: MemoryRecord) -> Option<[u64; 2]> {
    let new = [mark::draw_key()?, entry.bytes / GRANULE_BYTES];
    let mut mark = new;
    // Without memory for it there is none.
    marks
        .update(number, |old| {
            mark = old.unwrap_or(new);
            Some(mark)
        })
        .ok()?;
    Some(mark)
}

/// Remembers the mark of memory that was imported.
pub(super) fn remember(number: u64, mark: DescriptorMark) {
    // Without memory for it, what is exported anew stays charged until the process ends.
    let _ = MARKS.insert(number, [mark.key, mark.granules]);
}

/// An allocation is gone.
pub(super) fn forget(number: u64, entry: MemoryRecord) {
    MARKS.take(number);
    entry.give_back();
}
