//! Interface of the simulated machine for the driver half in a process.
//!
//! Promises: memory is a [`Block`] whose last `Arc` gives it back; blocks cost nothing until they
//! are mapped, so charges without bytes (contexts, heaps, local memory) are blocks too. Which managed memory
//! is on a device is a [`Residence`].

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use divvy_driver_api::types::*;

use crate::machine::managed::{Moved, Run};
use crate::partition::Partition;
use crate::sys::driver::Answer;
use crate::sys::mapping::Span;

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
    /// Clock rate in percent of an H200's.
    pub speed_percent: u32,
    /// How it stands to partitions.
    pub partition: Partition,
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

/// Managed memory as the machine knows it: which of its granules are on which device. The last `Arc` ends it.
pub trait Residence: Send + Sync {
    /// Brings granules to a device (the machine's numbering), for which others' may have to go.
    fn bring(&self, device: usize, run: Run) -> Answer<Moved>;
    /// Brings granules to the host.
    fn leave(&self, run: Run) -> Answer<Moved>;
    /// How many bytes of the granules are on a device.
    fn resident_bytes(&self, run: Run) -> Answer<u64>;
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
    /// A kernel or fill that waits for managed memory; nanoseconds, which pass whether or not its context is
    /// switched in.
    Stall,
    /// Managed memory prefetched to the device; bytes.
    PrefetchIn,
    /// Managed memory prefetched to the host; bytes.
    PrefetchOut,
    /// Managed memory that makes room for a prefetch; bytes.
    Evict,
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
    /// Makes managed memory, all of it on the host.
    fn managed(&self, bytes: u64) -> Answer<Arc<dyn Residence>>;
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
