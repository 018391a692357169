//! The calls on pools, and on graph memory.

use core::ffi::{c_int, c_ulonglong};
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture;
use super::error::*;
use super::objects::pool::Pool;
use super::objects::task::Task;
use super::pool::{allocate, free_at, settle};
use super::space::Kind;
use super::state::{State, begin_free};
use super::stream::resolved;
use super::submit::enqueue;
use crate::sys::descriptor::{duplicate, memory_file};
use crate::sys::driver::{Address, Answer, Handle, In, InArray, Out};
use crate::sys::driver_given::Given;
use crate::sys::driver_untyped::Untyped;

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
        // Its address is good until the stream gets here.
        Kind::Graph => enqueue(driver, &mut state, key, Task::Release(Arc::new(vec![at]))),
        Kind::Pool => {
            let submitted = state.streams.get(key)?.submitted;
            let range = state.space.at(at).ok_or(INVALID_VALUE)?;
            // Of a pool that is gone only the memory itself is left to wait for the stream.
            let orphan = state.pools.get(range.owner).is_err();
            let blocks = range.chunks.iter().map(|(_, block)| Arc::clone(block)).collect();
            free_at(&mut state, at, Some((key, submitted)))?;
            if orphan {
                enqueue(driver, &mut state, key, Task::Hold(Arc::new(blocks)))?;
            }
            Ok(())
        }
        // Plain memory may be freed in stream order too; here it waits for the stream.
        Kind::Device | Kind::Managed => {
            let point = (key, state.streams.get(key)?.submitted);
            let mut state = super::worker::wait_for(driver, state, point);
            state.space.remove(at).map(|_| ())
        }
        _ => Err(INVALID_VALUE),
    }
}

/// The device of a pool's properties, or none for a pool of the host's memory.
fn pool_device(properties: &Given<CUmemPoolProps>) -> Answer<Option<i32>> {
    if properties.allocType != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(INVALID_VALUE);
    }
    match properties.location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => Ok(Some(properties.location_id())),
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => Ok(None),
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuMemPoolCreate(_: Call, out: Out<CUmemoryPool>, properties: In<CUmemPoolProps>) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    let properties = properties.given()?;
    let place = pool_device(&properties)?;
    let device = place.unwrap_or(0);
    state.device(device).map_err(|_| INVALID_VALUE)?;
    let max_bytes = if properties.maxSize == 0 { u64::MAX } else { properties.maxSize as u64 };
    let mut pool = Pool::new(device, max_bytes, false);
    pool.is_host = place.is_none();
    pool.exportable = properties.handleTypes.0 != 0;
    let key = state.pools.insert(pool);
    out.put(CUmemoryPool::from_key(key))
}

pub fn cuMemPoolDestroy(_: Call, pool: CUmemoryPool) -> Answer {
    let (driver, mut state) = begin_free()?;
    let found = state.pools.of(pool).map_err(|_| INVALID_VALUE)?;
    if found.is_default {
        return Err(INVALID_VALUE);
    }
    let device = found.device;
    settle(&mut state, pool.key())?;
    // A pool with memory in use lives on, without its handle, until that is freed and the work before
    // the free has ended: ranges hold their chunks, and so do the streams.
    let gone = state.pools.remove(pool.key())?;
    state.ended.insert(pool.key());
    let record = state.device_mut(device)?;
    if record.pool == pool.key() {
        record.pool = record.default_pool;
    }
    if let Some((base, bytes)) = gone.unused_region() {
        state.space.give_back(base, bytes);
    }
    for (stream, blocks) in gone.held_by_streams() {
        if state.streams.get(stream).is_ok() {
            enqueue(driver, &mut state, stream, Task::Hold(Arc::new(blocks)))?;
        }
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
    let place = place.given()?;
    if place.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
        return Err(NOT_SUPPORTED);
    }
    Ok(place.location_id())
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

/// Whether a pool is not there any more. To name one is undefined: an H200's driver then answers a
/// question by nothing and a request by an error.
fn is_destroyed(state: &State, pool: CUmemoryPool) -> bool {
    let is_destroyed = state.ended.contains(&pool.key());
    if is_destroyed {
        crate::unsimulated::record("a pool that was destroyed");
    }
    is_destroyed
}

pub fn cuMemPoolTrimTo(_: Call, pool: CUmemoryPool, keep: usize) -> Answer {
    let (_, mut state) = begin_free()?;
    capture::refuse_unsafe(&mut state)?;
    if is_destroyed(&state, pool) {
        return Err(INVALID_VALUE);
    }
    settle(&mut state, pool.key()).map_err(|_| INVALID_VALUE)?;
    let found = state.pools.of_mut(pool)?;
    let keep = (keep as u64).max(found.used);
    found.shrink(keep);
    Ok(())
}

pub fn cuMemPoolGetAttribute(
    _: Call,
    pool: CUmemoryPool,
    which: CUmemPool_attribute,
    value: Untyped,
) -> Answer {
    let (_, mut state) = begin_free()?;
    capture::refuse_unsafe(&mut state)?;
    if is_destroyed(&state, pool) {
        return match which.0 {
            1..=3 => value.put::<c_int>(0),
            _ => value.put(0_u64),
        };
    }
    let found = state.pools.of(pool).map_err(|_| INVALID_VALUE)?;
    match which.0 {
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
    value: Untyped,
) -> Answer {
    let (_, mut state) = begin_free()?;
    capture::refuse_unsafe(&mut state)?;
    let found = state.pools.of_mut(pool).map_err(|_| INVALID_VALUE)?;
    match which.0 {
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
    list: InArray<CUmemAccessDesc>,
    _: usize,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let list = list.given()?;
    let own = state.pools.of(pool).map_err(|_| INVALID_VALUE)?.device;
    for entry in list {
        let device = entry.location_id();
        state.device(device)?;
        if device == own && entry.flags.0 != 3 {
            return Err(INVALID_VALUE);
        }
        state.pools.of_mut(pool)?.access.insert(device, entry.flags.0);
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
    let device = place.given()?.location_id();
    let own = if device == found.device { 3 } else { 0 };
    flags.put(CUmemAccess_flags(found.access.get(&device).copied().unwrap_or(own)))
}

// ---- sharing ----

pub fn cuMemPoolExportToShareableHandle(
    _: Call,
    out: Untyped,
    pool: CUmemoryPool,
    kind: CUmemAllocationHandleType,
    _flags: c_ulonglong,
) -> Answer {
    use std::io::Write;
    let (_, state) = begin_free()?;
    let found = state.pools.of(pool).map_err(|_| INVALID_VALUE)?;
    if !found.exportable || kind.0 != 1 {
        return Err(INVALID_VALUE);
    }
    let device = state.device(found.device)?.machine_index as u64;
    let file = memory_file(4096).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let mut file = std::fs::File::from(file);
    file.write_all(&device.to_le_bytes()).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    out.put_descriptor(file.into())
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
    if kind.0 != 1 {
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
    value: Untyped,
) -> Answer {
    let (_, state) = begin_free()?;
    let memory = &state.device(device)?.graphs;
    value.put::<u64>(match which.0 {
        0 => memory.used(),
        1 => memory.used_high,
        2 => memory.reserved(),
        3 => memory.reserved_high,
        _ => return Err(INVALID_VALUE),
    })
}

pub fn cuDeviceSetGraphMemAttribute(
    _: Call,
    device: CUdevice,
    which: CUgraphMem_attribute,
    value: Untyped,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let memory = &mut state.device_mut(device)?.graphs;
    match (which.0, value.get::<u64>()?) {
        (1, 0) => memory.used_high = memory.used(),
        (3, 0) => memory.reserved_high = memory.reserved(),
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

pub fn cuDeviceGraphMemTrim(_: Call, device: CUdevice) -> Answer {
    let (_, mut state) = begin_free()?;
    super::graph_memory::trim(&mut state, device)
}
