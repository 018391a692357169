//! The driver's knowledge of an address.

use core::ffi::{c_int, c_uint, c_void};

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::space::{Kind, Range};
use super::state::{State, begin_free};
use crate::sys::driver::{Address, Answer, Handle, In};
use crate::sys::driver_untyped::{PointerValues, Untyped};

fn memory_type(range: &Range) -> c_uint {
    if range.device < 0 { 1 } else { 2 }
}

/// Answers one attribute of a known address.
fn put(state: &State, range: &Range, at: u64, which: u32, data: Untyped) -> Answer {
    let is_host = matches!(range.kind, Kind::Host | Kind::Registered);
    match which {
        1 => data.put(CUcontext::from_key(match range.kind {
            // Neither pools nor VMM mappings belong to a context.
            Kind::Pool | Kind::Mapped | Kind::Graph => 0,
            _ => range.context,
        })),
        2 => data.put(memory_type(range)),
        3 => data.put::<CUdeviceptr>(at),
        4 if is_host || range.kind == Kind::Managed => data.put(Address(at as usize).pointer()),
        4 => Err(INVALID_VALUE),
        6 => data.put::<c_uint>(u32::from(range.sync_memops)),
        7 => data.put(range.id),
        8 => data.put::<c_uint>(u32::from(range.kind == Kind::Managed)),
        9 => data.put::<c_int>(match range.device {
            -1 => state.contexts.get(range.context).map_or(0, |context| context.device),
            device => device,
        }),
        10 => data.put::<c_uint>(u32::from(matches!(range.kind, Kind::Device))),
        11 => data.put::<CUdeviceptr>(range.base),
        12 => data.put::<usize>(range.bytes as usize),
        13 => data.put::<c_uint>(1),
        14 => data.put::<u64>(u64::from(range.kind == Kind::Mapped)),
        15 => data.put::<c_int>(1),
        16 => data.put::<c_uint>(3),
        17 => {
            data.put(CUmemoryPool::from_key(if range.kind == Kind::Pool { range.owner } else { 0 }))
        }
        18 => data.put::<usize>(range.bytes as usize),
        19 => data.put::<CUdeviceptr>(range.base),
        20 => data.put::<u64>(range.id),
        _ => Err(INVALID_VALUE),
    }
}

fn visible(state: &State, at: u64) -> Option<Range> {
    state.space.find(at).filter(|range| range.kind != Kind::Array).cloned()
}

pub fn cuPointerGetAttribute(
    _: Call,
    data: Untyped,
    which: CUpointer_attribute,
    at: CUdeviceptr,
) -> Answer {
    let (_, state) = begin_free()?;
    if data.is_null() {
        return Err(INVALID_VALUE);
    }
    let range = visible(&state, at).ok_or(INVALID_VALUE)?;
    put(&state, &range, at, which.0, data)
}

pub fn cuPointerGetAttributes(
    _: Call,
    _: c_uint,
    values: PointerValues,
    _: In<*mut c_void>,
    at: CUdeviceptr,
) -> Answer {
    let (_, state) = begin_free()?;
    let found = visible(&state, at);
    for index in 0..values.length() {
        let (attribute, target) = values.get(index)?;
        let attribute = attribute.0;
        let known =
            found.as_ref().is_some_and(|range| put(&state, range, at, attribute, target).is_ok());
        if !known {
            // Unlike the single question, unknown pointers answer zeros.
            match attribute {
                1 | 3 | 4 | 7 | 11 | 12 | 17 => target.put(0_u64)?,
                9 => target.put(-2_i32)?,
                _ => target.put(0_u32)?,
            }
        }
    }
    Ok(())
}

pub fn cuPointerSetAttribute(
    _: Call,
    value: In<c_uint>,
    which: CUpointer_attribute,
    at: CUdeviceptr,
) -> Answer {
    let (_, mut state) = begin_free()?;
    if which.0 != 6 {
        return Err(INVALID_VALUE);
    }
    let value = value.get()?;
    let range = state.space.find_mut(at).ok_or(INVALID_VALUE)?;
    // As an H200 says of virtual memory management.
    if range.kind == super::space::Kind::Mapped {
        return Err(NOT_SUPPORTED);
    }
    range.sync_memops = value != 0;
    Ok(())
}
