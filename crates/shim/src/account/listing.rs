//! The tenant in NVML's answers: its memory on a device, its processes, and samples of them.
//!
//! A device is known by its UUID, whatever handle or index it was found by. Lists hold the tenant's processes by their
//! pids in the caller's pid namespace and by what the ledger says they hold; processes of another namespace have no pid
//! here and are left out, as NVML leaves them out in a container. Promises: no device is changed, and one that NVML
//! does not know is its error. Does not know NVML's entry points.

use core::ffi::c_uint;

use divvy_driver_api::nvml_types::{
    nvmlDevice_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t, nvmlReturn_t,
};
use divvy_page::{DeviceRow, ProcessUse, Tenant};
use divvy_policy::{answer, limit};

use crate::sys::{Out, OutArray, Settable, driver};
use crate::tenant::device::{DeviceFacts, register};
use crate::tenant::names::DeviceNames;
use crate::tenant::{Membership, card_as_seen, membership};

pub(crate) const SUCCESS: nvmlReturn_t = nvmlReturn_t::NVML_SUCCESS;
pub(crate) const TOO_SMALL: nvmlReturn_t = nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE;
pub(crate) const INVALID: nvmlReturn_t = nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT;

/// Processes of one tenant looked at for a list.
const MOST_PROCESSES: usize = 512;

/// No MIG instance.
pub(crate) const NO_INSTANCE: c_uint = c_uint::MAX;

/// A device of NVML's in the tenant's files.
pub(crate) struct Counted {
    tenant: &'static Tenant,
    row: DeviceRow,
    limit_bytes: Option<u64>,
    total_bytes: u64,
}

/// Treatment of a query.
pub(crate) enum Ask {
    /// Answer it.
    Answer(Counted),
    /// NVML answers it.
    Forward,
    /// NVML does not know the device.
    Fail(nvmlReturn_t),
}

pub(crate) fn find(device: nvmlDevice_t) -> Ask {
    let Membership::Member(tenant) = membership() else { return Ask::Forward };
    let mut text = [0_u8; 96];
    let length = match driver::nvml_uuid(device, &mut text) {
        Ok(length) => length,
        Err(code) => return Ask::Fail(code),
    };
    let parse = |text: &[u8]| limit::parse_uuid(str::from_utf8(text).ok()?);
    let Some(uuid) = text.get(..length).and_then(parse) else { return Ask::Forward };
    let length = driver::nvml_uuid(driver::nvml_card(device), &mut text).unwrap_or(0);
    let card = text.get(..length).and_then(parse).unwrap_or(uuid);
    let Ok(total_bytes) = driver::nvml_usable_bytes(device) else { return Ask::Forward };
    let mut name = [0_u8; 96];
    let length = driver::nvml_name(device, &mut name).unwrap_or(0);
    let name = name.get(..length).unwrap_or(&[]);
    let names = DeviceNames { uuid, card, ordinal: None };
    let seen = DeviceFacts { names, total_bytes, name };
    match register(tenant, &seen) {
        Some((row, limit_bytes, _)) => {
            Ask::Answer(Counted { tenant, row, limit_bytes, total_bytes })
        }
        None => Ask::Forward,
    }
}

impl Counted {
    /// The memory story, where there is a limit.
    pub(crate) fn story(&self, card_free_bytes: u64) -> Option<answer::Memory> {
        self.limit_bytes?;
        let used_bytes = self.tenant.used_bytes(self.row);
        let card = (self.total_bytes, card_free_bytes);
        let (total_bytes, free_bytes) = card_as_seen(self.tenant, self.limit_bytes, card);
        Some(answer::memory(self.limit_bytes, used_bytes, total_bytes, free_bytes))
    }

    /// Shows the tenant's processes of the caller's pid namespace; how many there are.
    pub(crate) fn processes(&self, mut visit: impl FnMut(usize, ProcessUse)) -> usize {
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

/// Writes a process list: how many fit stands in `count`, how many there are is written there.
pub(crate) fn list<T: Settable>(
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
pub(crate) fn empty(
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

pub(crate) fn form_v1(found: ProcessUse) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t { pid: found.pid, usedGpuMemory: found.bytes }
}

pub(crate) fn form_v2(found: ProcessUse) -> nvmlProcessInfo_v2_t {
    nvmlProcessInfo_v2_t {
        pid: found.pid,
        usedGpuMemory: found.bytes,
        gpuInstanceId: NO_INSTANCE,
        computeInstanceId: NO_INSTANCE,
    }
}

/// Keeps those of the first `count` samples whose process is of the tenant; how many stay.
pub(crate) fn keep_own<T: Settable>(
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
