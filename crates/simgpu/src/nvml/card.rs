//! Constants of the card that only NVML tells, as read from the H200 (driver 580.159.04).

/// `nvmlDeviceGetPciInfo`: device 6 of bus 0, and the next ones for further devices.
pub(crate) const PCI_DEVICE: u32 = 6;
/// Device and vendor.
pub(crate) const PCI_DEVICE_ID: u32 = 0x2335_10de;
/// Subsystem.
pub(crate) const PCI_SUBSYSTEM_ID: u32 = 0x18bf_10de;
/// Base class and subclass: a 3D controller.
pub(crate) const PCI_CLASS: (u32, u32) = (0x3, 0x2);
/// Brand NVIDIA.
pub(crate) const BRAND: u32 = 14;
/// Architecture Hopper.
pub(crate) const ARCHITECTURE: u32 = 9;
/// Compute capability.
pub(crate) const COMPUTE_CAPABILITY: (i32, i32) = (9, 0);
/// Cores.
pub(crate) const CORES: u32 = 16_896;
/// Width of the memory's bus in bits.
pub(crate) const MEMORY_BUS_BITS: u32 = 6016;
/// Power limit and its lowest value, milliwatts.
pub(crate) const POWER_LIMIT_MW: (u32, u32) = (700_000, 200_000);
/// Power drawn when idle, milliwatts.
pub(crate) const POWER_IDLE_MW: u32 = 120_184;
/// Temperature when idle, degrees Celsius.
pub(crate) const TEMPERATURE_C: u32 = 29;
/// Temperature thresholds by number; those after are not supported.
pub(crate) const TEMPERATURE_THRESHOLDS_C: [u32; 4] = [95, 89, 95, 87];
/// Clocks in MHz: graphics, SM, memory, video.
pub(crate) const CLOCKS_MHZ: [u32; 4] = [1980, 1980, 3201, 1545];
/// BAR1 in bytes: all of it, and what the driver uses.
pub(crate) const BAR1_BYTES: (u64, u64) = (274_877_906_944, 1_703_936);
/// PCIe generation and width.
pub(crate) const PCIE: (u32, u32) = (5, 16);
/// PCIe speed in MB/s per lane group, as `nvmlDeviceGetPcieSpeed` answers it.
pub(crate) const PCIE_SPEED: u32 = 32_000;
/// VBIOS version.
pub(crate) const VBIOS: &str = "96.00.A5.00.1A";
/// Board part number.
pub(crate) const BOARD_PART: &str = "692-2G520-0282-000";
/// Inforom image, OEM and ECC object versions.
pub(crate) const INFOROM: [&str; 3] = ["G520.0282.02.02", "2.1", "7.16"];
/// Sampling period of the encoder's and its like's utilisation, microseconds.
pub(crate) const MEDIA_PERIOD_US: u32 = 100_000;
/// Size of the accounting buffer.
pub(crate) const ACCOUNTING_ROOM: u32 = 4000;
/// Clock event reasons: idle, and all that can be.
pub(crate) const CLOCK_REASONS: (u64, u64) = (1, 511);
