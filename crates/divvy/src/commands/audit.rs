//! Compares a tenant's ledger with what the card says of its processes, and charges the rest.
//!
//! The ledger counts what programs ask for; the driver also takes memory that nobody asked for: code
//! that is loaded at the first launch, buffers of kernels that print or assert. Where NVML can name
//! the tenant's processes, that is where `divvy run` sees the same pids as the driver, this thread
//! asks it ten times a second and holds the difference as `other`, in a slot of its own, so that the
//! limit covers it too. What was found is in the summary of `divvy run --json`.
//!
//! Promises: nothing is loaded or attached before a process of the tenant uses a GPU; only a
//! difference that two samples in a row have seen is charged, and a smaller one is believed at once,
//! so memory on its way to be freed is never counted twice; without NVML nothing happens; the thread
//! takes no signal. Does not
//! decide who gets memory: the charge is one more holder in the ledger. It cannot hold back a launch,
//! so a program at its limit may stay above it on the card until it asks again.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use divvy_abi::usage::MemoryKind;
use divvy_abi::{MAX_DEVICES, Uuid};
use divvy_page::reader::UsageFile;
use divvy_page::{ConfigSource, NewDevice, Tenant};
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;

use crate::signals;

/// Time between two samples.
const PERIOD: Duration = Duration::from_millis(100);

/// Result of one device's audit.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Finding {
    /// The device.
    pub(crate) uuid: String,
    /// Samples taken while the tenant had processes on the card.
    pub(crate) samples: u64,
    /// The most NVML said of the tenant's processes together, in bytes.
    pub(crate) card_peak_bytes: u64,
    /// The most that was charged as `other`, in bytes.
    pub(crate) other_peak_bytes: u64,
}

/// The running audit of one tenant.
#[derive(Debug)]
pub(crate) struct Audit {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Finding>>,
}

impl Audit {
    /// Starts auditing the tenant in `directory` with the NVML found at `library`, or with the
    /// machine's.
    pub(crate) fn start(directory: &Path, library: Option<PathBuf>) -> Option<Self> {
        let directory = CString::new(directory.as_os_str().as_bytes()).ok()?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let body = move || watch(&directory, library, &seen);
        Some(Self { stop, thread: signals::quiet_thread("divvy audit", body).ok()? })
    }

    /// Ends the audit; its charges go with it.
    pub(crate) fn finish(self) -> Vec<Finding> {
        self.stop.store(true, Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// One device under audit.
#[derive(Debug)]
struct Watched {
    finding: Finding,
    uuid: Uuid,
    row: usize,
    /// Bytes beyond the ledger in the sample before.
    before_bytes: u64,
    charged_bytes: u64,
}

fn watch(directory: &CString, library: Option<PathBuf>, stop: &AtomicBool) -> Vec<Finding> {
    let mut watched: Vec<Watched> = Vec::new();
    let mut nvml: Option<Nvml> = None;
    let mut tenant: Option<Tenant> = None;
    while !stop.load(Relaxed) {
        std::thread::park_timeout(PERIOD);
        let Ok(Some(file)) = UsageFile::open(directory) else { continue };
        for row in 0..MAX_DEVICES {
            if watched.iter().any(|known| known.row == row) {
                continue;
            }
            let Some(device) = file.device(row) else { continue };
            let uuid = divvy_policy::limit::UuidText(&device.uuid).to_string();
            watched.push(Watched {
                finding: Finding { uuid, ..Finding::default() },
                uuid: device.uuid,
                row,
                before_bytes: 0,
                charged_bytes: 0,
            });
        }
        if watched.is_empty() || stop.load(Relaxed) {
            continue;
        }
        if nvml.is_none() {
            // Without NVML, or before it can be loaded, there is nothing to compare with.
            let path = library.clone().map_or_else(|| "libnvidia-ml.so.1".into(), OsString::from);
            nvml = Nvml::builder().lib_path(&path).init().ok();
        }
        let Some(nvml) = &nvml else { break };
        let Some(pids) = pids(&file) else { continue };
        for device in &mut watched {
            device.sample(&file, nvml, &pids, directory, &mut tenant);
        }
    }
    if let Ok(Some(file)) = UsageFile::open(directory) {
        for device in &mut watched {
            device.charge(0, &file, directory, &mut tenant);
        }
    }
    watched.into_iter().map(|device| device.finding).filter(|found| found.samples > 0).collect()
}

impl Watched {
    fn sample(
        &mut self,
        file: &UsageFile,
        nvml: &Nvml,
        pids: &[u32],
        directory: &CString,
        tenant: &mut Option<Tenant>,
    ) {
        // Memory freed between the two libraries' answers must not look like a difference, so the
        // ledger is read before and after, and the larger answer counts.
        let ledger = || on_card_bytes(file, self.row).saturating_sub(self.charged_bytes);
        let first = ledger();
        let Some(card_bytes) = card_bytes(nvml, &self.finding.uuid, pids) else { return };
        let counted = first.max(ledger());
        if card_bytes == 0 && self.charged_bytes == 0 {
            return;
        }
        self.finding.samples += 1;
        self.finding.card_peak_bytes = self.finding.card_peak_bytes.max(card_bytes);
        let beyond = card_bytes.saturating_sub(counted);
        self.charge(beyond.min(self.before_bytes.max(self.charged_bytes)), file, directory, tenant);
        self.before_bytes = beyond;
    }

    /// Holds `bytes` as `other` instead of what was held so far.
    fn charge(
        &mut self,
        bytes: u64,
        file: &UsageFile,
        directory: &CString,
        tenant: &mut Option<Tenant>,
    ) {
        if bytes == self.charged_bytes {
            return;
        }
        if tenant.is_none() {
            *tenant = Tenant::attach(directory, &ConfigSource::Owner).ok();
        }
        let (Some(tenant), Some(entry)) = (tenant, file.device(self.row)) else { return };
        let name = entry.name.to_string();
        let device = NewDevice {
            uuid: self.uuid,
            index: entry.index,
            total_bytes: entry.total_bytes,
            limit_bytes: entry.limit_bytes,
            name: name.as_bytes(),
        };
        let Ok(row) = tenant.device_row(&device) else { return };
        match bytes.checked_sub(self.charged_bytes) {
            Some(more) => tenant.hold(row, more, MemoryKind::Other),
            None => tenant.give_back(row, self.charged_bytes - bytes, MemoryKind::Other),
        }
        self.charged_bytes = bytes;
        self.finding.other_peak_bytes = self.finding.other_peak_bytes.max(bytes);
    }
}

/// Bytes of the ledger that should be on the card: all, but for what is away, and with the room that memory which may
/// leave has beside its blocks.
fn on_card_bytes(file: &UsageFile, row: usize) -> u64 {
    let held = file.totals(row).used_bytes;
    let slots = (1..file.slots_high()).filter(|slot| file.slot(*slot).is_some_and(|it| it.alive));
    slots.fold(held, |held, slot| {
        let residence = file.residence(row, slot);
        if residence.movable_bytes == 0 {
            return held;
        }
        let blocks = file.line(row, slot).bytes_of(MemoryKind::Block);
        let room = residence.movable_bytes.saturating_sub(blocks);
        held.saturating_add(room).saturating_sub(residence.away_bytes)
    })
}

/// The tenant's living processes; `None` when one of them lives in another pid namespace, where its
/// number means another process.
fn pids(file: &UsageFile) -> Option<Vec<u32>> {
    let namespace = divvy_page::pid_namespace()?;
    (1..file.slots_high())
        .filter_map(|slot| file.slot(slot))
        .filter(|slot| slot.alive)
        .map(|slot| (slot.pid_namespace == namespace).then_some(slot.pid))
        .collect()
}

/// Bytes that `pids` hold together, by NVML.
fn card_bytes(nvml: &Nvml, uuid: &str, pids: &[u32]) -> Option<u64> {
    let device = nvml.device_by_uuid(uuid).ok()?;
    let processes = device.running_compute_processes().ok()?;
    let bytes =
        processes.iter().filter(|process| pids.contains(&process.pid)).map(|process| match process
            .used_gpu_memory
        {
            UsedGpuMemory::Used(bytes) => bytes,
            UsedGpuMemory::Unavailable => 0,
        });
    Some(bytes.sum())
}
