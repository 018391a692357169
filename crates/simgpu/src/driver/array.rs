//! Arrays and mipmapped arrays.
//!
//! Promises: an array takes what the H200 takes (rows padded to 64 bytes, heights to a power-of-two
//! block of eight, whole granules); its bytes can be copied in and out. A sparse array takes nothing
//! and keeps the memory that is mapped into it; its bytes cannot be reached. Deferred arrays and
//! sparse mipmaps are not simulated.

use core::ffi::c_uint;
use std::collections::BTreeMap;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture::refuse_unsafe;
use super::error::*;
use super::machine::Purpose;
use super::objects::memory::{Array, Mipmap};
use super::space::{GRANULE_BYTES, Kind, Range, round_up};
use super::state::{Begun, begin, begin_free, begin_old};
use super::vmm::memory_of;
use crate::sys::driver::{Answer, Handle, In, InArray, Out};

const SPARSE: c_uint = 0x40;
const DEFERRED: c_uint = 0x80;

fn element_bytes(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Answer<u64> {
    let channel = match descriptor.Format.0 {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => return Err(INVALID_VALUE),
    };
    match descriptor.NumChannels {
        n @ (1 | 2 | 4) => Ok(channel * u64::from(n)),
        _ => Err(INVALID_VALUE),
    }
}

/// Bytes one level takes, padded as the device lays it out.
fn padded(width_bytes: u64, height: u64, depth: u64) -> Option<u64> {
    let width = width_bytes.checked_next_multiple_of(64)?;
    // Rows come in groups of 8; up to 16 groups make a block.
    let groups = height.max(1).div_ceil(8).next_power_of_two().min(16);
    let rows = if height <= 1 { 1 } else { height.checked_next_multiple_of(8 * groups)? };
    width.checked_mul(rows)?.checked_mul(depth.max(1))
}

fn check(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Answer<u64> {
    let limit = if descriptor.Depth > 0 { 16_384 } else { 131_072 };
    if descriptor.Width == 0 || descriptor.Width > limit || descriptor.Height > limit {
        return Err(INVALID_VALUE);
    }
    element_bytes(descriptor)
}

fn create(out: Out<CUarray>, descriptor: CUDA_ARRAY3D_DESCRIPTOR) -> Answer {
    create_in(begin()?, out, descriptor)
}

fn create_in(
    (driver, mut state, context): Begun,
    out: Out<CUarray>,
    descriptor: CUDA_ARRAY3D_DESCRIPTOR,
) -> Answer {
    out.check()?;
    let element = check(&descriptor)?;
    refuse_unsafe(&mut state)?;
    let pitch = descriptor.Width as u64 * element;
    if descriptor.Flags & SPARSE != 0 {
        let tiles = Some(BTreeMap::new());
        let array = Array { context, descriptor, at: 0, pitch, is_level: false, tiles };
        return out.put(CUarray::from_key(state.arrays.insert(array)));
    }
    let (height, depth) = (descriptor.Height as u64, descriptor.Depth as u64);
    let bytes = padded(pitch, height, depth).ok_or(OUT_OF_MEMORY)?;
    let device = state.context(context)?.device;
    let index = state.device(device)?.machine_index;
    let range = Range::new(0, round_up(bytes, GRANULE_BYTES)?, Kind::Array, context, device);
    let take = |bytes| driver.machine.allocate(index, bytes, Purpose::Data);
    let at = state.space.place(range, take)?;
    let key =
        state.arrays.insert(Array { context, descriptor, at, pitch, is_level: false, tiles: None });
    out.put(CUarray::from_key(key))
}

fn flat(
    width: usize,
    height: usize,
    format: CUarray_format,
    channels: c_uint,
) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: 0,
        Format: format,
        NumChannels: channels,
        Flags: 0,
    }
}

pub fn cuArrayCreate_v2(_: Call, out: Out<CUarray>, wanted: In<CUDA_ARRAY_DESCRIPTOR>) -> Answer {
    let wanted = wanted.get()?;
    create(out, flat(wanted.Width, wanted.Height, wanted.Format, wanted.NumChannels))
}

pub fn cuArrayCreate(_: Call, out: Out<CUarray>, wanted: In<CUDA_ARRAY_DESCRIPTOR_v1>) -> Answer {
    let wanted = wanted.get()?;
    let (width, height) = (wanted.Width as usize, wanted.Height as usize);
    create_in(begin_old()?, out, flat(width, height, wanted.Format, wanted.NumChannels))
}

pub fn cuArray3DCreate_v2(
    _: Call,
    out: Out<CUarray>,
    wanted: In<CUDA_ARRAY3D_DESCRIPTOR>,
) -> Answer {
    let wanted = wanted.get()?;
    if wanted.Flags & DEFERRED != 0 {
        return Err(NOT_SUPPORTED);
    }
    create(out, wanted)
}

pub fn cuArray3DCreate(
    _: Call,
    out: Out<CUarray>,
    wanted: In<CUDA_ARRAY3D_DESCRIPTOR_v1>,
) -> Answer {
    let wanted = wanted.get()?;
    create_in(
        begin_old()?,
        out,
        CUDA_ARRAY3D_DESCRIPTOR {
            Depth: wanted.Depth as usize,
            Flags: wanted.Flags,
            ..flat(wanted.Width as usize, wanted.Height as usize, wanted.Format, wanted.NumChannels)
        },
    )
}

pub fn cuArrayDestroy(_: Call, array: CUarray) -> Answer {
    let (driver, state) = begin_free()?;
    let found = state.arrays.of(array)?;
    if found.is_level {
        return Err(INVALID_HANDLE);
    }
    let context = found.context;
    drop(state);
    super::worker::drain_context(driver, context);
    let mut state = driver.lock();
    let gone = state.arrays.remove(array.key())?;
    if gone.tiles.is_some() { Ok(()) } else { state.space.remove(gone.at).map(|_| ()) }
}

/// Maps memory into sparse arrays, and out of them, at once.
pub fn cuMemMapArrayAsync(
    _: Call,
    list: InArray<CUarrayMapInfo>,
    _: c_uint,
    _: CUstream,
) -> Answer {
    let (_, mut state, _) = begin()?;
    for wanted in list.given()? {
        let (array, place, handle) = wanted.sparse_place().ok_or(NOT_SUPPORTED)?;
        let block = match wanted.memOperationType {
            CUmemOperationType::CU_MEM_OPERATION_TYPE_MAP => Some(memory_of(&mut state, handle)?.0),
            _ => None,
        };
        let tiles = state.arrays.of_mut(array)?.tiles.as_mut().ok_or(INVALID_VALUE)?;
        match block {
            Some(block) => tiles.insert(place, block),
            None => tiles.remove(&place),
        };
    }
    Ok(())
}

pub fn cuArrayGetDescriptor_v2(_: Call, out: Out<CUDA_ARRAY_DESCRIPTOR>, array: CUarray) -> Answer {
    let (_, state) = begin_free()?;
    let found = state.arrays.of(array)?.descriptor;
    out.put(CUDA_ARRAY_DESCRIPTOR {
        Width: found.Width,
        Height: found.Height,
        Format: found.Format,
        NumChannels: found.NumChannels,
    })
}

pub fn cuArrayGetDescriptor(_: Call, out: Out<CUDA_ARRAY_DESCRIPTOR_v1>, array: CUarray) -> Answer {
    let (_, state) = begin_free()?;
    let found = state.arrays.of(array)?.descriptor;
    out.put(CUDA_ARRAY_DESCRIPTOR_v1 {
        Width: found.Width as c_uint,
        Height: found.Height as c_uint,
        Format: found.Format,
        NumChannels: found.NumChannels,
    })
}

pub fn cuArray3DGetDescriptor_v2(
    _: Call,
    out: Out<CUDA_ARRAY3D_DESCRIPTOR>,
    array: CUarray,
) -> Answer {
    let (_, state) = begin_free()?;
    out.put(state.arrays.of(array)?.descriptor)
}

pub fn cuArray3DGetDescriptor(
    _: Call,
    out: Out<CUDA_ARRAY3D_DESCRIPTOR_v1>,
    array: CUarray,
) -> Answer {
    let (_, state) = begin_free()?;
    let found = state.arrays.of(array)?.descriptor;
    out.put(CUDA_ARRAY3D_DESCRIPTOR_v1 {
        Width: found.Width as c_uint,
        Height: found.Height as c_uint,
        Depth: found.Depth as c_uint,
        Format: found.Format,
        NumChannels: found.NumChannels,
        Flags: found.Flags,
    })
}

/// Only arrays and mipmaps with deferred mapping have requirements.
macro_rules! requirements {
    ($($name:ident: $handle:ty = $table:ident;)*) => {$(
        pub fn $name(
            _: Call,
            _: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>,
            handle: $handle,
            _: CUdevice,
        ) -> Answer {
            let (_, state) = begin_free()?;
            state.$table.of(handle)?;
            Err(INVALID_VALUE)
        }
    )*};
}

requirements! {
    cuArrayGetMemoryRequirements: CUarray = arrays;
    cuMipmappedArrayGetMemoryRequirements: CUmipmappedArray = mipmaps;
}

pub fn cuMipmappedArrayCreate(
    _: Call,
    out: Out<CUmipmappedArray>,
    wanted: In<CUDA_ARRAY3D_DESCRIPTOR>,
    levels: c_uint,
) -> Answer {
    let (driver, mut state, context) = begin()?;
    out.check()?;
    let wanted = wanted.get()?;
    let element = check(&wanted)?;
    if wanted.Flags & (SPARSE | DEFERRED) != 0 {
        return Err(NOT_SUPPORTED);
    }
    refuse_unsafe(&mut state)?;
    let longest = wanted.Width.max(wanted.Height).max(wanted.Depth);
    let levels = levels.clamp(1, longest.ilog2() + 1);
    let (mut offset, mut parts) = (0_u64, Vec::new());
    for level in 0..levels {
        let part = |size: usize| if size == 0 { 0 } else { (size >> level).max(1) };
        let descriptor = CUDA_ARRAY3D_DESCRIPTOR {
            Width: part(wanted.Width),
            Height: part(wanted.Height),
            Depth: part(wanted.Depth),
            ..wanted
        };
        let pitch = descriptor.Width as u64 * element;
        parts.push((offset, descriptor, pitch));
        let bytes = padded(pitch, descriptor.Height as u64, descriptor.Depth as u64);
        offset = offset.checked_add(bytes.ok_or(OUT_OF_MEMORY)?).ok_or(OUT_OF_MEMORY)?;
        offset = round_up(offset, 512)?;
    }
    let device = state.context(context)?.device;
    let index = state.device(device)?.machine_index;
    let range = Range::new(0, round_up(offset, GRANULE_BYTES)?, Kind::Array, context, device);
    let take = |bytes| driver.machine.allocate(index, bytes, Purpose::Data);
    let at = state.space.place(range, take)?;
    let make = |(offset, descriptor, pitch)| Array {
        context,
        descriptor,
        at: at + offset,
        pitch,
        is_level: true,
        tiles: None,
    };
    let levels = parts.into_iter().map(|part| state.arrays.insert(make(part))).collect();
    let key = state.mipmaps.insert(Mipmap { context, at, levels });
    out.put(CUmipmappedArray::from_key(key))
}

pub fn cuMipmappedArrayDestroy(_: Call, mipmap: CUmipmappedArray) -> Answer {
    let (driver, state) = begin_free()?;
    let context = state.mipmaps.of(mipmap)?.context;
    drop(state);
    super::worker::drain_context(driver, context);
    let mut state = driver.lock();
    let gone = state.mipmaps.remove(mipmap.key())?;
    for level in gone.levels {
        let _ = state.arrays.remove(level);
    }
    state.space.remove(gone.at).map(|_| ())
}

pub fn cuMipmappedArrayGetLevel(
    _: Call,
    out: Out<CUarray>,
    mipmap: CUmipmappedArray,
    level: c_uint,
) -> Answer {
    let (_, state) = begin_free()?;
    let levels = &state.mipmaps.of(mipmap)?.levels;
    out.put(CUarray::from_key(*levels.get(level as usize).ok_or(INVALID_VALUE)?))
}
