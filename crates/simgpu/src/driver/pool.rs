//! Stream-ordered pools.
//!
//! Promises: reserved memory grows in steps of 32 MiB of what is used, as measured; freed memory is
//! used again only by work ordered after the free; above the release threshold, unused memory goes
//! back at a synchronisation. Memory of graphs is another room's (see [`super::graph_memory`]).

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::*;
use super::machine::{Block, Purpose};
use super::space::{Kind, Range, round_up};
use super::state::{Driver, State};
use super::stream::Point;
use crate::sys::driver::Answer;

const STEP_BYTES: u64 = 32 << 20;
const ALIGN_BYTES: u64 = 512;

type Chunks = Vec<(u64, Arc<dyn Block>)>;

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
    region: (u64, u64),
    /// Backed parts of the region, by where they start.
    pub(crate) chunks: BTreeMap<u64, Arc<dyn Block>>,
    /// Unused parts of the backed region.
    free: BTreeMap<u64, u64>,
    /// Freed parts that work before the free may still use.
    pending: Vec<(u64, u64, Point)>,
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

    fn add_free(&mut self, at: u64, bytes: u64) {
        let (mut at, mut bytes) = (at, bytes);
        if let Some((before, length)) = self.free.range(..at).next_back().map(|(a, l)| (*a, *l))
            && before + length == at
        {
            self.free.remove(&before);
            (at, bytes) = (before, bytes + length);
        }
        if let Some(length) = self.free.remove(&(at + bytes)) {
            bytes += length;
        }
        self.free.insert(at, bytes);
    }

    /// Takes unused backed memory; memory for export lies in one chunk.
    fn take(&mut self, bytes: u64) -> Option<u64> {
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
    fn take_own(&mut self, bytes: u64, stream: u64) -> Option<u64> {
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

    /// What was freed behind work that has not ended, by stream.
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

/// Forgets everything of the pools that a device has by itself: its primary context ended. The
/// program's own keep what they hold.
pub(crate) fn reset_device(state: &mut State, device: i32) {
    let keys: Vec<u64> = state
        .pools
        .iter()
        .filter(|(_, p)| p.device == device && p.is_default)
        .map(|(k, _)| k)
        .collect();
    for key in keys {
        state.space.remove_where(|range| range.kind == Kind::Pool && range.owner == key);
        if let Ok(pool) = state.pools.get_mut(key) {
            pool.chunks.clear();
            pool.free.clear();
            pool.pending.clear();
            pool.used = 0;
        }
    }
}

pub(crate) fn settle(state: &mut State, key: u64) -> Answer {
    let pending = std::mem::take(&mut state.pools.get_mut(key)?.pending);
    for (at, bytes, (owner, sequence)) in pending {
        let reached = state.streams.get(owner).map_or(true, |s| s.completed >= sequence);
        let pool = state.pools.get_mut(key)?;
        if reached {
            pool.add_free(at, bytes);
        } else {
            pool.pending.push((at, bytes, (owner, sequence)));
        }
    }
    Ok(())
}

/// Memory of a pool, usable by work on `stream`: where it lies in the pool's region, and in what.
fn take(
    driver: &Driver,
    state: &mut State,
    key: u64,
    stream: u64,
    bytes: u64,
) -> Answer<(u64, Chunks)> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    settle(state, key)?;
    let device = state.pools.get(key)?.device;
    let total = state.device(device)?.info.total_bytes;
    let rounded = round_up(bytes, ALIGN_BYTES)?;
    if rounded > total {
        return Err(OUT_OF_MEMORY);
    }
    let pool = state.pools.get_mut(key)?;
    let at = match pool.take_own(rounded, stream).or_else(|| pool.take(rounded)) {
        Some(at) => at,
        None => grow(driver, state, key, rounded, total)?,
    };
    let pool = state.pools.get_mut(key)?;
    pool.used += bytes;
    pool.used_high = pool.used_high.max(pool.used);
    let end = at + rounded;
    let within = pool.chunks.iter().filter(|(start, b)| **start < end && **start + b.bytes() > at);
    let chunks = within.map(|(start, block)| (*start, Arc::clone(block))).collect();
    Ok((at, chunks))
}

/// Allocates from a pool for work on `stream`.
pub(crate) fn allocate(
    driver: &Driver,
    state: &mut State,
    key: u64,
    stream: u64,
    bytes: u64,
) -> Answer<u64> {
    let (at, chunks) = take(driver, state, key, stream, bytes)?;
    let device = state.pools.get(key)?.device;
    let mut range = Range::new(at, bytes, Kind::Pool, 0, device);
    (range.owner, range.chunks, range.offset) = (key, chunks, at);
    Ok(state.space.add(range))
}

/// Backs more of the region, so that `bytes` fit behind what is free at its end.
fn grow(driver: &Driver, state: &mut State, key: u64, bytes: u64, total: u64) -> Answer<u64> {
    if state.pools.get(key)?.region.1 == 0 {
        let length = round_up(total, STEP_BYTES)?.saturating_mul(4);
        let base = state.space.reserve(length, STEP_BYTES, 0)?;
        state.pools.get_mut(key)?.region = (base, length);
    }
    let pool = state.pools.get(key)?;
    let (base, length) = pool.region;
    let top = pool.chunks.iter().next_back().map_or(base, |(start, block)| start + block.bytes());
    let tail = pool.free.iter().next_back().filter(|(at, l)| **at + **l == top && !pool.exportable);
    let missing = bytes - tail.map_or(0, |(_, length)| *length);
    let step = round_up(missing, STEP_BYTES)?;
    if pool.reserved() + step > pool.max_bytes || top + step > base + length {
        return Err(OUT_OF_MEMORY);
    }
    let (device, reserved, is_host) = (pool.device, pool.reserved(), pool.is_host);
    let piece = if pool.exportable { step } else { STEP_BYTES };
    let back = |state: &State| -> Answer<Vec<Arc<dyn Block>>> {
        let one = |_| match is_host {
            true => super::memory::host_block(piece),
            false => driver.allocate(state, device, piece, Purpose::Data),
        };
        (0..step / piece).map(one).collect()
    };
    let blocks = match back(state) {
        Ok(blocks) => blocks,
        // What other pools keep without using it goes first.
        Err(_) => {
            let keys: Vec<u64> =
                state.pools.iter().filter(|(_, p)| p.device == device).map(|(k, _)| k).collect();
            for other in keys {
                settle(state, other)?;
                state.pools.get_mut(other)?.shrink(0);
            }
            super::graph_memory::trim(state, device)?;
            if state.pools.get(key)?.reserved() != reserved {
                return grow(driver, state, key, bytes, total);
            }
            back(state)?
        }
    };
    for (index, block) in blocks.into_iter().enumerate() {
        let start = top + index as u64 * piece;
        state.space.back(start, &block);
        state.pools.get_mut(key)?.chunks.insert(start, block);
    }
    let pool = state.pools.get_mut(key)?;
    pool.add_free(top, step);
    pool.reserved_high = pool.reserved_high.max(pool.reserved());
    pool.take(bytes).ok_or(OUT_OF_MEMORY)
}

/// Frees pool memory; usable again once `after` is reached (at once when there is no point).
pub(crate) fn free_at(state: &mut State, at: u64, after: Option<Point>) -> Answer {
    let kind = state.space.at(at).ok_or(INVALID_VALUE)?.kind;
    if kind != Kind::Pool {
        return Err(INVALID_VALUE);
    }
    let range = state.space.remove(at)?;
    let rounded = round_up(range.bytes, ALIGN_BYTES)?;
    let Ok(pool) = state.pools.get_mut(range.owner) else { return Ok(()) };
    pool.used = pool.used.saturating_sub(range.bytes);
    match after {
        Some(point) => pool.pending.push((at, rounded, point)),
        None => pool.add_free(at, rounded),
    }
    Ok(())
}

/// Gives back what pools hold above their release thresholds.
pub(crate) fn release_unused(state: &mut State) {
    let keys: Vec<u64> = state.pools.iter().map(|(key, _)| key).collect();
    for key in keys {
        let _ = settle(state, key);
        if let Ok(pool) = state.pools.get_mut(key)
            && pool.reserved() > pool.release_threshold.max(pool.used)
        {
            pool.shrink(pool.release_threshold);
        }
    }
}
