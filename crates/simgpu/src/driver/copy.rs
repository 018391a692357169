//! Copies: every shape and direction, at once and in stream order.
//!
//! Promises: a copy in the default stream is in order with it; one from the device to the program
//! has finished when the call returns; an address the driver does not know is program memory unless
//! it lies where only device memory can, which is an invalid value.

use core::ffi::c_uint;
use std::sync::MutexGuard;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::objects::task::{CopyShape, Rows, Task};
use super::space::Space;
use super::state::{DriverState, State, driver, is_null};
use super::stream::resolved;
use super::submit::{enqueue, run_now};
use crate::sys::driver::{Address, Answer, Handle, In, InArray, Out};

pub(crate) fn default_stream() -> CUstream {
    CUstream::from_key(0)
}

/// Whether the driver can reach an address at all.
fn known(state: &State, at: u64, bytes: u64) -> Answer {
    if at == 0 && bytes > 0 {
        return Err(INVALID_VALUE);
    }
    if is_null() {
        return Ok(());
    }
    match state.space.find(at) {
        None if state.is_graph_memory(at) => Ok(()),
        None if Space::is_device_address(at) => Err(INVALID_VALUE),
        Some(range)
            if range.device >= 0
                && range.chunks.is_empty()
                && range.kind != super::space::Kind::Mapped =>
        {
            let fits = at.checked_add(bytes).is_some_and(|end| end <= range.end());
            if fits { Ok(()) } else { Err(INVALID_VALUE) }
        }
        _ => Ok(()),
    }
}

/// The device side of a directed copy must be memory the driver knows.
fn device(state: &State, at: u64, bytes: u64) -> Answer {
    if bytes > 0 && !is_null() && state.space.find(at).is_none() && !state.is_graph_memory(at) {
        return Err(INVALID_VALUE);
    }
    known(state, at, bytes)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sides {
    /// To device, from device.
    Both,
    ToDevice,
    FromDevice,
    /// By address alone.
    Any,
}

/// The stream of a copy, once no call lets memory go.
fn begun(
    call: Call,
    stream: Option<CUstream>,
) -> Answer<(&'static DriverState, MutexGuard<'static, State>, u64)> {
    driver()?.await_letting_go();
    resolved(call, stream.unwrap_or_else(default_stream))
}

/// Queues a linear copy, and waits unless it is asynchronous.
fn linear(
    call: Call,
    to: u64,
    from: u64,
    bytes: u64,
    sides: Sides,
    stream: Option<CUstream>,
) -> Answer {
    let (driver, mut state, key) = begun(call, stream)?;
    if bytes > 0 {
        match sides {
            Sides::Both => device(&state, to, bytes).and_then(|()| device(&state, from, bytes))?,
            Sides::ToDevice => {
                device(&state, to, bytes).and_then(|()| known(&state, from, bytes))?
            }
            Sides::FromDevice => {
                known(&state, to, bytes).and_then(|()| device(&state, from, bytes))?
            }
            Sides::Any => known(&state, to, bytes).and_then(|()| known(&state, from, bytes))?,
        }
    }
    let task = Task::copy(to, from, bytes);
    // A pageable source is read before the call returns, as the driver stages it.
    let staged = sides == Sides::ToDevice
        && state.space.find(from).is_none()
        && state.streams.get(key)?.capture == 0;
    if stream.is_none() || staged {
        run_now(driver, state, key, task)
    } else {
        enqueue(driver, &mut state, key, task)
    }
}

/// The stream that a call names, if its signature has one.
macro_rules! named {
    () => {
        None
    };
    ($stream:ident) => {
        Some($stream)
    };
}
pub(crate) use named;

macro_rules! linear_calls {
    ($($name:ident: $to:ty, $from:ty, $size:ty, $sides:ident $(, $stream:ident)?;)*) => {$(
        pub fn $name(
            call: Call, to: $to, from: $from, bytes: $size $(, $stream: CUstream)?
        ) -> Answer {
            linear(call, to.at(), from.at(), bytes as u64, Sides::$sides, named!($($stream)?))
        }
    )*};
}

/// Addresses in every form calls use.
trait At {
    fn at(self) -> u64;
}
impl At for u64 {
    fn at(self) -> u64 {
        self
    }
}
impl At for u32 {
    fn at(self) -> u64 {
        u64::from(self)
    }
}
impl At for Address {
    fn at(self) -> u64 {
        self.0 as u64
    }
}

linear_calls! {
    cuMemcpy: CUdeviceptr, CUdeviceptr, usize, Any;
    cuMemcpyHtoD: CUdeviceptr_v1, Address, c_uint, ToDevice;
    cuMemcpyHtoD_v2: CUdeviceptr, Address, usize, ToDevice;
    cuMemcpyDtoH: Address, CUdeviceptr_v1, c_uint, FromDevice;
    cuMemcpyDtoH_v2: Address, CUdeviceptr, usize, FromDevice;
    cuMemcpyDtoD: CUdeviceptr_v1, CUdeviceptr_v1, c_uint, Both;
    cuMemcpyDtoD_v2: CUdeviceptr, CUdeviceptr, usize, Both;
    cuMemcpyAsync: CUdeviceptr, CUdeviceptr, usize, Any, stream;
    cuMemcpyHtoDAsync: CUdeviceptr_v1, Address, c_uint, ToDevice, stream;
    cuMemcpyHtoDAsync_v2: CUdeviceptr, Address, usize, ToDevice, stream;
    cuMemcpyDtoHAsync: Address, CUdeviceptr_v1, c_uint, FromDevice, stream;
    cuMemcpyDtoHAsync_v2: Address, CUdeviceptr, usize, FromDevice, stream;
    cuMemcpyDtoDAsync: CUdeviceptr_v1, CUdeviceptr_v1, c_uint, Both, stream;
    cuMemcpyDtoDAsync_v2: CUdeviceptr, CUdeviceptr, usize, Both, stream;
}

macro_rules! peer_calls {
    ($($name:ident$(($stream:ident))?;)*) => {$(
        pub fn $name(
            call: Call,
            to: CUdeviceptr,
            _: CUcontext,
            from: CUdeviceptr,
            _: CUcontext,
            bytes: usize
            $(, $stream: CUstream)?
        ) -> Answer {
            linear(call, to, from, bytes as u64, Sides::Both, named!($($stream)?))
        }
    )*};
}

peer_calls! {
    cuMemcpyPeer;
    cuMemcpyPeerAsync(stream);
}

#[expect(clippy::too_many_arguments, reason = "the driver's signature")]
pub fn cuMemcpyBatchAsync_v2(
    call: Call,
    to: InArray<CUdeviceptr>,
    from: InArray<CUdeviceptr>,
    sizes: InArray<usize>,
    count: usize,
    _: In<CUmemcpyAttributes>,
    _: In<usize>,
    _: usize,
    stream: CUstream,
) -> Answer {
    if stream.key() == 0 {
        return Err(INVALID_VALUE);
    }
    for index in 0..count {
        let bytes = sizes.get(index)? as u64;
        linear(call, to.get(index)?, from.get(index)?, bytes, Sides::Any, Some(stream))?;
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the driver's signature")]
pub fn cuMemcpyBatchAsync(
    call: Call,
    to: InArray<CUdeviceptr>,
    from: InArray<CUdeviceptr>,
    sizes: InArray<usize>,
    count: usize,
    attributes: In<CUmemcpyAttributes>,
    indices: In<usize>,
    attribute_count: usize,
    failed: Out<usize>,
    stream: CUstream,
) -> Answer {
    failed.offer(usize::MAX);
    cuMemcpyBatchAsync_v2(
        call,
        to,
        from,
        sizes,
        count,
        attributes,
        indices,
        attribute_count,
        stream,
    )
}

// ---- arrays ----

fn in_array(state: &State, array: CUarray, offset: u64, bytes: u64) -> Answer<u64> {
    let found = state.arrays.of(array)?;
    let rows = found.descriptor.Height.max(1) as u64 * found.descriptor.Depth.max(1) as u64;
    let inside = offset.checked_add(bytes).is_some_and(|end| end <= found.pitch * rows);
    if inside { Ok(found.at + offset) } else { Err(INVALID_VALUE) }
}

enum End {
    At(u64),
    Array(CUarray, u64),
}

fn to_or_from_array(
    call: Call,
    to: End,
    from: End,
    bytes: u64,
    stream: Option<CUstream>,
) -> Answer {
    go(call, stream, |state| {
        let place = |end: &End| match end {
            End::At(at) => known(state, *at, bytes).map(|()| *at),
            End::Array(array, offset) => in_array(state, *array, *offset, bytes),
        };
        Ok(Task::copy(place(&to)?, place(&from)?, bytes))
    })
}

macro_rules! array_calls {
    ($(
        $name:ident($($arg:ident: $ty:ty),*; $bytes:ident: $size:ty $(, $stream:ident)?)
            $to:expr, $from:expr;
    )*) => {$(
        pub fn $name(
            call: Call, $($arg: $ty,)* $bytes: $size $(, $stream: CUstream)?
        ) -> Answer {
            to_or_from_array(call, $to, $from, $bytes as u64, named!($($stream)?))
        }
    )*};
}

array_calls! {
    cuMemcpyDtoA(to: CUarray, offset: c_uint, from: CUdeviceptr_v1; bytes: c_uint)
        End::Array(to, u64::from(offset)), End::At(from.at());
    cuMemcpyDtoA_v2(to: CUarray, offset: usize, from: CUdeviceptr; bytes: usize)
        End::Array(to, offset as u64), End::At(from);
    cuMemcpyAtoD(to: CUdeviceptr_v1, from: CUarray, offset: c_uint; bytes: c_uint)
        End::At(to.at()), End::Array(from, u64::from(offset));
    cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, offset: usize; bytes: usize)
        End::At(to), End::Array(from, offset as u64);
    cuMemcpyHtoA(to: CUarray, offset: c_uint, from: Address; bytes: c_uint)
        End::Array(to, u64::from(offset)), End::At(from.at());
    cuMemcpyHtoA_v2(to: CUarray, offset: usize, from: Address; bytes: usize)
        End::Array(to, offset as u64), End::At(from.at());
    cuMemcpyAtoH(to: Address, from: CUarray, offset: c_uint; bytes: c_uint)
        End::At(to.at()), End::Array(from, u64::from(offset));
    cuMemcpyAtoH_v2(to: Address, from: CUarray, offset: usize; bytes: usize)
        End::At(to.at()), End::Array(from, offset as u64);
    cuMemcpyAtoA(to: CUarray, to_offset: c_uint, from: CUarray, from_offset: c_uint; bytes: c_uint)
        End::Array(to, u64::from(to_offset)), End::Array(from, u64::from(from_offset));
    cuMemcpyAtoA_v2(to: CUarray, to_offset: usize, from: CUarray, from_offset: usize; bytes: usize)
        End::Array(to, to_offset as u64), End::Array(from, from_offset as u64);
    cuMemcpyHtoAAsync(to: CUarray, offset: c_uint, from: Address; bytes: c_uint, stream)
        End::Array(to, u64::from(offset)), End::At(from.at());
    cuMemcpyHtoAAsync_v2(to: CUarray, offset: usize, from: Address; bytes: usize, stream)
        End::Array(to, offset as u64), End::At(from.at());
    cuMemcpyAtoHAsync(to: Address, from: CUarray, offset: c_uint; bytes: c_uint, stream)
        End::At(to.at()), End::Array(from, u64::from(offset));
    cuMemcpyAtoHAsync_v2(to: Address, from: CUarray, offset: usize; bytes: usize, stream)
        End::At(to.at()), End::Array(from, offset as u64);
}

// ---- 2D and 3D ----

/// One side of a shaped copy, however it is given.
struct Side {
    kind: u32,
    x: u64,
    y: u64,
    z: u64,
    host: u64,
    device: u64,
    array: CUarray,
    pitch: u64,
    height: u64,
}

fn rows(state: &State, side: &Side, width: u64, height: u64) -> Answer<Rows> {
    let (base, pitch, slice) = match side.kind {
        3 => {
            let array = state.arrays.of(side.array)?;
            let rows = array.descriptor.Height.max(1) as u64;
            if side.x + width > array.pitch || side.y + height > rows {
                return Err(INVALID_VALUE);
            }
            (array.at, array.pitch, array.pitch * rows)
        }
        kind @ (1 | 2 | 4) => {
            let base = if kind == 1 { side.host } else { side.device };
            let pitch = if side.pitch == 0 { side.x + width } else { side.pitch };
            if pitch < side.x + width {
                return Err(INVALID_VALUE);
            }
            let tall = if side.height == 0 { side.y + height } else { side.height };
            (base, pitch, pitch * tall)
        }
        _ => return Err(INVALID_VALUE),
    };
    let at = base + side.x + side.y * pitch + side.z * slice;
    if side.kind != 3 {
        known(state, at, width)?;
    }
    Ok(Rows { at, pitch, slice })
}

/// The task of a shaped copy.
fn shaped(
    state: &State,
    to: &Side,
    from: &Side,
    width: u64,
    height: u64,
    depth: u64,
) -> Answer<Task> {
    if width == 0 || height == 0 || depth == 0 {
        return Ok(Task::Empty);
    }
    let to = rows(state, to, width, height)?;
    let from = rows(state, from, width, height)?;
    Ok(Task::Copy(CopyShape { to, from, width, height, depth }))
}

/// A side of a copy's structure, by its members' names.
macro_rules! side {
    ($c:ident: $kind:ident $x:ident $y:ident $host:ident $device:ident $array:ident $pitch:ident,
        z: $z:expr, height: $height:expr) => {
        Side {
            kind: $c.$kind.0,
            x: $c.$x as u64,
            y: $c.$y as u64,
            z: $z as u64,
            host: $c.$host.addr() as u64,
            device: u64::from($c.$device),
            array: $c.$array,
            pitch: $c.$pitch as u64,
            height: $height as u64,
        }
    };
}
/// Destination and source of a structure that is given the third dimension of both.
macro_rules! sides {
    ($c:ident, $to_z:expr, $to_height:expr, $from_z:expr, $from_height:expr) => {
        (
            side!($c: dstMemoryType dstXInBytes dstY dstHost dstDevice dstArray dstPitch,
                z: $to_z, height: $to_height),
            side!($c: srcMemoryType srcXInBytes srcY srcHost srcDevice srcArray srcPitch,
                z: $from_z, height: $from_height),
        )
    };
}
macro_rules! sides_3d {
    ($c:ident) => {
        sides!($c, $c.dstZ, $c.dstHeight, $c.srcZ, $c.srcHeight)
    };
}
macro_rules! sides_2d {
    ($c:ident) => {
        sides!($c, 0, 0, 0, 0)
    };
}

/// The task of a three-dimensional copy, also for graphs.
pub(crate) fn task_3d(state: &State, copy: &CUDA_MEMCPY3D) -> Answer<Task> {
    let (to, from) = sides_3d!(copy);
    shaped(state, &to, &from, copy.WidthInBytes as u64, copy.Height as u64, copy.Depth as u64)
}

fn go(call: Call, stream: Option<CUstream>, make: impl FnOnce(&State) -> Answer<Task>) -> Answer {
    let (driver, mut state, key) = begun(call, stream)?;
    let task = make(&state)?;
    if stream.is_none() {
        run_now(driver, state, key, task)
    } else {
        enqueue(driver, &mut state, key, task)
    }
}

macro_rules! shaped_calls {
    ($($name:ident: $ty:ty, $sides:ident, $depth:expr $(, $stream:ident)?;)*) => {$(
        pub fn $name(call: Call, copy: In<$ty> $(, $stream: CUstream)?) -> Answer {
            let copy = copy.get()?;
            let (to, from) = $sides!(copy);
            let depth: fn(&$ty) -> u64 = $depth;
            let (width, height) = (copy.WidthInBytes as u64, copy.Height as u64);
            let stream = named!($($stream)?);
            go(call, stream, |state| shaped(state, &to, &from, width, height, depth(&copy)))
        }
    )*};
}

shaped_calls! {
    cuMemcpy2D: CUDA_MEMCPY2D_v1, sides_2d, |_| 1;
    cuMemcpy2D_v2: CUDA_MEMCPY2D, sides_2d, |_| 1;
    cuMemcpy2DUnaligned: CUDA_MEMCPY2D_v1, sides_2d, |_| 1;
    cuMemcpy2DUnaligned_v2: CUDA_MEMCPY2D, sides_2d, |_| 1;
    cuMemcpy3D: CUDA_MEMCPY3D_v1, sides_3d, |copy| u64::from(copy.Depth);
    cuMemcpy3D_v2: CUDA_MEMCPY3D, sides_3d, |copy| copy.Depth as u64;
    cuMemcpy3DPeer: CUDA_MEMCPY3D_PEER, sides_3d, |copy| copy.Depth as u64;
    cuMemcpy2DAsync: CUDA_MEMCPY2D_v1, sides_2d, |_| 1, stream;
    cuMemcpy2DAsync_v2: CUDA_MEMCPY2D, sides_2d, |_| 1, stream;
    cuMemcpy3DAsync: CUDA_MEMCPY3D_v1, sides_3d, |copy| u64::from(copy.Depth), stream;
    cuMemcpy3DAsync_v2: CUDA_MEMCPY3D, sides_3d, |copy| copy.Depth as u64, stream;
    cuMemcpy3DPeerAsync: CUDA_MEMCPY3D_PEER, sides_3d, |copy| copy.Depth as u64, stream;
}
