//! Every way to launch a kernel, and occupancy.
//!
//! Promises: a launch checks its shape as the driver does, takes the local memory of all resident
//! threads before it is queued, waits while the stream's queue is full, and fails with CUDA_ERROR_NOT_SUPPORTED (recorded) when the kernel
//! is none that computes here.

use core::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::context::reserve_local;
use super::error::*;
use super::library::function_key;
use super::objects::context::Origin;
use super::objects::launch::Launch;
use super::objects::task::Task;
use super::ptx::PtxEntry;
use super::state::{State, begin, begin_free, is_null};
use super::stream::resolve;
use super::submit::enqueue;
use super::worker::wait_for_room;
use crate::calibration::MULTIPROCESSORS;
use crate::sys::driver::{Answer, Handle, In, InArray, Out};
use crate::sys::driver_functions::BlockFunction;
use crate::sys::driver_untyped::{Arguments, Form};

/// Grid, block and dynamic shared memory of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

/// The shape in a structure of the driver's, all of which name its parts alike.
macro_rules! shape_of {
    ($params:expr) => {
        Shape {
            grid: [$params.gridDimX, $params.gridDimY, $params.gridDimZ],
            block: [$params.blockDimX, $params.blockDimY, $params.blockDimZ],
            shared_bytes: $params.sharedMemBytes,
        }
    };
}
pub(crate) use shape_of;

fn check_shape(shape: &Shape, entry: &PtxEntry, max_dynamic_shared: i32) -> Answer {
    let threads = shape.block.iter().map(|n| u64::from(*n)).product::<u64>();
    let most = u64::from(entry.max_threads.unwrap_or(1024));
    let fits = shape.grid.iter().chain(&shape.block).all(|n| *n > 0)
        && threads <= most
        && shape.grid[0] <= i32::MAX as u32
        && shape.grid[1] <= 65_535
        && shape.grid[2] <= 65_535
        && shape.block[2] <= 64
        && i64::from(shape.shared_bytes) <= i64::from(max_dynamic_shared);
    if fits { Ok(()) } else { Err(INVALID_VALUE) }
}

/// Cuts a parameter buffer into arguments.
fn cut(entry: &PtxEntry, buffer: &[u8]) -> Answer<Vec<Vec<u8>>> {
    (0..entry.parameters.len())
        .map(|index| {
            let (offset, size) = super::module::parameter(entry, index)?;
            buffer.get(offset..offset + size).map(<[u8]>::to_vec).ok_or(INVALID_VALUE)
        })
        .collect()
}

/// Makes the task of a launch.
pub(crate) fn prepare(
    state: &mut State,
    function: CUfunction,
    shape: Shape,
    arguments: Arguments,
) -> Answer<Launch> {
    let key = function_key(state, function)?;
    let found = state.functions.get(key)?;
    check_shape(&shape, &found.entry, found.max_dynamic_shared)?;
    let entry = Arc::clone(&found.entry);
    let arguments = match arguments.form() {
        _ if entry.parameters.is_empty() => Vec::new(),
        Form::Each => arguments.each(&entry.parameters)?,
        Form::Buffer => cut(&entry, &arguments.buffer()?)?,
        Form::Unclear => return Err(INVALID_VALUE),
    };
    finish(state, key, shape, arguments)
}

fn finish(state: &mut State, key: u64, shape: Shape, arguments: Vec<Vec<u8>>) -> Answer<Launch> {
    let found = state.functions.get(key)?;
    let Some(body) = found.body else {
        crate::unsimulated::record("a kernel that does not compute here");
        return Err(NOT_SUPPORTED);
    };
    let Shape { grid, block, shared_bytes } = shape;
    Ok(Launch { function: key, body, arguments, grid, block, shared_bytes })
}

/// Queues a launch.
pub(crate) fn submit(call: Call, state: &mut State, stream: CUstream, launch: Launch) -> Answer {
    let driver = super::state::driver()?;
    let key = resolve(call, state, stream)?;
    let context = state.streams.get(key)?.context;
    let found = state.functions.get(launch.function)?;
    if found.context != context && state.contexts.get(context)?.origin != Origin::Green {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let local_bytes = found.entry.local_bytes;
    if state.streams.get(key)?.capture == 0 {
        reserve_local(driver, state, context, local_bytes)?;
    }
    enqueue(driver, state, key, Task::Kernel(Arc::new(launch)))
}

fn launch(
    call: Call,
    function: CUfunction,
    shape: Shape,
    stream: CUstream,
    arguments: Arguments,
) -> Answer {
    // The null machine answers as fast as it can: its launches are what others are measured by.
    if is_null() && function.key() != 0 && shape.block.iter().product::<u32>() <= 1024 {
        return if super::capture::is_under_way() && stream.key() > 2 {
            queue_if_capturing(call, function, shape, stream, arguments)
        } else {
            Ok(())
        };
    }
    let (driver, mut state, _) = begin()?;
    let launch = prepare(&mut state, function, shape, arguments)?;
    let key = resolve(call, &mut state, stream)?;
    let mut state = wait_for_room(driver, state, key);
    submit(call, &mut state, stream, launch)
}

#[cold]
fn queue_if_capturing(
    call: Call,
    function: CUfunction,
    shape: Shape,
    stream: CUstream,
    arguments: Arguments,
) -> Answer {
    let (_, mut state) = begin_free()?;
    if state.streams.of(stream)?.capture == 0 {
        return Ok(());
    }
    let launch = prepare(&mut state, function, shape, arguments)?;
    submit(call, &mut state, stream, launch)
}

/// Launches whose shape is the call's own arguments.
macro_rules! shape_calls {
    ($($name:ident($($unused:ty)?): $check:path;)*) => {$(
        #[expect(clippy::too_many_arguments, reason = "the driver's signature")]
        #[inline]
        pub fn $name(
            call: Call,
            function: CUfunction,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: CUstream,
            arguments: Arguments
            $(, _: $unused)?
        ) -> Answer {
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let shape = Shape { grid, block, shared_bytes };
            $check(&shape)?;
            launch(call, function, shape, stream, arguments)
        }
    )*};
}

shape_calls! {
    cuLaunchKernel(Out<*mut c_void>): check_nothing;
    cuLaunchCooperativeKernel(): check_cooperative;
}

pub fn cuLaunchKernelEx(
    call: Call,
    config: In<CUlaunchConfig>,
    function: CUfunction,
    arguments: Arguments,
    _: Out<*mut c_void>,
) -> Answer {
    let config = config.get()?;
    launch(call, function, shape_of!(config), config.hStream, arguments)
}

fn check_nothing(_: &Shape) -> Answer {
    Ok(())
}

/// A cooperative launch must fit the device at once.
fn check_cooperative(shape: &Shape) -> Answer {
    let blocks = shape.grid.iter().map(|n| u64::from(*n)).product::<u64>();
    let threads = shape.block.iter().map(|n| u64::from(*n)).product::<u64>().max(1);
    let most = u64::from(MULTIPROCESSORS) * (2048 / threads.min(2048)).min(32);
    if blocks <= most { Ok(()) } else { Err(COOPERATIVE_LAUNCH_TOO_LARGE) }
}

pub fn cuLaunchCooperativeKernelMultiDevice(
    call: Call,
    list: InArray<CUDA_LAUNCH_PARAMS>,
    _: c_uint,
    _flags: c_uint,
) -> Answer {
    for params in list.given()? {
        let shape = shape_of!(params);
        check_cooperative(&shape)?;
        let (_, mut state) = begin_free()?;
        let context = state.streams.of(params.hStream)?.context;
        state.context(context)?;
        let made = prepare(&mut state, params.function, shape, params.arguments())?;
        submit(call, &mut state, params.hStream, made)?;
    }
    Ok(())
}

// ---- the launches of CUDA 1 ----

pub fn cuFuncSetBlockShape(_: Call, function: CUfunction, x: c_int, y: c_int, z: c_int) -> Answer {
    let (_, mut state) = begin_free()?;
    let number = |n: c_int| u32::try_from(n).map_err(|_| INVALID_VALUE);
    state.functions.of_mut(function)?.block = [number(x)?, number(y)?, number(z)?];
    Ok(())
}

pub fn cuFuncSetSharedSize(_: Call, function: CUfunction, bytes: c_uint) -> Answer {
    let (_, mut state) = begin_free()?;
    state.functions.of_mut(function)?.shared_bytes = bytes;
    Ok(())
}

pub fn cuParamSetSize(_: Call, function: CUfunction, bytes: c_uint) -> Answer {
    let (_, mut state) = begin_free()?;
    if bytes > 32_764 {
        return Err(INVALID_VALUE);
    }
    state.functions.of_mut(function)?.buffer.resize(bytes as usize, 0);
    Ok(())
}

fn set_parameter(function: CUfunction, offset: c_int, bytes: &[u8]) -> Answer {
    let (_, mut state) = begin_free()?;
    let buffer = &mut state.functions.of_mut(function)?.buffer;
    let start = usize::try_from(offset).map_err(|_| INVALID_VALUE)?;
    let end = start.checked_add(bytes.len()).filter(|end| *end <= 32_764).ok_or(INVALID_VALUE)?;
    if buffer.len() < end {
        buffer.resize(end, 0);
    }
    buffer[start..end].copy_from_slice(bytes);
    Ok(())
}

pub fn cuParamSeti(_: Call, function: CUfunction, offset: c_int, value: c_uint) -> Answer {
    set_parameter(function, offset, &value.to_le_bytes())
}

pub fn cuParamSetf(_: Call, function: CUfunction, offset: c_int, value: f32) -> Answer {
    set_parameter(function, offset, &value.to_le_bytes())
}

pub fn cuParamSetv(
    _: Call,
    function: CUfunction,
    offset: c_int,
    from: InArray<u8>,
    _: c_uint,
) -> Answer {
    set_parameter(function, offset, &from.list()?)
}

fn launch_grid(
    call: Call,
    function: CUfunction,
    width: c_int,
    height: c_int,
    stream: CUstream,
) -> Answer {
    let (_, mut state, _) = begin()?;
    let number = |n: c_int| u32::try_from(n).map_err(|_| INVALID_VALUE);
    let found = state.functions.of(function)?;
    let shape = Shape {
        grid: [number(width)?, number(height)?, 1],
        block: found.block,
        shared_bytes: found.shared_bytes,
    };
    check_shape(&shape, &found.entry, found.max_dynamic_shared)?;
    let arguments = cut(&found.entry, &found.buffer)?;
    let made = finish(&mut state, function.key(), shape, arguments)?;
    submit(call, &mut state, stream, made)
}

pub fn cuLaunch(call: Call, function: CUfunction) -> Answer {
    launch_grid(call, function, 1, 1, CUstream::from_key(0))
}

pub fn cuLaunchGrid(call: Call, function: CUfunction, width: c_int, height: c_int) -> Answer {
    launch_grid(call, function, width, height, CUstream::from_key(0))
}

pub fn cuLaunchGridAsync(
    call: Call,
    function: CUfunction,
    width: c_int,
    height: c_int,
    stream: CUstream,
) -> Answer {
    launch_grid(call, function, width, height, stream)
}

// ---- occupancy ----

/// Blocks of `threads` threads a multiprocessor holds at once.
fn active_blocks(entry: &PtxEntry, threads: c_int, dynamic_shared: usize) -> Answer<c_int> {
    let threads = u32::try_from(threads).ok().filter(|n| *n > 0).ok_or(INVALID_VALUE)?;
    if threads > entry.max_threads.unwrap_or(1024) {
        return Ok(0);
    }
    let warps = threads.div_ceil(32);
    let by_threads = 64 / warps;
    let by_registers = 65_536 / (entry.registers.max(1).next_multiple_of(8) * warps * 32).max(1);
    let shared = entry.shared_bytes + dynamic_shared as u64 + 1024;
    let by_shared = u32::try_from(233_472 / shared).unwrap_or(u32::MAX);
    Ok(by_threads.min(by_registers).min(by_shared).min(32) as c_int)
}

/// Occupancy, with flags that change nothing here or without.
macro_rules! occupancy_calls {
    ($($active:ident, $potential:ident($($flags:ty)?);)*) => {$(
        pub fn $active(
            _: Call,
            blocks: Out<c_int>,
            function: CUfunction,
            threads: c_int,
            dynamic_shared: usize
            $(, _: $flags)?
        ) -> Answer {
            let entry = entry_of(function)?;
            blocks.put(active_blocks(&entry, threads, dynamic_shared)?)
        }

        #[allow(clippy::too_many_arguments, reason = "the driver's signature")]
        pub fn $potential(
            _: Call,
            grid: Out<c_int>,
            block: Out<c_int>,
            function: CUfunction,
            shared_of: BlockFunction,
            dynamic_shared: usize,
            limit: c_int
            $(, _: $flags)?
        ) -> Answer {
            let (threads, blocks) = best_block(function, shared_of, dynamic_shared, limit)?;
            block.put(threads)?;
            grid.put(blocks * MULTIPROCESSORS as c_int)
        }
    )*};
}

occupancy_calls! {
    cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxPotentialBlockSize();
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        cuOccupancyMaxPotentialBlockSizeWithFlags(c_uint);
}

fn entry_of(function: CUfunction) -> Answer<Arc<PtxEntry>> {
    let (_, mut state) = begin_free()?;
    let key = function_key(&mut state, function)?;
    Ok(Arc::clone(&state.functions.get(key)?.entry))
}

/// The threads of the block with which most are active on a multiprocessor, and how many such blocks are.
fn best_block(
    function: CUfunction,
    shared_of: BlockFunction,
    dynamic_shared: usize,
    limit: c_int,
) -> Answer<(c_int, c_int)> {
    let entry = entry_of(function)?;
    let most = if limit > 0 { limit.min(1024) } else { 1024 };
    let mut best = (0, 0, 0);
    for threads in (32..=most).rev().step_by(32) {
        let shared = shared_of.call(threads).unwrap_or(dynamic_shared);
        let blocks = active_blocks(&entry, threads, shared)?;
        if blocks * threads > best.0 {
            best = (blocks * threads, threads, blocks);
        }
    }
    Ok((best.1, best.2))
}

pub fn cuOccupancyAvailableDynamicSMemPerBlock(
    _: Call,
    bytes: Out<usize>,
    function: CUfunction,
    blocks: c_int,
    _threads: c_int,
) -> Answer {
    let own = entry_of(function)?.shared_bytes as usize + 1024;
    let blocks = usize::try_from(blocks).ok().filter(|n| *n > 0).ok_or(INVALID_VALUE)?;
    bytes.put((233_472 / blocks).saturating_sub(own).min(232_448))
}
