//! A tenant as the commands show it: its snapshot in words and numbers.
//!
//! The field names are the JSON contract of `divvy ps`; they are only ever added to.

use std::path::Path;

use anyhow::{Context, Result};
use divvy_abi::config::Config;
use divvy_abi::usage::Kind;
use divvy_policy::limit::UuidText;

use crate::snapshot::{self, DeviceSnapshot, ProcessSnapshot, Snapshot};

/// A tenant at one moment.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Tenant {
    /// Its name: the config's, else the directory's.
    pub(crate) name: String,
    /// Where its files are.
    pub(crate) directory: String,
    /// Whether its owner, a `divvy run`, is still there; `None` for a tenant without one.
    pub(crate) owner_alive: Option<bool>,
    /// What the owner runs.
    pub(crate) command: Vec<String>,
    /// Devices its processes have used.
    pub(crate) devices: Vec<Device>,
    /// Its living processes.
    pub(crate) processes: Vec<Process>,
}

/// A tenant's use of one device.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Device {
    /// As the driver's tools print it.
    pub(crate) uuid: String,
    /// Index on the machine, where known.
    pub(crate) index: Option<u32>,
    /// The card's name.
    pub(crate) name: String,
    /// The card's memory.
    pub(crate) card_bytes: u64,
    /// The tenant's limit; absent for none.
    pub(crate) limit_bytes: Option<u64>,
    /// What the tenant holds.
    pub(crate) held_bytes: u64,
    /// Of it, memory exported by legacy IPC, which outlives its exporter.
    pub(crate) shared_bytes: u64,
    /// The most it has held.
    pub(crate) peak_bytes: u64,
    /// Requests refused.
    pub(crate) refusals: u64,
    /// Whether the numbers are of one instant.
    pub(crate) consistent: bool,
}

/// One living process.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Process {
    /// Its pid, in its own pid namespace.
    pub(crate) pid: u32,
    /// Inode of that namespace.
    pub(crate) pid_namespace: u64,
    /// The program's name.
    pub(crate) comm: String,
    /// Whether it is still attaching.
    pub(crate) starting: bool,
    /// The reason code of its last refusal, 0 for none.
    pub(crate) last_reason: u32,
    /// What it holds, by device.
    pub(crate) uses: Vec<Use>,
}

/// One process's bytes on one device.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Use {
    /// The device.
    pub(crate) uuid: String,
    /// Bytes held.
    pub(crate) held_bytes: u64,
    /// Requests refused.
    pub(crate) refusals: u64,
    /// Bytes by kind; kinds without bytes are left out.
    pub(crate) by_kind: std::collections::BTreeMap<&'static str, u64>,
}

/// Reads the tenant in `directory`.
pub(crate) fn read(directory: &Path) -> Result<Tenant> {
    let snapshot = Snapshot::read(directory)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("{}", directory.display()))?;
    let owner = crate::tenant_dir::owner(directory);
    let base = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = snapshot.config.as_ref().map(snapshot::config_name).filter(|name| !name.is_empty());
    let mut processes: Vec<Process> =
        snapshot.living().map(|process| self::process(process, &snapshot)).collect();
    processes.sort_by_key(|process| (process.pid_namespace, process.pid));
    Ok(Tenant {
        name: name.or(base).unwrap_or_default(),
        directory: directory.display().to_string(),
        owner_alive: owner.as_ref().map(|(_, alive)| *alive),
        command: owner.map(|(owner, _)| owner.command).unwrap_or_default(),
        devices: snapshot.devices.iter().map(device).collect(),
        processes,
    })
}

/// Writes the limits of the tenant in `directory`.
pub(crate) fn write_config(directory: &Path, config: &Config) -> Result<()> {
    snapshot::write_config(directory, config)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("the limits cannot be written into {}", directory.display()))
}

fn device(device: &DeviceSnapshot) -> Device {
    let totals = device.totals;
    let uuid = UuidText(&device.uuid).to_string();
    Device {
        index: device.index.or_else(|| crate::gpus::index_of(&uuid)),
        uuid,
        name: device.name.clone(),
        card_bytes: device.total_bytes,
        limit_bytes: device.limit_bytes,
        held_bytes: totals.used_bytes,
        shared_bytes: totals.shared_bytes,
        peak_bytes: totals.peak_bytes.max(totals.used_bytes),
        refusals: totals.refusals,
        consistent: totals.consistent,
    }
}

fn process(process: &ProcessSnapshot, of: &Snapshot) -> Process {
    let uses = process.uses.iter().filter_map(|(row, one)| {
        let device = of.devices.iter().find(|device| device.row == *row)?;
        let kinds = Kind::ALL.iter().map(|kind| (kind.word(), one.bytes_of(*kind)));
        Some(Use {
            uuid: UuidText(&device.uuid).to_string(),
            held_bytes: one.held_bytes,
            refusals: one.refusals,
            by_kind: kinds.filter(|(_, bytes)| *bytes != 0).collect(),
        })
    });
    Process {
        pid: process.slot.pid,
        pid_namespace: process.slot.pid_namespace,
        comm: process.comm.clone(),
        starting: process.slot.starting,
        last_reason: process.slot.reason,
        uses: uses.collect(),
    }
}
