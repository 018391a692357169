//! The machine of production: [`Machine`] over the connection to `simgpud`.
//!
//! Promises: the last `Arc` of a block or context gives it back to the machine; in a forked child it
//! gives nothing back, since nothing there is the child's. In null mode the connection is none, and the
//! same code costs a few counters.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use divvy_driver_api::types::*;

use super::machine::{Block, DeviceInfo, Instant, Lane, Load, Machine, Place, Purpose};
use crate::calibration::{CLEAR_BYTES_PER_S, DEVICE_COPY_BYTES_PER_S, MULTIPROCESSORS};
use crate::client::{self, Client, ClientError, Work};
use crate::machine::description::Mode;
use crate::sys::driver::Answer;
use crate::sys::mapping::{Mapping, Span};
use crate::wire::{Charge, Engine, Pace};

const INVALID_DEVICE: CUresult = CUresult::CUDA_ERROR_INVALID_DEVICE;

fn refused(error: ClientError) -> CUresult {
    error.result()
}

/// The simulated machine the environment names.
#[derive(Debug)]
pub(crate) struct Remote {
    shared: Arc<Shared>,
    devices: Vec<DeviceInfo>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
}

impl Remote {
    /// Connects, starting the machine if need be; what is wrong goes to standard error as well.
    pub(crate) fn connect() -> Answer<Self> {
        let client = Client::connect().map_err(|error| {
            eprintln!("simgpu: {error}");
            refused(error)
        })?;
        let devices: Vec<DeviceInfo> = (0..)
            .zip(client.devices())
            .map(|(index, device)| DeviceInfo {
                name: device.name.clone(),
                uuid: device.uuid,
                total_bytes: device.total_bytes,
                pci_bus: 0,
                pci_domain: 0,
                // As NVML tells it.
                pci_device: 6 + index,
            })
            .collect();
        Ok(Self { shared: Arc::new(Shared { client }), devices })
    }

    fn block(&self, hold: client::Block) -> Arc<dyn Block> {
        Arc::new(RemoteBlock {
            bytes: hold.bytes,
            device: hold.device as usize,
            hold: Some(hold),
            mapping: OnceLock::new(),
            shared: Arc::clone(&self.shared),
        })
    }
}

fn number(device: usize) -> Answer<u32> {
    u32::try_from(device).map_err(|_| INVALID_DEVICE)
}

impl Machine for Remote {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn memory(&self, device: usize) -> Answer<(u64, u64)> {
        let info = self.shared.client.memory_info(number(device)?).map_err(refused)?;
        Ok((info.free_bytes, info.total_bytes))
    }

    fn allocate(&self, device: usize, bytes: u64, purpose: Purpose) -> Answer<Arc<dyn Block>> {
        let charge = match purpose {
            Purpose::Data => Charge::Blocks,
            Purpose::Overhead => Charge::Local,
        };
        let hold = self.shared.client.allocate(number(device)?, bytes, charge).map_err(refused)?;
        Ok(self.block(hold))
    }

    fn import(&self, file: BorrowedFd<'_>) -> Answer<Arc<dyn Block>> {
        let hold = self.shared.client.import_descriptor(file).map_err(refused)?;
        Ok(self.block(hold))
    }

    fn open(&self, handle: [u8; 64]) -> Answer<(Arc<dyn Block>, u64, u64)> {
        let range = self.shared.client.ipc_open(&handle).map_err(refused)?;
        Ok((self.block(range.block), range.offset_bytes, range.length_bytes))
    }

    fn has_nvswitch(&self) -> bool {
        self.shared.client.has_nvswitch()
    }

    fn lane(&self) -> Arc<dyn Lane> {
        if self.shared.client.mode() == Mode::Calibrated {
            return Arc::new(RemoteLane {
                shared: Arc::clone(&self.shared),
                lane: OnceLock::new(),
            });
        }
        Arc::new(Instant)
    }

    fn time_scale(&self) -> u32 {
        self.shared.client.time_scale()
    }

    fn context(&self, device: usize) -> Answer<Arc<dyn Block>> {
        let device = number(device)?;
        let context = self.shared.client.create_context(device).map_err(refused)?;
        let shared = Arc::clone(&self.shared);
        Ok(Arc::new(RemoteContext { context: Some(context), device, shared }))
    }

    fn is_null(&self) -> bool {
        self.shared.client.mode() == Mode::Null
    }
}

struct RemoteBlock {
    bytes: u64,
    device: usize,
    hold: Option<client::Block>,
    mapping: OnceLock<Option<Mapping>>,
    shared: Arc<Shared>,
}

impl RemoteBlock {
    fn hold(&self) -> Answer<&client::Block> {
        self.hold.as_ref().ok_or(CUresult::CUDA_ERROR_UNKNOWN)
    }
}

impl Block for RemoteBlock {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn device(&self) -> usize {
        self.device
    }

    fn span(&self) -> Answer<Option<Span>> {
        if self.mapping.get().is_none() {
            let mapping = self.shared.client.map(self.hold()?).map_err(refused)?;
            // A mapping that lost the race is dropped, which unmaps it.
            let _ = self.mapping.set(mapping);
        }
        Ok(self.mapping.get().and_then(Option::as_ref).map(Mapping::span))
    }

    fn export(&self) -> Answer<OwnedFd> {
        self.shared.client.export(self.hold()?).map_err(refused)
    }

    fn keep(&self, pipe: OwnedFd) -> Answer {
        self.shared.client.keep(self.hold()?, pipe.as_fd()).map_err(refused)
    }

    fn publish(&self, offset: u64, bytes: u64) -> Answer<[u8; 64]> {
        self.shared.client.ipc_handle(self.hold()?, offset, bytes).map_err(refused)
    }
}

impl Drop for RemoteBlock {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            // Refused in a forked child, whose parent still holds it, and by a machine that is gone.
            let _ = self.shared.client.release(hold);
        }
    }
}

struct RemoteContext {
    context: Option<client::Context>,
    device: u32,
    shared: Arc<Shared>,
}

impl Block for RemoteContext {
    fn bytes(&self) -> u64 {
        crate::calibration::CONTEXT_BYTES
    }

    fn device(&self) -> usize {
        self.device as usize
    }

    fn span(&self) -> Answer<Option<Span>> {
        Ok(None)
    }

    fn export(&self) -> Answer<OwnedFd> {
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }

    fn publish(&self, _: u64, _: u64) -> Answer<[u8; 64]> {
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }

    fn context_id(&self) -> u64 {
        self.context.as_ref().map_or(0, |context| context.id)
    }
}

impl Drop for RemoteContext {
    fn drop(&mut self) {
        let Some(context) = self.context.take() else { return };
        let _ = self.shared.client.destroy_context(context);
    }
}

/// A stream's lane; the connection is made with the first work.
struct RemoteLane {
    shared: Arc<Shared>,
    lane: OnceLock<client::Lane>,
}

impl RemoteLane {
    fn lane(&self) -> Answer<&client::Lane> {
        if self.lane.get().is_none() {
            // One thread at a time hands in a stream's work.
            let _ = self.lane.set(self.shared.client.lane().map_err(refused)?);
        }
        self.lane.get().ok_or(CUresult::CUDA_ERROR_UNKNOWN)
    }
}

impl Lane for RemoteLane {
    fn is_timed(&self) -> bool {
        true
    }

    fn submit(&self, place: Place, load: Load, amount: u64, ready_ns: u64) -> Answer<bool> {
        let Some(asked) = asked(load, amount, place.width) else { return Ok(false) };
        let asked = Work { context: place.machine_context, ..asked };
        self.lane()?.submit_at(&asked, ready_ns).map_err(refused)?;
        Ok(true)
    }

    fn wait(&self) -> Answer<u64> {
        let done = self.lane()?.wait().map_err(refused)?;
        Ok(done.map_or(0, |done| done.finished_ns))
    }
}

/// Work for the engines of a load; `None` if it needs none.
fn asked(load: Load, amount: u64, multiprocessors: u32) -> Option<Work> {
    let width = multiprocessors.clamp(1, MULTIPROCESSORS);
    let ns_at = |bytes_per_s: u64| {
        let ns = u128::from(amount) * 1_000_000_000 / u128::from(bytes_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let (engine, amount, pace) = match load {
        Load::None => return None,
        Load::CopyIn => (Engine::CopyIn, amount, Pace::Work),
        Load::CopyOut => (Engine::CopyOut, amount, Pace::Work),
        Load::DeviceCopy => (Engine::Compute, ns_at(DEVICE_COPY_BYTES_PER_S), Pace::Work),
        Load::Fill => (Engine::Compute, ns_at(CLEAR_BYTES_PER_S), Pace::Work),
        Load::Work => {
            let stretched = u128::from(amount) * u128::from(MULTIPROCESSORS) / u128::from(width);
            (Engine::Compute, u64::try_from(stretched).unwrap_or(u64::MAX), Pace::Work)
        }
        Load::Wall => (Engine::Compute, amount, Pace::Wall),
        Load::Touch => (Engine::Compute, 0, Pace::Work),
    };
    let width_permille = match load {
        Load::Touch => 0,
        _ => (width * 1000 / MULTIPROCESSORS).max(1),
    };
    Some(Work { context: 0, engine, amount, width_permille, pace })
}
