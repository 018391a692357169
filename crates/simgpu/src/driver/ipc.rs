//! Legacy interprocess memory handles.
//!
//! Promises: one handle per block and always the same 64 bytes; what a handle opened stays while it
//! is open, even after the exporter freed it or died, and it can be opened again then. Of an
//! opening's flags only the one that is documented is looked at: an H200's driver opens with more.
//! Interprocess events are not simulated.

use core::ffi::{c_char, c_uint};

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::space::{Kind, Range};
use super::state::{DriverState, State, begin, begin_free};
use crate::sys::driver::{Answer, Out};

/// Maps what a handle of another process names.
pub(crate) fn map(
    driver: &DriverState,
    state: &mut State,
    handle: [u8; 64],
    kind: Kind,
    context: u64,
    device: i32,
) -> Answer<u64> {
    let (block, offset, bytes) = driver.machine.open(handle)?;
    let base = state.space.reserve(block.bytes(), 0, 0)?;
    let mut range = Range::new(base + offset, bytes, kind, context, device);
    range.block = Some(block);
    range.offset = offset;
    Ok(state.space.add(range))
}

pub fn cuIpcGetMemHandle(_: Call, out: Out<CUipcMemHandle>, at: CUdeviceptr) -> Answer {
    let (_, mut state, _) = begin()?;
    out.check()?;
    let range =
        state.space.find(at).filter(|range| range.kind == Kind::Device).ok_or(INVALID_VALUE)?;
    let block = range.block.as_ref().ok_or(INVALID_VALUE)?;
    let packed = block.publish(range.offset, range.bytes)?;
    state.ipc_published.insert(packed);
    out.put(CUipcMemHandle { reserved: packed.map(|byte| c_char::from_ne_bytes([byte])) })
}

pub fn cuIpcOpenMemHandle_v2(
    _: Call,
    out: Out<CUdeviceptr>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> Answer {
    let (driver, mut state, context) = begin()?;
    out.check()?;
    if flags & 1 == 0 {
        return Err(INVALID_VALUE);
    }
    let packed = handle.reserved.map(|byte| byte.to_ne_bytes()[0]);
    // A process cannot open its own handles.
    if state.ipc_published.contains(&packed) {
        return Err(INVALID_CONTEXT);
    }
    if let Some((at, count)) = state.ipc_opened.get_mut(&packed) {
        *count += 1;
        return out.put(*at);
    }
    let device = state.context(context)?.device;
    let at = map(driver, &mut state, packed, Kind::Ipc, context, device)?;
    state.ipc_opened.insert(packed, (at, 1));
    out.put(at)
}
pub use cuIpcOpenMemHandle_v2 as cuIpcOpenMemHandle;

pub fn cuIpcCloseMemHandle(_: Call, at: CUdeviceptr) -> Answer {
    let (driver, mut state) = begin_free()?;
    let found = state.space.at(at).filter(|range| range.kind == Kind::Ipc).ok_or(INVALID_VALUE)?;
    let context = found.context;
    let opened = state.ipc_opened.values_mut().find(|(base, _)| *base == at);
    if let Some((_, count)) = opened
        && *count > 1
    {
        *count -= 1;
        return Ok(());
    }
    state.ipc_opened.retain(|_, (base, _)| *base != at);
    drop(state);
    super::worker::drain_context(driver, context);
    let mut state = driver.lock();
    let range = state.space.remove(at)?;
    if let Some(block) = &range.block {
        state.space.give_back(range.base - range.offset, block.bytes());
    }
    Ok(())
}
