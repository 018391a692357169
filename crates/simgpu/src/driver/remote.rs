//! The machine of production: [`Machine`] over the connection to `simgpud`.
//!
//! Promises: the last `Arc` of a block or context gives it back to the machine; in a forked child it
//! gives nothing back, since nothing there is the child's. In null mode the connection is none, and the
//! same code costs a few counters.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use divvy_driver_api::types::*;

use super::eviction;
use super::machine::{Block, DeviceInfo, Instant, Lane, Load, Machine, Place, Purpose, Residence};
use crate::calibration::*;
use crate::client::{self, Client, ClientError, Work};
use crate::machine::description::Mode;
use crate::machine::managed::{Moved, Run};
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

impl Shared {
    /// An allocation for which so many bytes had to go is the calling thread's to wait for.
    fn awaits(&self, evicted_bytes: u64) {
        if evicted_bytes > 0 && self.client.mode() == Mode::Calibrated {
            let evicted_ns = ns_at(evicted_bytes, EVICT_BYTES_PER_S);
            eviction::owe(evicted_ns.saturating_mul(u64::from(self.client.time_scale())));
        }
    }
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
                pci_device: 6 + device.card(index),
                speed_percent: device.speed_percent,
                partition: device.partition,
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
        self.shared.awaits(hold.evicted_bytes);
        Ok(self.block(hold))
    }

    fn managed(&self, bytes: u64) -> Answer<Arc<dyn Residence>> {
        let managed = self.shared.client.make_managed(bytes).map_err(refused)?;
        let shared = Arc::clone(&self.shared);
        Ok(Arc::new(RemoteResidence { managed: Some(managed), shared }))
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
        self.shared.awaits(context.evicted_bytes);
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

struct RemoteResidence {
    managed: Option<client::Managed>,
    shared: Arc<Shared>,
}

impl RemoteResidence {
    fn managed(&self) -> Answer<&client::Managed> {
        self.managed.as_ref().ok_or(CUresult::CUDA_ERROR_UNKNOWN)
    }
}

impl Residence for RemoteResidence {
    fn bring(&self, device: usize, run: Run) -> Answer<Moved> {
        self.shared.client.bring(self.managed()?, number(device)?, run).map_err(refused)
    }

    fn leave(&self, run: Run) -> Answer<Moved> {
        self.shared.client.leave(self.managed()?, run).map_err(refused)
    }

    fn resident_bytes(&self, run: Run) -> Answer<u64> {
        self.shared.client.resident_bytes(self.managed()?, run).map_err(refused)
    }
}

impl Drop for RemoteResidence {
    fn drop(&mut self) {
        if let Some(managed) = self.managed.take() {
            // Refused as for a block.
            let _ = self.shared.client.end_managed(managed);
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
        let scale = u64::from(self.shared.client.time_scale());
        let Some(asked) = asked(load, amount, place.width, scale) else { return Ok(false) };
        let asked = Work { context: place.machine_context, ..asked };
        self.lane()?.submit_at(&asked, ready_ns).map_err(refused)?;
        Ok(true)
    }

    fn wait(&self) -> Answer<u64> {
        let done = self.lane()?.wait().map_err(refused)?;
        Ok(done.map_or(0, |done| done.finished_ns))
    }
}

/// Work for the engines of a load, on a machine `scale` times slower than the hardware; `None` if it needs
/// none.
fn asked(load: Load, amount: u64, multiprocessors: u32, scale: u64) -> Option<Work> {
    let width = multiprocessors.clamp(1, MULTIPROCESSORS);
    // Work that takes longer than the link would is as much more for it.
    let slower = |link_per_s: u64, bytes_per_s: u64| {
        let bytes = u128::from(amount) * u128::from(link_per_s) / u128::from(bytes_per_s);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    let (engine, amount, pace) = match load {
        Load::None => return None,
        Load::CopyIn => (Engine::CopyIn, amount, Pace::Work),
        Load::CopyOut => (Engine::CopyOut, amount, Pace::Work),
        Load::PrefetchIn => {
            let bytes = slower(COPY_IN_BYTES_PER_S, PREFETCH_IN_BYTES_PER_S);
            (Engine::CopyIn, bytes, Pace::Work)
        }
        Load::PrefetchOut => {
            let bytes = slower(COPY_OUT_BYTES_PER_S, PREFETCH_OUT_BYTES_PER_S);
            (Engine::CopyOut, bytes, Pace::Work)
        }
        Load::Evict => {
            (Engine::CopyOut, slower(COPY_OUT_BYTES_PER_S, EVICT_BYTES_PER_S), Pace::Work)
        }
        Load::DeviceCopy => (Engine::Compute, ns_at(amount, DEVICE_COPY_BYTES_PER_S), Pace::Work),
        Load::Fill => (Engine::Compute, ns_at(amount, CLEAR_BYTES_PER_S), Pace::Work),
        Load::Work => {
            let stretched = u128::from(amount) * u128::from(MULTIPROCESSORS) / u128::from(width);
            (Engine::Compute, u64::try_from(stretched).unwrap_or(u64::MAX), Pace::Work)
        }
        Load::Wall => (Engine::Compute, amount, Pace::Wall),
        // It passes as a clock does, but is the machine's own time, which is scaled.
        Load::Stall => (Engine::Compute, amount.saturating_mul(scale), Pace::Wall),
        Load::Touch => (Engine::Compute, 0, Pace::Work),
    };
    let width_permille = match load {
        Load::Touch => 0,
        _ => (width * 1000 / MULTIPROCESSORS).max(1),
    };
    Some(Work { context: 0, engine, amount, width_permille, pace })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_memory_moves_at_the_rates_that_were_measured() {
        let gib = 1 << 30;
        for (load, link_per_s, ms) in [
            (Load::PrefetchIn, COPY_IN_BYTES_PER_S, 21.157),
            (Load::PrefetchOut, COPY_OUT_BYTES_PER_S, 62.170),
            (Load::Evict, COPY_OUT_BYTES_PER_S, 69.27),
        ] {
            let work = asked(load, gib, MULTIPROCESSORS, 1).expect("work");
            let took_ms = ns_at(work.amount, link_per_s) as f64 / 1e6;
            assert!((took_ms / ms - 1.0).abs() < 0.005, "{load:?}: {took_ms} ms");
        }
    }

    #[test]
    fn a_stall_passes_as_a_clock_does_on_a_machine_as_slow_as_it_is() {
        let stall = asked(Load::Stall, 1_000, 33, 10).expect("work");
        assert_eq!((stall.amount, stall.pace, stall.width_permille), (10_000, Pace::Wall, 250));
    }
}
