//! Which NVML calls answer, and what: one line each.
//!
//! Every entry point of the table is here as a function that records the call and does not support it;
//! those that answer hide it by one of the same name.
#![allow(
    non_snake_case,
    missing_docs,
    unused_parens,
    reason = "named as the symbols they implement, whose vendor documents them; one argument is no tuple"
)]

use super::failure::{Answer, Failure, Returned};
use super::library::Library;
use super::processes::Role;
use super::{card, device, mig, processes, system};
use crate::sys::driver::{Out, OutArray, Text};
use crate::sys::nvml::OldPciInfo;
use crate::unsimulated;
use divvy_driver_api::for_each_nvml_entry;
use divvy_driver_api::nvml_types::*;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong};

macro_rules! unanswered {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        /// An implementation for every entry point of NVML.
        #[allow(dead_code, unreachable_pub, reason = "of what answers below none is used")]
        mod every {
            use super::*;

            $(
                #[allow(non_snake_case, clippy::too_many_arguments, reason = "the symbol's own shape")]
                pub fn $name(_: &Library, $($argument: $ty),*) -> $result {
                    let _ = ($($argument),*);
                    unsimulated::record(stringify!($name));
                    Returned::from_code(Failure::NOT_SUPPORTED.0)
                }
            )*
        }
    };
}
for_each_nvml_entry!(unanswered);

pub use every::*;

fn code(answer: Answer) -> nvmlReturn_t {
    match answer {
        Ok(()) => nvmlReturn_t::NVML_SUCCESS,
        Err(failure) => nvmlReturn_t(failure.0),
    }
}

/// Calls whose body is an `Answer`.
macro_rules! answers {
    ($library:ident: $($name:ident($($argument:ident: $ty:ty),*) = $body:expr;)*) => {
        $(pub fn $name($library: &Library, $($argument: $ty),*) -> nvmlReturn_t {
            let _ = $library;
            code($body)
        })*
    };
}

/// Calls that answer one structure or number of a device.
macro_rules! structures {
    ($($name:ident: $ty:ty = $answer:path;)*) => {
        $(pub fn $name(library: &Library, device: nvmlDevice_t, out: Out<$ty>) -> nvmlReturn_t {
            code(library.device(device, |handle| $answer(handle, out)))
        })*
    };
}

/// Calls that list a device's processes of one role, in one version of a row.
macro_rules! process_lists {
    ($($name:ident: $row:ty = $role:expr;)*) => {
        $(pub fn $name(
            library: &Library,
            device: nvmlDevice_t,
            count: Out<c_uint>,
            rows: OutArray<$row>,
        ) -> nvmlReturn_t {
            code(processes::list(library, $role, device, count, rows))
        })*
    };
}

/// Calls that answer one constant of the card, or of a [`super::library::Handle`].
macro_rules! constants {
    ($($name:ident: $ty:ty = $value:expr;)*) => {
        $(pub fn $name(library: &Library, device: nvmlDevice_t, out: Out<$ty>) -> nvmlReturn_t {
            code(library.device(device, |_| Ok(out.put($value)?)))
        })*
    };
}

/// Calls that answer two.
macro_rules! pairs {
    ($($name:ident: $first:ty, $second:ty = $value:expr;)*) => {
        $(pub fn $name(
            library: &Library,
            device: nvmlDevice_t,
            first: Out<$first>,
            second: Out<$second>,
        ) -> nvmlReturn_t {
            code(library.device(device, |_| {
                second.check()?;
                first.put($value.0)?;
                Ok(second.put($value.1)?)
            }))
        })*
    };
}

/// Calls the hardware does not support either.
macro_rules! unsupported {
    ($($name:ident($($argument:ident: $ty:ty),*);)*) => {
        $(pub fn $name(
            library: &Library,
            device: nvmlDevice_t,
            $($argument: $ty),*
        ) -> nvmlReturn_t {
            let _ = ($($argument),*);
            code(library.device(device, |_| Err::<(), _>(Failure::NOT_SUPPORTED)))
        })*
    };
}

pub fn nvmlErrorString(_: &Library, result: nvmlReturn_t) -> *const c_char {
    system::error_text(result).as_ptr()
}

answers! { library:
    nvmlInit() = library.initialise();
    nvmlInit_v2() = library.initialise();
    nvmlInitWithFlags(_flags: c_uint) = library.initialise();
    nvmlShutdown() = library.shut_down();
    nvmlSystemGetDriverVersion(at: OutArray<c_char>, _n: c_uint) =
        system::driver_version(library, at);
    nvmlSystemGetNVMLVersion(at: OutArray<c_char>, _n: c_uint) =
        system::nvml_version(library, at);
    nvmlSystemGetCudaDriverVersion(at: Out<c_int>) = system::cuda_version(at);
    nvmlSystemGetCudaDriverVersion_v2(at: Out<c_int>) = system::cuda_version(at);
    nvmlSystemGetProcessName(pid: c_uint, at: OutArray<c_char>, _n: c_uint) =
        system::process_name(library, pid, at);
    nvmlUnitGetCount(at: Out<c_uint>) = library.with(|_| Ok(at.put(0)?));
    nvmlDeviceGetCount(at: Out<c_uint>) = system::count(library, at);
    nvmlDeviceGetCount_v2(at: Out<c_uint>) = system::count(library, at);
    nvmlDeviceGetHandleByIndex(index: c_uint, at: Out<nvmlDevice_t>) =
        system::by_index(library, index, at);
    nvmlDeviceGetHandleByIndex_v2(index: c_uint, at: Out<nvmlDevice_t>) =
        system::by_index(library, index, at);
    nvmlDeviceGetHandleByUUID(uuid: Text, at: Out<nvmlDevice_t>) =
        system::by_uuid(library, uuid, at);
    nvmlDeviceGetHandleByPciBusId(bus: Text, at: Out<nvmlDevice_t>) =
        system::by_pci(library, bus, at);
    nvmlDeviceGetHandleByPciBusId_v2(bus: Text, at: Out<nvmlDevice_t>) =
        system::by_pci(library, bus, at);

    nvmlDeviceGetName(d: nvmlDevice_t, at: OutArray<c_char>, _n: c_uint) =
        device::name(library, d, at);
    nvmlDeviceGetUUID(d: nvmlDevice_t, at: OutArray<c_char>, _n: c_uint) =
        device::uuid(library, d, at);
    nvmlDeviceGetSerial(d: nvmlDevice_t, at: OutArray<c_char>, _n: c_uint) =
        device::serial(library, d, at);
    nvmlDeviceGetVbiosVersion(d: nvmlDevice_t, at: OutArray<c_char>, _n: c_uint) =
        device::constant_text(library, d, at, Some(card::VBIOS));
    nvmlDeviceGetBoardPartNumber(d: nvmlDevice_t, at: OutArray<c_char>, _n: c_uint) =
        device::constant_text(library, d, at, Some(card::BOARD_PART));
    nvmlDeviceGetInforomImageVersion(d: nvmlDevice_t, at: OutArray<c_char>, _n: c_uint) =
        device::constant_text(library, d, at, Some(card::INFOROM[0]));
    nvmlDeviceGetInforomVersion(
        d: nvmlDevice_t, object: nvmlInforomObject_t, at: OutArray<c_char>, _n: c_uint
    ) = device::constant_text(
        library, d, at, card::INFOROM[1..].get(object.0 as usize).copied());
    nvmlDeviceGetIndex(d: nvmlDevice_t, at: Out<c_uint>) =
        library.device(d, |handle| mig::index(handle, at));
    nvmlDeviceGetMinorNumber(d: nvmlDevice_t, at: Out<c_uint>) =
        library.device(d, |handle| Ok(at.put(handle.card)?));
    nvmlDeviceGetBoardId(d: nvmlDevice_t, at: Out<c_uint>) =
        library.device(d, |handle| Ok(at.put(card::PCI_DEVICE + handle.card)?));
    nvmlDeviceGetModuleId(d: nvmlDevice_t, at: Out<c_uint>) =
        library.device(d, |handle| Ok(at.put(handle.card)?));
    nvmlDeviceGetMigMode(d: nvmlDevice_t, current: Out<c_uint>, pending: Out<c_uint>) =
        mig::mode(library, d, current, pending);
    nvmlDeviceGetMigDeviceHandleByIndex(
        d: nvmlDevice_t, index: c_uint, at: Out<nvmlDevice_t>
    ) = mig::by_index(library, d, index, at);
    nvmlDeviceGetFieldValues(d: nvmlDevice_t, count: c_int, at: OutArray<nvmlFieldValue_t>) =
        device::field_values(library, d, count, at);
    nvmlDeviceGetCpuAffinity(d: nvmlDevice_t, _words: c_uint, at: OutArray<c_ulong>) =
        device::affinity(library, d, at);
    nvmlDeviceGetTemperature(d: nvmlDevice_t, s: nvmlTemperatureSensors_t, at: Out<c_uint>) =
        device::row(library, d, &[card::TEMPERATURE_C], s.0, at, Failure::INVALID_ARGUMENT);
    nvmlDeviceGetTotalEccErrors(
        d: nvmlDevice_t,
        error: nvmlMemoryErrorType_t,
        counter: nvmlEccCounterType_t,
        at: Out<c_ulonglong>
    ) = library.device(d, |_| {
        if error.0 > 1 || counter.0 > 1 {
            return Err(Failure::INVALID_ARGUMENT);
        }
        Ok(at.put(0)?)
    });
    nvmlDeviceValidateInforom(d: nvmlDevice_t) = library.device(d, |_| Ok(()));
    nvmlEventSetCreate(at: Out<nvmlEventSet_t>) =
        library.with(|_| Ok(at.put(system::event_set())?));
    nvmlEventSetFree(set: nvmlEventSet_t) = library.with(|_| system::free_event_set(set));
    nvmlDeviceGetTemperatureThreshold(
        d: nvmlDevice_t, t: nvmlTemperatureThresholds_t, at: Out<c_uint>
    ) = device::row(
        library, d, &card::TEMPERATURE_THRESHOLDS_C, t.0, at, Failure::NOT_SUPPORTED);
    nvmlDeviceGetClockInfo(d: nvmlDevice_t, t: nvmlClockType_t, at: Out<c_uint>) =
        device::row(library, d, &card::CLOCKS_MHZ, t.0, at, Failure::INVALID_ARGUMENT);
    nvmlDeviceGetMaxClockInfo(d: nvmlDevice_t, t: nvmlClockType_t, at: Out<c_uint>) =
        device::row(library, d, &card::CLOCKS_MHZ, t.0, at, Failure::INVALID_ARGUMENT);
    nvmlDeviceGetApplicationsClock(d: nvmlDevice_t, t: nvmlClockType_t, at: Out<c_uint>) =
        device::row(library, d, &card::CLOCKS_MHZ[..3], t.0, at, Failure::NOT_SUPPORTED);
    nvmlDeviceGetDefaultApplicationsClock(
        d: nvmlDevice_t, t: nvmlClockType_t, at: Out<c_uint>
    ) = device::row(library, d, &card::CLOCKS_MHZ[..3], t.0, at, Failure::NOT_SUPPORTED);

    nvmlDeviceGetProcessUtilization(
        d: nvmlDevice_t,
        at: OutArray<nvmlProcessUtilizationSample_t>,
        n: Out<c_uint>,
        since_us: c_ulonglong
    ) = processes::utilisation(library, d, at, n, since_us);
    nvmlDeviceGetPowerManagementLimitConstraints(
        d: nvmlDevice_t, low: Out<c_uint>, high: Out<c_uint>
    ) = library.device(d, |_| {
        low.put(card::POWER_LIMIT_MW.1)?;
        Ok(high.put(card::POWER_LIMIT_MW.0)?)
    });
}

structures! {
    nvmlDeviceGetMaxMigDeviceCount: c_uint = mig::most_instances;
    nvmlDeviceIsMigDeviceHandle: c_uint = mig::is_instance;
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle: nvmlDevice_t = mig::parent;
    nvmlDeviceGetGpuInstanceId: c_uint = mig::gpu_instance;
    nvmlDeviceGetComputeInstanceId: c_uint = mig::compute_instance;
    nvmlDeviceGetAttributes: nvmlDeviceAttributes_t = mig::attributes;
    nvmlDeviceGetAttributes_v2: nvmlDeviceAttributes_t = mig::attributes;
    nvmlDeviceGetPciInfo: OldPciInfo = device::old_pci;
    nvmlDeviceGetPciInfo_v2: OldPciInfo = device::old_pci;
    nvmlDeviceGetPciInfo_v3: nvmlPciInfo_t = device::pci;
    nvmlDeviceGetPciInfoExt: nvmlPciInfoExt_t = device::pci_ext;
    nvmlDeviceGetMemoryInfo: nvmlMemory_t = device::memory;
    nvmlDeviceGetMemoryInfo_v2: nvmlMemory_v2_t = device::memory_v2;
    nvmlDeviceGetBAR1MemoryInfo: nvmlBAR1Memory_t = device::bar1;
    nvmlDeviceGetUtilizationRates: nvmlUtilization_t = device::utilisation;
    nvmlDeviceGetPowerUsage: c_uint = device::power;
    nvmlDeviceGetTemperatureV: nvmlTemperature_t = device::temperature;
    nvmlDeviceGetRunningProcessDetailList: nvmlProcessDetailList_t = processes::details;
    nvmlDeviceGetProcessesUtilizationInfo: nvmlProcessesUtilizationInfo_t =
        processes::utilisation_info;
}

process_lists! {
    nvmlDeviceGetComputeRunningProcesses: nvmlProcessInfo_v1_t = Role::Compute;
    nvmlDeviceGetComputeRunningProcesses_v2: nvmlProcessInfo_v2_t = Role::Compute;
    nvmlDeviceGetComputeRunningProcesses_v3: nvmlProcessInfo_t = Role::Compute;
    nvmlDeviceGetGraphicsRunningProcesses: nvmlProcessInfo_v1_t = Role::Graphics;
    nvmlDeviceGetGraphicsRunningProcesses_v2: nvmlProcessInfo_v2_t = Role::Graphics;
    nvmlDeviceGetGraphicsRunningProcesses_v3: nvmlProcessInfo_t = Role::Graphics;
    nvmlDeviceGetMPSComputeRunningProcesses: nvmlProcessInfo_v1_t = Role::Mps;
    nvmlDeviceGetMPSComputeRunningProcesses_v2: nvmlProcessInfo_v2_t = Role::Mps;
    nvmlDeviceGetMPSComputeRunningProcesses_v3: nvmlProcessInfo_t = Role::Mps;
}

constants! {
    nvmlDeviceGetBrand: nvmlBrandType_t = nvmlBrandType_t(card::BRAND);
    nvmlDeviceGetArchitecture: nvmlDeviceArchitecture_t = card::ARCHITECTURE;
    nvmlDeviceGetBusType: nvmlBusType_t = 2;
    nvmlDeviceGetNumGpuCores: c_uint = card::CORES;
    nvmlDeviceGetMemoryBusWidth: c_uint = card::MEMORY_BUS_BITS;
    nvmlDeviceGetNumFans: c_uint = 0;
    nvmlDeviceGetMultiGpuBoard: c_uint = 0;
    nvmlDeviceGetIrqNum: c_uint = 41;
    nvmlDeviceGetAdaptiveClockInfoStatus: c_uint = 1;
    nvmlDeviceGetInforomConfigurationChecksum: c_uint = 0;
    nvmlDeviceGetComputeMode: nvmlComputeMode_t = nvmlComputeMode_t(0);
    nvmlDeviceGetPersistenceMode: nvmlEnableState_t = nvmlEnableState_t(1);
    nvmlDeviceGetDisplayMode: nvmlEnableState_t = nvmlEnableState_t(1);
    nvmlDeviceGetDisplayActive: nvmlEnableState_t = nvmlEnableState_t(0);
    nvmlDeviceGetAccountingMode: nvmlEnableState_t = nvmlEnableState_t(0);
    nvmlDeviceGetAccountingBufferSize: c_uint = card::ACCOUNTING_ROOM;
    nvmlDeviceGetDefaultEccMode: nvmlEnableState_t = nvmlEnableState_t(1);
    nvmlDeviceGetVirtualizationMode: nvmlGpuVirtualizationMode_t =
        nvmlGpuVirtualizationMode_t(1);
    nvmlDeviceGetPerformanceState: nvmlPstates_t = nvmlPstates_t(0);
    nvmlDeviceGetPowerState: nvmlPstates_t = nvmlPstates_t(0);
    nvmlDeviceGetPowerManagementMode: nvmlEnableState_t = nvmlEnableState_t(1);
    nvmlDeviceGetPowerManagementLimit: c_uint = card::POWER_LIMIT_MW.0;
    nvmlDeviceGetPowerManagementDefaultLimit: c_uint = card::POWER_LIMIT_MW.0;
    nvmlDeviceGetEnforcedPowerLimit: c_uint = card::POWER_LIMIT_MW.0;
    nvmlDeviceGetTotalEnergyConsumption: c_ulonglong = 1_931_323;
    nvmlDeviceGetCurrPcieLinkGeneration: c_uint = card::PCIE.0;
    nvmlDeviceGetCurrPcieLinkWidth: c_uint = card::PCIE.1;
    nvmlDeviceGetMaxPcieLinkGeneration: c_uint = card::PCIE.0;
    nvmlDeviceGetMaxPcieLinkWidth: c_uint = card::PCIE.1;
    nvmlDeviceGetGpuMaxPcieLinkGeneration: c_uint = card::PCIE.0;
    nvmlDeviceGetPcieLinkMaxSpeed: c_uint = card::PCIE.0;
    nvmlDeviceGetPcieSpeed: c_uint = card::PCIE_SPEED;
    nvmlDeviceGetPcieReplayCounter: c_uint = 0;
    nvmlDeviceGetCurrentClocksEventReasons: c_ulonglong = card::CLOCK_REASONS.0;
    nvmlDeviceGetCurrentClocksThrottleReasons: c_ulonglong = card::CLOCK_REASONS.0;
    nvmlDeviceGetSupportedClocksEventReasons: c_ulonglong = card::CLOCK_REASONS.1;
    nvmlDeviceGetSupportedClocksThrottleReasons: c_ulonglong = card::CLOCK_REASONS.1;
}

pairs! {
    nvmlDeviceGetCudaComputeCapability: c_int, c_int = card::COMPUTE_CAPABILITY;
    nvmlDeviceGetEccMode: nvmlEnableState_t, nvmlEnableState_t =
        (nvmlEnableState_t(1), nvmlEnableState_t(1));
    nvmlDeviceGetGspFirmwareMode: c_uint, c_uint = (1, 1);
    nvmlDeviceGetEncoderUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
    nvmlDeviceGetDecoderUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
    nvmlDeviceGetJpgUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
    nvmlDeviceGetOfaUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
}

unsupported! {
    nvmlDeviceGetFanSpeed(speed: Out<c_uint>);
    nvmlDeviceGetGpuOperationMode(
        current: Out<nvmlGpuOperationMode_t>, pending: Out<nvmlGpuOperationMode_t>);
    nvmlDeviceGetDriverModel(
        current: Out<nvmlDriverModel_t>, pending: Out<nvmlDriverModel_t>);
    nvmlDeviceGetDriverModel_v2(
        current: Out<nvmlDriverModel_t>, pending: Out<nvmlDriverModel_t>);
    nvmlDeviceGetRetiredPagesPendingStatus(pending: Out<nvmlEnableState_t>);
}
