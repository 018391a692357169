//! A tenant's files, collected into values: the reader of `divvy_page` walked once.
//!
//! Reading never maps the files, so a tenant that garbles them harms nobody but itself. Texts come
//! without control characters.

use std::path::Path;

use divvy_abi::config::{Config, NAME_BYTES};
use divvy_abi::{MAX_DEVICES, Uuid};
use divvy_page::reader::{self, FieldText, GateEntry, LineEntry, SlotEntry, Totals, UsageFile};
use divvy_page::{AttachError, ResidenceEntry};

use crate::tenants::dir::Dir;

/// A tenant at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Its limits; `None` when nobody has written any.
    pub(crate) config: Option<Config>,
    /// The version of the layout its processes use; `None` before the first has joined.
    pub(crate) layout: Option<u32>,
    /// Devices its processes have seen.
    pub(crate) devices: Vec<DeviceSnapshot>,
    /// Its living processes.
    pub(crate) processes: Vec<ProcessSnapshot>,
}

/// One device of a tenant.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSnapshot {
    /// Row in the tenant's files.
    pub(crate) row: usize,
    pub(crate) uuid: Uuid,
    pub(crate) index: Option<u32>,
    pub(crate) name: String,
    pub(crate) total_bytes: u64,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) totals: Totals,
    /// The compute share: all its processes, living and ended, together.
    pub(crate) time: GateEntry,
    /// Memory of its living processes that may leave the device, and what all of them have moved.
    pub(crate) residence: ResidenceEntry,
}

/// One process of a tenant.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSnapshot {
    pub(crate) slot: SlotEntry,
    pub(crate) comm: String,
    /// Its lines, with the device's row; devices it has not used are left out.
    pub(crate) uses: Vec<(usize, LineEntry)>,
}

impl Snapshot {
    /// Reads the tenant in a directory that is open; one that nobody has joined yet reads as empty.
    pub(crate) fn of(dir: &Dir) -> Result<Self, AttachError> {
        let dir = dir.tenant()?;
        let config = reader::read_config(&dir)?;
        let Some(file) = UsageFile::within(&dir)? else {
            let (devices, processes) = (Vec::new(), Vec::new());
            return Ok(Self { config, layout: None, devices, processes });
        };
        let mut seen = Vec::new();
        let devices: Vec<_> = (0..MAX_DEVICES)
            .filter_map(|row| {
                let entry = file.device(row)?;
                // A tenant may write anything; a device twice would be one series twice.
                if seen.contains(&entry.uuid) {
                    return None;
                }
                seen.push(entry.uuid);
                Some(DeviceSnapshot {
                    row,
                    uuid: entry.uuid,
                    index: entry.index,
                    name: entry.name.to_string(),
                    total_bytes: entry.total_bytes,
                    limit_bytes: entry.limit_bytes,
                    totals: file.totals(row),
                    time: file.gate_sum(row),
                    residence: file.residence_sum(row),
                })
            })
            .collect();
        let process = |index| {
            let slot = file.slot(index).filter(|slot| slot.alive)?;
            let lines = devices.iter().map(|device| (device.row, file.line(device.row, index)));
            let uses: Vec<_> = lines.filter(|(_, line)| !line.is_empty()).collect();
            Some(ProcessSnapshot { comm: slot.comm.to_string(), slot, uses })
        };
        let processes = (1..file.slots_high()).filter_map(process).collect();
        Ok(Self { config, layout: Some(file.version()), devices, processes })
    }
}

/// Writes a tenant's limits as their owner, in one step.
pub(crate) fn write_config(path: &Path, config: &Config) -> Result<(), AttachError> {
    reader::write_config(&Dir::open(path)?.tenant()?, config)
}

/// A config's name, safe to print.
pub(crate) fn config_name(config: &Config) -> String {
    FieldText::<NAME_BYTES>::new(config.name).to_string()
}
