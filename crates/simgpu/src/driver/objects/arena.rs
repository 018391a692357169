//! The addresses a graph has for its allocation nodes, and the pieces of memory a device has behind them.
//!
//! The assignment of pieces is in [`crate::driver::graph_memory`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::stream::Point;
use crate::driver::machine::Block;

/// The unit in which graphs have memory.
pub(crate) const PIECE_BYTES: u64 = 32 << 20;

/// An allocation node's part of its graph's addresses.
#[derive(Clone)]
pub(crate) struct Use {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// The node that frees it.
    pub(crate) freed_by: Option<u64>,
}

/// A graph's addresses on one device.
#[derive(Clone)]
pub(crate) struct Arena {
    pub(crate) device: i32,
    /// From where to where, in whole pieces.
    pub(crate) segments: Vec<(u64, u64)>,
    pub(crate) uses: Vec<Use>,
}

/// Mapping of an executable behind an arena.
pub(crate) struct Mapping {
    pub(crate) arena: Arena,
    /// One for each piece of the arena's addresses, in their order; none before the first launch.
    pub(crate) pieces: Vec<u64>,
}

/// A piece of memory behind graphs' addresses.
pub(crate) struct Piece {
    pub(crate) block: Arc<dyn Block>,
    /// Work that may use it, and the executable it is of.
    pub(crate) busy: Vec<(Point, u64)>,
    /// Allocations in it that outlive their launch.
    pub(crate) live: u32,
    pub(crate) is_used: bool,
}

/// A device's memory for graphs.
#[derive(Default)]
pub(crate) struct GraphMemory {
    pub(crate) pieces: BTreeMap<u64, Piece>,
    pub(crate) next: u64,
    pub(crate) used_high: u64,
    pub(crate) reserved_high: u64,
}

impl GraphMemory {
    pub(crate) fn used(&self) -> u64 {
        self.pieces.values().filter(|piece| piece.is_used).count() as u64 * PIECE_BYTES
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.pieces.len() as u64 * PIECE_BYTES
    }

    pub(crate) fn note_highs(&mut self) {
        self.used_high = self.used_high.max(self.used());
        self.reserved_high = self.reserved_high.max(self.reserved());
    }
}

impl Arena {
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|(base, end)| end - base).sum()
    }

    /// Where each piece of its addresses begins.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        let pieces = |(base, end): &(u64, u64)| (*base..*end).step_by(PIECE_BYTES as usize);
        self.segments.iter().flat_map(pieces)
    }

    pub(crate) fn is_used(&self, start: u64) -> bool {
        self.uses.iter().any(|used| used.at < start + PIECE_BYTES && used.at + used.bytes > start)
    }

    /// The lowest place for `bytes` beside `taken`, which is in order: among what nodes have used, or
    /// behind all of that.
    pub(crate) fn hole(&self, taken: &[(u64, u64)], bytes: u64) -> Option<u64> {
        for (base, end) in &self.segments {
            let within = self.uses.iter().filter(|used| (*base..*end).contains(&used.at));
            let top = within.map(|used| used.at + used.bytes).max().unwrap_or(*base);
            let mut at = *base;
            for (start, stop) in taken.iter().filter(|(s, e)| s < end && e > base) {
                if at + bytes <= *start {
                    return Some(at);
                }
                at = at.max(*stop);
            }
            if at + bytes <= top {
                return Some(at);
            }
            if top + bytes <= *end {
                return Some(top);
            }
        }
        None
    }
}
