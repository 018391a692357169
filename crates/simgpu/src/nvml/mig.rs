//! NVML calls about partitions (MIG). Instances are devices of the machine behind the cards; their handles are like a card's.

use super::failure::{Answer, Failure};
use super::library::{Handle, Library, handle_of};
use crate::partition::{Partition, SLICES, multiprocessors};
use crate::sys::driver::Out;
use divvy_driver_api::nvml_types::*;
use std::ffi::c_uint;

const MIB: u64 = 1 << 20;

/// The mode of a card now and after a reset; an instance has none.
pub(super) fn mode(
    library: &Library,
    device: nvmlDevice_t,
    current: Out<c_uint>,
    pending: Out<c_uint>,
) -> Answer {
    library.device(device, |handle| {
        pending.check()?;
        let mode = match handle.device.partition {
            Partition::Whole => 0,
            Partition::Parted => 1,
            Partition::Instance { .. } => return Err(Failure::INVALID_ARGUMENT),
        };
        current.put(mode)?;
        Ok(pending.put(mode)?)
    })
}

/// The index of a card; of an instance, its place on the card.
pub(super) fn index(handle: &Handle<'_>, out: Out<c_uint>) -> Answer {
    let index = match handle.device.partition {
        Partition::Instance { number, .. } => number,
        _ => handle.index,
    };
    Ok(out.put(index)?)
}

/// How many instances a card can have; none where MIG is off.
pub(super) fn most_instances(handle: &Handle<'_>, out: Out<c_uint>) -> Answer {
    let is_parted = handle.device.partition == Partition::Parted;
    Ok(out.put(if is_parted { SLICES } else { 0 })?)
}

pub(super) fn is_instance(handle: &Handle<'_>, out: Out<c_uint>) -> Answer {
    let is_one = matches!(handle.device.partition, Partition::Instance { .. });
    Ok(out.put(u32::from(is_one))?)
}

/// The handle of the card's instance at this place.
pub(super) fn by_index(
    library: &Library,
    device: nvmlDevice_t,
    index: c_uint,
    out: Out<nvmlDevice_t>,
) -> Answer {
    library.device(device, |handle| {
        if handle.device.partition != Partition::Parted {
            return Err(Failure::NOT_SUPPORTED);
        }
        let is_it = |partition| {
            matches!(partition, Partition::Instance { card, number, .. }
                if card == handle.index && number == index)
        };
        let found = (0..).zip(handle.client.devices()).find(|(_, device)| is_it(device.partition));
        let (instance, _) = found.ok_or(Failure::NOT_FOUND)?;
        Ok(out.put(handle_of(instance))?)
    })
}

/// The card of an instance.
pub(super) fn parent(handle: &Handle<'_>, out: Out<nvmlDevice_t>) -> Answer {
    match handle.device.partition {
        Partition::Instance { card, .. } => Ok(out.put(handle_of(card))?),
        _ => Err(Failure::INVALID_ARGUMENT),
    }
}

/// The GPU instance of an instance. NVML's numbers begin anywhere; these are places, from 1 on.
pub(super) fn gpu_instance(handle: &Handle<'_>, out: Out<c_uint>) -> Answer {
    match handle.device.partition {
        Partition::Instance { number, .. } => Ok(out.put(number + 1)?),
        _ => Err(Failure::NOT_SUPPORTED),
    }
}

/// Its compute instance, which is the only one.
pub(super) fn compute_instance(handle: &Handle<'_>, out: Out<c_uint>) -> Answer {
    match handle.device.partition {
        Partition::Instance { .. } => Ok(out.put(0)?),
        _ => Err(Failure::NOT_SUPPORTED),
    }
}

pub(super) fn attributes(handle: &Handle<'_>, out: Out<nvmlDeviceAttributes_t>) -> Answer {
    let Partition::Instance { slices, .. } = handle.device.partition else {
        return Err(Failure::NOT_SUPPORTED);
    };
    let attributes = nvmlDeviceAttributes_t {
        multiprocessorCount: multiprocessors(slices).unwrap_or(0),
        sharedCopyEngineCount: slices,
        sharedDecoderCount: slices,
        sharedEncoderCount: 0,
        sharedJpegCount: slices,
        sharedOfaCount: 0,
        gpuInstanceSliceCount: slices,
        computeInstanceSliceCount: slices,
        memorySizeMB: handle.device.nvml_total_bytes / MIB,
    };
    Ok(out.put(attributes)?)
}
