//! NVML's answers about memory and processes: the same figures as the driver's.
//!
//! Memory is answered as the tenant has it, where it has a limit; process lists and utilisation samples hold the tenant's
//! own processes ([`crate::account::listing`]). The lists of one form each are rows of `around.txt`.

use core::ffi::{c_uint, c_ulonglong};

use divvy_driver_api::nvml_types::{
    nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessDetail_v1_t, nvmlProcessDetailList_t,
    nvmlProcessMode_t, nvmlProcessUtilizationSample_t, nvmlProcessesUtilizationInfo_t,
    nvmlReturn_t,
};
use divvy_policy::answer;

use crate::account::listing::{Ask, INVALID, NO_INSTANCE, SUCCESS, TOO_SMALL, find, keep_own};
use crate::sys::layout::List;
use crate::sys::{Out, OutArray, real};

/// Memory of a device.
pub(crate) fn nvmlDeviceGetMemoryInfo(
    real: real::nvmlDeviceGetMemoryInfo,
    device: nvmlDevice_t,
    memory: Out<'_, nvmlMemory_t>,
) -> nvmlReturn_t {
    let result = real.call(device, memory);
    if result == SUCCESS
        && let Some(card) = memory.get()
        && let Some(story) = story(device, card.free)
    {
        memory.set(nvmlMemory_t {
            total: story.total_bytes,
            free: story.free_bytes,
            used: story.used_bytes,
        });
    }
    result
}

/// Memory of a device as its tenant has it, where that has a limit.
fn story(device: nvmlDevice_t, card_free_bytes: u64) -> Option<answer::Memory> {
    let Ask::Answer(counted) = find(device) else { return None };
    counted.story(card_free_bytes)
}

/// Memory of a device, with what the driver keeps for itself. NVML checks the structure's version.
pub(crate) fn nvmlDeviceGetMemoryInfo_v2(
    real: real::nvmlDeviceGetMemoryInfo_v2,
    device: nvmlDevice_t,
    memory: Out<'_, nvmlMemory_v2_t>,
) -> nvmlReturn_t {
    let result = real.call(device, memory);
    if result == SUCCESS
        && let Some(card) = memory.get()
        && let Some(story) = story(device, card.free)
    {
        memory.set(nvmlMemory_v2_t {
            version: card.version,
            total: story.total_bytes,
            reserved: 0,
            free: story.free_bytes,
            used: story.used_bytes,
        });
    }
    result
}

/// Processes in detail.
pub(crate) fn nvmlDeviceGetRunningProcessDetailList(
    real: real::nvmlDeviceGetRunningProcessDetailList,
    device: nvmlDevice_t,
    list: &List<'_, nvmlProcessDetailList_t>,
) -> nvmlReturn_t {
    let counted = match find(device) {
        Ask::Answer(counted) => counted,
        Ask::Forward => return real.call(device, list),
        Ask::Fail(code) => return code,
    };
    let Some(head) = list.head() else { return INVALID };
    let Some(places) = list.elements() else {
        return nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    };
    let room = places.length();
    let computes = head.mode == nvmlProcessMode_t::NVML_PROCESS_MODE_COMPUTE.0;
    let there = match computes {
        false => 0,
        true => counted.processes(|index, found| {
            let detail = nvmlProcessDetail_v1_t {
                pid: found.pid,
                usedGpuMemory: found.bytes,
                gpuInstanceId: NO_INSTANCE,
                computeInstanceId: NO_INSTANCE,
                usedGpuCcProtectedMemory: 0,
            };
            places.set(index, detail);
        }),
    };
    list.set_count(c_uint::try_from(there).unwrap_or(c_uint::MAX));
    if there > room { TOO_SMALL } else { SUCCESS }
}

/// Utilisation by process.
pub(crate) fn nvmlDeviceGetProcessUtilization(
    real: real::nvmlDeviceGetProcessUtilization,
    device: nvmlDevice_t,
    samples: OutArray<'_, nvmlProcessUtilizationSample_t>,
    count: Out<'_, c_uint>,
    last_seen: c_ulonglong,
) -> nvmlReturn_t {
    let result = real.call(device, samples, count, last_seen);
    if result == SUCCESS
        && !samples.is_null()
        && let Some(all) = count.get()
        && let Ask::Answer(counted) = find(device)
    {
        let kept = keep_own(&counted, samples, all, |sample| sample.pid);
        count.set(kept);
        if kept == 0 {
            return nvmlReturn_t::NVML_ERROR_NOT_FOUND;
        }
    }
    result
}

/// Utilisation by process, with more engines.
pub(crate) fn nvmlDeviceGetProcessesUtilizationInfo(
    real: real::nvmlDeviceGetProcessesUtilizationInfo,
    device: nvmlDevice_t,
    info: &List<'_, nvmlProcessesUtilizationInfo_t>,
) -> nvmlReturn_t {
    let result = real.call(device, info);
    if result == SUCCESS
        && let (Some(head), Some(samples)) = (info.head(), info.elements())
        && !samples.is_null()
        && let Ask::Answer(counted) = find(device)
    {
        let kept = keep_own(&counted, samples, head.processSamplesCount, |sample| sample.pid);
        info.set_count(kept);
        if kept == 0 {
            return nvmlReturn_t::NVML_ERROR_NOT_FOUND;
        }
    }
    result
}
