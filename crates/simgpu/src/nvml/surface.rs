//! Which NVML calls answer, and what: one line each.
//!
//! [`Surface`] has every entry point of the table as a method that is not simulated; [`Library`]
//! overrides those that are.

use super::failure::{Answer, Failure, Returned};
use super::library::Library;
use super::processes::Role;
use super::{card, device, processes, system};
use crate::sys::driver::Out;
use crate::unsimulated;
use divvy_driver_api::for_each_nvml_entry;
use divvy_driver_api::nvml_types::*;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong};

macro_rules! surface {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        /// Every entry point of NVML; those not overridden are recorded and not supported.
        #[allow(non_snake_case, missing_docs, clippy::too_many_arguments,
            reason = "named and shaped as the symbols they implement")]
        pub trait Surface {
            $(fn $name(&self, $($argument: $ty),*) -> $result {
                let _ = ($($argument),*);
                unsimulated::record(stringify!($name));
                Returned::from_code(Failure::NOT_SUPPORTED.0)
            })*
        }
    };
}
for_each_nvml_entry!(surface);

fn code(answer: Answer) -> nvmlReturn_t {
    match answer {
        Ok(()) => nvmlReturn_t::NVML_SUCCESS,
        Err(failure) => nvmlReturn_t(failure.0),
    }
}

/// Methods whose body is an `Answer`.
macro_rules! answers {
    ($library:ident: $($name:ident($($argument:ident: $ty:ty),*) = $body:expr;)*) => {
        $(fn $name(&$library, $($argument: $ty),*) -> nvmlReturn_t {
            code($body)
        })*
    };
}

/// Methods that answer one structure or number of a device.
macro_rules! structures {
    ($($name:ident: $ty:ty = $answer:path;)*) => {
        $(fn $name(&self, device: nvmlDevice_t, out: *mut $ty) -> nvmlReturn_t {
            code($answer(self, device, out))
        })*
    };
}

/// Methods that list a device's processes of one role, in one version of a row.
macro_rules! process_lists {
    ($($name:ident: $row:ty = $role:expr;)*) => {
        $(fn $name(&self, device: nvmlDevice_t, count: *mut c_uint, rows: *mut $row)
            -> nvmlReturn_t
        {
            code(processes::list(self, $role, device, count, rows))
        })*
    };
}

/// Methods that answer one constant of the card, or of a [`super::library::Handle`].
macro_rules! constants {
    ($($name:ident: $ty:ty = $value:expr;)*) => {
        $(fn $name(&self, device: nvmlDevice_t, out: *mut $ty) -> nvmlReturn_t {
            code(self.device(device, |_| Ok(Out::of(out).put($value)?)))
        })*
    };
}

/// Methods that answer two.
macro_rules! pairs {
    ($($name:ident: $first:ty, $second:ty = $value:expr;)*) => {
        $(fn $name(&self, device: nvmlDevice_t, first: *mut $first, second: *mut $second)
            -> nvmlReturn_t
        {
            code(self.device(device, |_| {
                Out::of(second).check()?;
                Out::of(first).put($value.0)?;
                Ok(Out::of(second).put($value.1)?)
            }))
        })*
    };
}

/// Calls the hardware does not support either.
macro_rules! unsupported {
    ($($name:ident($($argument:ident: $ty:ty),*);)*) => {
        $(fn $name(&self, device: nvmlDevice_t, $($argument: $ty),*) -> nvmlReturn_t {
            let _ = ($($argument),*);
            code(self.device(device, |_| Err::<(), _>(Failure::NOT_SUPPORTED)))
        })*
    };
}

#[allow(
    non_snake_case,
    unused_parens,
    reason = "named as the symbols they implement; one argument makes no tuple"
)]
impl Surface for Library {
    fn nvmlErrorString(&self, result: nvmlReturn_t) -> *const c_char {
        system::error_text(result)
    }

    answers! { self:
        nvmlInit() = self.initialise();
        nvmlInit_v2() = self.initialise();
        nvmlInitWithFlags(_flags: c_uint) = self.initialise();
        nvmlShutdown() = self.shut_down();
        nvmlSystemGetDriverVersion(at: *mut c_char, n: c_uint) = system::driver_version(self, at, n);
        nvmlSystemGetNVMLVersion(at: *mut c_char, n: c_uint) = system::nvml_version(self, at, n);
        nvmlSystemGetCudaDriverVersion(at: *mut c_int) = system::cuda_version(at);
        nvmlSystemGetCudaDriverVersion_v2(at: *mut c_int) = system::cuda_version(at);
        nvmlSystemGetProcessName(pid: c_uint, at: *mut c_char, n: c_uint) =
            system::process_name(self, pid, at, n);
        nvmlUnitGetCount(at: *mut c_uint) = self.with(|_| Ok(Out::of(at).put(0)?));
        nvmlDeviceGetCount(at: *mut c_uint) = system::count(self, at);
        nvmlDeviceGetCount_v2(at: *mut c_uint) = system::count(self, at);
        nvmlDeviceGetHandleByIndex(index: c_uint, at: *mut nvmlDevice_t) =
            system::by_index(self, index, at);
        nvmlDeviceGetHandleByIndex_v2(index: c_uint, at: *mut nvmlDevice_t) =
            system::by_index(self, index, at);
        nvmlDeviceGetHandleByUUID(uuid: *const c_char, at: *mut nvmlDevice_t) =
            system::by_uuid(self, uuid, at);
        nvmlDeviceGetHandleByPciBusId(bus: *const c_char, at: *mut nvmlDevice_t) =
            system::by_pci(self, bus, at);
        nvmlDeviceGetHandleByPciBusId_v2(bus: *const c_char, at: *mut nvmlDevice_t) =
            system::by_pci(self, bus, at);

        nvmlDeviceGetName(d: nvmlDevice_t, at: *mut c_char, n: c_uint) =
            device::name(self, d, at, n);
        nvmlDeviceGetUUID(d: nvmlDevice_t, at: *mut c_char, n: c_uint) =
            device::uuid(self, d, at, n);
        nvmlDeviceGetSerial(d: nvmlDevice_t, at: *mut c_char, n: c_uint) =
            device::serial(self, d, at, n);
        nvmlDeviceGetVbiosVersion(d: nvmlDevice_t, at: *mut c_char, n: c_uint) =
            device::constant_text(self, d, at, n, Some(card::VBIOS));
        nvmlDeviceGetBoardPartNumber(d: nvmlDevice_t, at: *mut c_char, n: c_uint) =
            device::constant_text(self, d, at, n, Some(card::BOARD_PART));
        nvmlDeviceGetInforomImageVersion(d: nvmlDevice_t, at: *mut c_char, n: c_uint) =
            device::constant_text(self, d, at, n, Some(card::INFOROM[0]));
        nvmlDeviceGetInforomVersion(
            d: nvmlDevice_t, object: nvmlInforomObject_t, at: *mut c_char, n: c_uint
        ) = device::constant_text(
            self, d, at, n, card::INFOROM[1..].get(object.0 as usize).copied());
        nvmlDeviceGetIndex(d: nvmlDevice_t, at: *mut c_uint) =
            self.device(d, |handle| Ok(Out::of(at).put(handle.index)?));
        nvmlDeviceGetMinorNumber(d: nvmlDevice_t, at: *mut c_uint) =
            self.device(d, |handle| Ok(Out::of(at).put(handle.index)?));
        nvmlDeviceGetBoardId(d: nvmlDevice_t, at: *mut c_uint) =
            self.device(d, |handle| Ok(Out::of(at).put(card::PCI_DEVICE + handle.index)?));
        nvmlDeviceGetModuleId(d: nvmlDevice_t, at: *mut c_uint) =
            self.device(d, |handle| Ok(Out::of(at).put(handle.index)?));
        nvmlDeviceGetPciInfo(d: nvmlDevice_t, at: *mut nvmlPciInfo_t) =
            device::pci(self, d, at, false);
        nvmlDeviceGetPciInfo_v2(d: nvmlDevice_t, at: *mut nvmlPciInfo_t) =
            device::pci(self, d, at, false);
        nvmlDeviceGetPciInfo_v3(d: nvmlDevice_t, at: *mut nvmlPciInfo_t) =
            device::pci(self, d, at, true);
        nvmlDeviceGetFieldValues(d: nvmlDevice_t, count: c_int, at: *mut nvmlFieldValue_t) =
            device::field_values(self, d, count, at);
        nvmlDeviceGetCpuAffinity(d: nvmlDevice_t, words: c_uint, at: *mut c_ulong) =
            device::affinity(self, d, words, at);
        nvmlDeviceGetTemperature(d: nvmlDevice_t, s: nvmlTemperatureSensors_t, at: *mut c_uint) =
            device::row(self, d, &[card::TEMPERATURE_C], s.0, at, Failure::INVALID_ARGUMENT);
        nvmlDeviceGetTotalEccErrors(
            d: nvmlDevice_t,
            error: nvmlMemoryErrorType_t,
            counter: nvmlEccCounterType_t,
            at: *mut c_ulonglong
        ) = self.device(d, |_| {
            if error.0 > 1 || counter.0 > 1 {
                return Err(Failure::INVALID_ARGUMENT);
            }
            Ok(Out::of(at).put(0)?)
        });
        nvmlDeviceValidateInforom(d: nvmlDevice_t) = self.device(d, |_| Ok(()));
        nvmlEventSetCreate(at: *mut nvmlEventSet_t) =
            self.with(|_| Ok(Out::of(at).put(system::event_set())?));
        nvmlEventSetFree(set: nvmlEventSet_t) = self.with(|_| system::free_event_set(set));
        nvmlDeviceGetTemperatureThreshold(
            d: nvmlDevice_t, t: nvmlTemperatureThresholds_t, at: *mut c_uint
        ) = device::row(
            self, d, &card::TEMPERATURE_THRESHOLDS_C, t.0, at, Failure::NOT_SUPPORTED);
        nvmlDeviceGetClockInfo(d: nvmlDevice_t, t: nvmlClockType_t, at: *mut c_uint) =
            device::row(self, d, &card::CLOCKS_MHZ, t.0, at, Failure::INVALID_ARGUMENT);
        nvmlDeviceGetMaxClockInfo(d: nvmlDevice_t, t: nvmlClockType_t, at: *mut c_uint) =
            device::row(self, d, &card::CLOCKS_MHZ, t.0, at, Failure::INVALID_ARGUMENT);
        nvmlDeviceGetApplicationsClock(d: nvmlDevice_t, t: nvmlClockType_t, at: *mut c_uint) =
            device::row(self, d, &card::CLOCKS_MHZ[..3], t.0, at, Failure::NOT_SUPPORTED);
        nvmlDeviceGetDefaultApplicationsClock(
            d: nvmlDevice_t, t: nvmlClockType_t, at: *mut c_uint
        ) = device::row(self, d, &card::CLOCKS_MHZ[..3], t.0, at, Failure::NOT_SUPPORTED);

        nvmlDeviceGetProcessUtilization(
            d: nvmlDevice_t,
            at: *mut nvmlProcessUtilizationSample_t,
            n: *mut c_uint,
            since_us: c_ulonglong
        ) = processes::utilisation(self, d, at, n, since_us);
        nvmlDeviceGetPowerManagementLimitConstraints(
            d: nvmlDevice_t, low: *mut c_uint, high: *mut c_uint
        ) = self.device(d, |_| {
            Out::of(low).put(card::POWER_LIMIT_MW.1)?;
            Ok(Out::of(high).put(card::POWER_LIMIT_MW.0)?)
        });
    }

    structures! {
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
        nvmlDeviceGetMaxMigDeviceCount: c_uint = 0;
        nvmlDeviceIsMigDeviceHandle: c_uint = 0;
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
        nvmlDeviceGetMigMode: c_uint, c_uint = (0, 0);
        nvmlDeviceGetEccMode: nvmlEnableState_t, nvmlEnableState_t =
            (nvmlEnableState_t(1), nvmlEnableState_t(1));
        nvmlDeviceGetGspFirmwareMode: c_uint, c_uint = (1, 1);
        nvmlDeviceGetEncoderUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
        nvmlDeviceGetDecoderUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
        nvmlDeviceGetJpgUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
        nvmlDeviceGetOfaUtilization: c_uint, c_uint = (0, card::MEDIA_PERIOD_US);
    }

    unsupported! {
        nvmlDeviceGetFanSpeed(speed: *mut c_uint);
        nvmlDeviceGetGpuOperationMode(
            current: *mut nvmlGpuOperationMode_t, pending: *mut nvmlGpuOperationMode_t);
        nvmlDeviceGetDriverModel(
            current: *mut nvmlDriverModel_t, pending: *mut nvmlDriverModel_t);
        nvmlDeviceGetDriverModel_v2(
            current: *mut nvmlDriverModel_t, pending: *mut nvmlDriverModel_t);
        nvmlDeviceGetRetiredPagesPendingStatus(pending: *mut nvmlEnableState_t);
    }
}
