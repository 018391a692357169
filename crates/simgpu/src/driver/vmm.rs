//! Virtual memory management: physical handles, reservations, mappings, access.
//!
//! Promises: physical memory lives while a handle or a mapping of it lives, in any process; a handle
//! counts its holders; a range is reachable only after access was set; what was imported cannot be
//! exported again, as an H200's driver has it.

use core::ffi::{c_int, c_ulonglong};
use std::os::fd::AsFd;
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture::refuse_unsafe;
use super::error::*;
use super::machine::{Block, Purpose};
use super::objects::memory::PhysicalHandle;
use super::space::{GRANULE_BYTES, Kind, Range};
use super::state::{State, begin_free};
use crate::sys::descriptor::duplicate;
use crate::sys::driver::{Address, Answer, In, InArray, Out};
use crate::sys::driver_given::{Given, location};
use crate::sys::driver_untyped::Untyped;

/// The device of valid properties.
fn device_of(state: &State, properties: &Given<CUmemAllocationProp>) -> Answer<i32> {
    if properties.type_ != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(INVALID_VALUE);
    }
    if properties.location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
        // Host memory behind VMM handles is not simulated.
        return Err(NOT_SUPPORTED);
    }
    let device = properties.location_id();
    state.device(device)?;
    if !matches!(properties.requestedHandleTypes.0, 0 | 1) {
        return Err(NOT_SUPPORTED);
    }
    Ok(device)
}

pub fn cuMemGetAllocationGranularity(
    _: Call,
    granularity: Out<usize>,
    properties: In<CUmemAllocationProp>,
    _option: CUmemAllocationGranularity_flags,
) -> Answer {
    let (_, state) = begin_free()?;
    device_of(&state, &properties.given()?)?;
    granularity.put(GRANULE_BYTES as usize)
}

/// A handle that no other object has.
pub(crate) fn fresh_handle(state: &mut State) -> u64 {
    0x5551_0000_0000 + (state.fresh_id() << 5)
}

/// Keeps a handle that its maker holds.
fn insert(state: &mut State, handle: PhysicalHandle) -> u64 {
    let key = fresh_handle(state);
    state.physical.insert(key, handle);
    key
}

pub fn cuMemCreate(
    _: Call,
    out: Out<CUmemGenericAllocationHandle>,
    bytes: usize,
    properties: In<CUmemAllocationProp>,
    flags: c_ulonglong,
) -> Answer {
    let (driver, mut state) = begin_free()?;
    out.check()?;
    let properties = properties.given()?;
    let device = device_of(&state, &properties)?;
    if bytes == 0 || flags != 0 || !(bytes as u64).is_multiple_of(GRANULE_BYTES) {
        return Err(INVALID_VALUE);
    }
    refuse_unsafe(&mut state)?;
    let block = driver.allocate(&state, device, bytes as u64, Purpose::Data)?;
    let handle_types = properties.requestedHandleTypes.0;
    let made =
        PhysicalHandle { block, device, handle_types, is_imported: false, held: 1, mapped: 0 };
    out.put(insert(&mut state, made))
}

/// The key of the handle, if it is held.
fn held(state: &mut State, handle: u64) -> Answer<&mut PhysicalHandle> {
    state.physical.get_mut(&handle).filter(|found| found.held > 0).ok_or(INVALID_VALUE)
}

/// The memory of a handle that is held, and its device.
pub(crate) fn memory_of(state: &mut State, handle: u64) -> Answer<(Arc<dyn Block>, i32)> {
    let found = held(state, handle)?;
    Ok((Arc::clone(&found.block), found.device))
}

pub fn cuMemRelease(_: Call, handle: CUmemGenericAllocationHandle) -> Answer {
    let (_, mut state) = begin_free()?;
    if state.multicasts.remove(&handle).is_some() {
        return Ok(());
    }
    held(&mut state, handle)?.held -= 1;
    forget_unused(&mut state, handle);
    Ok(())
}

/// A handle nobody holds and no mapping needs is gone.
fn forget_unused(state: &mut State, handle: u64) {
    if state.physical.get(&handle).is_some_and(|found| found.held == 0 && found.mapped == 0) {
        state.physical.remove(&handle);
    }
}

pub fn cuMemRetainAllocationHandle(
    _: Call,
    out: Out<CUmemGenericAllocationHandle>,
    at: Address,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    let range = state.space.find(at.0 as u64).filter(|range| range.kind == Kind::Mapped);
    let handle = range.ok_or(INVALID_VALUE)?.owner;
    state.physical.get_mut(&handle).ok_or(INVALID_VALUE)?.held += 1;
    out.put(handle)
}

pub fn cuMemGetAllocationPropertiesFromHandle(
    _: Call,
    out: Out<CUmemAllocationProp>,
    handle: CUmemGenericAllocationHandle,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let found = held(&mut state, handle)?;
    out.put(CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType(found.handle_types),
        location: location(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, found.device),
        win32HandleMetaData: core::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    })
}

pub fn cuMemExportToShareableHandle(
    _: Call,
    out: Untyped,
    handle: CUmemGenericAllocationHandle,
    kind: CUmemAllocationHandleType,
    flags: c_ulonglong,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let found = held(&mut state, handle)?;
    let is_exportable = found.handle_types & 1 != 0 && !found.is_imported;
    if out.is_null() || flags != 0 || kind.0 != 1 || !is_exportable {
        return Err(INVALID_VALUE);
    }
    out.put_descriptor(found.block.export()?)
}

pub fn cuMemImportFromShareableHandle(
    _: Call,
    out: Out<CUmemGenericAllocationHandle>,
    handle: Address,
    kind: CUmemAllocationHandleType,
) -> Answer {
    let (driver, mut state) = begin_free()?;
    out.check()?;
    if kind.0 != 1 {
        return Err(NOT_SUPPORTED);
    }
    let number = c_int::try_from(handle.0).map_err(|_| INVALID_VALUE)?;
    let file = duplicate(number).map_err(|_| INVALID_VALUE)?;
    let block = driver.machine.import(file.as_fd())?;
    let index = block.device();
    let device =
        state.devices.iter().position(|d| d.machine_index == index).ok_or(INVALID_DEVICE)?;
    let device = device as i32;
    let made =
        PhysicalHandle { block, device, handle_types: 1, is_imported: true, held: 1, mapped: 0 };
    out.put(insert(&mut state, made))
}

pub fn cuMemAddressReserve(
    _: Call,
    out: Out<CUdeviceptr>,
    bytes: usize,
    align: usize,
    hint: CUdeviceptr,
    flags: c_ulonglong,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    let bytes = bytes as u64;
    if bytes == 0
        || flags != 0
        || !bytes.is_multiple_of(GRANULE_BYTES)
        || !(align == 0 || align.is_power_of_two())
    {
        return Err(INVALID_VALUE);
    }
    let base = state.space.reserve(bytes, align as u64, hint)?;
    state.reservations.insert(base, bytes);
    out.put(base)
}

pub fn cuMemAddressFree(_: Call, at: CUdeviceptr, bytes: usize) -> Answer {
    let (_, mut state) = begin_free()?;
    let reserved = state.reservations.get(&at).copied();
    if reserved != Some(bytes as u64) {
        return Err(INVALID_VALUE);
    }
    let end = at + bytes as u64;
    if state.space.overlapping(at, end).any(|range| range.kind == Kind::Mapped) {
        return Err(INVALID_VALUE);
    }
    state.reservations.remove(&at);
    state.space.give_back(at, bytes as u64);
    Ok(())
}

pub fn cuMemMap(
    _: Call,
    at: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: c_ulonglong,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let (bytes, offset) = (bytes as u64, offset as u64);
    let found = held(&mut state, handle)?;
    let (block, device) = (Arc::clone(&found.block), found.device);
    let end = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
    // The driver maps handles whole.
    if offset != 0 || bytes != block.bytes() {
        return Err(NOT_SUPPORTED);
    }
    let reserved = state.reservations.range(..=at).next_back();
    let covered = reserved.is_some_and(|(base, length)| end <= base + length);
    let taken = state.space.overlapping(at, end).any(|range| range.kind == Kind::Mapped);
    if flags != 0
        || bytes == 0
        || !covered
        || taken
        || ![at, bytes, offset].iter().all(|n| n.is_multiple_of(GRANULE_BYTES))
    {
        return Err(INVALID_VALUE);
    }
    let mut range = Range::new(at, bytes, Kind::Mapped, 0, device);
    range.block = Some(block);
    range.offset = offset;
    range.owner = handle;
    range.accessible = false;
    state.space.add(range);
    held(&mut state, handle)?.mapped += 1;
    Ok(())
}

/// The mappings that together are exactly `bytes` from `at`.
fn mappings(state: &State, at: u64, bytes: u64) -> Answer<Vec<u64>> {
    let end = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
    let (mut next, mut bases) = (at, Vec::new());
    while next < end {
        let range = state.space.at(next).filter(|r| r.kind == Kind::Mapped).ok_or(INVALID_VALUE)?;
        bases.push(range.base);
        next = range.end();
    }
    if next == end && bytes > 0 { Ok(bases) } else { Err(INVALID_VALUE) }
}

/// The mappings inside `bytes` from `at`; one that reaches beyond is an invalid value, none is fine
/// as long as the addresses are reserved.
fn mappings_within(state: &State, at: u64, bytes: u64) -> Answer<Vec<u64>> {
    let end = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
    let reserved = state.reservations.range(..=at).next_back();
    if bytes == 0 || reserved.is_none_or(|(base, length)| end > base + length) {
        return Err(INVALID_VALUE);
    }
    let touching = state.space.overlapping(at, end).filter(|range| range.kind == Kind::Mapped);
    touching
        .map(|range| match range.base >= at && range.end() <= end {
            true => Ok(range.base),
            false => Err(INVALID_VALUE),
        })
        .collect()
}

pub fn cuMemUnmap(_: Call, at: CUdeviceptr, bytes: usize) -> Answer {
    let (_, mut state) = begin_free()?;
    mappings_within(&state, at, bytes as u64)?;
    refuse_unsafe(&mut state)?;
    // Unlike a free this waits for no work: a kernel that is running, or comes later, finds no memory there.
    for base in mappings_within(&state, at, bytes as u64)? {
        let range = state.space.remove(base)?;
        if let Some(found) = state.physical.get_mut(&range.owner) {
            found.mapped = found.mapped.saturating_sub(1);
        }
        forget_unused(&mut state, range.owner);
    }
    Ok(())
}

pub fn cuMemSetAccess(
    _: Call,
    at: CUdeviceptr,
    bytes: usize,
    list: InArray<CUmemAccessDesc>,
    _: usize,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let bases = mappings(&state, at, bytes as u64)?;
    for entry in list.given()? {
        if entry.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
            state.device(entry.location_id())?;
        }
        let device = entry.location_id();
        for base in &bases {
            let Some(range) = state.space.find_mut(*base) else { continue };
            if range.device == device {
                range.accessible = entry.flags.0 != 0;
                range.flags = entry.flags.0;
            } else if entry.flags.0 != 0 {
                range.reached_by.insert(device, entry.flags.0);
            } else {
                range.reached_by.remove(&device);
            }
        }
    }
    Ok(())
}

pub fn cuMemGetAccess(
    _: Call,
    flags: Out<c_ulonglong>,
    place: In<CUmemLocation>,
    at: CUdeviceptr,
) -> Answer {
    let (_, state) = begin_free()?;
    let range = state.space.find(at).ok_or(INVALID_VALUE)?;
    let device = place.given()?.location_id();
    // Its own plain memory a device reads and writes (measured, 580).
    if range.kind == Kind::Device && range.device == device {
        let both = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return flags.put(c_ulonglong::from(both.0));
    }
    let range = Some(range).filter(|range| range.kind == Kind::Mapped).ok_or(INVALID_VALUE)?;
    let own = range.accessible.then_some(range.flags).filter(|_| device == range.device);
    let set = own.or_else(|| range.reached_by.get(&device).copied());
    flags.put(c_ulonglong::from(set.unwrap_or(0)))
}
