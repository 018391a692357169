//! NVML calls about processes: who has memory of a device, and who kept it busy.

use super::device::{asked, version_of};
use super::failure::{Answer, Failure};
use super::library::{Handle, Library};
use crate::calibration::PROCESS_UTILISATION_ROOM;
use crate::sys::driver::{Out, OutArray};
use crate::wire::{WireProcess, WireSample};
use divvy_driver_api::nvml_types::*;
use std::ffi::{c_uint, c_ulonglong};

/// No instance: the device is not partitioned.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// A row of a process list, in whatever version.
pub(super) trait Row: Copy {
    fn new(pid: u32, bytes: u64) -> Self;
}

impl Row for nvmlProcessInfo_v1_t {
    fn new(pid: u32, bytes: u64) -> Self {
        Self { pid, usedGpuMemory: bytes }
    }
}

impl Row for nvmlProcessInfo_v2_t {
    fn new(pid: u32, bytes: u64) -> Self {
        Self {
            pid,
            usedGpuMemory: bytes,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        }
    }
}

/// The lists of processes, by the number the detail list's mode has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Compute = 0,
    Graphics = 1,
    Mps = 2,
}

/// The processes with a context that are of one role.
fn of_role(handle: &Handle<'_>, role: u32) -> Answer<Vec<WireProcess>> {
    let mut processes = handle.client.processes(handle.index)?;
    processes.retain(|process| process.contexts > 0 && u32::from(process.role) == role);
    Ok(processes)
}

/// The processes with a context, as `nvmlDeviceGetComputeRunningProcesses` and its like list them.
pub(super) fn list<R: Row>(
    library: &Library,
    role: Role,
    device: nvmlDevice_t,
    count: Out<c_uint>,
    rows: OutArray<R>,
) -> Answer {
    library.device(device, |handle| {
        let room = count.get()?;
        let processes = of_role(handle, role as u32)?;
        let found = u32::try_from(processes.len()).map_err(|_| Failure::UNKNOWN)?;
        count.put(found)?;
        if found > room {
            return Err(Failure::INSUFFICIENT_SIZE);
        }
        for (index, process) in processes.iter().enumerate() {
            rows.put(index, R::new(process.pid, process.bytes))?;
        }
        Ok(())
    })
}

/// `nvmlDeviceGetRunningProcessDetailList`.
pub(super) fn details(handle: &Handle<'_>, out: Out<nvmlProcessDetailList_t>) -> Answer {
    let asked = asked!(out, nvmlProcessDetailList_t, 1);
    let mut list = *asked;
    if list.mode > Role::Mps as u32 {
        return Err(Failure::INVALID_ARGUMENT);
    }
    let processes = of_role(handle, list.mode)?;
    let room = list.numProcArrayEntries as usize;
    list.numProcArrayEntries = u32::try_from(processes.len()).map_err(|_| Failure::UNKNOWN)?;
    out.put(list)?;
    if processes.len() > room {
        return Err(Failure::INSUFFICIENT_SIZE);
    }
    let rows = asked.rows();
    for (index, process) in processes.iter().enumerate() {
        rows.put(
            index,
            nvmlProcessDetail_v1_t {
                pid: process.pid,
                usedGpuMemory: process.bytes,
                gpuInstanceId: NO_INSTANCE,
                computeInstanceId: NO_INSTANCE,
                usedGpuCcProtectedMemory: 0,
            },
        )?;
    }
    Ok(())
}

/// How busy processes kept a device since then; no sample is an error.
fn samples_since(handle: &Handle<'_>, since_us: c_ulonglong) -> Answer<Vec<WireSample>> {
    let mut samples = handle.client.process_utilisation(handle.index, since_us)?;
    samples.truncate(PROCESS_UTILISATION_ROOM as usize);
    if samples.is_empty() { Err(Failure::NOT_FOUND) } else { Ok(samples) }
}

/// `nvmlDeviceGetProcessUtilization`: wants room for all it could have, whatever it has.
pub(super) fn utilisation(
    library: &Library,
    device: nvmlDevice_t,
    out: OutArray<nvmlProcessUtilizationSample_t>,
    count: Out<c_uint>,
    since_us: c_ulonglong,
) -> Answer {
    library.device(device, |handle| {
        if count.get()? < PROCESS_UTILISATION_ROOM || out.is_null() {
            count.put(PROCESS_UTILISATION_ROOM)?;
            return Err(Failure::INSUFFICIENT_SIZE);
        }
        let samples = samples_since(handle, since_us)?;
        count.put(u32::try_from(samples.len()).map_err(|_| Failure::UNKNOWN)?)?;
        for (index, sample) in samples.iter().enumerate() {
            out.put(
                index,
                nvmlProcessUtilizationSample_t {
                    pid: sample.pid,
                    timeStamp: sample.timestamp_us,
                    smUtil: sample.compute_percent,
                    memUtil: 0,
                    encUtil: 0,
                    decUtil: 0,
                },
            )?;
        }
        Ok(())
    })
}

/// `nvmlDeviceGetProcessesUtilizationInfo`: the same, in a structure.
pub(super) fn utilisation_info(
    handle: &Handle<'_>,
    out: Out<nvmlProcessesUtilizationInfo_t>,
) -> Answer {
    let asked = asked!(out, nvmlProcessesUtilizationInfo_t, 1);
    let mut info = *asked;
    let rows = asked.rows();
    if info.processSamplesCount < PROCESS_UTILISATION_ROOM || rows.is_null() {
        info.processSamplesCount = PROCESS_UTILISATION_ROOM;
        out.put(info)?;
        return Err(Failure::INSUFFICIENT_SIZE);
    }
    let samples = samples_since(handle, info.lastSeenTimeStamp)?;
    info.processSamplesCount = u32::try_from(samples.len()).map_err(|_| Failure::UNKNOWN)?;
    out.put(info)?;
    for (index, sample) in samples.iter().enumerate() {
        rows.put(
            index,
            nvmlProcessUtilizationInfo_v1_t {
                timeStamp: sample.timestamp_us,
                pid: sample.pid,
                smUtil: sample.compute_percent,
                memUtil: 0,
                encUtil: 0,
                decUtil: 0,
                jpgUtil: 0,
                ofaUtil: 0,
            },
        )?;
    }
    Ok(())
}
