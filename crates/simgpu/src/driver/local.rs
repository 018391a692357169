//! A machine of this process alone, for tests: memory is counted as the daemon counts it, and nothing takes
//! time.
//!
//! Promises: what its blocks and managed memory take of a device is given back with them. Does not know
//! contexts or other processes.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use divvy_driver_api::types::*;

use super::error::*;
use super::machine::{Block, DeviceInfo, Instant, Lane, Machine, Purpose, Residence};
use crate::machine::description::Device;
use crate::machine::managed::{Moved, Run, pieces};
use crate::machine::memory::Memory;
use crate::partition::Partition;
use crate::sys::descriptor::{file_identity, memory_file};
use crate::sys::driver::Answer;
use crate::sys::mapping::{Mapping, Span};
use crate::wire::Refusal;

/// The one client of the machine's memory.
const CLIENT: u64 = 1;

/// Memory of all devices, which its blocks share.
type Cards = Arc<Mutex<Memory>>;

fn locked(cards: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    cards.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(refusal: Refusal) -> CUresult {
    match refusal {
        Refusal::OutOfMemory => OUT_OF_MEMORY,
        _ => INVALID_VALUE,
    }
}

fn number(device: usize) -> Answer<u32> {
    u32::try_from(device).map_err(|_| INVALID_DEVICE)
}

/// A machine inside this process.
pub(crate) struct Local {
    devices: Vec<DeviceInfo>,
    cards: Cards,
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
    device: u32,
    bytes: u64,
    id: u64,
    cards: Cards,
    file: Option<OwnedFd>,
    mapping: OnceLock<Mapping>,
}

impl Local {
    /// A machine with these devices; `with_bytes` decides whether memory can be read and written.
    pub(crate) fn new(devices: Vec<DeviceInfo>, with_bytes: bool) -> Self {
        let cards = devices.iter().map(|info| Device {
            name: info.name.clone(),
            uuid: info.uuid,
            nvml_total_bytes: info.total_bytes,
            total_bytes: info.total_bytes,
            speed_percent: info.speed_percent,
            partition: info.partition,
        });
        let cards = Arc::new(Mutex::new(Memory::new(&cards.collect::<Vec<_>>())));
        let (next, published) = (AtomicU64::new(1), Mutex::default());
        Self { devices, cards, with_bytes, next, published }
    }

    /// A machine with bytes, described by `SIMGPU_DEVICES`, `SIMGPU_MEMORY` (bytes) and `SIMGPU_NAME`.
    pub(crate) fn from_environment() -> Self {
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
            speed_percent: 100,
            partition: Partition::Whole,
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
        let figures = locked(&self.cards).figures(number(device)?).map_err(|_| INVALID_DEVICE)?;
        Ok((figures.total_bytes.saturating_sub(figures.used_bytes), figures.total_bytes))
    }

    fn allocate(&self, device: usize, bytes: u64, purpose: Purpose) -> Answer<Arc<dyn Block>> {
        let device = number(device)?;
        locked(&self.cards).charge(device, bytes).map_err(refused)?;
        let mut block = LocalBlock {
            device,
            bytes,
            id: self.next.fetch_add(1, Ordering::Relaxed),
            cards: Arc::clone(&self.cards),
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

    fn managed(&self, bytes: u64) -> Answer<Arc<dyn Residence>> {
        let object = locked(&self.cards).managed().make(CLIENT, bytes).map_err(refused)?;
        Ok(Arc::new(LocalResidence { object, cards: Arc::clone(&self.cards) }))
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
        self.device as usize
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
        locked(&self.cards).discharge(self.device, self.bytes);
    }
}

struct LocalResidence {
    object: u64,
    cards: Cards,
}

impl LocalResidence {
    fn moved(
        &self,
        run: Run,
        operation: impl Fn(&mut Memory, Run) -> Result<Moved, Refusal>,
    ) -> Answer<Moved> {
        let mut all = Moved::default();
        for piece in pieces(run) {
            all.add(operation(&mut locked(&self.cards), piece).map_err(refused)?);
        }
        Ok(all)
    }
}

impl Residence for LocalResidence {
    fn bring(&self, device: usize, run: Run) -> Answer<Moved> {
        let device = number(device)?;
        self.moved(run, |cards, piece| cards.bring(CLIENT, self.object, device, piece))
    }

    fn leave(&self, run: Run) -> Answer<Moved> {
        self.moved(run, |cards, piece| cards.managed().leave(CLIENT, self.object, piece))
    }

    fn resident_bytes(&self, run: Run) -> Answer<u64> {
        let mut cards = locked(&self.cards);
        pieces(run)
            .map(|piece| cards.managed().resident_of(CLIENT, self.object, piece).map_err(refused))
            .sum()
    }
}

impl Drop for LocalResidence {
    fn drop(&mut self) {
        // Refused only for what has ended already.
        let _ = locked(&self.cards).managed().end(CLIENT, self.object);
    }
}
