//! The calls of managed memory: making it, advice, prefetches, and what is known of a range.
//!
//! Promises: what was said of a range is answered of it, page by page; a prefetch is the stream's, and is
//! remembered when it is asked for. Read-mostly memory is not duplicated: it moves as other memory does. A
//! host's memory node is told apart from the host in answers alone. Discarding is not simulated.

use core::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture::{self, refuse_unsafe};
use super::error::*;
use super::host_memory::{HostMemory, host_mapping};
use super::objects::advice::{Advice, CPU, Location};
use super::objects::managed::{Managed, Part};
use super::objects::task::{PrefetchShape, Task};
use super::space::{GRANULE_BYTES, Kind, Range, round_up};
use super::state::{State, begin};
use super::stream::resolved;
use super::submit::enqueue;
use crate::sys::driver::{Answer, Handle, In, InArray, Out};
use crate::sys::driver_given::Given;
use crate::sys::driver_untyped::{RangeValues, Untyped};

/// The driver's number of no device.
const NONE: c_int = -2;
/// The legacy default stream by its own handle.
const LEGACY: u64 = 1;

pub fn cuMemAllocManaged(
    _: Call,
    address: Out<CUdeviceptr>,
    bytes: usize,
    flags: c_uint,
) -> Answer {
    let (driver, mut state, context) = begin()?;
    refuse_unsafe(&mut state)?;
    address.check()?;
    if bytes == 0 || !(flags == 1 || flags == 2) {
        return Err(INVALID_VALUE);
    }
    let device = state.context(context)?.device;
    let rounded = round_up(bytes as u64, GRANULE_BYTES)?;
    // It begins on the host.
    let mapping = host_mapping(rounded as usize)?;
    let residence = driver.machine.managed(rounded)?;
    let mut range =
        Range::new(mapping.span().address() as u64, bytes as u64, Kind::Managed, context, device);
    range.flags = flags;
    range.managed = Some(Arc::new(Managed::new(residence, mapping.span())));
    range.block = Some(Arc::new(HostMemory(mapping)));
    address.put(state.space.add(range))
}

/// The pages of managed memory that a call names: all of them must be of one allocation.
fn pages(state: &State, at: u64, bytes: u64) -> Answer<Part> {
    let range = state.space.find(at).ok_or(INVALID_VALUE)?;
    let managed = range.managed.as_ref().ok_or(INVALID_VALUE)?;
    let page_bytes = rustix::param::page_size() as u64;
    let from = at - range.base;
    let end = from.checked_add(bytes).ok_or(INVALID_VALUE)?;
    if bytes == 0 || end > range.bytes.next_multiple_of(page_bytes) {
        return Err(INVALID_VALUE);
    }
    let (from, to) = (from - from % page_bytes, end.next_multiple_of(page_bytes));
    Ok(Part { managed: Arc::clone(managed), from, to })
}

/// A device by its number, which is the host's as well.
fn by_number(state: &State, device: CUdevice) -> Answer<Location> {
    match device {
        CPU => Ok(Location::Host),
        _ => state.device(device).map(|_| Location::Device(device)),
    }
}

/// A location that a program names.
fn place_of(state: &State, location: &Given<'_, CUmemLocation>) -> Answer<Location> {
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
            let device = location.location_id();
            state.device(device).map(|_| Location::Device(device))
        }
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST => Ok(Location::Host),
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => {
            let node = location.location_id();
            let is_there = |node| std::fs::exists(format!("/sys/devices/system/node/node{node}"));
            let is_there = node == 0 || (node > 0 && is_there(node).unwrap_or(false));
            if is_there { Ok(Location::Node(node)) } else { Err(INVALID_VALUE) }
        }
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(Location::Node(0)),
        _ => Err(INVALID_VALUE),
    }
}

// ---- advice ----

fn advise(
    at: u64,
    bytes: u64,
    advice: CUmem_advise,
    named: impl Fn(&State) -> Answer<Location>,
) -> Answer {
    let (_, state, _) = begin()?;
    let part = pages(&state, at, bytes)?;
    let processor = |location| match location {
        Location::Host => Ok(CPU),
        Location::Device(device) => Ok(device),
        Location::Node(_) => Err(INVALID_VALUE),
    };
    let change = |change: &dyn Fn(&mut Advice)| {
        part.managed.advised().change(part.from, part.to, change);
        Ok(())
    };
    match advice {
        CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY => change(&|known| known.read_mostly = true),
        CUmem_advise::CU_MEM_ADVISE_UNSET_READ_MOSTLY => change(&|known| known.read_mostly = false),
        CUmem_advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => {
            // An H200 takes a memory node of the host, and says afterwards that nothing is preferred.
            let preferred = Some(named(&state)?).filter(|to| !matches!(to, Location::Node(_)));
            change(&|known| known.preferred = preferred)
        }
        CUmem_advise::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => {
            change(&|known| known.preferred = None)
        }
        CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY => {
            let by = processor(named(&state)?)?;
            change(&|known| known.accessed_by.extend([by]))
        }
        CUmem_advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY => {
            let by = processor(named(&state)?)?;
            change(&|known| known.accessed_by.retain(|known| *known != by))
        }
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuMemAdvise(
    _: Call,
    at: CUdeviceptr,
    bytes: usize,
    advice: CUmem_advise,
    device: CUdevice,
) -> Answer {
    advise(at, bytes as u64, advice, |state| by_number(state, device))
}

pub fn cuMemAdvise_v2(
    _: Call,
    at: CUdeviceptr,
    bytes: usize,
    advice: CUmem_advise,
    location: Given<CUmemLocation>,
) -> Answer {
    advise(at, bytes as u64, advice, |state| place_of(state, &location))
}

// ---- prefetches ----

/// A prefetch, remembered as the last of its range.
fn asked(state: &State, at: u64, bytes: u64, to: Location) -> Answer<Task> {
    let part = pages(state, at, bytes)?;
    part.managed.advised().change(part.from, part.to, |known| known.last_prefetch = Some(to));
    Ok(Task::Prefetch(PrefetchShape { at, bytes, to }))
}

/// Queues what `make` asks for, also where it refuses what comes behind; nothing of it is a graph's.
fn prefetch(
    call: Call,
    stream: CUstream,
    make: impl FnOnce(&State, &mut Vec<Task>) -> Answer,
) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    if state.streams.get(key)?.capture != 0 {
        capture::invalidate_stream(&mut state, key);
        return Err(CAPTURE_UNSUPPORTED);
    }
    let mut tasks = Vec::new();
    let made = make(&state, &mut tasks);
    if made.is_ok() || !tasks.is_empty() {
        enqueue(driver, &mut state, key, Task::Series(Arc::new(tasks)))?;
    }
    made
}

pub fn cuMemPrefetchAsync(
    call: Call,
    at: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> Answer {
    prefetch(call, stream, |state, tasks| {
        pages(state, at, bytes as u64)?;
        tasks.push(asked(state, at, bytes as u64, by_number(state, device)?)?);
        Ok(())
    })
}

pub fn cuMemPrefetchAsync_v2(
    call: Call,
    at: CUdeviceptr,
    bytes: usize,
    location: Given<CUmemLocation>,
    flags: c_uint,
    stream: CUstream,
) -> Answer {
    prefetch(call, stream, |state, tasks| {
        pages(state, at, bytes as u64)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        tasks.push(asked(state, at, bytes as u64, place_of(state, &location)?)?);
        Ok(())
    })
}

#[expect(clippy::too_many_arguments, reason = "the driver's signature")]
pub fn cuMemPrefetchBatchAsync(
    call: Call,
    at: InArray<CUdeviceptr>,
    bytes: InArray<usize>,
    count: usize,
    locations: InArray<CUmemLocation>,
    firsts: InArray<usize>,
    location_count: usize,
    flags: c_ulonglong,
    stream: CUstream,
) -> Answer {
    let is_legacy = stream.key() == LEGACY || (stream.key() == 0 && !call.per_thread);
    let firsts = firsts.list()?;
    let is_sorted = firsts.windows(2).all(|pair| pair[0] < pair[1]);
    let is_inside = firsts.first() == Some(&0) && firsts.iter().all(|first| *first < count);
    if is_legacy || flags != 0 || location_count > count || !is_sorted || !is_inside {
        return Err(INVALID_VALUE);
    }
    prefetch(call, stream, |state, tasks| {
        let places = locations.given()?;
        let places = places.iter().map(|place| place_of(state, place)).collect::<Answer<Vec<_>>>();
        let places = places?;
        for index in 0..count {
            let which = firsts.partition_point(|first| *first <= index) - 1;
            let to = *places.get(which).ok_or(INVALID_VALUE)?;
            // An H200 does what comes before the one that it refuses.
            tasks.push(asked(state, at.get(index)?, bytes.get(index)? as u64, to)?);
        }
        Ok(())
    })
}

// ---- what is known ----

/// A location as the number of a device.
fn number(location: Option<Location>) -> c_int {
    match location {
        Some(Location::Device(device)) => device,
        Some(Location::Host | Location::Node(_)) => CPU,
        None => NONE,
    }
}

/// A location as a type and an id.
fn typed(location: Option<Location>) -> (CUmemLocationType, c_int) {
    match location {
        Some(Location::Device(device)) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, device),
        Some(Location::Node(node)) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node),
        Some(Location::Host) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
        None => (CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID, 0),
    }
}

fn put(part: &Part, which: CUmem_range_attribute, data: Untyped) -> Answer {
    const ONE: usize = size_of::<c_int>();
    let room = data.room_bytes();
    let is_list = which == CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    let has_room = if is_list { room > 0 && room.is_multiple_of(ONE) } else { room == ONE };
    if data.is_null() || !has_room {
        return Err(INVALID_VALUE);
    }
    let advised = part.managed.advised();
    let (from, to) = (part.from, part.to);
    let preferred = || advised.common(from, to, |known| known.preferred).flatten();
    let prefetched = || advised.common(from, to, |known| known.last_prefetch).flatten();
    match which.0 {
        1 => {
            data.put(c_int::from(advised.common(from, to, |known| known.read_mostly) == Some(true)))
        }
        2 => data.put(number(preferred())),
        3 => {
            // Devices first, as an H200 lists them.
            let all = advised.accessed_by(from, to);
            let host = all.contains(&CPU).then_some(CPU);
            let devices = all.into_iter().filter(|by| *by != CPU);
            data.put_list(devices.chain(host).chain(std::iter::repeat(NONE)))
        }
        4 => data.put(number(prefetched())),
        5 => data.put(typed(preferred()).0),
        6 => data.put(typed(preferred()).1),
        7 => data.put(typed(prefetched()).0),
        8 => data.put(typed(prefetched()).1),
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuMemRangeGetAttribute(
    _: Call,
    data: Untyped,
    _: usize,
    which: CUmem_range_attribute,
    at: CUdeviceptr,
    bytes: usize,
) -> Answer {
    let (_, state, _) = begin()?;
    put(&pages(&state, at, bytes as u64)?, which, data)
}

pub fn cuMemRangeGetAttributes(
    _: Call,
    values: RangeValues,
    _: In<usize>,
    _: In<CUmem_range_attribute>,
    _: usize,
    at: CUdeviceptr,
    bytes: usize,
) -> Answer {
    let (_, state, _) = begin()?;
    let part = pages(&state, at, bytes as u64)?;
    if values.length() == 0 {
        return Err(INVALID_VALUE);
    }
    (0..values.length()).try_for_each(|index| {
        let (which, data) = values.get(index)?;
        put(&part, which, data)
    })
}
