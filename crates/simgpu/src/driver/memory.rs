//! Linear device memory and host memory.
//!
//! Promises: sizes and codes as measured on the H200; a free waits for the work that may use the
//! memory; pinned host memory is readable by the program itself. Managed memory is made and moved in
//! [`super::managed_calls`], and freed here.

use core::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture::refuse_unsafe;
use super::error::*;
use super::host_memory::{HostMemory, host_mapping};
use super::machine::Purpose;
use super::space::{Kind, Range, Space};
use super::state::{Begun, begin, begin_free, begin_old, current, driver, is_null};
use super::worker::drain_to_let_go;
use crate::sys::driver::{Address, Answer, Out};
use crate::sys::driver_untyped::Untyped;

fn allocate(bytes: u64, is_low: bool) -> Answer<u64> {
    let (driver, mut state, context) = if is_low { begin_old()? } else { begin()? };
    refuse_unsafe(&mut state)?;
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let device = state.context(context)?.device;
    let machine_index = state.device(device)?.machine_index;
    if bytes > state.device(device)?.info.total_bytes {
        return Err(OUT_OF_MEMORY);
    }
    let mut range = Range::new(0, bytes, Kind::Device, context, device);
    range.is_low = is_low;
    state.space.place(range, |bytes| driver.machine.allocate(machine_index, bytes, Purpose::Data))
}

/// The null machine's addresses: one counter, so that a pair of calls costs what two calls cost.
static NULL_NEXT: AtomicU64 = AtomicU64::new(0);
/// Beside all other device addresses.
const NULL_BASE: u64 = 0x6000_0000_0000;
const NULL_SPAN: u64 = 0x1000_0000_0000;

fn allocate_null(bytes: u64) -> Answer<u64> {
    current()?;
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if bytes > 1 << 44 {
        return Err(OUT_OF_MEMORY);
    }
    let unit = if bytes > 1 << 20 { 2 << 20 } else { 512 };
    let taken = bytes.next_multiple_of(unit);
    // Large blocks start at granules; the low bits of the counter belong to small blocks.
    let at = if unit == 512 {
        NULL_NEXT.fetch_add(taken, Ordering::Relaxed)
    } else {
        NULL_NEXT.fetch_add(taken + unit, Ordering::Relaxed).next_multiple_of(unit)
    };
    Ok(NULL_BASE + at % NULL_SPAN)
}

#[inline]
pub fn cuMemAlloc_v2(_: Call, address: Out<CUdeviceptr>, bytes: usize) -> Answer {
    address.check()?;
    let at = if is_null() { allocate_null(bytes as u64)? } else { allocate(bytes as u64, false)? };
    address.put(at)
}

pub fn cuMemAlloc(_: Call, address: Out<CUdeviceptr_v1>, bytes: c_uint) -> Answer {
    address.check()?;
    let at = allocate(u64::from(bytes), true)?;
    address.put(CUdeviceptr_v1::try_from(at).map_err(|_| OUT_OF_MEMORY)?)
}

fn pitch_of(width: u64, height: u64, element: u32) -> Answer<(u64, u64)> {
    if width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
        return Err(INVALID_VALUE);
    }
    let pitch = width.checked_next_multiple_of(512).ok_or(OUT_OF_MEMORY)?;
    Ok((pitch, pitch.checked_mul(height).ok_or(OUT_OF_MEMORY)?))
}

pub fn cuMemAllocPitch_v2(
    _: Call,
    address: Out<CUdeviceptr>,
    pitch_out: Out<usize>,
    width: usize,
    height: usize,
    element: c_uint,
) -> Answer {
    address.check()?;
    pitch_out.check()?;
    let (pitch, bytes) = pitch_of(width as u64, height as u64, element)?;
    address.put(allocate(bytes, false)?)?;
    pitch_out.put(pitch as usize)
}

pub fn cuMemAllocPitch(
    _: Call,
    address: Out<CUdeviceptr_v1>,
    pitch_out: Out<c_uint>,
    width: c_uint,
    height: c_uint,
    element: c_uint,
) -> Answer {
    address.check()?;
    pitch_out.check()?;
    let (pitch, bytes) = pitch_of(u64::from(width), u64::from(height), element)?;
    let at = allocate(bytes, true)?;
    address.put(CUdeviceptr_v1::try_from(at).map_err(|_| OUT_OF_MEMORY)?)?;
    pitch_out.put(pitch as c_uint)
}

fn free(at: u64) -> Answer {
    if at == 0 {
        return Ok(());
    }
    let (driver, mut state) = begin_free()?;
    if let Ok(key) = current() {
        state.context(key)?;
    }
    let range = state.space.at(at).ok_or(INVALID_VALUE)?;
    let (kind, context) = (range.kind, range.context);
    if !matches!(kind, Kind::Device | Kind::Managed | Kind::Pool | Kind::Graph) {
        return Err(INVALID_VALUE);
    }
    refuse_unsafe(&mut state)?;
    // The driver frees nothing that queued work may touch, of green contexts too.
    let is_pooled = matches!(kind, Kind::Pool | Kind::Graph);
    let own = if is_pooled { current().unwrap_or(0) } else { context };
    drain_to_let_go(driver, state, own);
    let mut state = driver.lock();
    if is_pooled {
        match kind {
            Kind::Graph => super::graph_memory::free(&mut state, at)?,
            _ => super::pool::free_at(&mut state, at, None)?,
        }
        super::pool::release_unused(&mut state);
        return Ok(());
    }
    let gone = state.space.remove(at)?;
    drop(state);
    drop(gone);
    Ok(())
}

#[inline]
pub fn cuMemFree_v2(_: Call, address: CUdeviceptr) -> Answer {
    if is_null() {
        driver()?;
        return Ok(());
    }
    free(address)
}

pub fn cuMemFree(_: Call, address: CUdeviceptr_v1) -> Answer {
    free(u64::from(address))
}

fn info(begin: impl FnOnce() -> Answer<Begun>) -> Answer<(u64, u64)> {
    let (driver, state, context) = begin()?;
    let device = state.context(context)?.device;
    let index = state.device(device)?.machine_index;
    drop(state);
    driver.machine.memory(index)
}

pub fn cuMemGetInfo_v2(_: Call, free: Out<usize>, total: Out<usize>) -> Answer {
    let (free_bytes, total_bytes) = info(begin)?;
    free.offer(free_bytes as usize);
    total.offer(total_bytes as usize);
    Ok(())
}

pub fn cuMemGetInfo(_: Call, free: Out<c_uint>, total: Out<c_uint>) -> Answer {
    let (free_bytes, total_bytes) = info(begin_old)?;
    free.offer(c_uint::try_from(free_bytes).unwrap_or(c_uint::MAX));
    total.offer(c_uint::try_from(total_bytes).unwrap_or(c_uint::MAX));
    Ok(())
}

fn range_of(at: u64) -> Answer<(u64, u64)> {
    let (_, state) = begin_free()?;
    let range = state.space.find(at).ok_or(NOT_FOUND)?;
    if matches!(range.kind, Kind::Array) {
        return Err(NOT_FOUND);
    }
    Ok((range.base, range.bytes))
}

pub fn cuMemGetAddressRange_v2(
    _: Call,
    base: Out<CUdeviceptr>,
    size: Out<usize>,
    address: CUdeviceptr,
) -> Answer {
    let (at, bytes) = range_of(address)?;
    base.offer(at);
    size.offer(bytes as usize);
    Ok(())
}

/// A buffer for other devices: the end of a pipe, of which the machine sees when nobody has it any more.
pub fn cuMemGetHandleForAddressRange(
    _: Call,
    out: Untyped,
    address: CUdeviceptr,
    bytes: usize,
    kind: CUmemRangeHandleType,
    flags: c_ulonglong,
) -> Answer {
    let (_, state) = begin_free()?;
    let page_bytes = rustix::param::page_size() as u64;
    let range = state.space.at(address).ok_or(INVALID_VALUE)?;
    let end = range.base + range.bytes;
    let is_whole = address.is_multiple_of(page_bytes) && (bytes as u64).is_multiple_of(page_bytes);
    if out.is_null() || bytes == 0 || !is_whole || address + bytes as u64 > end {
        return Err(INVALID_VALUE);
    }
    if kind != CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > 1 {
        return Err(INVALID_VALUE);
    }
    let block = range.block.clone().ok_or(NOT_SUPPORTED)?;
    let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    block.keep(ours)?;
    out.put_descriptor(theirs)
}

pub fn cuMemGetAddressRange(
    _: Call,
    base: Out<CUdeviceptr_v1>,
    size: Out<c_uint>,
    address: CUdeviceptr_v1,
) -> Answer {
    let (at, bytes) = range_of(u64::from(address))?;
    base.offer(CUdeviceptr_v1::try_from(at).map_err(|_| INVALID_VALUE)?);
    size.offer(bytes as c_uint);
    Ok(())
}

// ---- host memory ----

fn host_allocate(out: Out<*mut c_void>, bytes: usize, flags: u32) -> Answer {
    let (_, mut state, context) = begin()?;
    refuse_unsafe(&mut state)?;
    out.check()?;
    if flags & !7 != 0 {
        return Err(INVALID_VALUE);
    }
    if bytes == 0 {
        return out.put(core::ptr::null_mut());
    }
    let rounded = bytes.checked_next_multiple_of(4096).ok_or(OUT_OF_MEMORY)?;
    let mapping = host_mapping(rounded)?;
    let at = mapping.span().address();
    let mut range = Range::new(at as u64, bytes as u64, Kind::Host, context, -1);
    range.flags = flags;
    range.block = Some(Arc::new(HostMemory(mapping)));
    state.space.add(range);
    out.put(Address(at).pointer())
}

pub fn cuMemHostAlloc(_: Call, out: Out<*mut c_void>, bytes: usize, flags: c_uint) -> Answer {
    host_allocate(out, bytes, flags)
}

pub fn cuMemAllocHost_v2(_: Call, out: Out<*mut c_void>, bytes: usize) -> Answer {
    host_allocate(out, bytes, 0)
}

pub fn cuMemAllocHost(_: Call, out: Out<*mut c_void>, bytes: c_uint) -> Answer {
    host_allocate(out, bytes as usize, 0)
}

pub fn cuMemFreeHost(_: Call, at: Address) -> Answer {
    let (driver, state) = begin_free()?;
    if at.is_null() {
        return Ok(());
    }
    let found = state.space.at(at.0 as u64).filter(|range| range.kind == Kind::Host);
    let context = found.ok_or(INVALID_VALUE)?.context;
    drain_to_let_go(driver, state, context);
    driver.lock().space.remove(at.0 as u64).map(|_| ())
}

pub fn cuMemHostRegister(_: Call, at: Address, bytes: usize, flags: c_uint) -> Answer {
    let (_, mut state, context) = begin()?;
    refuse_unsafe(&mut state)?;
    if at.is_null() || bytes == 0 || Space::is_device_address(at.0 as u64) {
        return Err(INVALID_VALUE);
    }
    let end = at.0 as u64 + bytes as u64;
    if state.space.overlapping(at.0 as u64, end).next().is_some() {
        return Err(HOST_MEMORY_ALREADY_REGISTERED);
    }
    let mut range = Range::new(at.0 as u64, bytes as u64, Kind::Registered, context, -1);
    range.flags = flags;
    state.space.add(range);
    Ok(())
}
pub use cuMemHostRegister as cuMemHostRegister_v2;

pub fn cuMemHostUnregister(_: Call, at: Address) -> Answer {
    let (driver, state) = begin_free()?;
    let found = state.space.at(at.0 as u64).filter(|range| range.kind == Kind::Registered);
    let context = found.ok_or(HOST_MEMORY_NOT_REGISTERED)?.context;
    drain_to_let_go(driver, state, context);
    driver.lock().space.remove(at.0 as u64).map(|_| ())
}

fn device_pointer(at: Address) -> Answer<u64> {
    let (_, state, _) = begin()?;
    let range = state.space.find(at.0 as u64).ok_or(INVALID_VALUE)?;
    if !matches!(range.kind, Kind::Host | Kind::Registered | Kind::Managed) {
        return Err(INVALID_VALUE);
    }
    Ok(at.0 as u64)
}

pub fn cuMemHostGetDevicePointer_v2(
    _: Call,
    out: Out<CUdeviceptr>,
    at: Address,
    _flags: c_uint,
) -> Answer {
    out.check()?;
    out.put(device_pointer(at)?)
}

pub fn cuMemHostGetDevicePointer(
    _: Call,
    out: Out<CUdeviceptr_v1>,
    at: Address,
    _flags: c_uint,
) -> Answer {
    let found = device_pointer(at)?;
    out.put(CUdeviceptr_v1::try_from(found).map_err(|_| NOT_SUPPORTED)?)
}

pub fn cuMemHostGetFlags(_: Call, flags: Out<c_uint>, at: Address) -> Answer {
    let (_, state) = begin_free()?;
    let range = state.space.find(at.0 as u64).ok_or(INVALID_VALUE)?;
    if !matches!(range.kind, Kind::Host | Kind::Registered) {
        return Err(INVALID_VALUE);
    }
    flags.put(range.flags)
}
