//! Every figure the simulated machine is calibrated by, in one place.
//!
//! Each constant names the row of the H200 measurement it comes from (one NVIDIA H200, driver
//! 580.159.04, CUDA 13.0, measured 2026-11-21). Nothing outside this file holds a figure of the
//! hardware. It does not hold what a user may configure: count, size, name and UUID of devices are
//! in `machine::description`, which takes its defaults from here.

/// Marketing name, as `cuDeviceGetName` and NVML answer it.
pub const DEVICE_NAME: &str = "NVIDIA H200";

/// `cuDriverGetVersion`, row "driver": 13.0 is 13000.
pub const CUDA_DRIVER_VERSION: i32 = 13_000;

/// Driver release, row "driver".
pub const DRIVER_RELEASE: &str = "580.159.04";

/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;

/// Memory of the card as NVML reports it: 143,771 MiB.
pub const NVML_TOTAL_BYTES: u64 = 143_771 * MIB;

/// Part of NVML's total that `cuDeviceTotalMem` leaves out: 150,754,820,096 - 150,109,880,320 bytes, the
/// same figure NVML calls reserved.
pub const DRIVER_RESERVED_BYTES: u64 = 644_939_776;

/// Physical memory is handed out in granules of this size: rows "packs small allocations into 2 MiB
/// blocks" and "VMM minimum and recommended granularity".
pub const GRANULE_BYTES: u64 = 2 * MIB;

/// Memory a context costs: row "A context costs 518 MiB".
pub const CONTEXT_BYTES: u64 = 518 * MIB;

/// Memory a context costs beyond what NVML's process list shows: `cuMemGetInfo` falls by 548,995,072
/// bytes at each context.
pub const CONTEXT_UNLISTED_BYTES: u64 = 548_995_072 - CONTEXT_BYTES;

/// Streaming multiprocessors: row "132 SMs".
pub const MULTIPROCESSORS: u32 = 132;

/// Threads that can be resident at once: row "on H200 270,336 threads".
pub const RESIDENT_THREADS: u32 = 270_336;

/// A context keeps the device this long while another has work: "the 1,024 µs slice".
pub const SLICE_NS: u64 = 1_024_000;

/// Idle time of the device when a context has run dry and another one's work comes in.
///
/// Fitted to "2 × 100 µs sync: 42 % in sum" (238 µs for 100 µs of work), "20 µs sync: 12.7 %" (157 µs
/// for 20 µs) and "100 µs, queue of 1 ms: 88.3 %" (1 ms in 1,138 µs): all three give 138 µs. With the
/// gap of a launch behind it, it is the turn that "costs about 155 µs before its first kernel runs".
pub const SWITCH_DRY_NS: u64 = 138_000;

/// Idle time of the device when a slice ends and its context has more to run.
///
/// Fitted to "2 × 100 µs async, a 10 ms queue: 92 % in sum": 1,024 of 1,113 µs.
pub const SWITCH_PREEMPT_NS: u64 = 89_000;

/// From the end of a kernel to the start of the next one of a program that synchronises between them:
/// row "alone: 20 µs 71.7 %, 100 µs 94.0 %".
pub const SYNCHRONISE_GAP_NS: u64 = 7_000;

/// Time for which the shortest kernel occupies the device. Not measured by itself: below the 2,700 ns between
/// launches of an empty one, since "the queue is never the limit".
pub const KERNEL_NS: u64 = 1_800;

/// Bytes a memory-bound kernel moves per nanosecond: the card's 4.8 TB/s, less what is never reached.
pub const KERNEL_BYTES_PER_NS: u64 = 4_000;

/// Floating-point operations per nanosecond of a plain matrix product, single precision.
pub const KERNEL_FLOPS_PER_NS: u64 = 40_000;

/// Pinned copies host to device: row "55.5 GB/s".
pub const COPY_IN_BYTES_PER_S: u64 = 55_500_000_000;

/// Pinned copies device to host: row "55.4 GB/s".
pub const COPY_OUT_BYTES_PER_S: u64 = 55_400_000_000;

/// Either direction while the other is busy: row "both at once 101.7 GB/s in sum".
pub const COPY_BOTH_BYTES_PER_S: u64 = 50_850_000_000;

/// Device-side clears and copies: row "8 GiB cleared in 1.9 ms".
pub const CLEAR_BYTES_PER_S: u64 = 4_500_000_000_000;

/// Device-to-device copies read and write: half of what clears reach.
pub const DEVICE_COPY_BYTES_PER_S: u64 = CLEAR_BYTES_PER_S / 2;

/// Operations a stream's queue holds before a launch waits. Not measured here: the figure CUDA's
/// programmers know.
pub const QUEUED_LAUNCHES: u64 = 1_024;

/// Room `nvmlDeviceGetProcessUtilization` asks for: row "wants room for 72 samples".
pub const PROCESS_UTILISATION_ROOM: u32 = 72;

/// Period over which NVML averages utilisation: row "lags by about 0.5–1 s".
pub const UTILISATION_WINDOW_NS: u64 = 1_000_000_000;

/// Managed memory that a kernel or a fill finds on the host: row "demand faults back 10.0 GB/s".
pub const FAULT_BYTES_PER_S: u64 = 10_000_000_000;

/// Managed memory prefetched to the device: row "bulk `cuMemPrefetchAsync` back 50.8 GB/s".
pub const PREFETCH_IN_BYTES_PER_S: u64 = 50_800_000_000;

/// Managed memory prefetched to the host: row "idle: to host 62.170 ms" of vmm-under-kernels.txt, for 1 GiB.
pub const PREFETCH_OUT_BYTES_PER_S: u64 = 17_270_000_000;

/// Managed memory that makes room: row "evicting to the host 15–16 GB/s".
pub const EVICT_BYTES_PER_S: u64 = 15_500_000_000;

/// How long `bytes` take at a rate.
pub fn ns_at(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s);
    u64::try_from(ns).unwrap_or(u64::MAX)
}
