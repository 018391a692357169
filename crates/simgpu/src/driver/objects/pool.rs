//! A stream-ordered pool: its chunks, what of them is unused, and what becomes so when work has ended.
//!
//! Promises: unused parts never overlap and are merged. Whose work may have which part is in
//! [`crate::driver::pool`].

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::runs;
use super::stream::Point;
use crate::driver::machine::Block;

/// The unit in which pools have memory.
pub(crate) const STEP_BYTES: u64 = 32 << 20;

/// A pool.
pub(crate) struct Pool {
    pub(crate) device: i32,
    pub(crate) max_bytes: u64,
    pub(crate) is_default: bool,
    /// Whether its memory is the host's.
    pub(crate) is_host: bool,
    /// Whether its memory can be given to other processes by address.
    pub(crate) exportable: bool,
    pub(crate) release_threshold: u64,
    pub(crate) reuse: [c_int; 3],
    /// Address region of the pool: base and length; 0 until its first use.
    pub(crate) region: (u64, u64),
    /// Backed parts of the region, by where they start.
    pub(crate) chunks: BTreeMap<u64, Arc<dyn Block>>,
    /// Unused parts of the backed region.
    pub(crate) free: BTreeMap<u64, u64>,
    /// Freed parts that work before the free may still use.
    pub(crate) pending: Vec<(u64, u64, Point)>,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) reserved_high: u64,
    pub(crate) access: BTreeMap<i32, u32>,
}

impl Pool {
    pub(crate) fn new(device: i32, max_bytes: u64, is_default: bool) -> Self {
        Self {
            device,
            max_bytes,
            is_default,
            is_host: false,
            exportable: false,
            release_threshold: 0,
            reuse: [1; 3],
            region: (0, 0),
            chunks: BTreeMap::new(),
            free: BTreeMap::new(),
            pending: Vec::new(),
            used: 0,
            used_high: 0,
            reserved_high: 0,
            access: BTreeMap::new(),
        }
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.chunks.values().map(|block| block.bytes()).sum()
    }

    /// Keeps backed memory that nothing uses any more.
    pub(crate) fn add_free(&mut self, at: u64, bytes: u64) {
        runs::add(&mut self.free, at, bytes);
    }

    /// Takes unused backed memory; memory for export lies in one chunk.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let whole = |at: u64| {
            let chunk = self.chunks.range(..=at).next_back();
            !self.exportable
                || chunk.is_some_and(|(start, block)| at + bytes <= start + block.bytes())
        };
        let (at, length) = self
            .free
            .iter()
            .find(|(at, length)| **length >= bytes && whole(**at))
            .map(|(a, l)| (*a, *l))?;
        self.free.remove(&at);
        if length > bytes {
            self.free.insert(at + bytes, length - bytes);
        }
        Some(at)
    }

    /// Takes memory the same stream freed: its work is ordered behind the free already.
    pub(crate) fn take_own(&mut self, bytes: u64, stream: u64) -> Option<u64> {
        let fits = |(_, length, point): &(u64, u64, Point)| point.0 == stream && *length >= bytes;
        let (at, length, point) = self.pending.swap_remove(self.pending.iter().position(fits)?);
        if length > bytes {
            self.pending.push((at + bytes, length - bytes, point));
        }
        Some(at)
    }

    /// Its addresses, where nothing lies in them any more.
    pub(crate) fn unused_region(&self) -> Option<(u64, u64)> {
        (self.used == 0 && self.pending.is_empty() && self.region.1 != 0).then_some(self.region)
    }

    /// Blocks freed behind work that has not ended, by stream.
    pub(crate) fn held_by_streams(&self) -> Vec<(u64, Vec<Arc<dyn Block>>)> {
        let within = |at: u64, bytes: u64| {
            let ends = |start: &u64, block: &Arc<dyn Block>| {
                *start < at + bytes && *start + block.bytes() > at
            };
            self.chunks.iter().filter(|(s, b)| ends(s, b)).map(|(_, b)| Arc::clone(b)).collect()
        };
        self.pending.iter().map(|(at, bytes, (stream, _))| (*stream, within(*at, *bytes))).collect()
    }

    /// Gives back chunks without a used byte until `keep` bytes are reserved.
    pub(crate) fn shrink(&mut self, keep: u64) {
        let keep = keep.checked_next_multiple_of(STEP_BYTES).unwrap_or(u64::MAX);
        let starts: Vec<u64> = self.chunks.keys().rev().copied().collect();
        for start in starts {
            let Some(bytes) = self.chunks.get(&start).map(|block| block.bytes()) else { continue };
            if self.reserved() - bytes < keep {
                continue;
            }
            let hole = self.free.range(..=start).next_back().map(|(a, l)| (*a, *l));
            let Some((at, length)) = hole.filter(|(at, length)| at + length >= start + bytes)
            else {
                continue;
            };
            self.free.remove(&at);
            if start > at {
                self.free.insert(at, start - at);
            }
            if at + length > start + bytes {
                self.free.insert(start + bytes, at + length - start - bytes);
            }
            self.chunks.remove(&start);
        }
    }
}
