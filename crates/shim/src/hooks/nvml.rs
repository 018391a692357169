//! NVML's answers about memory and processes: the same figures as the driver's.
//!
//! Memory is answered as the tenant has it, where it has a limit. Process lists hold the tenant's
//! own processes, by their pids in the caller's pid namespace and by what the ledger says they hold;
//! processes of another namespace have no pid here and are left out, as NVML leaves them out in a
//! container. Utilisation samples are NVML's own, of the tenant's processes only. A device is known
//! by its UUID, whatever handle or index it was found by.

use core::ffi::{c_uint, c_ulonglong};

use divvy_driver_api::nvml_types::{
    nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessDetail_v1_t, nvmlProcessDetailList_t,
    nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t, nvmlProcessMode_t,
    nvmlProcessUtilizationSample_t, nvmlProcessesUtilizationInfo_t, nvmlReturn_t,
};
use divvy_page::{DeviceRow, ProcessUse, Tenant};
use divvy_policy::{answer, limit};

use crate::sys::{Out, OutArray, driver, layout, real};
use crate::tenant::device::{DeviceFacts, register};
use crate::tenant::{Membership, membership};

const SUCCESS: nvmlReturn_t = nvmlReturn_t::NVML_SUCCESS;
const TOO_SMALL: nvmlReturn_t = nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE;
const INVALID: nvmlReturn_t = nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT;

/// Processes of one tenant looked at for a list.
const MOST_PROCESSES: usize = 512;

/// No MIG instance.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// A device of NVML's in the tenant's files.
struct Counted {
    tenant: &'static Tenant,
    row: DeviceRow,
    limit_bytes: Option<u64>,
    total_bytes: u64,
}

/// Treatment of a query.
enum Ask {
    /// Answer it.
    Answer(Counted),
    /// NVML answers it.
    Forward,
    /// NVML does not know the device.
    Fail(nvmlReturn_t),
}

fn find(device: nvmlDevice_t) -> Ask {
    let Membership::Member(tenant) = membership() else { return Ask::Forward };
    let mut text = [0_u8; 96];
    let length = match driver::nvml_uuid(device, &mut text) {
        Ok(length) => length,
        Err(code) => return Ask::Fail(code),
    };
    let text = text.get(..length).and_then(|text| str::from_utf8(text).ok());
    let Some(uuid) = text.and_then(limit::parse_uuid) else { return Ask::Forward };
    let Ok(total_bytes) = driver::nvml_usable_bytes(device) else { return Ask::Forward };
    let mut name = [0_u8; 96];
    let length = driver::nvml_name(device, &mut name).unwrap_or(0);
    let name = name.get(..length).unwrap_or(&[]);
    let seen = DeviceFacts { uuid, total_bytes, name, index: || driver::nvml_index(device).ok() };
    match register(tenant, &seen) {
        Some((row, limit_bytes)) => Ask::Answer(Counted { tenant, row, limit_bytes, total_bytes }),
        None => Ask::Forward,
    }
}

impl Counted {
    /// The memory story, where there is a limit.
    fn story(&self, card_free_bytes: u64) -> Option<answer::Memory> {
        self.limit_bytes?;
        let used_bytes = self.tenant.used_bytes(self.row);
        Some(answer::memory(self.limit_bytes, used_bytes, self.total_bytes, card_free_bytes))
    }

    /// Shows the tenant's processes of the caller's pid namespace; how many there are.
    fn processes(&self, mut visit: impl FnMut(usize, ProcessUse)) -> usize {
        let mut uses = [ProcessUse::default(); MOST_PROCESSES];
        let count = self.tenant.processes(self.row, &mut uses);
        let namespace = divvy_page::pid_namespace().unwrap_or(0);
        let mut shown = 0_usize;
        let known = |found: u64| found == namespace || found == 0 || namespace == 0;
        for found in uses.iter().take(count).filter(|found| known(found.pid_namespace)) {
            visit(shown, *found);
            shown = shown.saturating_add(1);
        }
        shown
    }
}

/// Memory of a device.
pub(crate) fn nvmlDeviceGetMemoryInfo(
    real: real::nvmlDeviceGetMemoryInfo,
    device: nvmlDevice_t,
    memory: Out<'_, nvmlMemory_t>,
) -> nvmlReturn_t {
    let result = real.call(device, memory);
    if result == SUCCESS
        && let Some(card) = memory.get()
        && let Ask::Answer(counted) = find(device)
        && let Some(story) = counted.story(card.free)
    {
        memory.set(nvmlMemory_t {
            total: story.total_bytes,
            free: story.free_bytes,
            used: story.used_bytes,
        });
    }
    result
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
        && let Ask::Answer(counted) = find(device)
        && let Some(story) = counted.story(card.free)
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

/// Writes a process list: how many fit stands in `count`, how many there are is written there.
fn list<T: Copy>(
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: OutArray<'_, T>,
    form: fn(ProcessUse) -> T,
    forward: &dyn Fn() -> nvmlReturn_t,
) -> nvmlReturn_t {
    let counted = match find(device) {
        Ask::Answer(counted) => counted,
        Ask::Forward => return forward(),
        Ask::Fail(code) => return code,
    };
    if count.is_null() {
        return INVALID;
    }
    let room = infos.length();
    let there = counted.processes(|index, found| {
        infos.set(index, form(found));
    });
    count.set(c_uint::try_from(there).unwrap_or(c_uint::MAX));
    if there > room { TOO_SMALL } else { SUCCESS }
}

/// An empty list, for what the tenant's processes are not.
fn empty(
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    forward: impl FnOnce() -> nvmlReturn_t,
) -> nvmlReturn_t {
    match find(device) {
        Ask::Answer(_) if count.set(0) => SUCCESS,
        Ask::Answer(_) => INVALID,
        Ask::Forward => forward(),
        Ask::Fail(code) => code,
    }
}

fn form_v1(found: ProcessUse) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t { pid: found.pid, usedGpuMemory: found.bytes }
}

fn form_v2(found: ProcessUse) -> nvmlProcessInfo_v2_t {
    nvmlProcessInfo_v2_t {
        pid: found.pid,
        usedGpuMemory: found.bytes,
        gpuInstanceId: NO_INSTANCE,
        computeInstanceId: NO_INSTANCE,
    }
}

/// Processes that compute.
pub(crate) fn nvmlDeviceGetComputeRunningProcesses(
    real: real::nvmlDeviceGetComputeRunningProcesses,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: OutArray<'_, nvmlProcessInfo_v1_t>,
) -> nvmlReturn_t {
    list(device, count, infos, form_v1, &|| real.call(device, count, infos))
}

/// Processes that compute.
pub(crate) fn nvmlDeviceGetComputeRunningProcesses_v2(
    real: real::nvmlDeviceGetComputeRunningProcesses_v2,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: OutArray<'_, nvmlProcessInfo_v2_t>,
) -> nvmlReturn_t {
    list(device, count, infos, form_v2, &|| real.call(device, count, infos))
}

/// Processes that compute.
pub(crate) fn nvmlDeviceGetComputeRunningProcesses_v3(
    real: real::nvmlDeviceGetComputeRunningProcesses_v3,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: OutArray<'_, nvmlProcessInfo_t>,
) -> nvmlReturn_t {
    list(device, count, infos, form_v2, &|| real.call(device, count, infos))
}

/// Processes that draw: none of the tenant's.
pub(crate) fn nvmlDeviceGetGraphicsRunningProcesses(
    real: real::nvmlDeviceGetGraphicsRunningProcesses,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: Out<'_, nvmlProcessInfo_v1_t>,
) -> nvmlReturn_t {
    empty(device, count, || real.call(device, count, infos))
}

/// Processes that draw: none of the tenant's.
pub(crate) fn nvmlDeviceGetGraphicsRunningProcesses_v2(
    real: real::nvmlDeviceGetGraphicsRunningProcesses_v2,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: Out<'_, nvmlProcessInfo_v2_t>,
) -> nvmlReturn_t {
    empty(device, count, || real.call(device, count, infos))
}

/// Processes that draw: none of the tenant's.
pub(crate) fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    real: real::nvmlDeviceGetGraphicsRunningProcesses_v3,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: Out<'_, nvmlProcessInfo_t>,
) -> nvmlReturn_t {
    empty(device, count, || real.call(device, count, infos))
}

/// Processes that share a server's context: none of the tenant's.
pub(crate) fn nvmlDeviceGetMPSComputeRunningProcesses(
    real: real::nvmlDeviceGetMPSComputeRunningProcesses,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: Out<'_, nvmlProcessInfo_v1_t>,
) -> nvmlReturn_t {
    empty(device, count, || real.call(device, count, infos))
}

/// Processes that share a server's context: none of the tenant's.
pub(crate) fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
    real: real::nvmlDeviceGetMPSComputeRunningProcesses_v2,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: Out<'_, nvmlProcessInfo_v2_t>,
) -> nvmlReturn_t {
    empty(device, count, || real.call(device, count, infos))
}

/// Processes that share a server's context: none of the tenant's.
pub(crate) fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    real: real::nvmlDeviceGetMPSComputeRunningProcesses_v3,
    device: nvmlDevice_t,
    count: Out<'_, c_uint>,
    infos: Out<'_, nvmlProcessInfo_t>,
) -> nvmlReturn_t {
    empty(device, count, || real.call(device, count, infos))
}

/// Processes in detail.
pub(crate) fn nvmlDeviceGetRunningProcessDetailList(
    real: real::nvmlDeviceGetRunningProcessDetailList,
    device: nvmlDevice_t,
    list: Out<'_, nvmlProcessDetailList_t>,
) -> nvmlReturn_t {
    let counted = match find(device) {
        Ask::Answer(counted) => counted,
        Ask::Forward => return real.call(device, list),
        Ask::Fail(code) => return code,
    };
    let Some((mut header, places)) = layout::process_details(list) else { return INVALID };
    let Some(places) = places else {
        return nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    };
    let room = places.length();
    let computes = header.mode == nvmlProcessMode_t::NVML_PROCESS_MODE_COMPUTE.0;
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
    header.numProcArrayEntries = c_uint::try_from(there).unwrap_or(c_uint::MAX);
    list.set(header);
    if there > room { TOO_SMALL } else { SUCCESS }
}

/// Keeps those of the first `count` samples whose process is of the tenant; how many stay.
fn keep_own<T: Copy>(
    counted: &Counted,
    samples: OutArray<'_, T>,
    count: c_uint,
    pid_of: impl Fn(&T) -> c_uint,
) -> c_uint {
    let mut kept = 0_usize;
    for index in 0..usize::try_from(count).unwrap_or(0) {
        let Some(sample) = samples.get(index) else { break };
        let mut is_own = false;
        counted.processes(|_, found| is_own |= found.pid == pid_of(&sample));
        if is_own {
            samples.set(kept, sample);
            kept = kept.saturating_add(1);
        }
    }
    c_uint::try_from(kept).unwrap_or(0)
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
    info: Out<'_, nvmlProcessesUtilizationInfo_t>,
) -> nvmlReturn_t {
    let result = real.call(device, info);
    if result == SUCCESS
        && let Some((mut header, samples)) = layout::utilization_samples(info)
        && !samples.is_null()
        && let Ask::Answer(counted) = find(device)
    {
        let kept = keep_own(&counted, samples, header.processSamplesCount, |sample| sample.pid);
        header.processSamplesCount = kept;
        info.set(header);
        if kept == 0 {
            return nvmlReturn_t::NVML_ERROR_NOT_FOUND;
        }
    }
    result
}
