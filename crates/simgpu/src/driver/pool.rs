//! Stream-ordered pools.
//!
//! Promises: reserved memory grows in steps of 32 MiB of what is used, as measured; freed memory is
//! used again only by work ordered after the free; above the release threshold, unused memory goes
//! back at a synchronisation. Memory of graphs is another room's (see [`super::graph_memory`]).

use std::sync::Arc;

use super::error::*;
use super::machine::{Block, Purpose};
use super::objects::pool::STEP_BYTES;
use super::objects::stream::Point;
use super::space::{Kind, Range, round_up};
use super::state::{DriverState, State};
use crate::sys::driver::Answer;

const ALIGN_BYTES: u64 = 512;

type Chunks = Vec<(u64, Arc<dyn Block>)>;

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
    driver: &DriverState,
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
    driver: &DriverState,
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
fn grow(driver: &DriverState, state: &mut State, key: u64, bytes: u64, total: u64) -> Answer<u64> {
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
            true => super::host_memory::host_block(piece),
            false => driver.allocate(state, device, piece, Purpose::Data),
        };
        (0..step / piece).map(one).collect()
    };
    let blocks = match back(state) {
        Ok(blocks) => blocks,
        // Unused reserves of other pools go first.
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
