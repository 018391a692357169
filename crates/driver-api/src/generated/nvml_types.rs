// Made by `cargo xtask regen` from NVIDIA's headers; do not edit.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlAccountingStats_st {
    pub gpuUtilization: ::core::ffi::c_uint,
    pub memoryUtilization: ::core::ffi::c_uint,
    pub maxMemoryUsage: ::core::ffi::c_ulonglong,
    pub time: ::core::ffi::c_ulonglong,
    pub startTime: ::core::ffi::c_ulonglong,
    pub isRunning: ::core::ffi::c_uint,
    pub reserved: [::core::ffi::c_uint; 5usize],
}
pub type nvmlAccountingStats_t = nvmlAccountingStats_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlAccountingStats_v2_t {
    pub pid: ::core::ffi::c_uint,
    pub isRunning: ::core::ffi::c_uint,
    pub gpuUtilization: ::core::ffi::c_uint,
    pub memoryUtilization: ::core::ffi::c_uint,
    pub maxMemoryUsage: ::core::ffi::c_ulonglong,
    pub sampleCount: ::core::ffi::c_uint,
    pub sumGpuUtil: ::core::ffi::c_ulonglong,
    pub sumFbUtil: ::core::ffi::c_ulonglong,
    pub time: ::core::ffi::c_ulonglong,
    pub startTime: ::core::ffi::c_ulonglong,
}
pub type nvmlActiveVgpuInstanceInfo_t = nvmlActiveVgpuInstanceInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlActiveVgpuInstanceInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub vgpuCount: ::core::ffi::c_uint,
    pub vgpuInstances: *mut nvmlVgpuInstance_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlAdaptiveTgpModeInfo_v1_t {
    pub inBandEnableRequest: nvmlEnableState_t,
    pub featureAllowedByAdmin: nvmlEnableState_t,
    pub adminOverrideEnabled: nvmlEnableState_t,
    pub enablementStatus: nvmlEnableState_t,
    pub adjustedLimitMw: ::core::ffi::c_uint,
}
pub type nvmlAffinityScope_t = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlBAR1Memory_st {
    pub bar1Total: ::core::ffi::c_ulonglong,
    pub bar1Free: ::core::ffi::c_ulonglong,
    pub bar1Used: ::core::ffi::c_ulonglong,
}
pub type nvmlBAR1Memory_t = nvmlBAR1Memory_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlBBXTimeData_v1_t {
    pub timeRun: ::core::ffi::c_uint,
}
impl nvmlBrandType_enum {
    pub const NVML_BRAND_UNKNOWN: nvmlBrandType_enum = nvmlBrandType_enum(0);
    pub const NVML_BRAND_QUADRO: nvmlBrandType_enum = nvmlBrandType_enum(1);
    pub const NVML_BRAND_TESLA: nvmlBrandType_enum = nvmlBrandType_enum(2);
    pub const NVML_BRAND_NVS: nvmlBrandType_enum = nvmlBrandType_enum(3);
    pub const NVML_BRAND_GRID: nvmlBrandType_enum = nvmlBrandType_enum(4);
    pub const NVML_BRAND_GEFORCE: nvmlBrandType_enum = nvmlBrandType_enum(5);
    pub const NVML_BRAND_TITAN: nvmlBrandType_enum = nvmlBrandType_enum(6);
    pub const NVML_BRAND_NVIDIA_VAPPS: nvmlBrandType_enum = nvmlBrandType_enum(7);
    pub const NVML_BRAND_NVIDIA_VPC: nvmlBrandType_enum = nvmlBrandType_enum(8);
    pub const NVML_BRAND_NVIDIA_VCS: nvmlBrandType_enum = nvmlBrandType_enum(9);
    pub const NVML_BRAND_NVIDIA_VWS: nvmlBrandType_enum = nvmlBrandType_enum(10);
    pub const NVML_BRAND_NVIDIA_CLOUD_GAMING: nvmlBrandType_enum = nvmlBrandType_enum(
        11,
    );
    pub const NVML_BRAND_NVIDIA_VGAMING: nvmlBrandType_enum = nvmlBrandType_enum(11);
    pub const NVML_BRAND_QUADRO_RTX: nvmlBrandType_enum = nvmlBrandType_enum(12);
    pub const NVML_BRAND_NVIDIA_RTX: nvmlBrandType_enum = nvmlBrandType_enum(13);
    pub const NVML_BRAND_NVIDIA: nvmlBrandType_enum = nvmlBrandType_enum(14);
    pub const NVML_BRAND_GEFORCE_RTX: nvmlBrandType_enum = nvmlBrandType_enum(15);
    pub const NVML_BRAND_TITAN_RTX: nvmlBrandType_enum = nvmlBrandType_enum(16);
    pub const NVML_BRAND_NVIDIA_DLA: nvmlBrandType_enum = nvmlBrandType_enum(17);
    pub const NVML_BRAND_NVIDIA_NPU: nvmlBrandType_enum = nvmlBrandType_enum(19);
    pub const NVML_BRAND_NVIDIA_VGAMEDEV: nvmlBrandType_enum = nvmlBrandType_enum(18);
    pub const NVML_BRAND_COUNT: nvmlBrandType_enum = nvmlBrandType_enum(20);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlBrandType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlBrandType_enum as nvmlBrandType_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlBridgeChipHierarchy_st {
    pub bridgeCount: ::core::ffi::c_uchar,
    pub bridgeChipInfo: [nvmlBridgeChipInfo_t; 128usize],
}
pub type nvmlBridgeChipHierarchy_t = nvmlBridgeChipHierarchy_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlBridgeChipInfo_st {
    pub type_: nvmlBridgeChipType_t,
    pub fwVersion: ::core::ffi::c_uint,
}
pub type nvmlBridgeChipInfo_t = nvmlBridgeChipInfo_st;
impl nvmlBridgeChipType_enum {
    pub const NVML_BRIDGE_CHIP_PLX: nvmlBridgeChipType_enum = nvmlBridgeChipType_enum(0);
    pub const NVML_BRIDGE_CHIP_BRO4: nvmlBridgeChipType_enum = nvmlBridgeChipType_enum(
        1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlBridgeChipType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlBridgeChipType_enum as nvmlBridgeChipType_t;
pub type nvmlBusType_t = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlC2cModeInfo_v1_t {
    pub isC2cEnabled: ::core::ffi::c_uint,
}
pub type nvmlCPERCursorHandle_t = ::core::ffi::c_ulonglong;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlCPERCursor_v1_t {
    pub cperTypeMask: ::core::ffi::c_uint,
    pub uuid: [::core::ffi::c_char; 80usize],
    pub handle: nvmlCPERCursorHandle_t,
}
impl nvmlCPERType_t {
    pub const NVML_CPER_ACCESS_TYPE_GPU: nvmlCPERType_t = nvmlCPERType_t(1);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlCPERType_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlClkMonFaultInfo_struct {
    pub clkApiDomain: ::core::ffi::c_uint,
    pub clkDomainFaultMask: ::core::ffi::c_uint,
}
pub type nvmlClkMonFaultInfo_t = nvmlClkMonFaultInfo_struct;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlClkMonStatus_status {
    pub bGlobalStatus: ::core::ffi::c_uint,
    pub clkMonListSize: ::core::ffi::c_uint,
    pub clkMonList: [nvmlClkMonFaultInfo_t; 32usize],
}
pub type nvmlClkMonStatus_t = nvmlClkMonStatus_status;
impl nvmlClockId_enum {
    pub const NVML_CLOCK_ID_CURRENT: nvmlClockId_enum = nvmlClockId_enum(0);
    pub const NVML_CLOCK_ID_APP_CLOCK_TARGET: nvmlClockId_enum = nvmlClockId_enum(1);
    pub const NVML_CLOCK_ID_APP_CLOCK_DEFAULT: nvmlClockId_enum = nvmlClockId_enum(2);
    pub const NVML_CLOCK_ID_CUSTOMER_BOOST_MAX: nvmlClockId_enum = nvmlClockId_enum(3);
    pub const NVML_CLOCK_ID_COUNT: nvmlClockId_enum = nvmlClockId_enum(4);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlClockId_enum(pub ::core::ffi::c_uint);
pub use self::nvmlClockId_enum as nvmlClockId_t;
impl nvmlClockLimitId_enum {
    pub const NVML_CLOCK_LIMIT_ID_RANGE_START: nvmlClockLimitId_enum = nvmlClockLimitId_enum(
        4294967040,
    );
    pub const NVML_CLOCK_LIMIT_ID_TDP: nvmlClockLimitId_enum = nvmlClockLimitId_enum(
        4294967041,
    );
    pub const NVML_CLOCK_LIMIT_ID_UNLIMITED: nvmlClockLimitId_enum = nvmlClockLimitId_enum(
        4294967042,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlClockLimitId_enum(pub ::core::ffi::c_uint);
pub use self::nvmlClockLimitId_enum as nvmlClockLimitId_t;
pub type nvmlClockOffset_t = nvmlClockOffset_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlClockOffset_v1_t {
    pub version: ::core::ffi::c_uint,
    pub type_: nvmlClockType_t,
    pub pstate: nvmlPstates_t,
    pub clockOffsetMHz: ::core::ffi::c_int,
    pub minClockOffsetMHz: ::core::ffi::c_int,
    pub maxClockOffsetMHz: ::core::ffi::c_int,
}
impl nvmlClockType_enum {
    pub const NVML_CLOCK_GRAPHICS: nvmlClockType_enum = nvmlClockType_enum(0);
    pub const NVML_CLOCK_SM: nvmlClockType_enum = nvmlClockType_enum(1);
    pub const NVML_CLOCK_MEM: nvmlClockType_enum = nvmlClockType_enum(2);
    pub const NVML_CLOCK_VIDEO: nvmlClockType_enum = nvmlClockType_enum(3);
    pub const NVML_CLOCK_COUNT: nvmlClockType_enum = nvmlClockType_enum(4);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlClockType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlClockType_enum as nvmlClockType_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlComputeInstanceInfo_st {
    pub device: nvmlDevice_t,
    pub gpuInstance: nvmlGpuInstance_t,
    pub id: ::core::ffi::c_uint,
    pub profileId: ::core::ffi::c_uint,
    pub placement: nvmlComputeInstancePlacement_t,
}
pub type nvmlComputeInstanceInfo_t = nvmlComputeInstanceInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlComputeInstancePlacement_st {
    pub start: ::core::ffi::c_uint,
    pub size: ::core::ffi::c_uint,
}
pub type nvmlComputeInstancePlacement_t = nvmlComputeInstancePlacement_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlComputeInstanceProfileInfo_st {
    pub id: ::core::ffi::c_uint,
    pub sliceCount: ::core::ffi::c_uint,
    pub instanceCount: ::core::ffi::c_uint,
    pub multiprocessorCount: ::core::ffi::c_uint,
    pub sharedCopyEngineCount: ::core::ffi::c_uint,
    pub sharedDecoderCount: ::core::ffi::c_uint,
    pub sharedEncoderCount: ::core::ffi::c_uint,
    pub sharedJpegCount: ::core::ffi::c_uint,
    pub sharedOfaCount: ::core::ffi::c_uint,
}
pub type nvmlComputeInstanceProfileInfo_t = nvmlComputeInstanceProfileInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlComputeInstanceProfileInfo_v2_st {
    pub version: ::core::ffi::c_uint,
    pub id: ::core::ffi::c_uint,
    pub sliceCount: ::core::ffi::c_uint,
    pub instanceCount: ::core::ffi::c_uint,
    pub multiprocessorCount: ::core::ffi::c_uint,
    pub sharedCopyEngineCount: ::core::ffi::c_uint,
    pub sharedDecoderCount: ::core::ffi::c_uint,
    pub sharedEncoderCount: ::core::ffi::c_uint,
    pub sharedJpegCount: ::core::ffi::c_uint,
    pub sharedOfaCount: ::core::ffi::c_uint,
    pub name: [::core::ffi::c_char; 96usize],
}
pub type nvmlComputeInstanceProfileInfo_v2_t = nvmlComputeInstanceProfileInfo_v2_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlComputeInstanceProfileInfo_v3_st {
    pub version: ::core::ffi::c_uint,
    pub id: ::core::ffi::c_uint,
    pub sliceCount: ::core::ffi::c_uint,
    pub instanceCount: ::core::ffi::c_uint,
    pub multiprocessorCount: ::core::ffi::c_uint,
    pub sharedCopyEngineCount: ::core::ffi::c_uint,
    pub sharedDecoderCount: ::core::ffi::c_uint,
    pub sharedEncoderCount: ::core::ffi::c_uint,
    pub sharedJpegCount: ::core::ffi::c_uint,
    pub sharedOfaCount: ::core::ffi::c_uint,
    pub name: [::core::ffi::c_char; 96usize],
    pub capabilities: ::core::ffi::c_uint,
}
pub type nvmlComputeInstanceProfileInfo_v3_t = nvmlComputeInstanceProfileInfo_v3_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlComputeInstance_st {
    _unused: [u8; 0],
}
pub type nvmlComputeInstance_t = *mut nvmlComputeInstance_st;
impl nvmlComputeMode_enum {
    pub const NVML_COMPUTEMODE_DEFAULT: nvmlComputeMode_enum = nvmlComputeMode_enum(0);
    pub const NVML_COMPUTEMODE_EXCLUSIVE_THREAD: nvmlComputeMode_enum = nvmlComputeMode_enum(
        1,
    );
    pub const NVML_COMPUTEMODE_PROHIBITED: nvmlComputeMode_enum = nvmlComputeMode_enum(
        2,
    );
    pub const NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: nvmlComputeMode_enum = nvmlComputeMode_enum(
        3,
    );
    pub const NVML_COMPUTEMODE_COUNT: nvmlComputeMode_enum = nvmlComputeMode_enum(4);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlComputeMode_enum(pub ::core::ffi::c_uint);
pub use self::nvmlComputeMode_enum as nvmlComputeMode_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlConfComputeGetKeyRotationThresholdInfo_st {
    pub version: ::core::ffi::c_uint,
    pub attackerAdvantage: ::core::ffi::c_ulonglong,
}
pub type nvmlConfComputeGetKeyRotationThresholdInfo_t = nvmlConfComputeGetKeyRotationThresholdInfo_v1_t;
pub type nvmlConfComputeGetKeyRotationThresholdInfo_v1_t = nvmlConfComputeGetKeyRotationThresholdInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlConfComputeGpuAttestationReport_st {
    pub isCecAttestationReportPresent: ::core::ffi::c_uint,
    pub attestationReportSize: ::core::ffi::c_uint,
    pub cecAttestationReportSize: ::core::ffi::c_uint,
    pub nonce: [::core::ffi::c_uchar; 32usize],
    pub attestationReport: [::core::ffi::c_uchar; 8192usize],
    pub cecAttestationReport: [::core::ffi::c_uchar; 4096usize],
}
pub type nvmlConfComputeGpuAttestationReport_t = nvmlConfComputeGpuAttestationReport_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlConfComputeGpuCertificate_st {
    pub certChainSize: ::core::ffi::c_uint,
    pub attestationCertChainSize: ::core::ffi::c_uint,
    pub certChain: [::core::ffi::c_uchar; 4096usize],
    pub attestationCertChain: [::core::ffi::c_uchar; 5120usize],
}
pub type nvmlConfComputeGpuCertificate_t = nvmlConfComputeGpuCertificate_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlConfComputeMemSizeInfo_st {
    pub protectedMemSizeKib: ::core::ffi::c_ulonglong,
    pub unprotectedMemSizeKib: ::core::ffi::c_ulonglong,
}
pub type nvmlConfComputeMemSizeInfo_t = nvmlConfComputeMemSizeInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlConfComputeSetKeyRotationThresholdInfo_st {
    pub version: ::core::ffi::c_uint,
    pub maxAttackerAdvantage: ::core::ffi::c_ulonglong,
}
pub type nvmlConfComputeSetKeyRotationThresholdInfo_t = nvmlConfComputeSetKeyRotationThresholdInfo_v1_t;
pub type nvmlConfComputeSetKeyRotationThresholdInfo_v1_t = nvmlConfComputeSetKeyRotationThresholdInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlConfComputeSystemCaps_st {
    pub cpuCaps: ::core::ffi::c_uint,
    pub gpusCaps: ::core::ffi::c_uint,
}
pub type nvmlConfComputeSystemCaps_t = nvmlConfComputeSystemCaps_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlConfComputeSystemState_st {
    pub environment: ::core::ffi::c_uint,
    pub ccFeature: ::core::ffi::c_uint,
    pub devToolsMode: ::core::ffi::c_uint,
}
pub type nvmlConfComputeSystemState_t = nvmlConfComputeSystemState_st;
impl nvmlCoolerControl_enum {
    pub const NVML_THERMAL_COOLER_SIGNAL_NONE: nvmlCoolerControl_enum = nvmlCoolerControl_enum(
        0,
    );
    pub const NVML_THERMAL_COOLER_SIGNAL_TOGGLE: nvmlCoolerControl_enum = nvmlCoolerControl_enum(
        1,
    );
    pub const NVML_THERMAL_COOLER_SIGNAL_VARIABLE: nvmlCoolerControl_enum = nvmlCoolerControl_enum(
        2,
    );
    pub const NVML_THERMAL_COOLER_SIGNAL_COUNT: nvmlCoolerControl_enum = nvmlCoolerControl_enum(
        3,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlCoolerControl_enum(pub ::core::ffi::c_uint);
pub use self::nvmlCoolerControl_enum as nvmlCoolerControl_t;
pub type nvmlCoolerInfo_t = nvmlCoolerInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlCoolerInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub index: ::core::ffi::c_uint,
    pub signalType: nvmlCoolerControl_t,
    pub target: nvmlCoolerTarget_t,
}
impl nvmlCoolerTarget_enum {
    pub const NVML_THERMAL_COOLER_TARGET_NONE: nvmlCoolerTarget_enum = nvmlCoolerTarget_enum(
        1,
    );
    pub const NVML_THERMAL_COOLER_TARGET_GPU: nvmlCoolerTarget_enum = nvmlCoolerTarget_enum(
        2,
    );
    pub const NVML_THERMAL_COOLER_TARGET_MEMORY: nvmlCoolerTarget_enum = nvmlCoolerTarget_enum(
        4,
    );
    pub const NVML_THERMAL_COOLER_TARGET_POWER_SUPPLY: nvmlCoolerTarget_enum = nvmlCoolerTarget_enum(
        8,
    );
    pub const NVML_THERMAL_COOLER_TARGET_GPU_RELATED: nvmlCoolerTarget_enum = nvmlCoolerTarget_enum(
        14,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlCoolerTarget_enum(pub ::core::ffi::c_uint);
pub use self::nvmlCoolerTarget_enum as nvmlCoolerTarget_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlCoreRailMetrics_t {
    pub rails: [nvmlRailMetrics_t; 2usize],
}
impl nvmlDetachGpuState_enum {
    pub const NVML_DETACH_GPU_KEEP: nvmlDetachGpuState_enum = nvmlDetachGpuState_enum(0);
    pub const NVML_DETACH_GPU_REMOVE: nvmlDetachGpuState_enum = nvmlDetachGpuState_enum(
        1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlDetachGpuState_enum(pub ::core::ffi::c_uint);
pub use self::nvmlDetachGpuState_enum as nvmlDetachGpuState_t;
impl nvmlDeviceAddressingModeType_t {
    pub const NVML_DEVICE_ADDRESSING_MODE_NONE: nvmlDeviceAddressingModeType_t = nvmlDeviceAddressingModeType_t(
        0,
    );
    pub const NVML_DEVICE_ADDRESSING_MODE_HMM: nvmlDeviceAddressingModeType_t = nvmlDeviceAddressingModeType_t(
        1,
    );
    pub const NVML_DEVICE_ADDRESSING_MODE_ATS: nvmlDeviceAddressingModeType_t = nvmlDeviceAddressingModeType_t(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlDeviceAddressingModeType_t(pub ::core::ffi::c_uint);
pub type nvmlDeviceAddressingMode_t = nvmlDeviceAddressingMode_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDeviceAddressingMode_v1_t {
    pub version: ::core::ffi::c_uint,
    pub value: ::core::ffi::c_uint,
}
pub type nvmlDeviceArchitecture_t = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDeviceAttributes_st {
    pub multiprocessorCount: ::core::ffi::c_uint,
    pub sharedCopyEngineCount: ::core::ffi::c_uint,
    pub sharedDecoderCount: ::core::ffi::c_uint,
    pub sharedEncoderCount: ::core::ffi::c_uint,
    pub sharedJpegCount: ::core::ffi::c_uint,
    pub sharedOfaCount: ::core::ffi::c_uint,
    pub gpuInstanceSliceCount: ::core::ffi::c_uint,
    pub computeInstanceSliceCount: ::core::ffi::c_uint,
    pub memorySizeMB: ::core::ffi::c_ulonglong,
}
pub type nvmlDeviceAttributes_t = nvmlDeviceAttributes_st;
pub type nvmlDeviceCapabilities_t = nvmlDeviceCapabilities_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDeviceCapabilities_v1_t {
    pub version: ::core::ffi::c_uint,
    pub capMask: ::core::ffi::c_uint,
}
pub type nvmlDeviceCurrentClockFreqs_t = nvmlDeviceCurrentClockFreqs_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDeviceCurrentClockFreqs_v1_t {
    pub version: ::core::ffi::c_uint,
    pub str_: [::core::ffi::c_char; 2048usize],
}
impl nvmlDeviceGpuRecoveryAction_s {
    pub const NVML_GPU_RECOVERY_ACTION_NONE: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        0,
    );
    pub const NVML_GPU_RECOVERY_ACTION_GPU_RESET: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        1,
    );
    pub const NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        2,
    );
    pub const NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        3,
    );
    pub const NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        4,
    );
    pub const NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        5,
    );
    pub const NVML_GPU_RECOVERY_ACTION_BUS_RESET: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        6,
    );
    pub const NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: nvmlDeviceGpuRecoveryAction_s = nvmlDeviceGpuRecoveryAction_s(
        7,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlDeviceGpuRecoveryAction_s(pub ::core::ffi::c_uint);
pub use self::nvmlDeviceGpuRecoveryAction_s as nvmlDeviceGpuRecoveryAction_t;
pub type nvmlDevicePerfModes_t = nvmlDevicePerfModes_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDevicePerfModes_v1_t {
    pub version: ::core::ffi::c_uint,
    pub str_: [::core::ffi::c_char; 2048usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDevicePowerMizerModes_v1_t {
    pub currentMode: ::core::ffi::c_uint,
    pub mode: ::core::ffi::c_uint,
    pub supportedPowerMizerModes: ::core::ffi::c_uint,
}
impl nvmlDeviceVgpuCapability_enum {
    pub const NVML_DEVICE_VGPU_CAP_FRACTIONAL_MULTI_VGPU: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        0,
    );
    pub const NVML_DEVICE_VGPU_CAP_HETEROGENEOUS_TIMESLICE_PROFILES: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        1,
    );
    pub const NVML_DEVICE_VGPU_CAP_HETEROGENEOUS_TIMESLICE_SIZES: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        2,
    );
    pub const NVML_DEVICE_VGPU_CAP_READ_DEVICE_BUFFER_BW: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        3,
    );
    pub const NVML_DEVICE_VGPU_CAP_WRITE_DEVICE_BUFFER_BW: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        4,
    );
    pub const NVML_DEVICE_VGPU_CAP_DEVICE_STREAMING: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        5,
    );
    pub const NVML_DEVICE_VGPU_CAP_MINI_QUARTER_GPU: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        6,
    );
    pub const NVML_DEVICE_VGPU_CAP_COMPUTE_MEDIA_ENGINE_GPU: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        7,
    );
    pub const NVML_DEVICE_VGPU_CAP_WARM_UPDATE: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        8,
    );
    pub const NVML_DEVICE_VGPU_CAP_HOMOGENEOUS_PLACEMENTS: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        9,
    );
    pub const NVML_DEVICE_VGPU_CAP_MIG_TIMESLICING_SUPPORTED: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        10,
    );
    pub const NVML_DEVICE_VGPU_CAP_MIG_TIMESLICING_ENABLED: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        11,
    );
    pub const NVML_DEVICE_VGPU_CAP_UVM_STUN: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        12,
    );
    pub const NVML_DEVICE_VGPU_CAP_COUNT: nvmlDeviceVgpuCapability_enum = nvmlDeviceVgpuCapability_enum(
        13,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlDeviceVgpuCapability_enum(pub ::core::ffi::c_uint);
pub use self::nvmlDeviceVgpuCapability_enum as nvmlDeviceVgpuCapability_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDevice_st {
    _unused: [u8; 0],
}
pub type nvmlDevice_t = *mut nvmlDevice_st;
pub type nvmlDramEncryptionInfo_t = nvmlDramEncryptionInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlDramEncryptionInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub encryptionState: nvmlEnableState_t,
}
impl nvmlDriverModel_enum {
    pub const NVML_DRIVER_WDDM: nvmlDriverModel_enum = nvmlDriverModel_enum(0);
    pub const NVML_DRIVER_WDM: nvmlDriverModel_enum = nvmlDriverModel_enum(1);
    pub const NVML_DRIVER_MCDM: nvmlDriverModel_enum = nvmlDriverModel_enum(2);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlDriverModel_enum(pub ::core::ffi::c_uint);
pub use self::nvmlDriverModel_enum as nvmlDriverModel_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEccBankRemapperHistogram_v1_t {
    pub maxSpareGroupCount: ::core::ffi::c_uint,
    pub noSpareGroupCount: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEccBankRemapperStatus_v1_t {
    pub activeRemappings: ::core::ffi::c_uint,
    pub inactiveRemappings: ::core::ffi::c_uint,
    pub bPending: ::core::ffi::c_uint,
    pub histogram: nvmlEccBankRemapperHistogram_v1_t,
}
impl nvmlEccCounterType_enum {
    pub const NVML_VOLATILE_ECC: nvmlEccCounterType_enum = nvmlEccCounterType_enum(0);
    pub const NVML_AGGREGATE_ECC: nvmlEccCounterType_enum = nvmlEccCounterType_enum(1);
    pub const NVML_ECC_COUNTER_TYPE_COUNT: nvmlEccCounterType_enum = nvmlEccCounterType_enum(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlEccCounterType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlEccCounterType_enum as nvmlEccCounterType_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEccErrorCounts_st {
    pub l1Cache: ::core::ffi::c_ulonglong,
    pub l2Cache: ::core::ffi::c_ulonglong,
    pub deviceMemory: ::core::ffi::c_ulonglong,
    pub registerFile: ::core::ffi::c_ulonglong,
}
pub type nvmlEccErrorCounts_t = nvmlEccErrorCounts_st;
pub type nvmlEccSramErrorStatus_t = nvmlEccSramErrorStatus_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEccSramErrorStatus_v1_t {
    pub version: ::core::ffi::c_uint,
    pub aggregateUncParity: ::core::ffi::c_ulonglong,
    pub aggregateUncSecDed: ::core::ffi::c_ulonglong,
    pub aggregateCor: ::core::ffi::c_ulonglong,
    pub volatileUncParity: ::core::ffi::c_ulonglong,
    pub volatileUncSecDed: ::core::ffi::c_ulonglong,
    pub volatileCor: ::core::ffi::c_ulonglong,
    pub aggregateUncBucketL2: ::core::ffi::c_ulonglong,
    pub aggregateUncBucketSm: ::core::ffi::c_ulonglong,
    pub aggregateUncBucketPcie: ::core::ffi::c_ulonglong,
    pub aggregateUncBucketMcu: ::core::ffi::c_ulonglong,
    pub aggregateUncBucketOther: ::core::ffi::c_ulonglong,
    pub bThresholdExceeded: ::core::ffi::c_uint,
}
pub type nvmlEccSramUniqueUncorrectedErrorCounts_t = nvmlEccSramUniqueUncorrectedErrorCounts_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEccSramUniqueUncorrectedErrorCounts_v1_t {
    pub version: ::core::ffi::c_uint,
    pub entryCount: ::core::ffi::c_uint,
    pub entries: *mut nvmlEccSramUniqueUncorrectedErrorEntry_v1_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEccSramUniqueUncorrectedErrorEntry_v1_t {
    pub unit: ::core::ffi::c_uint,
    pub location: ::core::ffi::c_uint,
    pub sublocation: ::core::ffi::c_uint,
    pub extlocation: ::core::ffi::c_uint,
    pub address: ::core::ffi::c_uint,
    pub isParity: ::core::ffi::c_uint,
    pub count: ::core::ffi::c_uint,
}
impl nvmlEnableState_enum {
    pub const NVML_FEATURE_DISABLED: nvmlEnableState_enum = nvmlEnableState_enum(0);
    pub const NVML_FEATURE_ENABLED: nvmlEnableState_enum = nvmlEnableState_enum(1);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlEnableState_enum(pub ::core::ffi::c_uint);
pub use self::nvmlEnableState_enum as nvmlEnableState_t;
impl nvmlEncoderQueryType_enum {
    pub const NVML_ENCODER_QUERY_H264: nvmlEncoderQueryType_enum = nvmlEncoderQueryType_enum(
        0,
    );
    pub const NVML_ENCODER_QUERY_HEVC: nvmlEncoderQueryType_enum = nvmlEncoderQueryType_enum(
        1,
    );
    pub const NVML_ENCODER_QUERY_AV1: nvmlEncoderQueryType_enum = nvmlEncoderQueryType_enum(
        2,
    );
    pub const NVML_ENCODER_QUERY_UNKNOWN: nvmlEncoderQueryType_enum = nvmlEncoderQueryType_enum(
        255,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlEncoderQueryType_enum(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEncoderSessionInfo_st {
    pub sessionId: ::core::ffi::c_uint,
    pub pid: ::core::ffi::c_uint,
    pub vgpuInstance: nvmlVgpuInstance_t,
    pub codecType: nvmlEncoderType_t,
    pub hResolution: ::core::ffi::c_uint,
    pub vResolution: ::core::ffi::c_uint,
    pub averageFps: ::core::ffi::c_uint,
    pub averageLatency: ::core::ffi::c_uint,
}
pub type nvmlEncoderSessionInfo_t = nvmlEncoderSessionInfo_st;
pub use self::nvmlEncoderQueryType_enum as nvmlEncoderType_t;
impl nvmlEventDataType_t {
    pub const NVML_EVENT_DATA_TYPE_NVML_EVENT: nvmlEventDataType_t = nvmlEventDataType_t(
        0,
    );
    pub const NVML_EVENT_DATA_TYPE_GPU_OPERATIONAL_EVENT: nvmlEventDataType_t = nvmlEventDataType_t(
        1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlEventDataType_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEventData_st {
    pub device: nvmlDevice_t,
    pub eventType: ::core::ffi::c_ulonglong,
    pub eventData: ::core::ffi::c_ulonglong,
    pub gpuInstanceId: ::core::ffi::c_uint,
    pub computeInstanceId: ::core::ffi::c_uint,
}
pub type nvmlEventData_t = nvmlEventData_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEventSetGetContextCount_v1_t {
    pub count: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEventSetGetContextData_v1_t {
    pub data: *mut ::core::ffi::c_void,
    pub index: ::core::ffi::c_uint,
    pub dataSize: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEventSetGetContextInfo_v1_t {
    pub index: ::core::ffi::c_uint,
    pub nvmlGpuOperationalEventContextType: ::core::ffi::c_uint,
    pub sourceEventContextType: ::core::ffi::c_uint,
    pub dataSize: ::core::ffi::c_uint,
    pub dataFormatVersion: ::core::ffi::c_ushort,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1_t {
    pub index: ::core::ffi::c_uint,
    pub xidCode: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEventSetWait_v3_t {
    pub timeoutMs: ::core::ffi::c_uint,
    pub dataType: ::core::ffi::c_uint,
    pub uuid: [::core::ffi::c_char; 96usize],
    pub sourceModule: [::core::ffi::c_char; 16usize],
    pub eventType: ::core::ffi::c_ulonglong,
    pub eventData: ::core::ffi::c_ulonglong,
    pub groupCursor: ::core::ffi::c_ulonglong,
    pub instanceId: ::core::ffi::c_ulonglong,
    pub timestampUsec: ::core::ffi::c_ulonglong,
    pub traceId: ::core::ffi::c_ulonglong,
    pub gpuInstanceId: ::core::ffi::c_uint,
    pub computeInstanceId: ::core::ffi::c_uint,
    pub severity: ::core::ffi::c_uint,
    pub categoryId: ::core::ffi::c_uint,
    pub moduleEventCode: ::core::ffi::c_uint,
    pub scope: ::core::ffi::c_uint,
    pub originator: ::core::ffi::c_uint,
    pub moduleInstance: ::core::ffi::c_uint,
    pub chipletId: ::core::ffi::c_uint,
    pub logLevel: ::core::ffi::c_uint,
    pub attributes: ::core::ffi::c_uint,
    pub groupCperSize: ::core::ffi::c_uint,
    pub groupAttributes: ::core::ffi::c_uint,
    pub groupSize: ::core::ffi::c_uchar,
    pub groupIndex: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlEventSet_st {
    _unused: [u8; 0],
}
pub type nvmlEventSet_t = *mut nvmlEventSet_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlExcludedDeviceInfo_st {
    pub pciInfo: nvmlPciInfo_t,
    pub uuid: [::core::ffi::c_char; 80usize],
}
pub type nvmlExcludedDeviceInfo_t = nvmlExcludedDeviceInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlFBCSessionInfo_st {
    pub sessionId: ::core::ffi::c_uint,
    pub pid: ::core::ffi::c_uint,
    pub vgpuInstance: nvmlVgpuInstance_t,
    pub displayOrdinal: ::core::ffi::c_uint,
    pub sessionType: nvmlFBCSessionType_t,
    pub sessionFlags: ::core::ffi::c_uint,
    pub hMaxResolution: ::core::ffi::c_uint,
    pub vMaxResolution: ::core::ffi::c_uint,
    pub hResolution: ::core::ffi::c_uint,
    pub vResolution: ::core::ffi::c_uint,
    pub averageFPS: ::core::ffi::c_uint,
    pub averageLatency: ::core::ffi::c_uint,
}
pub type nvmlFBCSessionInfo_t = nvmlFBCSessionInfo_st;
impl nvmlFBCSessionType_enum {
    pub const NVML_FBC_SESSION_TYPE_UNKNOWN: nvmlFBCSessionType_enum = nvmlFBCSessionType_enum(
        0,
    );
    pub const NVML_FBC_SESSION_TYPE_TOSYS: nvmlFBCSessionType_enum = nvmlFBCSessionType_enum(
        1,
    );
    pub const NVML_FBC_SESSION_TYPE_CUDA: nvmlFBCSessionType_enum = nvmlFBCSessionType_enum(
        2,
    );
    pub const NVML_FBC_SESSION_TYPE_VID: nvmlFBCSessionType_enum = nvmlFBCSessionType_enum(
        3,
    );
    pub const NVML_FBC_SESSION_TYPE_HWENC: nvmlFBCSessionType_enum = nvmlFBCSessionType_enum(
        4,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlFBCSessionType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlFBCSessionType_enum as nvmlFBCSessionType_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlFBCStats_st {
    pub sessionsCount: ::core::ffi::c_uint,
    pub averageFPS: ::core::ffi::c_uint,
    pub averageLatency: ::core::ffi::c_uint,
}
pub type nvmlFBCStats_t = nvmlFBCStats_st;
pub type nvmlFanControlPolicy_t = ::core::ffi::c_uint;
pub type nvmlFanSpeedInfo_t = nvmlFanSpeedInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlFanSpeedInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub fan: ::core::ffi::c_uint,
    pub speed: ::core::ffi::c_uint,
}
impl nvmlFanState_enum {
    pub const NVML_FAN_NORMAL: nvmlFanState_enum = nvmlFanState_enum(0);
    pub const NVML_FAN_FAILED: nvmlFanState_enum = nvmlFanState_enum(1);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlFanState_enum(pub ::core::ffi::c_uint);
pub use self::nvmlFanState_enum as nvmlFanState_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlFieldValue_st {
    pub fieldId: ::core::ffi::c_uint,
    pub scopeId: ::core::ffi::c_uint,
    pub timestamp: ::core::ffi::c_longlong,
    pub latencyUsec: ::core::ffi::c_longlong,
    pub valueType: nvmlValueType_t,
    pub nvmlReturn: nvmlReturn_t,
    pub value: nvmlValue_t,
}
pub type nvmlFieldValue_t = nvmlFieldValue_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGetCPER_v1_t {
    pub cursor: nvmlCPERCursor_v1_t,
    pub buffer: *mut ::core::ffi::c_uchar,
    pub bufferSize: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGetMemoryLimits_v1_t {
    pub nameSpace: *const ::core::ffi::c_char,
    pub softLimit: ::core::ffi::c_ulonglong,
    pub hardLimit: ::core::ffi::c_ulonglong,
    pub currentUsed: ::core::ffi::c_ulonglong,
}
impl nvmlGom_enum {
    pub const NVML_GOM_ALL_ON: nvmlGom_enum = nvmlGom_enum(0);
    pub const NVML_GOM_COMPUTE: nvmlGom_enum = nvmlGom_enum(1);
    pub const NVML_GOM_LOW_DP: nvmlGom_enum = nvmlGom_enum(2);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGom_enum(pub ::core::ffi::c_uint);
impl nvmlGpmMetricId_t {
    pub const NVML_GPM_METRIC_GRAPHICS_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(1);
    pub const NVML_GPM_METRIC_SM_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(2);
    pub const NVML_GPM_METRIC_SM_OCCUPANCY: nvmlGpmMetricId_t = nvmlGpmMetricId_t(3);
    pub const NVML_GPM_METRIC_INTEGER_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(4);
    pub const NVML_GPM_METRIC_ANY_TENSOR_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(5);
    pub const NVML_GPM_METRIC_DFMA_TENSOR_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(6);
    pub const NVML_GPM_METRIC_HMMA_TENSOR_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(7);
    pub const NVML_GPM_METRIC_DMMA_TENSOR_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(8);
    pub const NVML_GPM_METRIC_IMMA_TENSOR_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(9);
    pub const NVML_GPM_METRIC_DRAM_BW_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(10);
    pub const NVML_GPM_METRIC_FP64_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(11);
    pub const NVML_GPM_METRIC_FP32_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(12);
    pub const NVML_GPM_METRIC_FP16_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(13);
    pub const NVML_GPM_METRIC_PCIE_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(20);
    pub const NVML_GPM_METRIC_PCIE_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(21);
    pub const NVML_GPM_METRIC_NVDEC_0_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(30);
    pub const NVML_GPM_METRIC_NVDEC_1_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(31);
    pub const NVML_GPM_METRIC_NVDEC_2_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(32);
    pub const NVML_GPM_METRIC_NVDEC_3_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(33);
    pub const NVML_GPM_METRIC_NVDEC_4_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(34);
    pub const NVML_GPM_METRIC_NVDEC_5_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(35);
    pub const NVML_GPM_METRIC_NVDEC_6_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(36);
    pub const NVML_GPM_METRIC_NVDEC_7_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(37);
    pub const NVML_GPM_METRIC_NVJPG_0_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(40);
    pub const NVML_GPM_METRIC_NVJPG_1_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(41);
    pub const NVML_GPM_METRIC_NVJPG_2_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(42);
    pub const NVML_GPM_METRIC_NVJPG_3_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(43);
    pub const NVML_GPM_METRIC_NVJPG_4_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(44);
    pub const NVML_GPM_METRIC_NVJPG_5_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(45);
    pub const NVML_GPM_METRIC_NVJPG_6_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(46);
    pub const NVML_GPM_METRIC_NVJPG_7_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(47);
    pub const NVML_GPM_METRIC_NVOFA_0_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(50);
    pub const NVML_GPM_METRIC_NVOFA_1_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(51);
    pub const NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        60,
    );
    pub const NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        61,
    );
    pub const NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        62,
    );
    pub const NVML_GPM_METRIC_NVLINK_L0_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        63,
    );
    pub const NVML_GPM_METRIC_NVLINK_L1_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        64,
    );
    pub const NVML_GPM_METRIC_NVLINK_L1_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        65,
    );
    pub const NVML_GPM_METRIC_NVLINK_L2_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        66,
    );
    pub const NVML_GPM_METRIC_NVLINK_L2_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        67,
    );
    pub const NVML_GPM_METRIC_NVLINK_L3_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        68,
    );
    pub const NVML_GPM_METRIC_NVLINK_L3_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        69,
    );
    pub const NVML_GPM_METRIC_NVLINK_L4_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        70,
    );
    pub const NVML_GPM_METRIC_NVLINK_L4_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        71,
    );
    pub const NVML_GPM_METRIC_NVLINK_L5_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        72,
    );
    pub const NVML_GPM_METRIC_NVLINK_L5_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        73,
    );
    pub const NVML_GPM_METRIC_NVLINK_L6_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        74,
    );
    pub const NVML_GPM_METRIC_NVLINK_L6_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        75,
    );
    pub const NVML_GPM_METRIC_NVLINK_L7_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        76,
    );
    pub const NVML_GPM_METRIC_NVLINK_L7_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        77,
    );
    pub const NVML_GPM_METRIC_NVLINK_L8_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        78,
    );
    pub const NVML_GPM_METRIC_NVLINK_L8_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        79,
    );
    pub const NVML_GPM_METRIC_NVLINK_L9_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        80,
    );
    pub const NVML_GPM_METRIC_NVLINK_L9_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        81,
    );
    pub const NVML_GPM_METRIC_NVLINK_L10_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        82,
    );
    pub const NVML_GPM_METRIC_NVLINK_L10_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        83,
    );
    pub const NVML_GPM_METRIC_NVLINK_L11_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        84,
    );
    pub const NVML_GPM_METRIC_NVLINK_L11_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        85,
    );
    pub const NVML_GPM_METRIC_NVLINK_L12_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        86,
    );
    pub const NVML_GPM_METRIC_NVLINK_L12_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        87,
    );
    pub const NVML_GPM_METRIC_NVLINK_L13_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        88,
    );
    pub const NVML_GPM_METRIC_NVLINK_L13_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        89,
    );
    pub const NVML_GPM_METRIC_NVLINK_L14_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        90,
    );
    pub const NVML_GPM_METRIC_NVLINK_L14_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        91,
    );
    pub const NVML_GPM_METRIC_NVLINK_L15_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        92,
    );
    pub const NVML_GPM_METRIC_NVLINK_L15_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        93,
    );
    pub const NVML_GPM_METRIC_NVLINK_L16_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        94,
    );
    pub const NVML_GPM_METRIC_NVLINK_L16_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        95,
    );
    pub const NVML_GPM_METRIC_NVLINK_L17_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        96,
    );
    pub const NVML_GPM_METRIC_NVLINK_L17_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        97,
    );
    pub const NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        100,
    );
    pub const NVML_GPM_METRIC_C2C_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        101,
    );
    pub const NVML_GPM_METRIC_C2C_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        102,
    );
    pub const NVML_GPM_METRIC_C2C_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        103,
    );
    pub const NVML_GPM_METRIC_C2C_LINK0_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        104,
    );
    pub const NVML_GPM_METRIC_C2C_LINK0_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        105,
    );
    pub const NVML_GPM_METRIC_C2C_LINK0_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        106,
    );
    pub const NVML_GPM_METRIC_C2C_LINK0_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        107,
    );
    pub const NVML_GPM_METRIC_C2C_LINK1_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        108,
    );
    pub const NVML_GPM_METRIC_C2C_LINK1_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        109,
    );
    pub const NVML_GPM_METRIC_C2C_LINK1_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        110,
    );
    pub const NVML_GPM_METRIC_C2C_LINK1_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        111,
    );
    pub const NVML_GPM_METRIC_C2C_LINK2_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        112,
    );
    pub const NVML_GPM_METRIC_C2C_LINK2_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        113,
    );
    pub const NVML_GPM_METRIC_C2C_LINK2_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        114,
    );
    pub const NVML_GPM_METRIC_C2C_LINK2_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        115,
    );
    pub const NVML_GPM_METRIC_C2C_LINK3_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        116,
    );
    pub const NVML_GPM_METRIC_C2C_LINK3_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        117,
    );
    pub const NVML_GPM_METRIC_C2C_LINK3_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        118,
    );
    pub const NVML_GPM_METRIC_C2C_LINK3_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        119,
    );
    pub const NVML_GPM_METRIC_C2C_LINK4_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        120,
    );
    pub const NVML_GPM_METRIC_C2C_LINK4_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        121,
    );
    pub const NVML_GPM_METRIC_C2C_LINK4_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        122,
    );
    pub const NVML_GPM_METRIC_C2C_LINK4_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        123,
    );
    pub const NVML_GPM_METRIC_C2C_LINK5_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        124,
    );
    pub const NVML_GPM_METRIC_C2C_LINK5_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        125,
    );
    pub const NVML_GPM_METRIC_C2C_LINK5_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        126,
    );
    pub const NVML_GPM_METRIC_C2C_LINK5_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        127,
    );
    pub const NVML_GPM_METRIC_C2C_LINK6_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        128,
    );
    pub const NVML_GPM_METRIC_C2C_LINK6_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        129,
    );
    pub const NVML_GPM_METRIC_C2C_LINK6_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        130,
    );
    pub const NVML_GPM_METRIC_C2C_LINK6_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        131,
    );
    pub const NVML_GPM_METRIC_C2C_LINK7_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        132,
    );
    pub const NVML_GPM_METRIC_C2C_LINK7_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        133,
    );
    pub const NVML_GPM_METRIC_C2C_LINK7_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        134,
    );
    pub const NVML_GPM_METRIC_C2C_LINK7_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        135,
    );
    pub const NVML_GPM_METRIC_C2C_LINK8_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        136,
    );
    pub const NVML_GPM_METRIC_C2C_LINK8_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        137,
    );
    pub const NVML_GPM_METRIC_C2C_LINK8_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        138,
    );
    pub const NVML_GPM_METRIC_C2C_LINK8_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        139,
    );
    pub const NVML_GPM_METRIC_C2C_LINK9_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        140,
    );
    pub const NVML_GPM_METRIC_C2C_LINK9_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        141,
    );
    pub const NVML_GPM_METRIC_C2C_LINK9_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        142,
    );
    pub const NVML_GPM_METRIC_C2C_LINK9_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        143,
    );
    pub const NVML_GPM_METRIC_C2C_LINK10_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        144,
    );
    pub const NVML_GPM_METRIC_C2C_LINK10_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        145,
    );
    pub const NVML_GPM_METRIC_C2C_LINK10_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        146,
    );
    pub const NVML_GPM_METRIC_C2C_LINK10_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        147,
    );
    pub const NVML_GPM_METRIC_C2C_LINK11_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        148,
    );
    pub const NVML_GPM_METRIC_C2C_LINK11_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        149,
    );
    pub const NVML_GPM_METRIC_C2C_LINK11_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        150,
    );
    pub const NVML_GPM_METRIC_C2C_LINK11_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        151,
    );
    pub const NVML_GPM_METRIC_C2C_LINK12_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        152,
    );
    pub const NVML_GPM_METRIC_C2C_LINK12_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        153,
    );
    pub const NVML_GPM_METRIC_C2C_LINK12_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        154,
    );
    pub const NVML_GPM_METRIC_C2C_LINK12_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        155,
    );
    pub const NVML_GPM_METRIC_C2C_LINK13_TOTAL_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        156,
    );
    pub const NVML_GPM_METRIC_C2C_LINK13_TOTAL_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        157,
    );
    pub const NVML_GPM_METRIC_C2C_LINK13_DATA_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        158,
    );
    pub const NVML_GPM_METRIC_C2C_LINK13_DATA_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        159,
    );
    pub const NVML_GPM_METRIC_HOSTMEM_CACHE_HIT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        160,
    );
    pub const NVML_GPM_METRIC_HOSTMEM_CACHE_MISS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        161,
    );
    pub const NVML_GPM_METRIC_PEERMEM_CACHE_HIT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        162,
    );
    pub const NVML_GPM_METRIC_PEERMEM_CACHE_MISS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        163,
    );
    pub const NVML_GPM_METRIC_DRAM_CACHE_HIT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(164);
    pub const NVML_GPM_METRIC_DRAM_CACHE_MISS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        165,
    );
    pub const NVML_GPM_METRIC_NVENC_0_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(166);
    pub const NVML_GPM_METRIC_NVENC_1_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(167);
    pub const NVML_GPM_METRIC_NVENC_2_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(168);
    pub const NVML_GPM_METRIC_NVENC_3_UTIL: nvmlGpmMetricId_t = nvmlGpmMetricId_t(169);
    pub const NVML_GPM_METRIC_GR0_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        170,
    );
    pub const NVML_GPM_METRIC_GR0_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        171,
    );
    pub const NVML_GPM_METRIC_GR0_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        172,
    );
    pub const NVML_GPM_METRIC_GR0_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        173,
    );
    pub const NVML_GPM_METRIC_GR0_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        174,
    );
    pub const NVML_GPM_METRIC_GR1_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        175,
    );
    pub const NVML_GPM_METRIC_GR1_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        176,
    );
    pub const NVML_GPM_METRIC_GR1_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        177,
    );
    pub const NVML_GPM_METRIC_GR1_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        178,
    );
    pub const NVML_GPM_METRIC_GR1_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        179,
    );
    pub const NVML_GPM_METRIC_GR2_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        180,
    );
    pub const NVML_GPM_METRIC_GR2_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        181,
    );
    pub const NVML_GPM_METRIC_GR2_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        182,
    );
    pub const NVML_GPM_METRIC_GR2_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        183,
    );
    pub const NVML_GPM_METRIC_GR2_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        184,
    );
    pub const NVML_GPM_METRIC_GR3_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        185,
    );
    pub const NVML_GPM_METRIC_GR3_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        186,
    );
    pub const NVML_GPM_METRIC_GR3_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        187,
    );
    pub const NVML_GPM_METRIC_GR3_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        188,
    );
    pub const NVML_GPM_METRIC_GR3_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        189,
    );
    pub const NVML_GPM_METRIC_GR4_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        190,
    );
    pub const NVML_GPM_METRIC_GR4_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        191,
    );
    pub const NVML_GPM_METRIC_GR4_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        192,
    );
    pub const NVML_GPM_METRIC_GR4_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        193,
    );
    pub const NVML_GPM_METRIC_GR4_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        194,
    );
    pub const NVML_GPM_METRIC_GR5_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        195,
    );
    pub const NVML_GPM_METRIC_GR5_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        196,
    );
    pub const NVML_GPM_METRIC_GR5_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        197,
    );
    pub const NVML_GPM_METRIC_GR5_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        198,
    );
    pub const NVML_GPM_METRIC_GR5_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        199,
    );
    pub const NVML_GPM_METRIC_GR6_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        200,
    );
    pub const NVML_GPM_METRIC_GR6_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        201,
    );
    pub const NVML_GPM_METRIC_GR6_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        202,
    );
    pub const NVML_GPM_METRIC_GR6_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        203,
    );
    pub const NVML_GPM_METRIC_GR6_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        204,
    );
    pub const NVML_GPM_METRIC_GR7_CTXSW_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        205,
    );
    pub const NVML_GPM_METRIC_GR7_CTXSW_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        206,
    );
    pub const NVML_GPM_METRIC_GR7_CTXSW_REQUESTS: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        207,
    );
    pub const NVML_GPM_METRIC_GR7_CTXSW_CYCLES_PER_REQ: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        208,
    );
    pub const NVML_GPM_METRIC_GR7_CTXSW_ACTIVE_PCT: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        209,
    );
    pub const NVML_GPM_METRIC_NVLINK_L18_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        212,
    );
    pub const NVML_GPM_METRIC_NVLINK_L18_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        213,
    );
    pub const NVML_GPM_METRIC_NVLINK_L19_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        214,
    );
    pub const NVML_GPM_METRIC_NVLINK_L19_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        215,
    );
    pub const NVML_GPM_METRIC_NVLINK_L20_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        216,
    );
    pub const NVML_GPM_METRIC_NVLINK_L20_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        217,
    );
    pub const NVML_GPM_METRIC_NVLINK_L21_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        218,
    );
    pub const NVML_GPM_METRIC_NVLINK_L21_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        219,
    );
    pub const NVML_GPM_METRIC_NVLINK_L22_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        220,
    );
    pub const NVML_GPM_METRIC_NVLINK_L22_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        221,
    );
    pub const NVML_GPM_METRIC_NVLINK_L23_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        222,
    );
    pub const NVML_GPM_METRIC_NVLINK_L23_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        223,
    );
    pub const NVML_GPM_METRIC_NVLINK_L24_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        224,
    );
    pub const NVML_GPM_METRIC_NVLINK_L24_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        225,
    );
    pub const NVML_GPM_METRIC_NVLINK_L25_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        226,
    );
    pub const NVML_GPM_METRIC_NVLINK_L25_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        227,
    );
    pub const NVML_GPM_METRIC_NVLINK_L26_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        228,
    );
    pub const NVML_GPM_METRIC_NVLINK_L26_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        229,
    );
    pub const NVML_GPM_METRIC_NVLINK_L27_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        230,
    );
    pub const NVML_GPM_METRIC_NVLINK_L27_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        231,
    );
    pub const NVML_GPM_METRIC_NVLINK_L28_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        232,
    );
    pub const NVML_GPM_METRIC_NVLINK_L28_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        233,
    );
    pub const NVML_GPM_METRIC_NVLINK_L29_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        234,
    );
    pub const NVML_GPM_METRIC_NVLINK_L29_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        235,
    );
    pub const NVML_GPM_METRIC_NVLINK_L30_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        236,
    );
    pub const NVML_GPM_METRIC_NVLINK_L30_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        237,
    );
    pub const NVML_GPM_METRIC_NVLINK_L31_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        238,
    );
    pub const NVML_GPM_METRIC_NVLINK_L31_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        239,
    );
    pub const NVML_GPM_METRIC_NVLINK_L32_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        240,
    );
    pub const NVML_GPM_METRIC_NVLINK_L32_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        241,
    );
    pub const NVML_GPM_METRIC_NVLINK_L33_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        242,
    );
    pub const NVML_GPM_METRIC_NVLINK_L33_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        243,
    );
    pub const NVML_GPM_METRIC_NVLINK_L34_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        244,
    );
    pub const NVML_GPM_METRIC_NVLINK_L34_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        245,
    );
    pub const NVML_GPM_METRIC_NVLINK_L35_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        246,
    );
    pub const NVML_GPM_METRIC_NVLINK_L35_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        247,
    );
    pub const NVML_GPM_METRIC_SM_CYCLES_ELAPSED: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        248,
    );
    pub const NVML_GPM_METRIC_SM_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        249,
    );
    pub const NVML_GPM_METRIC_MMA_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        250,
    );
    pub const NVML_GPM_METRIC_DMMA_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        251,
    );
    pub const NVML_GPM_METRIC_HMMA_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        252,
    );
    pub const NVML_GPM_METRIC_IMMA_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        253,
    );
    pub const NVML_GPM_METRIC_DFMA_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        254,
    );
    pub const NVML_GPM_METRIC_PCIE_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(255);
    pub const NVML_GPM_METRIC_PCIE_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(256);
    pub const NVML_GPM_METRIC_INTEGER_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        257,
    );
    pub const NVML_GPM_METRIC_FP64_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        258,
    );
    pub const NVML_GPM_METRIC_FP32_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        259,
    );
    pub const NVML_GPM_METRIC_FP16_CYCLES_ACTIVE: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        260,
    );
    pub const NVML_GPM_METRIC_NVLINK_L0_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(261);
    pub const NVML_GPM_METRIC_NVLINK_L0_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(262);
    pub const NVML_GPM_METRIC_NVLINK_L1_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(263);
    pub const NVML_GPM_METRIC_NVLINK_L1_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(264);
    pub const NVML_GPM_METRIC_NVLINK_L2_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(265);
    pub const NVML_GPM_METRIC_NVLINK_L2_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(266);
    pub const NVML_GPM_METRIC_NVLINK_L3_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(267);
    pub const NVML_GPM_METRIC_NVLINK_L3_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(268);
    pub const NVML_GPM_METRIC_NVLINK_L4_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(269);
    pub const NVML_GPM_METRIC_NVLINK_L4_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(270);
    pub const NVML_GPM_METRIC_NVLINK_L5_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(271);
    pub const NVML_GPM_METRIC_NVLINK_L5_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(272);
    pub const NVML_GPM_METRIC_NVLINK_L6_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(273);
    pub const NVML_GPM_METRIC_NVLINK_L6_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(274);
    pub const NVML_GPM_METRIC_NVLINK_L7_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(275);
    pub const NVML_GPM_METRIC_NVLINK_L7_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(276);
    pub const NVML_GPM_METRIC_NVLINK_L8_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(277);
    pub const NVML_GPM_METRIC_NVLINK_L8_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(278);
    pub const NVML_GPM_METRIC_NVLINK_L9_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(279);
    pub const NVML_GPM_METRIC_NVLINK_L9_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(280);
    pub const NVML_GPM_METRIC_NVLINK_L10_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(281);
    pub const NVML_GPM_METRIC_NVLINK_L10_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(282);
    pub const NVML_GPM_METRIC_NVLINK_L11_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(283);
    pub const NVML_GPM_METRIC_NVLINK_L11_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(284);
    pub const NVML_GPM_METRIC_NVLINK_L12_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(285);
    pub const NVML_GPM_METRIC_NVLINK_L12_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(286);
    pub const NVML_GPM_METRIC_NVLINK_L13_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(287);
    pub const NVML_GPM_METRIC_NVLINK_L13_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(288);
    pub const NVML_GPM_METRIC_NVLINK_L14_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(289);
    pub const NVML_GPM_METRIC_NVLINK_L14_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(290);
    pub const NVML_GPM_METRIC_NVLINK_L15_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(291);
    pub const NVML_GPM_METRIC_NVLINK_L15_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(292);
    pub const NVML_GPM_METRIC_NVLINK_L16_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(293);
    pub const NVML_GPM_METRIC_NVLINK_L16_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(294);
    pub const NVML_GPM_METRIC_NVLINK_L17_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(295);
    pub const NVML_GPM_METRIC_NVLINK_L17_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(296);
    pub const NVML_GPM_METRIC_NVLINK_L18_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(297);
    pub const NVML_GPM_METRIC_NVLINK_L18_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(298);
    pub const NVML_GPM_METRIC_NVLINK_L19_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(299);
    pub const NVML_GPM_METRIC_NVLINK_L19_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(300);
    pub const NVML_GPM_METRIC_NVLINK_L20_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(301);
    pub const NVML_GPM_METRIC_NVLINK_L20_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(302);
    pub const NVML_GPM_METRIC_NVLINK_L21_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(303);
    pub const NVML_GPM_METRIC_NVLINK_L21_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(304);
    pub const NVML_GPM_METRIC_NVLINK_L22_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(305);
    pub const NVML_GPM_METRIC_NVLINK_L22_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(306);
    pub const NVML_GPM_METRIC_NVLINK_L23_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(307);
    pub const NVML_GPM_METRIC_NVLINK_L23_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(308);
    pub const NVML_GPM_METRIC_NVLINK_L24_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(309);
    pub const NVML_GPM_METRIC_NVLINK_L24_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(310);
    pub const NVML_GPM_METRIC_NVLINK_L25_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(311);
    pub const NVML_GPM_METRIC_NVLINK_L25_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(312);
    pub const NVML_GPM_METRIC_NVLINK_L26_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(313);
    pub const NVML_GPM_METRIC_NVLINK_L26_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(314);
    pub const NVML_GPM_METRIC_NVLINK_L27_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(315);
    pub const NVML_GPM_METRIC_NVLINK_L27_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(316);
    pub const NVML_GPM_METRIC_NVLINK_L28_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(317);
    pub const NVML_GPM_METRIC_NVLINK_L28_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(318);
    pub const NVML_GPM_METRIC_NVLINK_L29_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(319);
    pub const NVML_GPM_METRIC_NVLINK_L29_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(320);
    pub const NVML_GPM_METRIC_NVLINK_L30_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(321);
    pub const NVML_GPM_METRIC_NVLINK_L30_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(322);
    pub const NVML_GPM_METRIC_NVLINK_L31_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(323);
    pub const NVML_GPM_METRIC_NVLINK_L31_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(324);
    pub const NVML_GPM_METRIC_NVLINK_L32_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(325);
    pub const NVML_GPM_METRIC_NVLINK_L32_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(326);
    pub const NVML_GPM_METRIC_NVLINK_L33_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(327);
    pub const NVML_GPM_METRIC_NVLINK_L33_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(328);
    pub const NVML_GPM_METRIC_NVLINK_L34_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(329);
    pub const NVML_GPM_METRIC_NVLINK_L34_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(330);
    pub const NVML_GPM_METRIC_NVLINK_L35_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(331);
    pub const NVML_GPM_METRIC_NVLINK_L35_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(332);
    pub const NVML_GPM_METRIC_NVLINK_L36_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(333);
    pub const NVML_GPM_METRIC_NVLINK_L36_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(334);
    pub const NVML_GPM_METRIC_NVLINK_L37_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(335);
    pub const NVML_GPM_METRIC_NVLINK_L37_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(336);
    pub const NVML_GPM_METRIC_NVLINK_L38_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(337);
    pub const NVML_GPM_METRIC_NVLINK_L38_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(338);
    pub const NVML_GPM_METRIC_NVLINK_L39_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(339);
    pub const NVML_GPM_METRIC_NVLINK_L39_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(340);
    pub const NVML_GPM_METRIC_NVLINK_L40_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(341);
    pub const NVML_GPM_METRIC_NVLINK_L40_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(342);
    pub const NVML_GPM_METRIC_NVLINK_L41_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(343);
    pub const NVML_GPM_METRIC_NVLINK_L41_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(344);
    pub const NVML_GPM_METRIC_NVLINK_L42_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(345);
    pub const NVML_GPM_METRIC_NVLINK_L42_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(346);
    pub const NVML_GPM_METRIC_NVLINK_L43_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(347);
    pub const NVML_GPM_METRIC_NVLINK_L43_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(348);
    pub const NVML_GPM_METRIC_NVLINK_L44_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(349);
    pub const NVML_GPM_METRIC_NVLINK_L44_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(350);
    pub const NVML_GPM_METRIC_NVLINK_L45_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(351);
    pub const NVML_GPM_METRIC_NVLINK_L45_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(352);
    pub const NVML_GPM_METRIC_NVLINK_L46_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(353);
    pub const NVML_GPM_METRIC_NVLINK_L46_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(354);
    pub const NVML_GPM_METRIC_NVLINK_L47_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(355);
    pub const NVML_GPM_METRIC_NVLINK_L47_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(356);
    pub const NVML_GPM_METRIC_NVLINK_L48_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(357);
    pub const NVML_GPM_METRIC_NVLINK_L48_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(358);
    pub const NVML_GPM_METRIC_NVLINK_L49_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(359);
    pub const NVML_GPM_METRIC_NVLINK_L49_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(360);
    pub const NVML_GPM_METRIC_NVLINK_L50_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(361);
    pub const NVML_GPM_METRIC_NVLINK_L50_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(362);
    pub const NVML_GPM_METRIC_NVLINK_L51_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(363);
    pub const NVML_GPM_METRIC_NVLINK_L51_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(364);
    pub const NVML_GPM_METRIC_NVLINK_L52_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(365);
    pub const NVML_GPM_METRIC_NVLINK_L52_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(366);
    pub const NVML_GPM_METRIC_NVLINK_L53_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(367);
    pub const NVML_GPM_METRIC_NVLINK_L53_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(368);
    pub const NVML_GPM_METRIC_NVLINK_L54_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(369);
    pub const NVML_GPM_METRIC_NVLINK_L54_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(370);
    pub const NVML_GPM_METRIC_NVLINK_L55_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(371);
    pub const NVML_GPM_METRIC_NVLINK_L55_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(372);
    pub const NVML_GPM_METRIC_NVLINK_L56_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(373);
    pub const NVML_GPM_METRIC_NVLINK_L56_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(374);
    pub const NVML_GPM_METRIC_NVLINK_L57_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(375);
    pub const NVML_GPM_METRIC_NVLINK_L57_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(376);
    pub const NVML_GPM_METRIC_NVLINK_L58_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(377);
    pub const NVML_GPM_METRIC_NVLINK_L58_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(378);
    pub const NVML_GPM_METRIC_NVLINK_L59_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(379);
    pub const NVML_GPM_METRIC_NVLINK_L59_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(380);
    pub const NVML_GPM_METRIC_NVLINK_L60_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(381);
    pub const NVML_GPM_METRIC_NVLINK_L60_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(382);
    pub const NVML_GPM_METRIC_NVLINK_L61_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(383);
    pub const NVML_GPM_METRIC_NVLINK_L61_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(384);
    pub const NVML_GPM_METRIC_NVLINK_L62_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(385);
    pub const NVML_GPM_METRIC_NVLINK_L62_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(386);
    pub const NVML_GPM_METRIC_NVLINK_L63_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(387);
    pub const NVML_GPM_METRIC_NVLINK_L63_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(388);
    pub const NVML_GPM_METRIC_NVLINK_L64_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(389);
    pub const NVML_GPM_METRIC_NVLINK_L64_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(390);
    pub const NVML_GPM_METRIC_NVLINK_L65_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(391);
    pub const NVML_GPM_METRIC_NVLINK_L65_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(392);
    pub const NVML_GPM_METRIC_NVLINK_L66_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(393);
    pub const NVML_GPM_METRIC_NVLINK_L66_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(394);
    pub const NVML_GPM_METRIC_NVLINK_L67_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(395);
    pub const NVML_GPM_METRIC_NVLINK_L67_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(396);
    pub const NVML_GPM_METRIC_NVLINK_L68_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(397);
    pub const NVML_GPM_METRIC_NVLINK_L68_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(398);
    pub const NVML_GPM_METRIC_NVLINK_L69_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(399);
    pub const NVML_GPM_METRIC_NVLINK_L69_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(400);
    pub const NVML_GPM_METRIC_NVLINK_L70_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(401);
    pub const NVML_GPM_METRIC_NVLINK_L70_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(402);
    pub const NVML_GPM_METRIC_NVLINK_L71_RX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(403);
    pub const NVML_GPM_METRIC_NVLINK_L71_TX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(404);
    pub const NVML_GPM_METRIC_NVLINK_L36_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        405,
    );
    pub const NVML_GPM_METRIC_NVLINK_L36_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        406,
    );
    pub const NVML_GPM_METRIC_NVLINK_L37_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        407,
    );
    pub const NVML_GPM_METRIC_NVLINK_L37_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        408,
    );
    pub const NVML_GPM_METRIC_NVLINK_L38_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        409,
    );
    pub const NVML_GPM_METRIC_NVLINK_L38_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        410,
    );
    pub const NVML_GPM_METRIC_NVLINK_L39_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        411,
    );
    pub const NVML_GPM_METRIC_NVLINK_L39_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        412,
    );
    pub const NVML_GPM_METRIC_NVLINK_L40_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        413,
    );
    pub const NVML_GPM_METRIC_NVLINK_L40_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        414,
    );
    pub const NVML_GPM_METRIC_NVLINK_L41_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        415,
    );
    pub const NVML_GPM_METRIC_NVLINK_L41_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        416,
    );
    pub const NVML_GPM_METRIC_NVLINK_L42_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        417,
    );
    pub const NVML_GPM_METRIC_NVLINK_L42_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        418,
    );
    pub const NVML_GPM_METRIC_NVLINK_L43_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        419,
    );
    pub const NVML_GPM_METRIC_NVLINK_L43_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        420,
    );
    pub const NVML_GPM_METRIC_NVLINK_L44_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        421,
    );
    pub const NVML_GPM_METRIC_NVLINK_L44_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        422,
    );
    pub const NVML_GPM_METRIC_NVLINK_L45_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        423,
    );
    pub const NVML_GPM_METRIC_NVLINK_L45_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        424,
    );
    pub const NVML_GPM_METRIC_NVLINK_L46_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        425,
    );
    pub const NVML_GPM_METRIC_NVLINK_L46_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        426,
    );
    pub const NVML_GPM_METRIC_NVLINK_L47_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        427,
    );
    pub const NVML_GPM_METRIC_NVLINK_L47_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        428,
    );
    pub const NVML_GPM_METRIC_NVLINK_L48_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        429,
    );
    pub const NVML_GPM_METRIC_NVLINK_L48_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        430,
    );
    pub const NVML_GPM_METRIC_NVLINK_L49_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        431,
    );
    pub const NVML_GPM_METRIC_NVLINK_L49_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        432,
    );
    pub const NVML_GPM_METRIC_NVLINK_L50_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        433,
    );
    pub const NVML_GPM_METRIC_NVLINK_L50_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        434,
    );
    pub const NVML_GPM_METRIC_NVLINK_L51_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        435,
    );
    pub const NVML_GPM_METRIC_NVLINK_L51_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        436,
    );
    pub const NVML_GPM_METRIC_NVLINK_L52_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        437,
    );
    pub const NVML_GPM_METRIC_NVLINK_L52_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        438,
    );
    pub const NVML_GPM_METRIC_NVLINK_L53_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        439,
    );
    pub const NVML_GPM_METRIC_NVLINK_L53_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        440,
    );
    pub const NVML_GPM_METRIC_NVLINK_L54_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        441,
    );
    pub const NVML_GPM_METRIC_NVLINK_L54_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        442,
    );
    pub const NVML_GPM_METRIC_NVLINK_L55_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        443,
    );
    pub const NVML_GPM_METRIC_NVLINK_L55_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        444,
    );
    pub const NVML_GPM_METRIC_NVLINK_L56_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        445,
    );
    pub const NVML_GPM_METRIC_NVLINK_L56_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        446,
    );
    pub const NVML_GPM_METRIC_NVLINK_L57_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        447,
    );
    pub const NVML_GPM_METRIC_NVLINK_L57_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        448,
    );
    pub const NVML_GPM_METRIC_NVLINK_L58_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        449,
    );
    pub const NVML_GPM_METRIC_NVLINK_L58_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        450,
    );
    pub const NVML_GPM_METRIC_NVLINK_L59_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        451,
    );
    pub const NVML_GPM_METRIC_NVLINK_L59_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        452,
    );
    pub const NVML_GPM_METRIC_NVLINK_L60_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        453,
    );
    pub const NVML_GPM_METRIC_NVLINK_L60_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        454,
    );
    pub const NVML_GPM_METRIC_NVLINK_L61_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        455,
    );
    pub const NVML_GPM_METRIC_NVLINK_L61_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        456,
    );
    pub const NVML_GPM_METRIC_NVLINK_L62_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        457,
    );
    pub const NVML_GPM_METRIC_NVLINK_L62_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        458,
    );
    pub const NVML_GPM_METRIC_NVLINK_L63_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        459,
    );
    pub const NVML_GPM_METRIC_NVLINK_L63_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        460,
    );
    pub const NVML_GPM_METRIC_NVLINK_L64_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        461,
    );
    pub const NVML_GPM_METRIC_NVLINK_L64_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        462,
    );
    pub const NVML_GPM_METRIC_NVLINK_L65_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        463,
    );
    pub const NVML_GPM_METRIC_NVLINK_L65_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        464,
    );
    pub const NVML_GPM_METRIC_NVLINK_L66_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        465,
    );
    pub const NVML_GPM_METRIC_NVLINK_L66_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        466,
    );
    pub const NVML_GPM_METRIC_NVLINK_L67_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        467,
    );
    pub const NVML_GPM_METRIC_NVLINK_L67_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        468,
    );
    pub const NVML_GPM_METRIC_NVLINK_L68_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        469,
    );
    pub const NVML_GPM_METRIC_NVLINK_L68_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        470,
    );
    pub const NVML_GPM_METRIC_NVLINK_L69_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        471,
    );
    pub const NVML_GPM_METRIC_NVLINK_L69_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        472,
    );
    pub const NVML_GPM_METRIC_NVLINK_L70_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        473,
    );
    pub const NVML_GPM_METRIC_NVLINK_L70_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        474,
    );
    pub const NVML_GPM_METRIC_NVLINK_L71_RX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        475,
    );
    pub const NVML_GPM_METRIC_NVLINK_L71_TX_PER_SEC: nvmlGpmMetricId_t = nvmlGpmMetricId_t(
        476,
    );
    pub const NVML_GPM_METRIC_MAX: nvmlGpmMetricId_t = nvmlGpmMetricId_t(477);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpmMetricId_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpmMetric_t {
    pub metricId: ::core::ffi::c_uint,
    pub nvmlReturn: nvmlReturn_t,
    pub value: f64,
    pub metricInfo: nvmlGpmMetric_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpmMetric_t__bindgen_ty_1 {
    pub shortName: *mut ::core::ffi::c_char,
    pub longName: *mut ::core::ffi::c_char,
    pub unit: *mut ::core::ffi::c_char,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpmMetricsGet_t {
    pub version: ::core::ffi::c_uint,
    pub numMetrics: ::core::ffi::c_uint,
    pub sample1: nvmlGpmSample_t,
    pub sample2: nvmlGpmSample_t,
    pub metrics: [nvmlGpmMetric_t; 477usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpmSample_st {
    _unused: [u8; 0],
}
pub type nvmlGpmSample_t = *mut nvmlGpmSample_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpmSupport_t {
    pub version: ::core::ffi::c_uint,
    pub isSupportedDevice: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuDynamicPstatesInfo_st {
    pub flags: ::core::ffi::c_uint,
    pub utilization: [nvmlGpuDynamicPstatesInfo_st__bindgen_ty_1; 8usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuDynamicPstatesInfo_st__bindgen_ty_1 {
    pub bIsPresent: ::core::ffi::c_uint,
    pub percentage: ::core::ffi::c_uint,
    pub incThreshold: ::core::ffi::c_uint,
    pub decThreshold: ::core::ffi::c_uint,
}
pub type nvmlGpuDynamicPstatesInfo_t = nvmlGpuDynamicPstatesInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuFabricClique_v1_t {
    pub type_: ::core::ffi::c_uchar,
    pub id: ::core::ffi::c_uint,
}
pub type nvmlGpuFabricInfoV_t = nvmlGpuFabricInfo_v3_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuFabricInfo_t {
    pub clusterUuid: [::core::ffi::c_uchar; 16usize],
    pub status: nvmlReturn_t,
    pub cliqueId: ::core::ffi::c_uint,
    pub state: nvmlGpuFabricState_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuFabricInfo_v2_t {
    pub version: ::core::ffi::c_uint,
    pub clusterUuid: [::core::ffi::c_uchar; 16usize],
    pub status: nvmlReturn_t,
    pub cliqueId: ::core::ffi::c_uint,
    pub state: nvmlGpuFabricState_t,
    pub healthMask: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuFabricInfo_v3_t {
    pub version: ::core::ffi::c_uint,
    pub clusterUuid: [::core::ffi::c_uchar; 16usize],
    pub status: nvmlReturn_t,
    pub cliqueId: ::core::ffi::c_uint,
    pub state: nvmlGpuFabricState_t,
    pub healthMask: ::core::ffi::c_uint,
    pub healthSummary: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuFabricInfo_v4_t {
    pub clusterUuid: [::core::ffi::c_uchar; 16usize],
    pub status: nvmlReturn_t,
    pub cliques: [nvmlGpuFabricClique_v1_t; 64usize],
    pub numCliques: ::core::ffi::c_uint,
    pub state: nvmlGpuFabricState_t,
    pub healthMask: ::core::ffi::c_uint,
    pub healthSummary: ::core::ffi::c_uchar,
}
pub type nvmlGpuFabricState_t = ::core::ffi::c_uchar;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuInstanceInfo_st {
    pub device: nvmlDevice_t,
    pub id: ::core::ffi::c_uint,
    pub profileId: ::core::ffi::c_uint,
    pub placement: nvmlGpuInstancePlacement_t,
}
pub type nvmlGpuInstanceInfo_t = nvmlGpuInstanceInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuInstancePlacement_st {
    pub start: ::core::ffi::c_uint,
    pub size: ::core::ffi::c_uint,
}
pub type nvmlGpuInstancePlacement_t = nvmlGpuInstancePlacement_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuInstanceProfileInfo_st {
    pub id: ::core::ffi::c_uint,
    pub isP2pSupported: ::core::ffi::c_uint,
    pub sliceCount: ::core::ffi::c_uint,
    pub instanceCount: ::core::ffi::c_uint,
    pub multiprocessorCount: ::core::ffi::c_uint,
    pub copyEngineCount: ::core::ffi::c_uint,
    pub decoderCount: ::core::ffi::c_uint,
    pub encoderCount: ::core::ffi::c_uint,
    pub jpegCount: ::core::ffi::c_uint,
    pub ofaCount: ::core::ffi::c_uint,
    pub memorySizeMB: ::core::ffi::c_ulonglong,
}
pub type nvmlGpuInstanceProfileInfo_t = nvmlGpuInstanceProfileInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuInstanceProfileInfo_v2_st {
    pub version: ::core::ffi::c_uint,
    pub id: ::core::ffi::c_uint,
    pub isP2pSupported: ::core::ffi::c_uint,
    pub sliceCount: ::core::ffi::c_uint,
    pub instanceCount: ::core::ffi::c_uint,
    pub multiprocessorCount: ::core::ffi::c_uint,
    pub copyEngineCount: ::core::ffi::c_uint,
    pub decoderCount: ::core::ffi::c_uint,
    pub encoderCount: ::core::ffi::c_uint,
    pub jpegCount: ::core::ffi::c_uint,
    pub ofaCount: ::core::ffi::c_uint,
    pub memorySizeMB: ::core::ffi::c_ulonglong,
    pub name: [::core::ffi::c_char; 96usize],
}
pub type nvmlGpuInstanceProfileInfo_v2_t = nvmlGpuInstanceProfileInfo_v2_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuInstanceProfileInfo_v3_st {
    pub version: ::core::ffi::c_uint,
    pub id: ::core::ffi::c_uint,
    pub sliceCount: ::core::ffi::c_uint,
    pub instanceCount: ::core::ffi::c_uint,
    pub multiprocessorCount: ::core::ffi::c_uint,
    pub copyEngineCount: ::core::ffi::c_uint,
    pub decoderCount: ::core::ffi::c_uint,
    pub encoderCount: ::core::ffi::c_uint,
    pub jpegCount: ::core::ffi::c_uint,
    pub ofaCount: ::core::ffi::c_uint,
    pub memorySizeMB: ::core::ffi::c_ulonglong,
    pub name: [::core::ffi::c_char; 96usize],
    pub capabilities: ::core::ffi::c_uint,
}
pub type nvmlGpuInstanceProfileInfo_v3_t = nvmlGpuInstanceProfileInfo_v3_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuInstance_st {
    _unused: [u8; 0],
}
pub type nvmlGpuInstance_t = *mut nvmlGpuInstance_st;
impl nvmlGpuLevel_enum {
    pub const NVML_TOPOLOGY_INTERNAL: nvmlGpuLevel_enum = nvmlGpuLevel_enum(0);
    pub const NVML_TOPOLOGY_SINGLE: nvmlGpuLevel_enum = nvmlGpuLevel_enum(10);
    pub const NVML_TOPOLOGY_MULTIPLE: nvmlGpuLevel_enum = nvmlGpuLevel_enum(20);
    pub const NVML_TOPOLOGY_HOSTBRIDGE: nvmlGpuLevel_enum = nvmlGpuLevel_enum(30);
    pub const NVML_TOPOLOGY_NODE: nvmlGpuLevel_enum = nvmlGpuLevel_enum(40);
    pub const NVML_TOPOLOGY_SYSTEM: nvmlGpuLevel_enum = nvmlGpuLevel_enum(50);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpuLevel_enum(pub ::core::ffi::c_uint);
pub use self::nvmlGom_enum as nvmlGpuOperationMode_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuOperationalEventConfig_v1_st {
    pub uuid: [::core::ffi::c_char; 96usize],
    pub minLogLevel: ::core::ffi::c_uint,
    pub minSeverity: ::core::ffi::c_uint,
}
pub type nvmlGpuOperationalEventConfig_v1_t = nvmlGpuOperationalEventConfig_v1_st;
impl nvmlGpuOperationalEventContextType_t {
    pub const NVML_GPU_OPERATIONAL_EVENT_CONTEXT_TYPE_UNKNOWN: nvmlGpuOperationalEventContextType_t = nvmlGpuOperationalEventContextType_t(
        0,
    );
    pub const NVML_GPU_OPERATIONAL_EVENT_CONTEXT_TYPE_LEGACY_XID: nvmlGpuOperationalEventContextType_t = nvmlGpuOperationalEventContextType_t(
        1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpuOperationalEventContextType_t(pub ::core::ffi::c_uint);
impl nvmlGpuOperationalEventLogLevel_t {
    pub const NVML_GPU_OPERATIONAL_EVENT_LOG_LEVEL_ALL: nvmlGpuOperationalEventLogLevel_t = nvmlGpuOperationalEventLogLevel_t(
        0,
    );
    pub const NVML_GPU_OPERATIONAL_EVENT_LOG_LEVEL_TELEMETRY: nvmlGpuOperationalEventLogLevel_t = nvmlGpuOperationalEventLogLevel_t(
        10,
    );
    pub const NVML_GPU_OPERATIONAL_EVENT_LOG_LEVEL_DIAG: nvmlGpuOperationalEventLogLevel_t = nvmlGpuOperationalEventLogLevel_t(
        20,
    );
    pub const NVML_GPU_OPERATIONAL_EVENT_LOG_LEVEL_NOTICE: nvmlGpuOperationalEventLogLevel_t = nvmlGpuOperationalEventLogLevel_t(
        30,
    );
    pub const NVML_GPU_OPERATIONAL_EVENT_LOG_LEVEL_WARNING: nvmlGpuOperationalEventLogLevel_t = nvmlGpuOperationalEventLogLevel_t(
        40,
    );
    pub const NVML_GPU_OPERATIONAL_EVENT_LOG_LEVEL_ERROR: nvmlGpuOperationalEventLogLevel_t = nvmlGpuOperationalEventLogLevel_t(
        50,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpuOperationalEventLogLevel_t(pub ::core::ffi::c_uint);
impl nvmlGpuP2PCapsIndex_enum {
    pub const NVML_P2P_CAPS_INDEX_READ: nvmlGpuP2PCapsIndex_enum = nvmlGpuP2PCapsIndex_enum(
        0,
    );
    pub const NVML_P2P_CAPS_INDEX_WRITE: nvmlGpuP2PCapsIndex_enum = nvmlGpuP2PCapsIndex_enum(
        1,
    );
    pub const NVML_P2P_CAPS_INDEX_NVLINK: nvmlGpuP2PCapsIndex_enum = nvmlGpuP2PCapsIndex_enum(
        2,
    );
    pub const NVML_P2P_CAPS_INDEX_ATOMICS: nvmlGpuP2PCapsIndex_enum = nvmlGpuP2PCapsIndex_enum(
        3,
    );
    pub const NVML_P2P_CAPS_INDEX_PCI: nvmlGpuP2PCapsIndex_enum = nvmlGpuP2PCapsIndex_enum(
        4,
    );
    pub const NVML_P2P_CAPS_INDEX_PROP: nvmlGpuP2PCapsIndex_enum = nvmlGpuP2PCapsIndex_enum(
        4,
    );
    pub const NVML_P2P_CAPS_INDEX_UNKNOWN: nvmlGpuP2PCapsIndex_enum = nvmlGpuP2PCapsIndex_enum(
        5,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpuP2PCapsIndex_enum(pub ::core::ffi::c_uint);
pub use self::nvmlGpuP2PCapsIndex_enum as nvmlGpuP2PCapsIndex_t;
impl nvmlGpuP2PStatus_enum {
    pub const NVML_P2P_STATUS_OK: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(0);
    pub const NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(
        1,
    );
    pub const NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(
        1,
    );
    pub const NVML_P2P_STATUS_GPU_NOT_SUPPORTED: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(
        2,
    );
    pub const NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(
        3,
    );
    pub const NVML_P2P_STATUS_DISABLED_BY_REGKEY: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(
        4,
    );
    pub const NVML_P2P_STATUS_NOT_SUPPORTED: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(
        5,
    );
    pub const NVML_P2P_STATUS_UNKNOWN: nvmlGpuP2PStatus_enum = nvmlGpuP2PStatus_enum(6);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpuP2PStatus_enum(pub ::core::ffi::c_uint);
pub use self::nvmlGpuP2PStatus_enum as nvmlGpuP2PStatus_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuThermalSettings_t {
    pub count: ::core::ffi::c_uint,
    pub sensor: [nvmlGpuThermalSettings_t__bindgen_ty_1; 3usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuThermalSettings_t__bindgen_ty_1 {
    pub controller: nvmlThermalController_t,
    pub defaultMinTemp: ::core::ffi::c_int,
    pub defaultMaxTemp: ::core::ffi::c_int,
    pub currentTemp: ::core::ffi::c_int,
    pub target: nvmlThermalTarget_t,
}
pub use self::nvmlGpuLevel_enum as nvmlGpuTopologyLevel_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGpuUptime_v1_t {
    pub uptime: ::core::ffi::c_uint,
}
impl nvmlGpuUtilizationDomainId_t {
    pub const NVML_GPU_UTILIZATION_DOMAIN_GPU: nvmlGpuUtilizationDomainId_t = nvmlGpuUtilizationDomainId_t(
        0,
    );
    pub const NVML_GPU_UTILIZATION_DOMAIN_FB: nvmlGpuUtilizationDomainId_t = nvmlGpuUtilizationDomainId_t(
        1,
    );
    pub const NVML_GPU_UTILIZATION_DOMAIN_VID: nvmlGpuUtilizationDomainId_t = nvmlGpuUtilizationDomainId_t(
        2,
    );
    pub const NVML_GPU_UTILIZATION_DOMAIN_BUS: nvmlGpuUtilizationDomainId_t = nvmlGpuUtilizationDomainId_t(
        3,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpuUtilizationDomainId_t(pub ::core::ffi::c_uint);
impl nvmlGpuVirtualizationMode {
    pub const NVML_GPU_VIRTUALIZATION_MODE_NONE: nvmlGpuVirtualizationMode = nvmlGpuVirtualizationMode(
        0,
    );
    pub const NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH: nvmlGpuVirtualizationMode = nvmlGpuVirtualizationMode(
        1,
    );
    pub const NVML_GPU_VIRTUALIZATION_MODE_VGPU: nvmlGpuVirtualizationMode = nvmlGpuVirtualizationMode(
        2,
    );
    pub const NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU: nvmlGpuVirtualizationMode = nvmlGpuVirtualizationMode(
        3,
    );
    pub const NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA: nvmlGpuVirtualizationMode = nvmlGpuVirtualizationMode(
        4,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGpuVirtualizationMode(pub ::core::ffi::c_uint);
pub use self::nvmlGpuVirtualizationMode as nvmlGpuVirtualizationMode_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGridLicensableFeature_st {
    pub featureCode: nvmlGridLicenseFeatureCode_t,
    pub featureState: ::core::ffi::c_uint,
    pub licenseInfo: [::core::ffi::c_char; 128usize],
    pub productName: [::core::ffi::c_char; 128usize],
    pub featureEnabled: ::core::ffi::c_uint,
    pub licenseExpiry: nvmlGridLicenseExpiry_t,
}
pub type nvmlGridLicensableFeature_t = nvmlGridLicensableFeature_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGridLicensableFeatures_st {
    pub isGridLicenseSupported: ::core::ffi::c_int,
    pub licensableFeaturesCount: ::core::ffi::c_uint,
    pub gridLicensableFeatures: [nvmlGridLicensableFeature_t; 3usize],
}
pub type nvmlGridLicensableFeatures_t = nvmlGridLicensableFeatures_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlGridLicenseExpiry_st {
    pub year: ::core::ffi::c_uint,
    pub month: ::core::ffi::c_ushort,
    pub day: ::core::ffi::c_ushort,
    pub hour: ::core::ffi::c_ushort,
    pub min: ::core::ffi::c_ushort,
    pub sec: ::core::ffi::c_ushort,
    pub status: ::core::ffi::c_uchar,
}
pub type nvmlGridLicenseExpiry_t = nvmlGridLicenseExpiry_st;
impl nvmlGridLicenseFeatureCode_t {
    pub const NVML_GRID_LICENSE_FEATURE_CODE_UNKNOWN: nvmlGridLicenseFeatureCode_t = nvmlGridLicenseFeatureCode_t(
        0,
    );
    pub const NVML_GRID_LICENSE_FEATURE_CODE_VGPU: nvmlGridLicenseFeatureCode_t = nvmlGridLicenseFeatureCode_t(
        1,
    );
    pub const NVML_GRID_LICENSE_FEATURE_CODE_NVIDIA_RTX: nvmlGridLicenseFeatureCode_t = nvmlGridLicenseFeatureCode_t(
        2,
    );
    pub const NVML_GRID_LICENSE_FEATURE_CODE_VWORKSTATION: nvmlGridLicenseFeatureCode_t = nvmlGridLicenseFeatureCode_t(
        2,
    );
    pub const NVML_GRID_LICENSE_FEATURE_CODE_GAMING: nvmlGridLicenseFeatureCode_t = nvmlGridLicenseFeatureCode_t(
        3,
    );
    pub const NVML_GRID_LICENSE_FEATURE_CODE_COMPUTE: nvmlGridLicenseFeatureCode_t = nvmlGridLicenseFeatureCode_t(
        4,
    );
    pub const NVML_GRID_LICENSE_FEATURE_CODE_VGAMEDEV: nvmlGridLicenseFeatureCode_t = nvmlGridLicenseFeatureCode_t(
        5,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlGridLicenseFeatureCode_t(pub ::core::ffi::c_uint);
impl nvmlHostVgpuMode_enum {
    pub const NVML_HOST_VGPU_MODE_NON_SRIOV: nvmlHostVgpuMode_enum = nvmlHostVgpuMode_enum(
        0,
    );
    pub const NVML_HOST_VGPU_MODE_SRIOV: nvmlHostVgpuMode_enum = nvmlHostVgpuMode_enum(
        1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlHostVgpuMode_enum(pub ::core::ffi::c_uint);
pub use self::nvmlHostVgpuMode_enum as nvmlHostVgpuMode_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlHostname_v1_t {
    pub value: [::core::ffi::c_char; 64usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlHwbcEntry_st {
    pub hwbcId: ::core::ffi::c_uint,
    pub firmwareVersion: [::core::ffi::c_char; 32usize],
}
pub type nvmlHwbcEntry_t = nvmlHwbcEntry_st;
impl nvmlInforomObject_enum {
    pub const NVML_INFOROM_OEM: nvmlInforomObject_enum = nvmlInforomObject_enum(0);
    pub const NVML_INFOROM_ECC: nvmlInforomObject_enum = nvmlInforomObject_enum(1);
    pub const NVML_INFOROM_POWER: nvmlInforomObject_enum = nvmlInforomObject_enum(2);
    pub const NVML_INFOROM_DEN: nvmlInforomObject_enum = nvmlInforomObject_enum(3);
    pub const NVML_INFOROM_COUNT: nvmlInforomObject_enum = nvmlInforomObject_enum(4);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlInforomObject_enum(pub ::core::ffi::c_uint);
pub use self::nvmlInforomObject_enum as nvmlInforomObject_t;
impl nvmlIntNvLinkDeviceType_enum {
    pub const NVML_NVLINK_DEVICE_TYPE_GPU: nvmlIntNvLinkDeviceType_enum = nvmlIntNvLinkDeviceType_enum(
        0,
    );
    pub const NVML_NVLINK_DEVICE_TYPE_IBMNPU: nvmlIntNvLinkDeviceType_enum = nvmlIntNvLinkDeviceType_enum(
        1,
    );
    pub const NVML_NVLINK_DEVICE_TYPE_SWITCH: nvmlIntNvLinkDeviceType_enum = nvmlIntNvLinkDeviceType_enum(
        2,
    );
    pub const NVML_NVLINK_DEVICE_TYPE_UNKNOWN: nvmlIntNvLinkDeviceType_enum = nvmlIntNvLinkDeviceType_enum(
        255,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlIntNvLinkDeviceType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlIntNvLinkDeviceType_enum as nvmlIntNvLinkDeviceType_t;
impl nvmlLedColor_enum {
    pub const NVML_LED_COLOR_GREEN: nvmlLedColor_enum = nvmlLedColor_enum(0);
    pub const NVML_LED_COLOR_AMBER: nvmlLedColor_enum = nvmlLedColor_enum(1);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlLedColor_enum(pub ::core::ffi::c_uint);
pub use self::nvmlLedColor_enum as nvmlLedColor_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlLedState_st {
    pub cause: [::core::ffi::c_char; 256usize],
    pub color: nvmlLedColor_t,
}
pub type nvmlLedState_t = nvmlLedState_st;
pub type nvmlMarginTemperature_t = nvmlMarginTemperature_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlMarginTemperature_v1_t {
    pub version: ::core::ffi::c_uint,
    pub marginTemperature: ::core::ffi::c_int,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlMask255_t {
    pub mask: [::core::ffi::c_uint; 8usize],
}
impl nvmlMemoryErrorType_enum {
    pub const NVML_MEMORY_ERROR_TYPE_CORRECTED: nvmlMemoryErrorType_enum = nvmlMemoryErrorType_enum(
        0,
    );
    pub const NVML_MEMORY_ERROR_TYPE_UNCORRECTED: nvmlMemoryErrorType_enum = nvmlMemoryErrorType_enum(
        1,
    );
    pub const NVML_MEMORY_ERROR_TYPE_COUNT: nvmlMemoryErrorType_enum = nvmlMemoryErrorType_enum(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlMemoryErrorType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlMemoryErrorType_enum as nvmlMemoryErrorType_t;
impl nvmlMemoryLocation_enum {
    pub const NVML_MEMORY_LOCATION_L1_CACHE: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        0,
    );
    pub const NVML_MEMORY_LOCATION_L2_CACHE: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        1,
    );
    pub const NVML_MEMORY_LOCATION_DRAM: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        2,
    );
    pub const NVML_MEMORY_LOCATION_DEVICE_MEMORY: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        2,
    );
    pub const NVML_MEMORY_LOCATION_REGISTER_FILE: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        3,
    );
    pub const NVML_MEMORY_LOCATION_TEXTURE_MEMORY: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        4,
    );
    pub const NVML_MEMORY_LOCATION_TEXTURE_SHM: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        5,
    );
    pub const NVML_MEMORY_LOCATION_CBU: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        6,
    );
    pub const NVML_MEMORY_LOCATION_SRAM: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        7,
    );
    pub const NVML_MEMORY_LOCATION_COUNT: nvmlMemoryLocation_enum = nvmlMemoryLocation_enum(
        8,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlMemoryLocation_enum(pub ::core::ffi::c_uint);
pub use self::nvmlMemoryLocation_enum as nvmlMemoryLocation_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlMemory_st {
    pub total: ::core::ffi::c_ulonglong,
    pub free: ::core::ffi::c_ulonglong,
    pub used: ::core::ffi::c_ulonglong,
}
pub type nvmlMemory_t = nvmlMemory_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlMemory_v2_st {
    pub version: ::core::ffi::c_uint,
    pub total: ::core::ffi::c_ulonglong,
    pub reserved: ::core::ffi::c_ulonglong,
    pub free: ::core::ffi::c_ulonglong,
    pub used: ::core::ffi::c_ulonglong,
}
pub type nvmlMemory_v2_t = nvmlMemory_v2_st;
impl nvmlNvLinkCapability_enum {
    pub const NVML_NVLINK_CAP_P2P_SUPPORTED: nvmlNvLinkCapability_enum = nvmlNvLinkCapability_enum(
        0,
    );
    pub const NVML_NVLINK_CAP_SYSMEM_ACCESS: nvmlNvLinkCapability_enum = nvmlNvLinkCapability_enum(
        1,
    );
    pub const NVML_NVLINK_CAP_P2P_ATOMICS: nvmlNvLinkCapability_enum = nvmlNvLinkCapability_enum(
        2,
    );
    pub const NVML_NVLINK_CAP_SYSMEM_ATOMICS: nvmlNvLinkCapability_enum = nvmlNvLinkCapability_enum(
        3,
    );
    pub const NVML_NVLINK_CAP_SLI_BRIDGE: nvmlNvLinkCapability_enum = nvmlNvLinkCapability_enum(
        4,
    );
    pub const NVML_NVLINK_CAP_VALID: nvmlNvLinkCapability_enum = nvmlNvLinkCapability_enum(
        5,
    );
    pub const NVML_NVLINK_CAP_COUNT: nvmlNvLinkCapability_enum = nvmlNvLinkCapability_enum(
        6,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlNvLinkCapability_enum(pub ::core::ffi::c_uint);
pub use self::nvmlNvLinkCapability_enum as nvmlNvLinkCapability_t;
impl nvmlNvLinkErrorCounter_enum {
    pub const NVML_NVLINK_ERROR_DL_REPLAY: nvmlNvLinkErrorCounter_enum = nvmlNvLinkErrorCounter_enum(
        0,
    );
    pub const NVML_NVLINK_ERROR_DL_RECOVERY: nvmlNvLinkErrorCounter_enum = nvmlNvLinkErrorCounter_enum(
        1,
    );
    pub const NVML_NVLINK_ERROR_DL_CRC_FLIT: nvmlNvLinkErrorCounter_enum = nvmlNvLinkErrorCounter_enum(
        2,
    );
    pub const NVML_NVLINK_ERROR_DL_CRC_DATA: nvmlNvLinkErrorCounter_enum = nvmlNvLinkErrorCounter_enum(
        3,
    );
    pub const NVML_NVLINK_ERROR_DL_ECC_DATA: nvmlNvLinkErrorCounter_enum = nvmlNvLinkErrorCounter_enum(
        4,
    );
    pub const NVML_NVLINK_ERROR_COUNT: nvmlNvLinkErrorCounter_enum = nvmlNvLinkErrorCounter_enum(
        5,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlNvLinkErrorCounter_enum(pub ::core::ffi::c_uint);
pub use self::nvmlNvLinkErrorCounter_enum as nvmlNvLinkErrorCounter_t;
pub type nvmlNvLinkInfo_t = nvmlNvLinkInfo_v2_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvLinkInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub isNvleEnabled: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvLinkInfo_v2_t {
    pub version: ::core::ffi::c_uint,
    pub isNvleEnabled: ::core::ffi::c_uint,
    pub firmwareInfo: nvmlNvlinkFirmwareInfo_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvLinkInfo_v3_t {
    pub isNvleEnabled: ::core::ffi::c_uint,
    pub firmwareInfo: nvmlNvlinkFirmwareInfo_t,
    pub isNvleReady: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvLinkPowerThres_st {
    pub lowPwrThreshold: ::core::ffi::c_uint,
}
pub type nvmlNvLinkPowerThres_t = nvmlNvLinkPowerThres_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvLinkUtilizationControl_st {
    pub units: nvmlNvLinkUtilizationCountUnits_t,
    pub pktfilter: nvmlNvLinkUtilizationCountPktTypes_t,
}
pub type nvmlNvLinkUtilizationControl_t = nvmlNvLinkUtilizationControl_st;
impl nvmlNvLinkUtilizationCountPktTypes_enum {
    pub const NVML_NVLINK_COUNTER_PKTFILTER_NOP: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        1,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_READ: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        2,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_WRITE: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        4,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_RATOM: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        8,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_NRATOM: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        16,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_FLUSH: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        32,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_RESPDATA: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        64,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_RESPNODATA: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        128,
    );
    pub const NVML_NVLINK_COUNTER_PKTFILTER_ALL: nvmlNvLinkUtilizationCountPktTypes_enum = nvmlNvLinkUtilizationCountPktTypes_enum(
        255,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlNvLinkUtilizationCountPktTypes_enum(pub ::core::ffi::c_uint);
pub use self::nvmlNvLinkUtilizationCountPktTypes_enum as nvmlNvLinkUtilizationCountPktTypes_t;
impl nvmlNvLinkUtilizationCountUnits_enum {
    pub const NVML_NVLINK_COUNTER_UNIT_CYCLES: nvmlNvLinkUtilizationCountUnits_enum = nvmlNvLinkUtilizationCountUnits_enum(
        0,
    );
    pub const NVML_NVLINK_COUNTER_UNIT_PACKETS: nvmlNvLinkUtilizationCountUnits_enum = nvmlNvLinkUtilizationCountUnits_enum(
        1,
    );
    pub const NVML_NVLINK_COUNTER_UNIT_BYTES: nvmlNvLinkUtilizationCountUnits_enum = nvmlNvLinkUtilizationCountUnits_enum(
        2,
    );
    pub const NVML_NVLINK_COUNTER_UNIT_RESERVED: nvmlNvLinkUtilizationCountUnits_enum = nvmlNvLinkUtilizationCountUnits_enum(
        3,
    );
    pub const NVML_NVLINK_COUNTER_UNIT_COUNT: nvmlNvLinkUtilizationCountUnits_enum = nvmlNvLinkUtilizationCountUnits_enum(
        4,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlNvLinkUtilizationCountUnits_enum(pub ::core::ffi::c_uint);
pub use self::nvmlNvLinkUtilizationCountUnits_enum as nvmlNvLinkUtilizationCountUnits_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkFirmwareInfo_t {
    pub firmwareVersion: [nvmlNvlinkFirmwareVersion_t; 100usize],
    pub numValidEntries: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkFirmwareVersion_t {
    pub ucodeType: ::core::ffi::c_uchar,
    pub major: ::core::ffi::c_uint,
    pub minor: ::core::ffi::c_uint,
    pub subMinor: ::core::ffi::c_uint,
}
pub type nvmlNvlinkGetBwMode_t = nvmlNvlinkGetBwMode_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkGetBwMode_v1_t {
    pub version: ::core::ffi::c_uint,
    pub bIsBest: ::core::ffi::c_uint,
    pub bwMode: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkGetRemapTableInfo_v1_t {
    pub alid: ::core::ffi::c_uint,
    pub flaRemapTabAddr: [::core::ffi::c_uint; 4096usize],
    pub gpaRemapTabAddr: [::core::ffi::c_uint; 4096usize],
    pub remapTabSize: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkLockRemapTable_v1_t {
    pub bRemapTableLocked: ::core::ffi::c_uchar,
    pub bRemapTableLockDisabled: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkNvlePrivateInfo_v1_t {
    pub data: [::core::ffi::c_uchar; 256usize],
    pub size: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkSetBwModeAsync_v1_t {
    pub bSetBest: ::core::ffi::c_uint,
    pub bwMode: ::core::ffi::c_uint,
    pub asyncPollTimeoutMs: ::core::ffi::c_uint,
}
pub type nvmlNvlinkSetBwMode_t = nvmlNvlinkSetBwMode_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkSetBwMode_v1_t {
    pub version: ::core::ffi::c_uint,
    pub bSetBest: ::core::ffi::c_uint,
    pub bwMode: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkSetNvleReady_v1_t {
    pub bNvleReady: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkSetupNvleEncryptionKey_v1_t {
    pub nvleKey: [::core::ffi::c_uchar; 32usize],
    pub localGpuAlid: ::core::ffi::c_uint,
    pub remoteGpuAlid: ::core::ffi::c_uint,
    pub localGpuNvlePrivateInfo: nvmlNvlinkNvlePrivateInfo_v1_t,
    pub remoteGpuNvlePrivateInfo: nvmlNvlinkNvlePrivateInfo_v1_t,
}
pub type nvmlNvlinkSupportedBwModes_t = nvmlNvlinkSupportedBwModes_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkSupportedBwModes_v1_t {
    pub version: ::core::ffi::c_uint,
    pub bwModes: [::core::ffi::c_uchar; 23usize],
    pub totalBwModes: ::core::ffi::c_uchar,
}
impl nvmlNvlinkTelemetrySampleType_t {
    pub const NVML_NVLINK_TELEMETRY_SAMPLE_TYPE_THROUGHPUT_RAW_TX: nvmlNvlinkTelemetrySampleType_t = nvmlNvlinkTelemetrySampleType_t(
        0,
    );
    pub const NVML_NVLINK_TELEMETRY_SAMPLE_TYPE_THROUGHPUT_RAW_RX: nvmlNvlinkTelemetrySampleType_t = nvmlNvlinkTelemetrySampleType_t(
        1,
    );
    pub const NVML_NVLINK_TELEMETRY_SAMPLE_TYPE_COUNT: nvmlNvlinkTelemetrySampleType_t = nvmlNvlinkTelemetrySampleType_t(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlNvlinkTelemetrySampleType_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkTelemetrySample_v1_t {
    pub linkId: ::core::ffi::c_uint,
    pub sampleType: ::core::ffi::c_uint,
    pub sampleCount: ::core::ffi::c_uint,
    pub samples: *mut ::core::ffi::c_ulonglong,
    pub nvmlReturn: nvmlReturn_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlNvlinkTelemetrySamples_v1_t {
    pub telemetryCount: ::core::ffi::c_uint,
    pub telemetrySamples: *mut nvmlNvlinkTelemetrySample_v1_t,
}
impl nvmlNvlinkVersion_enum {
    pub const NVML_NVLINK_VERSION_INVALID: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        0,
    );
    pub const NVML_NVLINK_VERSION_1_0: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        1,
    );
    pub const NVML_NVLINK_VERSION_2_0: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        2,
    );
    pub const NVML_NVLINK_VERSION_2_2: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        3,
    );
    pub const NVML_NVLINK_VERSION_3_0: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        4,
    );
    pub const NVML_NVLINK_VERSION_3_1: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        5,
    );
    pub const NVML_NVLINK_VERSION_4_0: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        6,
    );
    pub const NVML_NVLINK_VERSION_5_0: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        7,
    );
    pub const NVML_NVLINK_VERSION_6_0: nvmlNvlinkVersion_enum = nvmlNvlinkVersion_enum(
        8,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlNvlinkVersion_enum(pub ::core::ffi::c_uint);
pub use self::nvmlNvlinkVersion_enum as nvmlNvlinkVersion_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlObservedMetrics_t {
    pub initialDramclkEst: [nvmlPwrModelMetricsDlppm1xDramclkEstimates_t; 3usize],
    pub bValid: ::core::ffi::c_uchar,
    pub coreRail: nvmlCoreRailMetrics_t,
    pub fbRail: nvmlRailMetrics_t,
    pub tgpPwrTuple: nvmlPmgrPwrTuple_t,
    pub perfMetrics: nvmlPwrModelMetricsDlppm1xPerf_t,
}
impl nvmlOperationalEventSeverity_t {
    pub const NVML_OPERATIONAL_EVENT_SEVERITY_ALL: nvmlOperationalEventSeverity_t = nvmlOperationalEventSeverity_t(
        0,
    );
    pub const NVML_OPERATIONAL_EVENT_SEVERITY_INFORMATIONAL: nvmlOperationalEventSeverity_t = nvmlOperationalEventSeverity_t(
        10,
    );
    pub const NVML_OPERATIONAL_EVENT_SEVERITY_CORRECTED: nvmlOperationalEventSeverity_t = nvmlOperationalEventSeverity_t(
        20,
    );
    pub const NVML_OPERATIONAL_EVENT_SEVERITY_RECOVERABLE: nvmlOperationalEventSeverity_t = nvmlOperationalEventSeverity_t(
        30,
    );
    pub const NVML_OPERATIONAL_EVENT_SEVERITY_FATAL: nvmlOperationalEventSeverity_t = nvmlOperationalEventSeverity_t(
        40,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlOperationalEventSeverity_t(pub ::core::ffi::c_uint);
impl nvmlPRMCounterId_t {
    pub const NVML_PRM_COUNTER_ID_NONE: nvmlPRMCounterId_t = nvmlPRMCounterId_t(0);
    pub const NVML_PRM_COUNTER_ID_PPCNT_PHYSICAL_LAYER_CTRS_LINK_DOWN_EVENTS: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        1,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PHYSICAL_LAYER_CTRS_SUCCESSFUL_RECOVERY_EVENTS: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        2,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_SUCCESSFUL_RECOVERY_EVENTS: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        101,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TIME_SINCE_LAST_RECOVERY: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        102,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TIME_BETWEEN_LAST_TWO_RECOVERIES: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        103,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TIME_IN_LAST_HOST_SERDES_FEQ_RECOVERY: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        104,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_TIME_IN_HOST_SERDES_FEQ_RECOVERY: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        105,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_HOST_SERDES_FEQ_RECOVERY_COUNT: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        106,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_HOST_SERDES_FEQ_SUCCESSFUL_RECOVERY_COUNT: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        107,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_LAST_HOST_SERDES_FEQ_ATTEMPTS_COUNT: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        108,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_LAST_SUCCESSFUL_RECOVERY_STEP_ATTEMPTS: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        109,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_LAST_SUCCESSFUL_RECOVERY_TIME: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        110,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_SUCCESSFUL_RECOVERY_TIME: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        111,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PORTCOUNTERS_PORT_XMIT_WAIT: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        201,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PLR_RCV_CODES: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        301,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PLR_RCV_CODE_ERR: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        302,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PLR_RCV_UNCORRECTABLE_CODE: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        303,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PLR_XMIT_CODES: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        304,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PLR_XMIT_RETRY_CODES: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        305,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PLR_XMIT_RETRY_EVENTS: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        306,
    );
    pub const NVML_PRM_COUNTER_ID_PPCNT_PLR_SYNC_EVENTS: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        307,
    );
    pub const NVML_PRM_COUNTER_ID_PPRM_OPER_RECOVERY: nvmlPRMCounterId_t = nvmlPRMCounterId_t(
        1001,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPRMCounterId_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPRMCounterInput_v1_t {
    pub localPort: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPRMCounterList_v1_t {
    pub numCounters: ::core::ffi::c_uint,
    pub counters: *mut nvmlPRMCounter_v1_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPRMCounterValue_v1_t {
    pub status: nvmlReturn_t,
    pub outputType: nvmlValueType_t,
    pub outputValue: nvmlValue_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPRMCounter_v1_t {
    pub counterId: ::core::ffi::c_uint,
    pub inData: nvmlPRMCounterInput_v1_t,
    pub counterValue: nvmlPRMCounterValue_v1_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPRMTLV_v1_t {
    pub dataSize: ::core::ffi::c_uint,
    pub status: ::core::ffi::c_uint,
    pub __bindgen_anon_1: nvmlPRMTLV_v1_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvmlPRMTLV_v1_t__bindgen_ty_1 {
    pub inData: [::core::ffi::c_uchar; 496usize],
    pub outData: [::core::ffi::c_uchar; 496usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPSUInfo_st {
    pub state: [::core::ffi::c_char; 256usize],
    pub current: ::core::ffi::c_uint,
    pub voltage: ::core::ffi::c_uint,
    pub power: ::core::ffi::c_uint,
}
pub type nvmlPSUInfo_t = nvmlPSUInfo_st;
impl nvmlPStates_enum {
    pub const NVML_PSTATE_0: nvmlPStates_enum = nvmlPStates_enum(0);
    pub const NVML_PSTATE_1: nvmlPStates_enum = nvmlPStates_enum(1);
    pub const NVML_PSTATE_2: nvmlPStates_enum = nvmlPStates_enum(2);
    pub const NVML_PSTATE_3: nvmlPStates_enum = nvmlPStates_enum(3);
    pub const NVML_PSTATE_4: nvmlPStates_enum = nvmlPStates_enum(4);
    pub const NVML_PSTATE_5: nvmlPStates_enum = nvmlPStates_enum(5);
    pub const NVML_PSTATE_6: nvmlPStates_enum = nvmlPStates_enum(6);
    pub const NVML_PSTATE_7: nvmlPStates_enum = nvmlPStates_enum(7);
    pub const NVML_PSTATE_8: nvmlPStates_enum = nvmlPStates_enum(8);
    pub const NVML_PSTATE_9: nvmlPStates_enum = nvmlPStates_enum(9);
    pub const NVML_PSTATE_10: nvmlPStates_enum = nvmlPStates_enum(10);
    pub const NVML_PSTATE_11: nvmlPStates_enum = nvmlPStates_enum(11);
    pub const NVML_PSTATE_12: nvmlPStates_enum = nvmlPStates_enum(12);
    pub const NVML_PSTATE_13: nvmlPStates_enum = nvmlPStates_enum(13);
    pub const NVML_PSTATE_14: nvmlPStates_enum = nvmlPStates_enum(14);
    pub const NVML_PSTATE_15: nvmlPStates_enum = nvmlPStates_enum(15);
    pub const NVML_PSTATE_UNKNOWN: nvmlPStates_enum = nvmlPStates_enum(32);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPStates_enum(pub ::core::ffi::c_uint);
impl nvmlPageRetirementCause_enum {
    pub const NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS: nvmlPageRetirementCause_enum = nvmlPageRetirementCause_enum(
        0,
    );
    pub const NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR: nvmlPageRetirementCause_enum = nvmlPageRetirementCause_enum(
        1,
    );
    pub const NVML_PAGE_RETIREMENT_CAUSE_COUNT: nvmlPageRetirementCause_enum = nvmlPageRetirementCause_enum(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPageRetirementCause_enum(pub ::core::ffi::c_uint);
pub use self::nvmlPageRetirementCause_enum as nvmlPageRetirementCause_t;
pub type nvmlPciInfoExt_t = nvmlPciInfoExt_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPciInfoExt_v1_t {
    pub version: ::core::ffi::c_uint,
    pub domain: ::core::ffi::c_uint,
    pub bus: ::core::ffi::c_uint,
    pub device: ::core::ffi::c_uint,
    pub pciDeviceId: ::core::ffi::c_uint,
    pub pciSubSystemId: ::core::ffi::c_uint,
    pub baseClass: ::core::ffi::c_uint,
    pub subClass: ::core::ffi::c_uint,
    pub busId: [::core::ffi::c_char; 32usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPciInfo_st {
    pub busIdLegacy: [::core::ffi::c_char; 16usize],
    pub domain: ::core::ffi::c_uint,
    pub bus: ::core::ffi::c_uint,
    pub device: ::core::ffi::c_uint,
    pub pciDeviceId: ::core::ffi::c_uint,
    pub pciSubSystemId: ::core::ffi::c_uint,
    pub busId: [::core::ffi::c_char; 32usize],
}
pub type nvmlPciInfo_t = nvmlPciInfo_st;
impl nvmlPcieLinkState_enum {
    pub const NVML_PCIE_LINK_KEEP: nvmlPcieLinkState_enum = nvmlPcieLinkState_enum(0);
    pub const NVML_PCIE_LINK_SHUT_DOWN: nvmlPcieLinkState_enum = nvmlPcieLinkState_enum(
        1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPcieLinkState_enum(pub ::core::ffi::c_uint);
pub use self::nvmlPcieLinkState_enum as nvmlPcieLinkState_t;
impl nvmlPcieUtilCounter_enum {
    pub const NVML_PCIE_UTIL_TX_BYTES: nvmlPcieUtilCounter_enum = nvmlPcieUtilCounter_enum(
        0,
    );
    pub const NVML_PCIE_UTIL_RX_BYTES: nvmlPcieUtilCounter_enum = nvmlPcieUtilCounter_enum(
        1,
    );
    pub const NVML_PCIE_UTIL_COUNT: nvmlPcieUtilCounter_enum = nvmlPcieUtilCounter_enum(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPcieUtilCounter_enum(pub ::core::ffi::c_uint);
pub use self::nvmlPcieUtilCounter_enum as nvmlPcieUtilCounter_t;
pub type nvmlPdi_t = nvmlPdi_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPdi_v1_t {
    pub version: ::core::ffi::c_uint,
    pub value: ::core::ffi::c_ulonglong,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPerfMetricControllerSample_t {
    pub controllerType: ::core::ffi::c_uint,
    pub data: nvmlPerfMetricControllerSample_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvmlPerfMetricControllerSample_t__bindgen_ty_1 {
    pub dlppc2x: nvmlPerfMetricsDlppc2xSample_t,
    pub pfpp1x: nvmlPerfMetricsPfpp1xSample_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPerfMetricsDlppc2xSample_t {
    pub observedMetrics: nvmlObservedMetrics_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPerfMetricsPfpp1xSample_t {
    pub estimatedMetrics: nvmlPwrModelMetricsPfpp1x_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPerfMetricsSample_t {
    pub numControllerData: ::core::ffi::c_uchar,
    pub controllerData: [nvmlPerfMetricControllerSample_t; 4usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPerfMetricsSamples_v1_t {
    pub numSamples: ::core::ffi::c_uint,
    pub samples: [nvmlPerfMetricsSample_t; 13usize],
}
impl nvmlPerfPolicyType_enum {
    pub const NVML_PERF_POLICY_POWER: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        0,
    );
    pub const NVML_PERF_POLICY_THERMAL: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        1,
    );
    pub const NVML_PERF_POLICY_SYNC_BOOST: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        2,
    );
    pub const NVML_PERF_POLICY_BOARD_LIMIT: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        3,
    );
    pub const NVML_PERF_POLICY_LOW_UTILIZATION: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        4,
    );
    pub const NVML_PERF_POLICY_RELIABILITY: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        5,
    );
    pub const NVML_PERF_POLICY_TOTAL_APP_CLOCKS: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        10,
    );
    pub const NVML_PERF_POLICY_TOTAL_BASE_CLOCKS: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        11,
    );
    pub const NVML_PERF_POLICY_COUNT: nvmlPerfPolicyType_enum = nvmlPerfPolicyType_enum(
        12,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPerfPolicyType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlPerfPolicyType_enum as nvmlPerfPolicyType_t;
pub type nvmlPlatformInfo_t = nvmlPlatformInfo_v2_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPlatformInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub ibGuid: [::core::ffi::c_uchar; 16usize],
    pub rackGuid: [::core::ffi::c_uchar; 16usize],
    pub chassisPhysicalSlotNumber: ::core::ffi::c_uchar,
    pub computeSlotIndex: ::core::ffi::c_uchar,
    pub nodeIndex: ::core::ffi::c_uchar,
    pub peerType: ::core::ffi::c_uchar,
    pub moduleId: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPlatformInfo_v2_t {
    pub version: ::core::ffi::c_uint,
    pub ibGuid: [::core::ffi::c_uchar; 16usize],
    pub chassisSerialNumber: [::core::ffi::c_uchar; 16usize],
    pub slotNumber: ::core::ffi::c_uchar,
    pub trayIndex: ::core::ffi::c_uchar,
    pub hostId: ::core::ffi::c_uchar,
    pub peerType: ::core::ffi::c_uchar,
    pub moduleId: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPmgrPwrTuple_t {
    pub pwrmW: ::core::ffi::c_uint,
}
impl nvmlPowerProfileOperation_t {
    pub const NVML_POWER_PROFILE_OPERATION_CLEAR: nvmlPowerProfileOperation_t = nvmlPowerProfileOperation_t(
        0,
    );
    pub const NVML_POWER_PROFILE_OPERATION_SET: nvmlPowerProfileOperation_t = nvmlPowerProfileOperation_t(
        1,
    );
    pub const NVML_POWER_PROFILE_OPERATION_SET_AND_OVERWRITE: nvmlPowerProfileOperation_t = nvmlPowerProfileOperation_t(
        2,
    );
    pub const NVML_POWER_PROFILE_OPERATION_MAX: nvmlPowerProfileOperation_t = nvmlPowerProfileOperation_t(
        3,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPowerProfileOperation_t(pub ::core::ffi::c_uint);
impl nvmlPowerProfileType_t {
    pub const NVML_POWER_PROFILE_MAX_P: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        0,
    );
    pub const NVML_POWER_PROFILE_MAX_Q: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        1,
    );
    pub const NVML_POWER_PROFILE_COMPUTE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        2,
    );
    pub const NVML_POWER_PROFILE_MEMORY_BOUND: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        3,
    );
    pub const NVML_POWER_PROFILE_NETWORK: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        4,
    );
    pub const NVML_POWER_PROFILE_BALANCED: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        5,
    );
    pub const NVML_POWER_PROFILE_LLM_INFERENCE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        6,
    );
    pub const NVML_POWER_PROFILE_LLM_TRAINING: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        7,
    );
    pub const NVML_POWER_PROFILE_RBM: nvmlPowerProfileType_t = nvmlPowerProfileType_t(8);
    pub const NVML_POWER_PROFILE_DCPCIE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        9,
    );
    pub const NVML_POWER_PROFILE_HMMA_SPARSE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        10,
    );
    pub const NVML_POWER_PROFILE_HMMA_DENSE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        11,
    );
    pub const NVML_POWER_PROFILE_SYNC_BALANCED: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        12,
    );
    pub const NVML_POWER_PROFILE_HPC: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        13,
    );
    pub const NVML_POWER_PROFILE_MIG: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        14,
    );
    pub const NVML_POWER_PROFILE_MAX_Q_1: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        15,
    );
    pub const NVML_POWER_PROFILE_NETWORK_BOUND: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        16,
    );
    pub const NVML_POWER_PROFILE_HIGH_THROUGHPUT_INFERENCE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        17,
    );
    pub const NVML_POWER_PROFILE_MEDIUM_THROUGHPUT_INFERENCE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        18,
    );
    pub const NVML_POWER_PROFILE_LOW_LATENCY_INFERENCE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        19,
    );
    pub const NVML_POWER_PROFILE_TRAINING: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        20,
    );
    pub const NVML_POWER_PROFILE_INFERENCE: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        21,
    );
    pub const NVML_POWER_PROFILE_MAX_Q_2: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        22,
    );
    pub const NVML_POWER_PROFILE_MAX_Q_3: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        23,
    );
    pub const NVML_POWER_PROFILE_LOW_PRIORITY_BACKGROUND: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        24,
    );
    pub const NVML_POWER_PROFILE_MAX: nvmlPowerProfileType_t = nvmlPowerProfileType_t(
        25,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlPowerProfileType_t(pub ::core::ffi::c_uint);
pub type nvmlPowerScopeType_t = ::core::ffi::c_uchar;
pub type nvmlPowerSmoothingProfile_t = nvmlPowerSmoothingProfile_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPowerSmoothingProfile_v1_t {
    pub version: ::core::ffi::c_uint,
    pub profileId: ::core::ffi::c_uint,
    pub paramId: ::core::ffi::c_uint,
    pub value: f64,
}
pub type nvmlPowerSmoothingState_t = nvmlPowerSmoothingState_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPowerSmoothingState_v1_t {
    pub version: ::core::ffi::c_uint,
    pub state: nvmlEnableState_t,
}
pub type nvmlPowerSource_t = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPowerValue_v2_t {
    pub version: ::core::ffi::c_uint,
    pub powerScope: nvmlPowerScopeType_t,
    pub powerValueMw: ::core::ffi::c_uint,
}
pub type nvmlProcessDetailList_t = nvmlProcessDetailList_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlProcessDetailList_v1_t {
    pub version: ::core::ffi::c_uint,
    pub mode: ::core::ffi::c_uint,
    pub numProcArrayEntries: ::core::ffi::c_uint,
    pub procArray: *mut nvmlProcessDetail_v1_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlProcessDetail_v1_t {
    pub pid: ::core::ffi::c_uint,
    pub usedGpuMemory: ::core::ffi::c_ulonglong,
    pub gpuInstanceId: ::core::ffi::c_uint,
    pub computeInstanceId: ::core::ffi::c_uint,
    pub usedGpuCcProtectedMemory: ::core::ffi::c_ulonglong,
}
pub type nvmlProcessInfo_t = nvmlProcessInfo_v2_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlProcessInfo_v1_st {
    pub pid: ::core::ffi::c_uint,
    pub usedGpuMemory: ::core::ffi::c_ulonglong,
}
pub type nvmlProcessInfo_v1_t = nvmlProcessInfo_v1_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlProcessInfo_v2_st {
    pub pid: ::core::ffi::c_uint,
    pub usedGpuMemory: ::core::ffi::c_ulonglong,
    pub gpuInstanceId: ::core::ffi::c_uint,
    pub computeInstanceId: ::core::ffi::c_uint,
}
pub type nvmlProcessInfo_v2_t = nvmlProcessInfo_v2_st;
impl nvmlProcessMode_enum {
    pub const NVML_PROCESS_MODE_COMPUTE: nvmlProcessMode_enum = nvmlProcessMode_enum(0);
    pub const NVML_PROCESS_MODE_GRAPHICS: nvmlProcessMode_enum = nvmlProcessMode_enum(1);
    pub const NVML_PROCESS_MODE_MPS: nvmlProcessMode_enum = nvmlProcessMode_enum(2);
    pub const NVML_PROCESS_MODE_ALL: nvmlProcessMode_enum = nvmlProcessMode_enum(3);
    pub const NVML_PROCESS_MODE_MAX: nvmlProcessMode_enum = nvmlProcessMode_enum(4);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlProcessMode_enum(pub ::core::ffi::c_uint);
pub use self::nvmlProcessMode_enum as nvmlProcessMode_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlProcessUtilizationInfo_v1_t {
    pub timeStamp: ::core::ffi::c_ulonglong,
    pub pid: ::core::ffi::c_uint,
    pub smUtil: ::core::ffi::c_uint,
    pub memUtil: ::core::ffi::c_uint,
    pub encUtil: ::core::ffi::c_uint,
    pub decUtil: ::core::ffi::c_uint,
    pub jpgUtil: ::core::ffi::c_uint,
    pub ofaUtil: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlProcessUtilizationSample_st {
    pub pid: ::core::ffi::c_uint,
    pub timeStamp: ::core::ffi::c_ulonglong,
    pub smUtil: ::core::ffi::c_uint,
    pub memUtil: ::core::ffi::c_uint,
    pub encUtil: ::core::ffi::c_uint,
    pub decUtil: ::core::ffi::c_uint,
}
pub type nvmlProcessUtilizationSample_t = nvmlProcessUtilizationSample_st;
pub type nvmlProcessesUtilizationInfo_t = nvmlProcessesUtilizationInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlProcessesUtilizationInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub processSamplesCount: ::core::ffi::c_uint,
    pub lastSeenTimeStamp: ::core::ffi::c_ulonglong,
    pub procUtilArray: *mut nvmlProcessUtilizationInfo_v1_t,
}
pub use self::nvmlPStates_enum as nvmlPstates_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPwrModelMetricsDlppm1xDramclkEstimates_t {
    pub estimatedMetrics: [nvmlPwrModelMetricsDlppm1x_t; 8usize],
    pub numEstimatedMetrics: ::core::ffi::c_uchar,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPwrModelMetricsDlppm1xPerf_t {
    pub perfms: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPwrModelMetricsDlppm1x_t {
    pub bValid: ::core::ffi::c_uchar,
    pub coreRail: nvmlCoreRailMetrics_t,
    pub fbRail: nvmlRailMetrics_t,
    pub tgpPwrTuple: nvmlPmgrPwrTuple_t,
    pub perfMetrics: nvmlPwrModelMetricsDlppm1xPerf_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPwrModelMetricsPfpp1x_t {
    pub numVfPoints: ::core::ffi::c_uchar,
    pub estimatedMetrics: [nvmlPwrModelMetricsSamplePfpp1x_t; 32usize],
    pub bValid: ::core::ffi::c_uchar,
    pub maxPerfPerWattPoint: nvmlPwrModelOperatingPointPfpp1x_t,
    pub fmaxAtVmaxPoint: nvmlPwrModelOperatingPointPfpp1x_t,
    pub tgpHeadroommW: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPwrModelMetricsSamplePfpp1x_t {
    pub freqkHz: [::core::ffi::c_uint; 16usize],
    pub estTgpPwrmW: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlPwrModelOperatingPointPfpp1x_t {
    pub freqkHz: ::core::ffi::c_uint,
    pub pwrmW: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlRailMetrics_t {
    pub freqkHz: ::core::ffi::c_uint,
    pub utilPct: ::core::ffi::c_ulonglong,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlRemappedRowsInfo_v2_t {
    pub corrActiveRemaps: ::core::ffi::c_uint,
    pub corrInactiveRemaps: ::core::ffi::c_uint,
    pub uncActiveRemaps: ::core::ffi::c_uint,
    pub uncInactiveRemaps: ::core::ffi::c_uint,
    pub bPending: ::core::ffi::c_uint,
    pub bFailureOccurred: ::core::ffi::c_uint,
}
pub type nvmlRepairStatus_t = nvmlRepairStatus_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlRepairStatus_v1_t {
    pub version: ::core::ffi::c_uint,
    pub bChannelRepairPending: ::core::ffi::c_uint,
    pub bTpcRepairPending: ::core::ffi::c_uint,
}
impl nvmlRestrictedAPI_enum {
    pub const NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS: nvmlRestrictedAPI_enum = nvmlRestrictedAPI_enum(
        0,
    );
    pub const NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS: nvmlRestrictedAPI_enum = nvmlRestrictedAPI_enum(
        1,
    );
    pub const NVML_RESTRICTED_API_COUNT: nvmlRestrictedAPI_enum = nvmlRestrictedAPI_enum(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlRestrictedAPI_enum(pub ::core::ffi::c_uint);
pub use self::nvmlRestrictedAPI_enum as nvmlRestrictedAPI_t;
impl nvmlReturn_enum {
    pub const NVML_SUCCESS: nvmlReturn_enum = nvmlReturn_enum(0);
    pub const NVML_ERROR_UNINITIALIZED: nvmlReturn_enum = nvmlReturn_enum(1);
    pub const NVML_ERROR_INVALID_ARGUMENT: nvmlReturn_enum = nvmlReturn_enum(2);
    pub const NVML_ERROR_NOT_SUPPORTED: nvmlReturn_enum = nvmlReturn_enum(3);
    pub const NVML_ERROR_NO_PERMISSION: nvmlReturn_enum = nvmlReturn_enum(4);
    pub const NVML_ERROR_ALREADY_INITIALIZED: nvmlReturn_enum = nvmlReturn_enum(5);
    pub const NVML_ERROR_NOT_FOUND: nvmlReturn_enum = nvmlReturn_enum(6);
    pub const NVML_ERROR_INSUFFICIENT_SIZE: nvmlReturn_enum = nvmlReturn_enum(7);
    pub const NVML_ERROR_INSUFFICIENT_POWER: nvmlReturn_enum = nvmlReturn_enum(8);
    pub const NVML_ERROR_DRIVER_NOT_LOADED: nvmlReturn_enum = nvmlReturn_enum(9);
    pub const NVML_ERROR_TIMEOUT: nvmlReturn_enum = nvmlReturn_enum(10);
    pub const NVML_ERROR_IRQ_ISSUE: nvmlReturn_enum = nvmlReturn_enum(11);
    pub const NVML_ERROR_LIBRARY_NOT_FOUND: nvmlReturn_enum = nvmlReturn_enum(12);
    pub const NVML_ERROR_FUNCTION_NOT_FOUND: nvmlReturn_enum = nvmlReturn_enum(13);
    pub const NVML_ERROR_CORRUPTED_INFOROM: nvmlReturn_enum = nvmlReturn_enum(14);
    pub const NVML_ERROR_GPU_IS_LOST: nvmlReturn_enum = nvmlReturn_enum(15);
    pub const NVML_ERROR_RESET_REQUIRED: nvmlReturn_enum = nvmlReturn_enum(16);
    pub const NVML_ERROR_OPERATING_SYSTEM: nvmlReturn_enum = nvmlReturn_enum(17);
    pub const NVML_ERROR_LIB_RM_VERSION_MISMATCH: nvmlReturn_enum = nvmlReturn_enum(18);
    pub const NVML_ERROR_IN_USE: nvmlReturn_enum = nvmlReturn_enum(19);
    pub const NVML_ERROR_MEMORY: nvmlReturn_enum = nvmlReturn_enum(20);
    pub const NVML_ERROR_NO_DATA: nvmlReturn_enum = nvmlReturn_enum(21);
    pub const NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: nvmlReturn_enum = nvmlReturn_enum(22);
    pub const NVML_ERROR_INSUFFICIENT_RESOURCES: nvmlReturn_enum = nvmlReturn_enum(23);
    pub const NVML_ERROR_FREQ_NOT_SUPPORTED: nvmlReturn_enum = nvmlReturn_enum(24);
    pub const NVML_ERROR_ARGUMENT_VERSION_MISMATCH: nvmlReturn_enum = nvmlReturn_enum(
        25,
    );
    pub const NVML_ERROR_DEPRECATED: nvmlReturn_enum = nvmlReturn_enum(26);
    pub const NVML_ERROR_NOT_READY: nvmlReturn_enum = nvmlReturn_enum(27);
    pub const NVML_ERROR_GPU_NOT_FOUND: nvmlReturn_enum = nvmlReturn_enum(28);
    pub const NVML_ERROR_INVALID_STATE: nvmlReturn_enum = nvmlReturn_enum(29);
    pub const NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: nvmlReturn_enum = nvmlReturn_enum(30);
    pub const NVML_ERROR_UNKNOWN: nvmlReturn_enum = nvmlReturn_enum(999);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlReturn_enum(pub ::core::ffi::c_uint);
pub use self::nvmlReturn_enum as nvmlReturn_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlRowRemapperHistogramValues_st {
    pub max: ::core::ffi::c_uint,
    pub high: ::core::ffi::c_uint,
    pub partial: ::core::ffi::c_uint,
    pub low: ::core::ffi::c_uint,
    pub none: ::core::ffi::c_uint,
}
pub type nvmlRowRemapperHistogramValues_t = nvmlRowRemapperHistogramValues_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlRusdSettings_v1_t {
    pub version: ::core::ffi::c_uint,
    pub pollMask: ::core::ffi::c_ulonglong,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSample_st {
    pub timeStamp: ::core::ffi::c_ulonglong,
    pub sampleValue: nvmlValue_t,
}
pub type nvmlSample_t = nvmlSample_st;
impl nvmlSamplingType_enum {
    pub const NVML_TOTAL_POWER_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(0);
    pub const NVML_GPU_UTILIZATION_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        1,
    );
    pub const NVML_MEMORY_UTILIZATION_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        2,
    );
    pub const NVML_ENC_UTILIZATION_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        3,
    );
    pub const NVML_DEC_UTILIZATION_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        4,
    );
    pub const NVML_PROCESSOR_CLK_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        5,
    );
    pub const NVML_MEMORY_CLK_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(6);
    pub const NVML_MODULE_POWER_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        7,
    );
    pub const NVML_JPG_UTILIZATION_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        8,
    );
    pub const NVML_OFA_UTILIZATION_SAMPLES: nvmlSamplingType_enum = nvmlSamplingType_enum(
        9,
    );
    pub const NVML_SAMPLINGTYPE_COUNT: nvmlSamplingType_enum = nvmlSamplingType_enum(10);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlSamplingType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlSamplingType_enum as nvmlSamplingType_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSetMemoryLimits_v1_t {
    pub nameSpace: *const ::core::ffi::c_char,
    pub softLimit: ::core::ffi::c_ulonglong,
    pub hardLimit: ::core::ffi::c_ulonglong,
}
pub type nvmlSystemConfComputeSettings_t = nvmlSystemConfComputeSettings_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemConfComputeSettings_v1_t {
    pub version: ::core::ffi::c_uint,
    pub environment: ::core::ffi::c_uint,
    pub ccFeature: ::core::ffi::c_uint,
    pub devToolsMode: ::core::ffi::c_uint,
    pub multiGpuMode: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemConfComputeSettings_v2_t {
    pub version: ::core::ffi::c_uint,
    pub environment: ::core::ffi::c_uint,
    pub ccFeature: ::core::ffi::c_uint,
    pub devToolsMode: ::core::ffi::c_uint,
    pub multiGpuMode: ::core::ffi::c_uint,
    pub tdispState: ::core::ffi::c_uint,
}
pub type nvmlSystemDriverBranchInfo_t = nvmlSystemDriverBranchInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemDriverBranchInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub branch: [::core::ffi::c_char; 80usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemEventData_v1_t {
    pub eventType: ::core::ffi::c_ulonglong,
    pub gpuId: ::core::ffi::c_uint,
}
pub type nvmlSystemEventSetCreateRequest_t = nvmlSystemEventSetCreateRequest_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemEventSetCreateRequest_v1_t {
    pub version: ::core::ffi::c_uint,
    pub set: nvmlSystemEventSet_t,
}
pub type nvmlSystemEventSetFreeRequest_t = nvmlSystemEventSetFreeRequest_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemEventSetFreeRequest_v1_t {
    pub version: ::core::ffi::c_uint,
    pub set: nvmlSystemEventSet_t,
}
pub type nvmlSystemEventSetWaitRequest_t = nvmlSystemEventSetWaitRequest_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemEventSetWaitRequest_v1_t {
    pub version: ::core::ffi::c_uint,
    pub timeoutms: ::core::ffi::c_uint,
    pub set: nvmlSystemEventSet_t,
    pub data: *mut nvmlSystemEventData_v1_t,
    pub dataSize: ::core::ffi::c_uint,
    pub numEvent: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemEventSet_st {
    _unused: [u8; 0],
}
pub type nvmlSystemEventSet_t = *mut nvmlSystemEventSet_st;
pub type nvmlSystemRegisterEventRequest_t = nvmlSystemRegisterEventRequest_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlSystemRegisterEventRequest_v1_t {
    pub version: ::core::ffi::c_uint,
    pub eventTypes: ::core::ffi::c_ulonglong,
    pub set: nvmlSystemEventSet_t,
}
impl nvmlTemperatureSensors_enum {
    pub const NVML_TEMPERATURE_GPU: nvmlTemperatureSensors_enum = nvmlTemperatureSensors_enum(
        0,
    );
    pub const NVML_TEMPERATURE_GPU_MAX: nvmlTemperatureSensors_enum = nvmlTemperatureSensors_enum(
        1,
    );
    pub const NVML_TEMPERATURE_COUNT: nvmlTemperatureSensors_enum = nvmlTemperatureSensors_enum(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlTemperatureSensors_enum(pub ::core::ffi::c_uint);
pub use self::nvmlTemperatureSensors_enum as nvmlTemperatureSensors_t;
impl nvmlTemperatureThresholds_enum {
    pub const NVML_TEMPERATURE_THRESHOLD_SHUTDOWN: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        0,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        1,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_MEM_MAX: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        2,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_GPU_MAX: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        3,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        4,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        5,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        6,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_GPS_CURR: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        7,
    );
    pub const NVML_TEMPERATURE_THRESHOLD_COUNT: nvmlTemperatureThresholds_enum = nvmlTemperatureThresholds_enum(
        8,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlTemperatureThresholds_enum(pub ::core::ffi::c_uint);
pub use self::nvmlTemperatureThresholds_enum as nvmlTemperatureThresholds_t;
pub type nvmlTemperature_t = nvmlTemperature_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlTemperature_v1_t {
    pub version: ::core::ffi::c_uint,
    pub sensorType: nvmlTemperatureSensors_t,
    pub temperature: ::core::ffi::c_int,
}
impl nvmlThermalController_t {
    pub const NVML_THERMAL_CONTROLLER_NONE: nvmlThermalController_t = nvmlThermalController_t(
        0,
    );
    pub const NVML_THERMAL_CONTROLLER_GPU_INTERNAL: nvmlThermalController_t = nvmlThermalController_t(
        1,
    );
    pub const NVML_THERMAL_CONTROLLER_ADM1032: nvmlThermalController_t = nvmlThermalController_t(
        2,
    );
    pub const NVML_THERMAL_CONTROLLER_ADT7461: nvmlThermalController_t = nvmlThermalController_t(
        3,
    );
    pub const NVML_THERMAL_CONTROLLER_MAX6649: nvmlThermalController_t = nvmlThermalController_t(
        4,
    );
    pub const NVML_THERMAL_CONTROLLER_MAX1617: nvmlThermalController_t = nvmlThermalController_t(
        5,
    );
    pub const NVML_THERMAL_CONTROLLER_LM99: nvmlThermalController_t = nvmlThermalController_t(
        6,
    );
    pub const NVML_THERMAL_CONTROLLER_LM89: nvmlThermalController_t = nvmlThermalController_t(
        7,
    );
    pub const NVML_THERMAL_CONTROLLER_LM64: nvmlThermalController_t = nvmlThermalController_t(
        8,
    );
    pub const NVML_THERMAL_CONTROLLER_G781: nvmlThermalController_t = nvmlThermalController_t(
        9,
    );
    pub const NVML_THERMAL_CONTROLLER_ADT7473: nvmlThermalController_t = nvmlThermalController_t(
        10,
    );
    pub const NVML_THERMAL_CONTROLLER_SBMAX6649: nvmlThermalController_t = nvmlThermalController_t(
        11,
    );
    pub const NVML_THERMAL_CONTROLLER_VBIOSEVT: nvmlThermalController_t = nvmlThermalController_t(
        12,
    );
    pub const NVML_THERMAL_CONTROLLER_OS: nvmlThermalController_t = nvmlThermalController_t(
        13,
    );
    pub const NVML_THERMAL_CONTROLLER_NVSYSCON_CANOAS: nvmlThermalController_t = nvmlThermalController_t(
        14,
    );
    pub const NVML_THERMAL_CONTROLLER_NVSYSCON_E551: nvmlThermalController_t = nvmlThermalController_t(
        15,
    );
    pub const NVML_THERMAL_CONTROLLER_MAX6649R: nvmlThermalController_t = nvmlThermalController_t(
        16,
    );
    pub const NVML_THERMAL_CONTROLLER_ADT7473S: nvmlThermalController_t = nvmlThermalController_t(
        17,
    );
    pub const NVML_THERMAL_CONTROLLER_UNKNOWN: nvmlThermalController_t = nvmlThermalController_t(
        -1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlThermalController_t(pub ::core::ffi::c_int);
impl nvmlThermalTarget_t {
    pub const NVML_THERMAL_TARGET_NONE: nvmlThermalTarget_t = nvmlThermalTarget_t(0);
    pub const NVML_THERMAL_TARGET_GPU: nvmlThermalTarget_t = nvmlThermalTarget_t(1);
    pub const NVML_THERMAL_TARGET_MEMORY: nvmlThermalTarget_t = nvmlThermalTarget_t(2);
    pub const NVML_THERMAL_TARGET_POWER_SUPPLY: nvmlThermalTarget_t = nvmlThermalTarget_t(
        4,
    );
    pub const NVML_THERMAL_TARGET_BOARD: nvmlThermalTarget_t = nvmlThermalTarget_t(8);
    pub const NVML_THERMAL_TARGET_VCD_BOARD: nvmlThermalTarget_t = nvmlThermalTarget_t(
        9,
    );
    pub const NVML_THERMAL_TARGET_VCD_INLET: nvmlThermalTarget_t = nvmlThermalTarget_t(
        10,
    );
    pub const NVML_THERMAL_TARGET_VCD_OUTLET: nvmlThermalTarget_t = nvmlThermalTarget_t(
        11,
    );
    pub const NVML_THERMAL_TARGET_ALL: nvmlThermalTarget_t = nvmlThermalTarget_t(15);
    pub const NVML_THERMAL_TARGET_UNKNOWN: nvmlThermalTarget_t = nvmlThermalTarget_t(-1);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlThermalTarget_t(pub ::core::ffi::c_int);
impl nvmlUUIDType_t {
    pub const NVML_UUID_TYPE_NONE: nvmlUUIDType_t = nvmlUUIDType_t(0);
    pub const NVML_UUID_TYPE_ASCII: nvmlUUIDType_t = nvmlUUIDType_t(1);
    pub const NVML_UUID_TYPE_BINARY: nvmlUUIDType_t = nvmlUUIDType_t(2);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlUUIDType_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvmlUUIDValue_t {
    pub str_: [::core::ffi::c_char; 41usize],
    pub bytes: [::core::ffi::c_uchar; 16usize],
}
pub type nvmlUUID_t = nvmlUUID_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlUUID_v1_t {
    pub version: ::core::ffi::c_uint,
    pub type_: ::core::ffi::c_uint,
    pub value: nvmlUUIDValue_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlUnitFanInfo_st {
    pub speed: ::core::ffi::c_uint,
    pub state: nvmlFanState_t,
}
pub type nvmlUnitFanInfo_t = nvmlUnitFanInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlUnitFanSpeeds_st {
    pub fans: [nvmlUnitFanInfo_t; 24usize],
    pub count: ::core::ffi::c_uint,
}
pub type nvmlUnitFanSpeeds_t = nvmlUnitFanSpeeds_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlUnitInfo_st {
    pub name: [::core::ffi::c_char; 96usize],
    pub id: [::core::ffi::c_char; 96usize],
    pub serial: [::core::ffi::c_char; 96usize],
    pub firmwareVersion: [::core::ffi::c_char; 96usize],
}
pub type nvmlUnitInfo_t = nvmlUnitInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlUnit_st {
    _unused: [u8; 0],
}
pub type nvmlUnit_t = *mut nvmlUnit_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlUnrepairableMemoryStatus_v1_t {
    pub bUnrepairableMemory: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlUtilization_st {
    pub gpu: ::core::ffi::c_uint,
    pub memory: ::core::ffi::c_uint,
}
pub type nvmlUtilization_t = nvmlUtilization_st;
impl nvmlValueType_enum {
    pub const NVML_VALUE_TYPE_DOUBLE: nvmlValueType_enum = nvmlValueType_enum(0);
    pub const NVML_VALUE_TYPE_UNSIGNED_INT: nvmlValueType_enum = nvmlValueType_enum(1);
    pub const NVML_VALUE_TYPE_UNSIGNED_LONG: nvmlValueType_enum = nvmlValueType_enum(2);
    pub const NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: nvmlValueType_enum = nvmlValueType_enum(
        3,
    );
    pub const NVML_VALUE_TYPE_SIGNED_LONG_LONG: nvmlValueType_enum = nvmlValueType_enum(
        4,
    );
    pub const NVML_VALUE_TYPE_SIGNED_INT: nvmlValueType_enum = nvmlValueType_enum(5);
    pub const NVML_VALUE_TYPE_UNSIGNED_SHORT: nvmlValueType_enum = nvmlValueType_enum(6);
    pub const NVML_VALUE_TYPE_COUNT: nvmlValueType_enum = nvmlValueType_enum(7);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlValueType_enum(pub ::core::ffi::c_uint);
pub use self::nvmlValueType_enum as nvmlValueType_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvmlValue_st {
    pub dVal: f64,
    pub siVal: ::core::ffi::c_int,
    pub uiVal: ::core::ffi::c_uint,
    pub ulVal: ::core::ffi::c_ulong,
    pub ullVal: ::core::ffi::c_ulonglong,
    pub sllVal: ::core::ffi::c_longlong,
    pub usVal: ::core::ffi::c_ushort,
}
pub type nvmlValue_t = nvmlValue_st;
impl nvmlVgpuCapability_enum {
    pub const NVML_VGPU_CAP_NVLINK_P2P: nvmlVgpuCapability_enum = nvmlVgpuCapability_enum(
        0,
    );
    pub const NVML_VGPU_CAP_GPUDIRECT: nvmlVgpuCapability_enum = nvmlVgpuCapability_enum(
        1,
    );
    pub const NVML_VGPU_CAP_MULTI_VGPU_EXCLUSIVE: nvmlVgpuCapability_enum = nvmlVgpuCapability_enum(
        2,
    );
    pub const NVML_VGPU_CAP_EXCLUSIVE_TYPE: nvmlVgpuCapability_enum = nvmlVgpuCapability_enum(
        3,
    );
    pub const NVML_VGPU_CAP_EXCLUSIVE_SIZE: nvmlVgpuCapability_enum = nvmlVgpuCapability_enum(
        4,
    );
    pub const NVML_VGPU_CAP_COUNT: nvmlVgpuCapability_enum = nvmlVgpuCapability_enum(5);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlVgpuCapability_enum(pub ::core::ffi::c_uint);
pub use self::nvmlVgpuCapability_enum as nvmlVgpuCapability_t;
pub type nvmlVgpuCreatablePlacementInfo_t = nvmlVgpuCreatablePlacementInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuCreatablePlacementInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub vgpuTypeId: nvmlVgpuTypeId_t,
    pub count: ::core::ffi::c_uint,
    pub placementIds: *mut ::core::ffi::c_uint,
    pub placementSize: ::core::ffi::c_uint,
}
impl nvmlVgpuDriverCapability_enum {
    pub const NVML_VGPU_DRIVER_CAP_HETEROGENEOUS_MULTI_VGPU: nvmlVgpuDriverCapability_enum = nvmlVgpuDriverCapability_enum(
        0,
    );
    pub const NVML_VGPU_DRIVER_CAP_WARM_UPDATE: nvmlVgpuDriverCapability_enum = nvmlVgpuDriverCapability_enum(
        1,
    );
    pub const NVML_VGPU_DRIVER_CAP_COUNT: nvmlVgpuDriverCapability_enum = nvmlVgpuDriverCapability_enum(
        2,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlVgpuDriverCapability_enum(pub ::core::ffi::c_uint);
pub use self::nvmlVgpuDriverCapability_enum as nvmlVgpuDriverCapability_t;
impl nvmlVgpuGuestInfoState_enum {
    pub const NVML_VGPU_INSTANCE_GUEST_INFO_STATE_UNINITIALIZED: nvmlVgpuGuestInfoState_enum = nvmlVgpuGuestInfoState_enum(
        0,
    );
    pub const NVML_VGPU_INSTANCE_GUEST_INFO_STATE_INITIALIZED: nvmlVgpuGuestInfoState_enum = nvmlVgpuGuestInfoState_enum(
        1,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlVgpuGuestInfoState_enum(pub ::core::ffi::c_uint);
pub use self::nvmlVgpuGuestInfoState_enum as nvmlVgpuGuestInfoState_t;
pub type nvmlVgpuHeterogeneousMode_t = nvmlVgpuHeterogeneousMode_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuHeterogeneousMode_v1_t {
    pub version: ::core::ffi::c_uint,
    pub mode: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuInstanceUtilizationInfo_v1_t {
    pub timeStamp: ::core::ffi::c_ulonglong,
    pub vgpuInstance: nvmlVgpuInstance_t,
    pub smUtil: nvmlValue_t,
    pub memUtil: nvmlValue_t,
    pub encUtil: nvmlValue_t,
    pub decUtil: nvmlValue_t,
    pub jpgUtil: nvmlValue_t,
    pub ofaUtil: nvmlValue_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuInstanceUtilizationSample_st {
    pub vgpuInstance: nvmlVgpuInstance_t,
    pub timeStamp: ::core::ffi::c_ulonglong,
    pub smUtil: nvmlValue_t,
    pub memUtil: nvmlValue_t,
    pub encUtil: nvmlValue_t,
    pub decUtil: nvmlValue_t,
}
pub type nvmlVgpuInstanceUtilizationSample_t = nvmlVgpuInstanceUtilizationSample_st;
pub type nvmlVgpuInstance_t = ::core::ffi::c_uint;
pub type nvmlVgpuInstancesUtilizationInfo_t = nvmlVgpuInstancesUtilizationInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuInstancesUtilizationInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub sampleValType: nvmlValueType_t,
    pub vgpuInstanceCount: ::core::ffi::c_uint,
    pub lastSeenTimeStamp: ::core::ffi::c_ulonglong,
    pub vgpuUtilArray: *mut nvmlVgpuInstanceUtilizationInfo_v1_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuLicenseExpiry_st {
    pub year: ::core::ffi::c_uint,
    pub month: ::core::ffi::c_ushort,
    pub day: ::core::ffi::c_ushort,
    pub hour: ::core::ffi::c_ushort,
    pub min: ::core::ffi::c_ushort,
    pub sec: ::core::ffi::c_ushort,
    pub status: ::core::ffi::c_uchar,
}
pub type nvmlVgpuLicenseExpiry_t = nvmlVgpuLicenseExpiry_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuLicenseInfo_st {
    pub isLicensed: ::core::ffi::c_uchar,
    pub licenseExpiry: nvmlVgpuLicenseExpiry_t,
    pub currentState: ::core::ffi::c_uint,
}
pub type nvmlVgpuLicenseInfo_t = nvmlVgpuLicenseInfo_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuMetadata_st {
    pub version: ::core::ffi::c_uint,
    pub revision: ::core::ffi::c_uint,
    pub guestInfoState: nvmlVgpuGuestInfoState_t,
    pub guestDriverVersion: [::core::ffi::c_char; 80usize],
    pub hostDriverVersion: [::core::ffi::c_char; 80usize],
    pub reserved: [::core::ffi::c_uint; 6usize],
    pub vgpuVirtualizationCaps: ::core::ffi::c_uint,
    pub guestVgpuVersion: ::core::ffi::c_uint,
    pub opaqueDataSize: ::core::ffi::c_uint,
    pub opaqueData: [::core::ffi::c_char; 4usize],
}
pub type nvmlVgpuMetadata_t = nvmlVgpuMetadata_st;
impl nvmlVgpuPgpuCompatibilityLimitCode_enum {
    pub const NVML_VGPU_COMPATIBILITY_LIMIT_NONE: nvmlVgpuPgpuCompatibilityLimitCode_enum = nvmlVgpuPgpuCompatibilityLimitCode_enum(
        0,
    );
    pub const NVML_VGPU_COMPATIBILITY_LIMIT_HOST_DRIVER: nvmlVgpuPgpuCompatibilityLimitCode_enum = nvmlVgpuPgpuCompatibilityLimitCode_enum(
        1,
    );
    pub const NVML_VGPU_COMPATIBILITY_LIMIT_GUEST_DRIVER: nvmlVgpuPgpuCompatibilityLimitCode_enum = nvmlVgpuPgpuCompatibilityLimitCode_enum(
        2,
    );
    pub const NVML_VGPU_COMPATIBILITY_LIMIT_GPU: nvmlVgpuPgpuCompatibilityLimitCode_enum = nvmlVgpuPgpuCompatibilityLimitCode_enum(
        4,
    );
    pub const NVML_VGPU_COMPATIBILITY_LIMIT_OTHER: nvmlVgpuPgpuCompatibilityLimitCode_enum = nvmlVgpuPgpuCompatibilityLimitCode_enum(
        2147483648,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlVgpuPgpuCompatibilityLimitCode_enum(pub ::core::ffi::c_uint);
pub use self::nvmlVgpuPgpuCompatibilityLimitCode_enum as nvmlVgpuPgpuCompatibilityLimitCode_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuPgpuCompatibility_st {
    pub vgpuVmCompatibility: nvmlVgpuVmCompatibility_t,
    pub compatibilityLimitCode: nvmlVgpuPgpuCompatibilityLimitCode_t,
}
pub type nvmlVgpuPgpuCompatibility_t = nvmlVgpuPgpuCompatibility_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuPgpuMetadata_st {
    pub version: ::core::ffi::c_uint,
    pub revision: ::core::ffi::c_uint,
    pub hostDriverVersion: [::core::ffi::c_char; 80usize],
    pub pgpuVirtualizationCaps: ::core::ffi::c_uint,
    pub reserved: [::core::ffi::c_uint; 5usize],
    pub hostSupportedVgpuRange: nvmlVgpuVersion_t,
    pub opaqueDataSize: ::core::ffi::c_uint,
    pub opaqueData: [::core::ffi::c_char; 4usize],
}
pub type nvmlVgpuPgpuMetadata_t = nvmlVgpuPgpuMetadata_st;
pub type nvmlVgpuPlacementId_t = nvmlVgpuPlacementId_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuPlacementId_v1_t {
    pub version: ::core::ffi::c_uint,
    pub placementId: ::core::ffi::c_uint,
}
pub type nvmlVgpuPlacementList_t = nvmlVgpuPlacementList_v2_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuPlacementList_v1_t {
    pub version: ::core::ffi::c_uint,
    pub placementSize: ::core::ffi::c_uint,
    pub count: ::core::ffi::c_uint,
    pub placementIds: *mut ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuPlacementList_v2_t {
    pub version: ::core::ffi::c_uint,
    pub placementSize: ::core::ffi::c_uint,
    pub count: ::core::ffi::c_uint,
    pub placementIds: *mut ::core::ffi::c_uint,
    pub mode: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuProcessUtilizationInfo_v1_t {
    pub processName: [::core::ffi::c_char; 64usize],
    pub timeStamp: ::core::ffi::c_ulonglong,
    pub vgpuInstance: nvmlVgpuInstance_t,
    pub pid: ::core::ffi::c_uint,
    pub smUtil: ::core::ffi::c_uint,
    pub memUtil: ::core::ffi::c_uint,
    pub encUtil: ::core::ffi::c_uint,
    pub decUtil: ::core::ffi::c_uint,
    pub jpgUtil: ::core::ffi::c_uint,
    pub ofaUtil: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuProcessUtilizationSample_st {
    pub vgpuInstance: nvmlVgpuInstance_t,
    pub pid: ::core::ffi::c_uint,
    pub processName: [::core::ffi::c_char; 64usize],
    pub timeStamp: ::core::ffi::c_ulonglong,
    pub smUtil: ::core::ffi::c_uint,
    pub memUtil: ::core::ffi::c_uint,
    pub encUtil: ::core::ffi::c_uint,
    pub decUtil: ::core::ffi::c_uint,
}
pub type nvmlVgpuProcessUtilizationSample_t = nvmlVgpuProcessUtilizationSample_st;
pub type nvmlVgpuProcessesUtilizationInfo_t = nvmlVgpuProcessesUtilizationInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuProcessesUtilizationInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub vgpuProcessCount: ::core::ffi::c_uint,
    pub lastSeenTimeStamp: ::core::ffi::c_ulonglong,
    pub vgpuProcUtilArray: *mut nvmlVgpuProcessUtilizationInfo_v1_t,
}
pub type nvmlVgpuRuntimeState_t = nvmlVgpuRuntimeState_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuRuntimeState_v1_t {
    pub version: ::core::ffi::c_uint,
    pub size: ::core::ffi::c_ulonglong,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerCapabilities_st {
    pub supportedSchedulers: [::core::ffi::c_uint; 3usize],
    pub maxTimeslice: ::core::ffi::c_uint,
    pub minTimeslice: ::core::ffi::c_uint,
    pub isArrModeSupported: ::core::ffi::c_uint,
    pub maxFrequencyForARR: ::core::ffi::c_uint,
    pub minFrequencyForARR: ::core::ffi::c_uint,
    pub maxAvgFactorForARR: ::core::ffi::c_uint,
    pub minAvgFactorForARR: ::core::ffi::c_uint,
}
pub type nvmlVgpuSchedulerCapabilities_t = nvmlVgpuSchedulerCapabilities_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerGetState_st {
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub arrMode: ::core::ffi::c_uint,
    pub schedulerParams: nvmlVgpuSchedulerParams_t,
}
pub type nvmlVgpuSchedulerGetState_t = nvmlVgpuSchedulerGetState_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerLogEntries_st {
    pub timestamp: ::core::ffi::c_ulonglong,
    pub timeRunTotal: ::core::ffi::c_ulonglong,
    pub timeRun: ::core::ffi::c_ulonglong,
    pub swRunlistId: ::core::ffi::c_uint,
    pub targetTimeSlice: ::core::ffi::c_ulonglong,
    pub cumulativePreemptionTime: ::core::ffi::c_ulonglong,
}
pub type nvmlVgpuSchedulerLogEntry_t = nvmlVgpuSchedulerLogEntries_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerLogEntry_v2_t {
    pub timestamp: ::core::ffi::c_ulonglong,
    pub timeRunTotal: ::core::ffi::c_ulonglong,
    pub timeRun: ::core::ffi::c_ulonglong,
    pub swRunlistId: ::core::ffi::c_uint,
    pub targetTimeSlice: ::core::ffi::c_ulonglong,
    pub cumulativePreemptionTime: ::core::ffi::c_ulonglong,
    pub weight: ::core::ffi::c_uint,
}
pub type nvmlVgpuSchedulerLogInfo_t = nvmlVgpuSchedulerLogInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerLogInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub engineId: ::core::ffi::c_uint,
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub arrMode: ::core::ffi::c_uint,
    pub schedulerParams: nvmlVgpuSchedulerParams_t,
    pub entriesCount: ::core::ffi::c_uint,
    pub logEntries: [nvmlVgpuSchedulerLogEntry_t; 200usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerLogInfo_v2_t {
    pub engineId: ::core::ffi::c_uint,
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub avgFactor: ::core::ffi::c_uint,
    pub timeslice: ::core::ffi::c_uint,
    pub entriesCount: ::core::ffi::c_uint,
    pub logEntries: [nvmlVgpuSchedulerLogEntry_v2_t; 200usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerLog_st {
    pub engineId: ::core::ffi::c_uint,
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub arrMode: ::core::ffi::c_uint,
    pub schedulerParams: nvmlVgpuSchedulerParams_t,
    pub entriesCount: ::core::ffi::c_uint,
    pub logEntries: [nvmlVgpuSchedulerLogEntry_t; 200usize],
}
pub type nvmlVgpuSchedulerLog_t = nvmlVgpuSchedulerLog_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvmlVgpuSchedulerParams_t {
    pub vgpuSchedDataWithARR: nvmlVgpuSchedulerParams_t__bindgen_ty_1,
    pub vgpuSchedData: nvmlVgpuSchedulerParams_t__bindgen_ty_2,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerParams_t__bindgen_ty_1 {
    pub avgFactor: ::core::ffi::c_uint,
    pub timeslice: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerParams_t__bindgen_ty_2 {
    pub timeslice: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvmlVgpuSchedulerSetParams_t {
    pub vgpuSchedDataWithARR: nvmlVgpuSchedulerSetParams_t__bindgen_ty_1,
    pub vgpuSchedData: nvmlVgpuSchedulerSetParams_t__bindgen_ty_2,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerSetParams_t__bindgen_ty_1 {
    pub avgFactor: ::core::ffi::c_uint,
    pub frequency: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerSetParams_t__bindgen_ty_2 {
    pub timeslice: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerSetState_st {
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub enableARRMode: ::core::ffi::c_uint,
    pub schedulerParams: nvmlVgpuSchedulerSetParams_t,
}
pub type nvmlVgpuSchedulerSetState_t = nvmlVgpuSchedulerSetState_st;
pub type nvmlVgpuSchedulerStateInfo_t = nvmlVgpuSchedulerStateInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerStateInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub engineId: ::core::ffi::c_uint,
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub arrMode: ::core::ffi::c_uint,
    pub schedulerParams: nvmlVgpuSchedulerParams_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerStateInfo_v2_t {
    pub engineId: ::core::ffi::c_uint,
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub avgFactor: ::core::ffi::c_uint,
    pub timeslice: ::core::ffi::c_uint,
}
pub type nvmlVgpuSchedulerState_t = nvmlVgpuSchedulerState_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerState_v1_t {
    pub version: ::core::ffi::c_uint,
    pub engineId: ::core::ffi::c_uint,
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub enableARRMode: ::core::ffi::c_uint,
    pub schedulerParams: nvmlVgpuSchedulerSetParams_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuSchedulerState_v2_t {
    pub engineId: ::core::ffi::c_uint,
    pub schedulerPolicy: ::core::ffi::c_uint,
    pub avgFactor: ::core::ffi::c_uint,
    pub frequency: ::core::ffi::c_uint,
}
pub type nvmlVgpuTypeBar1Info_t = nvmlVgpuTypeBar1Info_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuTypeBar1Info_v1_t {
    pub version: ::core::ffi::c_uint,
    pub bar1Size: ::core::ffi::c_ulonglong,
}
pub type nvmlVgpuTypeIdInfo_t = nvmlVgpuTypeIdInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuTypeIdInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub vgpuCount: ::core::ffi::c_uint,
    pub vgpuTypeIds: *mut nvmlVgpuTypeId_t,
}
pub type nvmlVgpuTypeId_t = ::core::ffi::c_uint;
pub type nvmlVgpuTypeMaxInstance_t = nvmlVgpuTypeMaxInstance_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuTypeMaxInstance_v1_t {
    pub version: ::core::ffi::c_uint,
    pub vgpuTypeId: nvmlVgpuTypeId_t,
    pub maxInstancePerGI: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlVgpuVersion_st {
    pub minVersion: ::core::ffi::c_uint,
    pub maxVersion: ::core::ffi::c_uint,
}
pub type nvmlVgpuVersion_t = nvmlVgpuVersion_st;
impl nvmlVgpuVmCompatibility_enum {
    pub const NVML_VGPU_VM_COMPATIBILITY_NONE: nvmlVgpuVmCompatibility_enum = nvmlVgpuVmCompatibility_enum(
        0,
    );
    pub const NVML_VGPU_VM_COMPATIBILITY_COLD: nvmlVgpuVmCompatibility_enum = nvmlVgpuVmCompatibility_enum(
        1,
    );
    pub const NVML_VGPU_VM_COMPATIBILITY_HIBERNATE: nvmlVgpuVmCompatibility_enum = nvmlVgpuVmCompatibility_enum(
        2,
    );
    pub const NVML_VGPU_VM_COMPATIBILITY_SLEEP: nvmlVgpuVmCompatibility_enum = nvmlVgpuVmCompatibility_enum(
        4,
    );
    pub const NVML_VGPU_VM_COMPATIBILITY_LIVE: nvmlVgpuVmCompatibility_enum = nvmlVgpuVmCompatibility_enum(
        8,
    );
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlVgpuVmCompatibility_enum(pub ::core::ffi::c_uint);
pub use self::nvmlVgpuVmCompatibility_enum as nvmlVgpuVmCompatibility_t;
impl nvmlVgpuVmIdType {
    pub const NVML_VGPU_VM_ID_DOMAIN_ID: nvmlVgpuVmIdType = nvmlVgpuVmIdType(0);
    pub const NVML_VGPU_VM_ID_UUID: nvmlVgpuVmIdType = nvmlVgpuVmIdType(1);
}
#[repr(transparent)]
#[derive(Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvmlVgpuVmIdType(pub ::core::ffi::c_uint);
pub use self::nvmlVgpuVmIdType as nvmlVgpuVmIdType_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlViolationTime_st {
    pub referenceTime: ::core::ffi::c_ulonglong,
    pub violationTime: ::core::ffi::c_ulonglong,
}
pub type nvmlViolationTime_t = nvmlViolationTime_st;
pub type nvmlWorkloadPowerProfileCurrentProfiles_t = nvmlWorkloadPowerProfileCurrentProfiles_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlWorkloadPowerProfileCurrentProfiles_v1_t {
    pub version: ::core::ffi::c_uint,
    pub perfProfilesMask: nvmlMask255_t,
    pub requestedProfilesMask: nvmlMask255_t,
    pub enforcedProfilesMask: nvmlMask255_t,
}
pub type nvmlWorkloadPowerProfileInfo_t = nvmlWorkloadPowerProfileInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlWorkloadPowerProfileInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub profileId: ::core::ffi::c_uint,
    pub priority: ::core::ffi::c_uint,
    pub conflictingMask: nvmlMask255_t,
}
pub type nvmlWorkloadPowerProfileProfilesInfo_t = nvmlWorkloadPowerProfileProfilesInfo_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlWorkloadPowerProfileProfilesInfo_v1_t {
    pub version: ::core::ffi::c_uint,
    pub perfProfilesMask: nvmlMask255_t,
    pub perfProfile: [nvmlWorkloadPowerProfileInfo_t; 255usize],
}
pub type nvmlWorkloadPowerProfileRequestedProfiles_t = nvmlWorkloadPowerProfileRequestedProfiles_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlWorkloadPowerProfileRequestedProfiles_v1_t {
    pub version: ::core::ffi::c_uint,
    pub requestedProfilesMask: nvmlMask255_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvmlWorkloadPowerProfileUpdateProfiles_v1_t {
    pub operation: nvmlPowerProfileOperation_t,
    pub updateProfilesMask: nvmlMask255_t,
}
