//! Holdings of a client in the machine: blocks of memory, managed memory and contexts, and a device's figures.
//!
//! Plain data: making and giving back is the client's.

use crate::wire::Charge;

/// A hold on a block of device memory.
///
/// Each value is one hold: giving it to `Client::release` ends it, dropping it leaks the hold until
/// the process ends (as a lost handle does on the hardware).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a block that is dropped stays allocated until the process ends"]
pub struct Block {
    /// Names the block machine-wide.
    pub id: u64,
    /// The device it lies on.
    pub device: u32,
    /// Its purpose.
    pub charge: Charge,
    /// Its size, a multiple of 2 MiB.
    pub bytes: u64,
    /// Bytes of managed memory that went to the host for it.
    pub evicted_bytes: u64,
    pub(super) file_offset: u64,
}

/// A hold taken by a legacy IPC handle, and the range of the block the handle was made for.
#[derive(Debug)]
pub struct SharedRange {
    /// The hold.
    pub block: Block,
    /// Where the range begins in the block.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
}

/// A context of this process.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a context that is dropped stays charged until the process ends"]
pub struct Context {
    /// Names the context machine-wide; lanes submit work under it.
    pub id: u64,
    /// The device it is on.
    pub device: u32,
    /// Bytes of managed memory that went to the host for it.
    pub evicted_bytes: u64,
}

/// Managed memory of this process.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "managed memory that is dropped may stay on its device until the process ends"]
pub struct Managed {
    /// Names it machine-wide.
    pub id: u64,
}

/// Memory figures of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that can be allocated: `cuDeviceTotalMem`.
    pub total_bytes: u64,
    /// Bytes that no client holds.
    pub free_bytes: u64,
    /// Bytes that all clients hold together.
    pub used_bytes: u64,
    /// Bytes that the driver keeps for itself; NVML's total is `total_bytes + reserved_bytes`.
    pub reserved_bytes: u64,
}
