//! The machine of null mode: counters in this process, no daemon, no bytes.
//!
//! It exists so that the cost of what lies above the driver can be measured in nanoseconds. Memory is
//! finite here too, for this process alone.

use super::error::ClientError;
use super::holdings::{Block, Context, MemoryInfo};
use crate::calibration::{CONTEXT_BYTES, GRANULE_BYTES};
use crate::machine::description::Description;
use crate::wire::Charge;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct NullMachine {
    devices: Vec<NullDevice>,
    next: AtomicU64,
}

struct NullDevice {
    total_bytes: u64,
    reserved_bytes: u64,
    used_bytes: AtomicU64,
}

impl NullMachine {
    pub(super) fn new(description: &Description) -> Self {
        let devices = description
            .devices
            .iter()
            .map(|device| NullDevice {
                total_bytes: device.total_bytes,
                reserved_bytes: device.nvml_total_bytes - device.total_bytes,
                used_bytes: AtomicU64::new(0),
            })
            .collect();
        Self { devices, next: AtomicU64::new(1) }
    }

    fn device(&self, device: u32) -> Result<&NullDevice, ClientError> {
        self.devices.get(device as usize).ok_or(ClientError::Unknown)
    }

    fn take(&self, device: u32, bytes: u64) -> Result<u64, ClientError> {
        if bytes == 0 {
            return Err(ClientError::Invalid);
        }
        let card = self.device(device)?;
        let bytes =
            bytes.checked_next_multiple_of(GRANULE_BYTES).ok_or(ClientError::OutOfMemory)?;
        card.used_bytes
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= card.total_bytes)
            })
            .map(|_| bytes)
            .map_err(|_| ClientError::OutOfMemory)
    }

    pub(super) fn allocate(
        &self,
        device: u32,
        bytes: u64,
        charge: Charge,
    ) -> Result<Block, ClientError> {
        let bytes = self.take(device, bytes)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Block { id, device, charge, bytes, evicted_bytes: 0, file_offset: 0 })
    }

    pub(super) fn release(&self, device: u32, bytes: u64) -> Result<(), ClientError> {
        self.device(device)?.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn create_context(&self, device: u32) -> Result<Context, ClientError> {
        self.take(device, CONTEXT_BYTES)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Context { id, device, evicted_bytes: 0 })
    }

    pub(super) fn destroy_context(&self, context: &Context) -> Result<(), ClientError> {
        self.release(context.device, CONTEXT_BYTES)
    }

    pub(super) fn memory_info(&self, device: u32) -> Result<MemoryInfo, ClientError> {
        let card = self.device(device)?;
        let used_bytes = card.used_bytes.load(Ordering::Relaxed);
        Ok(MemoryInfo {
            total_bytes: card.total_bytes,
            free_bytes: card.total_bytes.saturating_sub(used_bytes),
            used_bytes,
            reserved_bytes: card.reserved_bytes,
        })
    }
}
