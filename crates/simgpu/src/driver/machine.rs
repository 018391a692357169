//! Interface of the simulated machine for the driver half in a process.
//!
//! Promises: memory is a [`Block`] whose last `Arc` gives it back; blocks cost nothing until they
//! are mapped, so charges without bytes (contexts, heaps, local memory) are blocks too.
//! [`Local`] is a machine of this process alone, for tests.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use divvy_driver_api::types::*;

use super::error::*;
use crate::sys::descriptor::{file_identity, memory_file};
use crate::sys::driver::Answer;
use crate::sys::mapping::{Mapping, Span};

/// Description of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its marketing name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Memory programs can use.
    pub total_bytes: u64,
    /// PCI bus number.
    pub pci_bus: u32,
    /// PCI domain.
    pub pci_domain: u32,
    /// PCI device number.
    pub pci_device: u32,
}

/// Physical memory of a device.
pub trait Block: Send + Sync {
    /// Its size.
    fn bytes(&self) -> u64;
    /// The device it is on (the machine's numbering).
    fn device(&self) -> usize;
    /// Its bytes in this process; mapped at the first call. None: nothing lies behind the address.
    fn span(&self) -> Answer<Option<Span>>;
    /// A descriptor by which another process can import it.
    fn export(&self) -> Answer<OwnedFd>;
    /// Keeps it for as long as somebody has the other end of the pipe whose writing end this is.
    fn keep(&self, pipe: OwnedFd) -> Answer {
        drop(pipe);
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }
    /// The legacy IPC handle of a part of it: always the same for the same part.
    fn publish(&self, offset: u64, bytes: u64) -> Answer<[u8; 64]>;
    /// The machine's name for the context it stands for, when it is one.
    fn context_id(&self) -> u64 {
        0
    }
}

/// Purpose of a block; the machine's own statistics and process lists show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Data that programs address.
    Data,
    /// A context's own cost, heaps and local memory: never mapped.
    Overhead,
}

/// Engine that work occupies, and the unit of its amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Nothing of the device.
    None,
    /// The link to the device; bytes.
    CopyIn,
    /// The link from the device; bytes.
    CopyOut,
    /// Copies inside the device; bytes.
    DeviceCopy,
    /// Fills; bytes.
    Fill,
    /// Kernels with a fixed amount of work; nanoseconds alone on the whole device.
    Work,
    /// Kernels that watch the clock; nanoseconds.
    Wall,
    /// Being on the device at all: an event with nothing before it takes no time, but its context must
    /// be switched in.
    Touch,
}

/// Where and with what a task runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The driver's context.
    pub context: u64,
    /// The machine's name of that context.
    pub machine_context: u64,
    /// Multiprocessors it may use.
    pub width: u32,
}

/// A stream's way to the engines of a device, in order. Any thread hands work in; one at a time waits.
pub trait Lane: Send + Sync {
    /// Whether the device takes time for work: only then can work be handed in ahead.
    fn is_timed(&self) -> bool;

    /// Hands work in that the device could have begun at `ready_ns`; whether there is an end to wait for.
    fn submit(&self, place: Place, load: Load, amount: u64, ready_ns: u64) -> Answer<bool>;

    /// Waits for the end of the oldest work handed in and answers when it was, in device time.
    fn wait(&self) -> Answer<u64>;
}

/// A lane of machines without time.
#[derive(Debug)]
pub(crate) struct Instant;

impl Lane for Instant {
    fn is_timed(&self) -> bool {
        false
    }

    fn submit(&self, _: Place, load: Load, amount: u64, _: u64) -> Answer<bool> {
        if load == Load::Wall {
            // Programs use timed kernels to keep a stream busy; that must hold without a clock too.
            std::thread::sleep(std::time::Duration::from_nanos(amount));
        }
        Ok(false)
    }

    fn wait(&self) -> Answer<u64> {
        Ok(0)
    }
}

/// A simulated machine.
pub trait Machine: Send + Sync {
    /// All devices, before `CUDA_VISIBLE_DEVICES`.
    fn devices(&self) -> &[DeviceInfo];
    /// Free and total bytes of a device.
    fn memory(&self, device: usize) -> Answer<(u64, u64)>;
    /// Takes physical memory.
    fn allocate(&self, device: usize, bytes: u64, purpose: Purpose) -> Answer<Arc<dyn Block>>;
    /// The block behind a descriptor made by [`Block::export`].
    fn import(&self, file: BorrowedFd<'_>) -> Answer<Arc<dyn Block>>;
    /// The block a legacy handle names, with the offset and length of the part it was made for.
    fn open(&self, handle: [u8; 64]) -> Answer<(Arc<dyn Block>, u64, u64)>;
    /// A stream's way to the device's engines.
    fn lane(&self) -> Arc<dyn Lane>;
    /// A context of the machine's on a device, at its cost; dropped, it ends.
    fn context(&self, device: usize) -> Answer<Arc<dyn Block>>;
    /// Whether its devices lie behind an NVSwitch.
    fn has_nvswitch(&self) -> bool {
        false
    }
    /// Whether addresses have nothing behind them (`null` mode).
    fn is_null(&self) -> bool {
        false
    }
    /// How many times slower than the hardware it is.
    fn time_scale(&self) -> u32 {
        1
    }
}

/// A machine inside this process.
pub struct Local {
    devices: Vec<DeviceInfo>,
    used: Arc<Vec<AtomicU64>>,
    with_bytes: bool,
    next: AtomicU64,
    published: Mutex<HashMap<u64, Weak<LocalBlock>>>,
}

impl core::fmt::Debug for Local {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Local").field("devices", &self.devices).finish_non_exhaustive()
    }
}

struct LocalBlock {
    device: usize,
    bytes: u64,
    id: u64,
    used: Arc<Vec<AtomicU64>>,
    file: Option<OwnedFd>,
    mapping: OnceLock<Mapping>,
}

impl Local {
    /// A machine with these devices; `with_bytes` decides whether memory can be read and written.
    pub fn new(devices: Vec<DeviceInfo>, with_bytes: bool) -> Self {
        let used = Arc::new(devices.iter().map(|_| AtomicU64::new(0)).collect());
        let (next, published) = (AtomicU64::new(1), Mutex::default());
        Self { devices, used, with_bytes, next, published }
    }

    /// A machine with bytes, described by `SIMGPU_DEVICES`, `SIMGPU_MEMORY` (bytes) and `SIMGPU_NAME`.
    pub fn from_environment() -> Self {
        let number =
            |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let count = number("SIMGPU_DEVICES").unwrap_or(1).clamp(1, 8);
        let total_bytes = number("SIMGPU_MEMORY").unwrap_or(H200_BYTES);
        let name = std::env::var("SIMGPU_NAME").unwrap_or_else(|_| "NVIDIA H200".to_owned());
        let device = |index: u64| DeviceInfo {
            name: name.clone(),
            uuid: default_uuid(index),
            total_bytes,
            pci_bus: 0x10 + u32::try_from(index).unwrap_or(0),
            pci_domain: 0,
            pci_device: 0,
        };
        Self::new((0..count).map(device).collect(), true)
    }
}

/// Memory of an H200 that programs can use.
const H200_BYTES: u64 = 150_109_880_320;
/// Memory of a context before anything is made in it.
const CONTEXT_BYTES: u64 = 518 << 20;

fn default_uuid(index: u64) -> [u8; 16] {
    let mut uuid = *b"\x5e\x1f\x00\x00\xd1\x77\x40\x01\x80\x00simgpu";
    uuid[2] = index.to_le_bytes()[0];
    uuid
}

impl Machine for Local {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn memory(&self, device: usize) -> Answer<(u64, u64)> {
        let total = self.devices.get(device).ok_or(INVALID_DEVICE)?.total_bytes;
        Ok((total.saturating_sub(self.used[device].load(Ordering::Relaxed)), total))
    }

    fn allocate(&self, device: usize, bytes: u64, purpose: Purpose) -> Answer<Arc<dyn Block>> {
        let total = self.devices.get(device).ok_or(INVALID_DEVICE)?.total_bytes;
        let take = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= total);
        let word = &self.used[device];
        word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).map_err(|_| OUT_OF_MEMORY)?;
        let mut block = LocalBlock {
            device,
            bytes,
            id: self.next.fetch_add(1, Ordering::Relaxed),
            used: Arc::clone(&self.used),
            file: None,
            mapping: OnceLock::new(),
        };
        if self.with_bytes && purpose == Purpose::Data {
            block.file = Some(memory_file(bytes).map_err(|_| OUT_OF_MEMORY)?);
        }
        let block = Arc::new(block);
        if block.file.is_some() {
            let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
            published.retain(|_, block| block.strong_count() > 0);
            published.insert(block.id, Arc::downgrade(&block));
        }
        Ok(block)
    }

    fn import(&self, file: BorrowedFd<'_>) -> Answer<Arc<dyn Block>> {
        let wanted = file_identity(file).map_err(|_| INVALID_VALUE)?;
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |block: &Arc<LocalBlock>| {
            block.file.as_ref().and_then(|file| file_identity(file.as_fd()).ok()) == Some(wanted)
        };
        let found = published.values().filter_map(Weak::upgrade).find(same).ok_or(INVALID_VALUE)?;
        Ok(found)
    }

    fn open(&self, handle: [u8; 64]) -> Answer<(Arc<dyn Block>, u64, u64)> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&handle[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let block = published.get(&word(0)).and_then(Weak::upgrade).ok_or(INVALID_VALUE)?;
        Ok((block, word(8), word(16)))
    }

    fn lane(&self) -> Arc<dyn Lane> {
        Arc::new(Instant)
    }

    fn context(&self, device: usize) -> Answer<Arc<dyn Block>> {
        self.allocate(device, CONTEXT_BYTES, Purpose::Overhead)
    }

    fn is_null(&self) -> bool {
        !self.with_bytes
    }
}

impl Block for LocalBlock {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn device(&self) -> usize {
        self.device
    }

    fn span(&self) -> Answer<Option<Span>> {
        let Some(file) = &self.file else { return Ok(None) };
        if self.mapping.get().is_none() {
            let bytes = usize::try_from(self.bytes).map_err(|_| OUT_OF_MEMORY)?;
            let mapping = Mapping::new(file, 0, bytes).map_err(|_| OUT_OF_MEMORY)?;
            // A mapping that lost the race is dropped, which unmaps it.
            let _ = self.mapping.set(mapping);
        }
        Ok(self.mapping.get().map(Mapping::span))
    }

    fn export(&self) -> Answer<OwnedFd> {
        let file = self.file.as_ref().ok_or(NOT_SUPPORTED)?;
        file.try_clone().map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)
    }

    fn publish(&self, offset: u64, bytes: u64) -> Answer<[u8; 64]> {
        let mut handle = [0; 64];
        handle[..8].copy_from_slice(&self.id.to_le_bytes());
        handle[8..16].copy_from_slice(&offset.to_le_bytes());
        handle[16..24].copy_from_slice(&bytes.to_le_bytes());
        Ok(handle)
    }
}

impl Drop for LocalBlock {
    fn drop(&mut self) {
        self.used[self.device].fetch_sub(self.bytes, Ordering::SeqCst);
    }
}
