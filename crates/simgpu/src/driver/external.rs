//! Memory of other drivers' objects.
//!
//! Promises: external memory is what a descriptor of this machine's memory leads to (as exported by
//! VMM), mapped buffer by buffer; it lives while the object or a buffer of it lives. Descriptors of
//! other origins, and semaphores, are not simulated.

use std::os::fd::AsFd;
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::objects::memory::External;
use super::space::{GRANULE_BYTES, Kind, Range, round_up};
use super::state::{begin, begin_free};
use crate::sys::driver::{Answer, Handle, In, Out};
use crate::sys::driver_given::ExternalMemory;

pub fn cuImportExternalMemory(
    _: Call,
    out: Out<CUexternalMemory>,
    wanted: ExternalMemory,
) -> Answer {
    let (driver, mut state, context) = begin()?;
    out.check()?;
    let (wanted, descriptor) = wanted.read()?;
    let file = descriptor.duplicate().map_err(|_| INVALID_VALUE)?;
    let block = driver.machine.import(file.as_fd())?;
    if wanted.size == 0 || wanted.size > block.bytes() {
        return Err(INVALID_VALUE);
    }
    // The descriptor is the driver's from here on.
    drop(descriptor.take());
    let key = state.externals.insert(External { block, bytes: wanted.size, context });
    out.put(CUexternalMemory::from_key(key))
}

pub fn cuExternalMemoryGetMappedBuffer(
    _: Call,
    out: Out<CUdeviceptr>,
    memory: CUexternalMemory,
    wanted: In<CUDA_EXTERNAL_MEMORY_BUFFER_DESC>,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    let wanted = wanted.get()?;
    let found = state.externals.of(memory)?;
    let fits = wanted.offset.checked_add(wanted.size).is_some_and(|end| end <= found.bytes);
    if wanted.flags != 0 || wanted.size == 0 || !fits {
        return Err(INVALID_VALUE);
    }
    let (block, context) = (Arc::clone(&found.block), found.context);
    let device = state.context(context)?.device;
    let reserved = round_up(wanted.size, GRANULE_BYTES)?;
    let base = state.space.reserve(reserved, 0, 0)?;
    let mut range = Range::new(base, wanted.size, Kind::Device, context, device);
    (range.block, range.offset, range.reserved_bytes) = (Some(block), wanted.offset, reserved);
    out.put(state.space.add(range))
}

pub fn cuDestroyExternalMemory(_: Call, memory: CUexternalMemory) -> Answer {
    let (_, mut state) = begin_free()?;
    state.externals.remove(memory.key()).map(|_| ())
}
