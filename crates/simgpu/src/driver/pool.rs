//! Stream-ordered pools.
//!
//! Promises: reserved memory grows in steps of 32 MiB of what is used, as measured; freed memory is
//! used again only by work ordered after the free; above the release threshold, unused memory goes
//! back at a synchronisation. Graph memory lives in a pool of its own, which keeps what it reserved
//! until it is trimmed.

use core::ffi::{c_int, c_ulonglong};
use std::collections::BTreeMap;
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture;
use super::error::*;
use super::machine::{Block, Purpose};
use super::space::{Kind, Range, round_up};
use super::state::{Driver, State, begin_free};
use super::stream::{Point, resolved};
use crate::sys::driver::{Address, Answer, Handle, In, Out};
use crate::sys::driver_bytes::{duplicate, memory_file};
use crate::sys::driver_unions::location_id;

const STEP_BYTES: u64 = 32 << 20;
const ALIGN_BYTES: u64 = 512;

type Chunks = Vec<(u64, Arc<dyn Block>)>;

/// A pool.
pub(crate) struct Pool {
    pub(crate) device: i32,
    max_bytes: u64,
    is_default: bool,
    /// Whether its memory can be given to other processes by address.
    exportable: bool,
    pub(crate) release_threshold: u64,
    reuse: [c_int; 3],
    /// Address region of the pool: base and length; 0 until its first use.
    region: (u64, u64),
    /// Backed parts of the region, by where they start.
    chunks: BTreeMap<u64, Arc<dyn Block>>,
    /// Unused parts of the backed region.
    free: BTreeMap<u64, u64>,
    /// Freed parts that work before the free may still use.
    pending: Vec<(u64, u64, Point)>,
    pub(crate) used: u64,
    used_high: u64,
    reserved_high: u64,
    access: BTreeMap<i32, u32>,
}

impl Pool {
    pub(crate) fn new(device: i32, max_bytes: u64, is_default: bool) -> Self {
        Self {
            device,
            max_bytes,
            is_default,
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

    /// Gives back chunks without a used byte until `keep` bytes are reserved.
    fn shrink(&mut self, keep: u64) {
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

/// Forgets everything of a device's pools: its primary context ended.
pub(crate) fn reset_device(state: &mut State, device: i32) {
    let keys: Vec<u64> =
        state.pools.iter().filter(|(_, p)| p.device == device).map(|(k, _)| k).collect();
    for key in keys {
        state.space.remove_where(|range| {
            matches!(range.kind, Kind::Pool | Kind::Graph) && range.owner == key
        });
        if let Ok(pool) = state.pools.get_mut(key) {
            pool.chunks.clear();
            pool.free.clear();
            pool.pending.clear();
            pool.used = 0;
        }
    }
}

fn settle(state: &mut State, key: u64, stream: u64) -> Answer {
    let pending = std::mem::take(&mut state.pools.get_mut(key)?.pending);
    for (at, bytes, (owner, sequence)) in pending {
        let reached = state.streams.get(owner).map_or(true, |s| s.completed >= sequence);
        let pool = state.pools.get_mut(key)?;
        if reached || owner == stream {
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
    settle(state, key, stream)?;
    let device = state.pools.get(key)?.device;
    let total = state.device(device)?.info.total_bytes;
    let rounded = round_up(bytes, ALIGN_BYTES)?;
    if rounded > total {
        return Err(OUT_OF_MEMORY);
    }
    let at = match state.pools.get_mut(key)?.take(rounded) {
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

/// Allocates from a device's graph memory, to appear at `address`.
pub(crate) fn allocate_at(
    driver: &Driver,
    state: &mut State,
    device: i32,
    address: u64,
    bytes: u64,
) -> Answer {
    let key = state.device(device)?.graph_pool;
    let (at, chunks) = take(driver, state, key, 0, bytes)?;
    let mut range = Range::new(address, bytes, Kind::Graph, 0, device);
    let moved = |start: u64| start.wrapping_sub(at).wrapping_add(address);
    range.chunks = chunks.into_iter().map(|(start, block)| (moved(start), block)).collect();
    (range.owner, range.offset) = (key, at);
    state.space.add(range);
    Ok(())
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
    let (device, reserved) = (pool.device, pool.reserved());
    let piece = if pool.exportable { step } else { STEP_BYTES };
    let back = |state: &State| -> Answer<Vec<Arc<dyn Block>>> {
        (0..step / piece).map(|_| driver.allocate(state, device, piece, Purpose::Data)).collect()
    };
    let blocks = match back(state) {
        Ok(blocks) => blocks,
        // What other pools keep without using it goes first.
        Err(_) => {
            let keys: Vec<u64> =
                state.pools.iter().filter(|(_, p)| p.device == device).map(|(k, _)| k).collect();
            for other in keys {
                settle(state, other, 0)?;
                state.pools.get_mut(other)?.shrink(0);
            }
            if state.pools.get(key)?.reserved() != reserved {
                return grow(driver, state, key, bytes, total);
            }
            back(state)?
        }
    };
    let pool = state.pools.get_mut(key)?;
    for (index, block) in blocks.into_iter().enumerate() {
        pool.chunks.insert(top + index as u64 * piece, block);
    }
    pool.add_free(top, step);
    pool.reserved_high = pool.reserved_high.max(pool.reserved());
    pool.take(bytes).ok_or(OUT_OF_MEMORY)
}

/// Frees pool memory; usable again once `after` is reached (at once when there is no point).
pub(crate) fn free_at(state: &mut State, at: u64, after: Option<Point>) -> Answer {
    let kind = state.space.at(at).ok_or(INVALID_VALUE)?.kind;
    if !matches!(kind, Kind::Pool | Kind::Graph) {
        return Err(INVALID_VALUE);
    }
    let range = state.space.remove(at)?;
    let rounded = round_up(range.bytes, ALIGN_BYTES)?;
    // Where it lies in the pool's region; graph memory appears elsewhere.
    let at = range.offset;
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
        let _ = settle(state, key, 0);
        if let Ok(pool) = state.pools.get_mut(key)
            && pool.reserved() > pool.release_threshold.max(pool.used)
        {
            pool.shrink(pool.release_threshold);
        }
    }
}

// ---- calls ----

fn allocate_async(
    call: Call,
    out: Out<CUdeviceptr>,
    bytes: usize,
    pool: Option<u64>,
    stream: CUstream,
) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    out.check()?;
    if bytes == 0 {
        return out.put(0);
    }
    let device = state.streams.get(key)?.device;
    let pool = match pool {
        Some(pool) => pool,
        None => state.device(device)?.pool,
    };
    state.pools.get(pool).map_err(|_| INVALID_VALUE)?;
    if state.streams.get(key)?.capture != 0 {
        let device = state.pools.get(pool)?.device;
        return out.put(capture::record_allocation(&mut state, key, device, bytes as u64)?);
    }
    out.put(allocate(driver, &mut state, pool, key, bytes as u64)?)
}

pub fn cuMemAllocAsync(
    call: Call,
    out: Out<CUdeviceptr>,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    allocate_async(call, out, bytes, None, stream)
}

pub fn cuMemAllocFromPoolAsync(
    call: Call,
    out: Out<CUdeviceptr>,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> Answer {
    allocate_async(call, out, bytes, Some(pool.key()), stream)
}

pub fn cuMemFreeAsync(call: Call, at: CUdeviceptr, stream: CUstream) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    if at == 0 {
        return Ok(());
    }
    if state.streams.get(key)?.capture != 0 {
        return capture::record_free(&mut state, key, at);
    }
    let kind = state.space.at(at).ok_or(INVALID_VALUE)?.kind;
    match kind {
        Kind::Pool | Kind::Graph => {
            let submitted = state.streams.get(key)?.submitted;
            free_at(&mut state, at, Some((key, submitted)))
        }
        // Plain memory may be freed in stream order too; here it waits for the stream.
        Kind::Device | Kind::Managed => {
            let point = (key, state.streams.get(key)?.submitted);
            let mut state = super::stream::wait_for(driver, state, point);
            state.space.remove(at).map(|_| ())
        }
        _ => Err(INVALID_VALUE),
    }
}

fn pool_device(properties: &CUmemPoolProps) -> Answer<i32> {
    if properties.allocType != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED
        || properties.location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
    {
        return Err(INVALID_VALUE);
    }
    Ok(location_id(&properties.location))
}

pub fn cuMemPoolCreate(_: Call, out: Out<CUmemoryPool>, properties: In<CUmemPoolProps>) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    let properties = properties.get()?;
    let device = pool_device(&properties)?;
    state.device(device).map_err(|_| INVALID_VALUE)?;
    let max_bytes = if properties.maxSize == 0 { u64::MAX } else { properties.maxSize as u64 };
    let mut pool = Pool::new(device, max_bytes, false);
    pool.exportable = properties.handleTypes.0 != 0;
    let key = state.pools.insert(pool);
    out.put(CUmemoryPool::from_key(key))
}

pub fn cuMemPoolDestroy(_: Call, pool: CUmemoryPool) -> Answer {
    let (_, mut state) = begin_free()?;
    let found = state.pools.of(pool).map_err(|_| INVALID_VALUE)?;
    if found.is_default {
        return Err(INVALID_VALUE);
    }
    let device = found.device;
    // A pool with memory in use lives on, without its handle, until that is freed: the ranges hold
    // their chunks.
    let gone = state.pools.remove(pool.key())?;
    let record = state.device_mut(device)?;
    if record.pool == pool.key() {
        record.pool = record.default_pool;
    }
    drop(state);
    drop(gone);
    Ok(())
}

pub fn cuDeviceGetDefaultMemPool(_: Call, out: Out<CUmemoryPool>, device: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    out.put(CUmemoryPool::from_key(state.device(device)?.default_pool))
}

pub fn cuDeviceGetMemPool(_: Call, out: Out<CUmemoryPool>, device: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    out.put(CUmemoryPool::from_key(state.device(device)?.pool))
}

pub fn cuDeviceSetMemPool(_: Call, device: CUdevice, pool: CUmemoryPool) -> Answer {
    let (_, mut state) = begin_free()?;
    if state.pools.of(pool).map_err(|_| INVALID_VALUE)?.device != device {
        return Err(INVALID_VALUE);
    }
    state.device_mut(device)?.pool = pool.key();
    Ok(())
}

fn location_device(place: In<CUmemLocation>) -> Answer<i32> {
    let place = place.get()?;
    if place.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
        return Err(NOT_SUPPORTED);
    }
    Ok(location_id(&place))
}

pub fn cuMemGetDefaultMemPool(
    call: Call,
    out: Out<CUmemoryPool>,
    place: In<CUmemLocation>,
    _: CUmemAllocationType,
) -> Answer {
    cuDeviceGetDefaultMemPool(call, out, location_device(place)?)
}

pub fn cuMemGetMemPool(
    call: Call,
    out: Out<CUmemoryPool>,
    place: In<CUmemLocation>,
    _: CUmemAllocationType,
) -> Answer {
    cuDeviceGetMemPool(call, out, location_device(place)?)
}

pub fn cuMemSetMemPool(
    call: Call,
    place: In<CUmemLocation>,
    _: CUmemAllocationType,
    pool: CUmemoryPool,
) -> Answer {
    cuDeviceSetMemPool(call, location_device(place)?, pool)
}

pub fn cuMemPoolTrimTo(_: Call, pool: CUmemoryPool, keep: usize) -> Answer {
    let (_, mut state) = begin_free()?;
    capture::refuse_unsafe(&mut state)?;
    settle(&mut state, pool.key(), 0).map_err(|_| INVALID_VALUE)?;
    let found = state.pools.of_mut(pool)?;
    let keep = (keep as u64).max(found.used);
    found.shrink(keep);
    Ok(())
}

pub fn cuMemPoolGetAttribute(
    _: Call,
    pool: CUmemoryPool,
    which: CUmemPool_attribute,
    value: Address,
) -> Answer {
    let (_, mut state) = begin_free()?;
    capture::refuse_unsafe(&mut state)?;
    let found = state.pools.of(pool).map_err(|_| INVALID_VALUE)?;
    match which.0 as u32 {
        id @ 1..=3 => value.put::<c_int>(found.reuse[id as usize - 1]),
        4 => value.put(found.release_threshold),
        5 => value.put(found.reserved()),
        6 => value.put(found.reserved_high),
        7 => value.put(found.used),
        8 => value.put(found.used_high),
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuMemPoolSetAttribute(
    _: Call,
    pool: CUmemoryPool,
    which: CUmemPool_attribute,
    value: Address,
) -> Answer {
    let (_, mut state) = begin_free()?;
    capture::refuse_unsafe(&mut state)?;
    let found = state.pools.of_mut(pool).map_err(|_| INVALID_VALUE)?;
    match which.0 as u32 {
        id @ 1..=3 => found.reuse[id as usize - 1] = value.get()?,
        4 => found.release_threshold = value.get()?,
        6 if value.get::<u64>()? == 0 => found.reserved_high = found.reserved(),
        8 if value.get::<u64>()? == 0 => found.used_high = found.used,
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

pub fn cuMemPoolSetAccess(
    _: Call,
    pool: CUmemoryPool,
    list: In<CUmemAccessDesc>,
    count: usize,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let list = list.list(count)?;
    let own = state.pools.of(pool).map_err(|_| INVALID_VALUE)?.device;
    for entry in list {
        let device = location_id(&entry.location);
        state.device(device)?;
        if device == own && entry.flags.0 != 3 {
            return Err(INVALID_VALUE);
        }
        state.pools.of_mut(pool)?.access.insert(device, entry.flags.0 as u32);
    }
    Ok(())
}

pub fn cuMemPoolGetAccess(
    _: Call,
    flags: Out<CUmemAccess_flags>,
    pool: CUmemoryPool,
    place: In<CUmemLocation>,
) -> Answer {
    let (_, state) = begin_free()?;
    let found = state.pools.of(pool).map_err(|_| INVALID_VALUE)?;
    let device = location_id(&place.get()?);
    let own = if device == found.device { 3 } else { 0 };
    flags.put(CUmemAccess_flags(found.access.get(&device).copied().unwrap_or(own)))
}

// ---- sharing ----

pub fn cuMemPoolExportToShareableHandle(
    _: Call,
    out: Address,
    pool: CUmemoryPool,
    kind: CUmemAllocationHandleType,
    _flags: c_ulonglong,
) -> Answer {
    use std::io::Write;
    use std::os::fd::IntoRawFd;
    let (_, state) = begin_free()?;
    let found = state.pools.of(pool).map_err(|_| INVALID_VALUE)?;
    if !found.exportable || kind.0 as u32 != 1 {
        return Err(INVALID_VALUE);
    }
    let device = state.device(found.device)?.machine_index as u64;
    let file = memory_file(4096).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let mut file = std::fs::File::from(file);
    file.write_all(&device.to_le_bytes()).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    out.put::<c_int>(file.into_raw_fd())
}

pub fn cuMemPoolImportFromShareableHandle(
    _: Call,
    out: Out<CUmemoryPool>,
    handle: Address,
    kind: CUmemAllocationHandleType,
    _flags: c_ulonglong,
) -> Answer {
    use std::os::unix::fs::FileExt;
    let (_, mut state) = begin_free()?;
    out.check()?;
    let number = c_int::try_from(handle.0).map_err(|_| INVALID_VALUE)?;
    if kind.0 as u32 != 1 {
        return Err(INVALID_VALUE);
    }
    let file = std::fs::File::from(duplicate(number).map_err(|_| INVALID_VALUE)?);
    let mut index = [0; 8];
    file.read_exact_at(&mut index, 0).map_err(|_| INVALID_VALUE)?;
    let index = u64::from_le_bytes(index) as usize;
    let device =
        state.devices.iter().position(|d| d.machine_index == index).ok_or(INVALID_VALUE)?;
    // Nothing can be allocated from an imported pool.
    let key = state.pools.insert(Pool::new(device as i32, 0, false));
    out.put(CUmemoryPool::from_key(key))
}

pub fn cuMemPoolExportPointer(
    _: Call,
    out: Out<CUmemPoolPtrExportData>,
    at: CUdeviceptr,
) -> Answer {
    let (_, state) = begin_free()?;
    let range = state.space.at(at).filter(|range| range.kind == Kind::Pool).ok_or(INVALID_VALUE)?;
    let (start, block) = range.chunks.first().ok_or(INVALID_VALUE)?;
    if range.chunks.len() != 1 || !state.pools.get(range.owner)?.exportable {
        return Err(INVALID_VALUE);
    }
    out.put(CUmemPoolPtrExportData { reserved: block.publish(at - start, range.bytes)? })
}

pub fn cuMemPoolImportPointer(
    _: Call,
    out: Out<CUdeviceptr>,
    pool: CUmemoryPool,
    data: In<CUmemPoolPtrExportData>,
) -> Answer {
    let (driver, mut state) = begin_free()?;
    out.check()?;
    let device = state.pools.of(pool).map_err(|_| INVALID_VALUE)?.device;
    let at = super::ipc::map(driver, &mut state, data.get()?.reserved, Kind::Pool, 0, device)?;
    if let Some(range) = state.space.find_mut(at) {
        range.owner = pool.key();
    }
    out.put(at)
}

// ---- graph memory ----

pub fn cuDeviceGetGraphMemAttribute(
    _: Call,
    device: CUdevice,
    which: CUgraphMem_attribute,
    value: Address,
) -> Answer {
    let (_, state) = begin_free()?;
    let pool = state.pools.get(state.device(device)?.graph_pool)?;
    value.put::<u64>(match which.0 as u32 {
        // What graphs used stays theirs until it is trimmed, so both figures follow each other.
        0 | 2 => pool.reserved(),
        1 | 3 => pool.reserved_high,
        _ => return Err(INVALID_VALUE),
    })
}

pub fn cuDeviceSetGraphMemAttribute(
    _: Call,
    device: CUdevice,
    which: CUgraphMem_attribute,
    value: Address,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let key = state.device(device)?.graph_pool;
    let pool = state.pools.get_mut(key)?;
    match (which.0 as u32, value.get::<u64>()?) {
        (1 | 3, 0) => pool.reserved_high = pool.reserved(),
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

pub fn cuDeviceGraphMemTrim(_: Call, device: CUdevice) -> Answer {
    let (_, mut state) = begin_free()?;
    let key = state.device(device)?.graph_pool;
    settle(&mut state, key, 0)?;
    let pool = state.pools.get_mut(key)?;
    pool.shrink(pool.used);
    Ok(())
}
