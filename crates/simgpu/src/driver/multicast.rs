//! Multicast objects: one address that stands for memory of several devices behind an NVSwitch.
//!
//! Promises: memory bound to an object lives until it is unbound or the object released, whatever
//! becomes of its handle and its mappings. A machine has them only where its description says that it
//! has an NVSwitch; without one the calls answer as measured. Mapping and sharing an object are not
//! simulated.

use core::ffi::c_ulonglong;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::machine::Block;
use super::objects::memory::Multicast;
use super::space::{GRANULE_BYTES, Kind};
use super::state::{State, begin_free};
use super::vmm;
use crate::sys::driver::{Answer, In, Out};

/// Checks an object: whole granules, for devices that exist.
fn check(state: &State, wanted: &CUmulticastObjectProp) -> Answer<usize> {
    let devices = wanted.numDevices as usize;
    let whole = (wanted.size as u64).is_multiple_of(GRANULE_BYTES);
    if devices == 0 || devices > state.devices.len() || !whole || wanted.flags != 0 {
        return Err(INVALID_VALUE);
    }
    Ok(devices)
}

pub fn cuMulticastCreate(
    _: Call,
    out: Out<CUmemGenericAllocationHandle>,
    wanted: In<CUmulticastObjectProp>,
) -> Answer {
    let (driver, mut state) = begin_free()?;
    if !driver.machine.has_nvswitch() {
        return Err(NOT_SUPPORTED);
    }
    out.check()?;
    let wanted = wanted.get()?;
    let devices = check(&state, &wanted)?;
    if wanted.size == 0 {
        return Err(INVALID_VALUE);
    }
    let (members, bound) = (BTreeSet::new(), BTreeMap::new());
    let key = vmm::fresh_handle(&mut state);
    state.multicasts.insert(key, Multicast { bytes: wanted.size as u64, devices, members, bound });
    out.put(key)
}

pub fn cuMulticastGetGranularity(
    _: Call,
    out: Out<usize>,
    wanted: In<CUmulticastObjectProp>,
    _: CUmulticastGranularity_flags,
) -> Answer {
    let (driver, state) = begin_free()?;
    if !driver.machine.has_nvswitch() {
        return Err(NOT_SUPPORTED);
    }
    check(&state, &wanted.get()?)?;
    out.put(GRANULE_BYTES as usize)
}

fn object(state: &mut State, key: u64) -> Answer<&mut Multicast> {
    state.multicasts.get_mut(&key).ok_or(INVALID_VALUE)
}

pub fn cuMulticastAddDevice(
    _: Call,
    key: CUmemGenericAllocationHandle,
    device: CUdevice,
) -> Answer {
    let (_, mut state) = begin_free()?;
    object(&mut state, key)?;
    state.device(device)?;
    let found = object(&mut state, key)?;
    if found.members.len() == found.devices || !found.members.insert(device) {
        return Err(INVALID_VALUE);
    }
    Ok(())
}

/// Binds all of a block, once every device has joined.
fn bind(
    state: &mut State,
    key: u64,
    offset: usize,
    memory: (Arc<dyn Block>, i32),
    bytes: usize,
    flags: c_ulonglong,
) -> Answer {
    let (block, device) = memory;
    let (offset, bytes) = (offset as u64, bytes as u64);
    let found = object(state, key)?;
    let end = offset.checked_add(bytes).filter(|end| *end <= found.bytes).ok_or(INVALID_VALUE)?;
    let taken = found.bound.iter().any(|((owner, start), other)| {
        *owner == device && *start < end && offset < start + other.bytes()
    });
    if flags != 0
        || taken
        || bytes != block.bytes()
        || !offset.is_multiple_of(GRANULE_BYTES)
        || found.members.len() != found.devices
        || !found.members.contains(&device)
    {
        return Err(INVALID_VALUE);
    }
    found.bound.insert((device, offset), block);
    Ok(())
}

pub fn cuMulticastBindMem(
    _: Call,
    key: CUmemGenericAllocationHandle,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    memory_offset: usize,
    bytes: usize,
    flags: c_ulonglong,
) -> Answer {
    let (_, mut state) = begin_free()?;
    object(&mut state, key)?;
    let memory = vmm::memory_of(&mut state, handle)?;
    if memory_offset != 0 {
        return Err(INVALID_VALUE);
    }
    bind(&mut state, key, offset, memory, bytes, flags)
}

pub fn cuMulticastBindAddr(
    _: Call,
    key: CUmemGenericAllocationHandle,
    offset: usize,
    address: CUdeviceptr,
    bytes: usize,
    flags: c_ulonglong,
) -> Answer {
    let (_, mut state) = begin_free()?;
    object(&mut state, key)?;
    let mapped = state.space.at(address).filter(|range| range.kind == Kind::Mapped);
    let range = mapped.ok_or(INVALID_VALUE)?;
    let memory = (range.block.clone().ok_or(INVALID_VALUE)?, range.device);
    bind(&mut state, key, offset, memory, bytes, flags)
}

pub fn cuMulticastUnbind(
    _: Call,
    key: CUmemGenericAllocationHandle,
    device: CUdevice,
    offset: usize,
    bytes: usize,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let found = object(&mut state, key)?;
    let offset = offset as u64;
    let end = offset.checked_add(bytes as u64).ok_or(INVALID_VALUE)?;
    if !found.members.contains(&device) || end > found.bytes {
        return Err(INVALID_VALUE);
    }
    found.bound.retain(|(owner, start), _| *owner != device || *start < offset || *start >= end);
    Ok(())
}
