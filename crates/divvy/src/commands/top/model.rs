//! Two samples of everything, and what happened between them.
//!
//! Pure. Rates are over the time between the samples and exist only for what both have; a counter that
//! runs backwards, as a hostile tenant's may, rates as nothing. The names of the fields are the JSON
//! contract of `divvy top --json`; they are only ever added to.

use std::collections::BTreeMap;

use super::memory::PlacedMemory;
use crate::tenants::ledger::{DeviceUse, LedgerTenant};
use crate::wire::{MemoryView, View};

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    /// CLOCK_MONOTONIC.
    pub(super) at_ns: u64,
    pub(super) tenants: Vec<LedgerTenant>,
    /// Tenants whose files could not be read.
    pub(super) unreadable: usize,
    /// Views of the daemons.
    pub(super) views: Vec<View>,
}

/// The screen's contents.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct Picture {
    /// Time over which rates were taken, in nanoseconds; 0 before there are any.
    pub(super) over_ns: u64,
    /// Tenants whose files could not be read.
    pub(super) unreadable: usize,
    /// Daemons that answer.
    pub(super) daemons: usize,
    /// Devices that tenants use, by index.
    pub(super) gpus: Vec<Gpu>,
    /// Tenants on devices: by device, then as sorted.
    pub(super) rows: Vec<TenantRow>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct Gpu {
    pub(super) uuid: String,
    /// Index on the machine, where known.
    pub(super) index: Option<u32>,
    pub(super) name: String,
    pub(super) card_bytes: u64,
    /// Bytes of it that all tenants hold.
    pub(super) held_bytes: u64,
    /// Part of the time charged to tenants; absent where nothing was counted.
    pub(super) used_ratio: Option<f64>,
    /// How a daemon divides its time; absent without one.
    pub(super) mode: Option<String>,
    /// Why it is not divided by turns.
    pub(super) reason: Option<String>,
    /// Turns a second; absent without a daemon.
    pub(super) turns_per_second: Option<f64>,
    /// Processes of no tenant.
    pub(super) foreign: u32,
    /// The memory of tenants that oversubscribe it, as the daemon sees it; absent where there are none.
    pub(super) memory: Option<MemoryView>,
}

/// A tenant on a device.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct TenantRow {
    pub(super) tenant: String,
    pub(super) directory: String,
    /// The device.
    pub(super) gpu: String,
    pub(super) index: Option<u32>,
    pub(super) processes: usize,
    pub(super) held_bytes: u64,
    /// The device's memory.
    pub(super) card_bytes: u64,
    pub(super) limit_bytes: Option<u64>,
    /// The cap, in millionths.
    pub(super) share_ppm: Option<u32>,
    /// 0 is the default.
    pub(super) weight: u32,
    pub(super) priority: &'static str,
    pub(super) class: &'static str,
    /// Part of the device's time charged; absent where nothing was counted.
    pub(super) reached_ratio: Option<f64>,
    /// Time threads waited for the cap, in seconds a second; above 1 with several threads.
    pub(super) throttled_ratio: Option<f64>,
    /// Time threads waited for turns, in seconds a second.
    pub(super) waited_ratio: Option<f64>,
    pub(super) launches_per_second: Option<f64>,
    /// Work submitted and not ended, in nanoseconds of device time, as far as its processes know.
    pub(super) queued_ns: u64,
    /// free, timed, turns, closed, paused or left.
    pub(super) gate: &'static str,
    pub(super) paused: bool,
    /// Requests for memory refused since the tenant began.
    pub(super) refusals: u64,
    /// Of these, in the interval.
    pub(super) refused_per_second: Option<f64>,
    /// Its living processes that use the device, or none yet.
    pub(super) members: Vec<Member>,
    /// Memory that may leave the device; absent where none may.
    pub(super) memory: Option<PlacedMemory>,
}

/// A process of a tenant, on the row's device.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Member {
    /// In its own pid namespace.
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) held_bytes: u64,
    pub(super) refusals: u64,
    /// Bytes by kind; kinds without bytes are left out.
    pub(super) by_kind: BTreeMap<&'static str, u64>,
}

impl Member {
    /// Members of a tenant that use the device, or none yet.
    fn of(tenant: &LedgerTenant, uuid: &str) -> Vec<Self> {
        let on_device = tenant.processes.iter().filter_map(|process| {
            let used = process.uses.iter().find(|used| used.uuid == uuid);
            (used.is_some() || process.uses.is_empty()).then(|| Self {
                pid: process.pid,
                program: process.comm.clone(),
                held_bytes: used.map_or(0, |used| used.held_bytes),
                refusals: used.map_or(0, |used| used.refusals),
                by_kind: used.map(|used| used.by_kind.clone()).unwrap_or_default(),
            })
        });
        on_device.collect()
    }
}

/// Order of the rows of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The share reached, the largest first.
    #[default]
    Share,
    /// Memory held, the most first.
    Memory,
    /// Time waited, for cap and turns, the longest first.
    Waiting,
    /// The tenant's name.
    Name,
}

impl Sort {
    /// The next one, round and round.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Share => Self::Memory,
            Self::Memory => Self::Waiting,
            Self::Waiting => Self::Name,
            Self::Name => Self::Share,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Share => "share reached",
            Self::Memory => "memory held",
            Self::Waiting => "time waited",
            Self::Name => "name",
        }
    }
}

impl Picture {
    /// Contents from `before` to `now`; without `before` there are no rates.
    pub(super) fn of(before: Option<&Moment>, now: &Moment) -> Self {
        let over_ns = before.map_or(0, |before| now.at_ns.saturating_sub(before.at_ns));
        let mut picture = Self {
            over_ns,
            unreadable: now.unreadable,
            daemons: now.views.len(),
            ..Self::default()
        };
        for tenant in &now.tenants {
            let earlier = before.and_then(|before| {
                before.tenants.iter().find(|earlier| earlier.directory == tenant.directory)
            });
            for device in &tenant.devices {
                let earlier = earlier.and_then(|tenant| {
                    tenant.devices.iter().find(|earlier| earlier.uuid == device.uuid)
                });
                let row = row(tenant, device, earlier, over_ns);
                picture.add_to_gpu(device, &row);
                picture.rows.push(row);
            }
        }
        for gpu in &mut picture.gpus {
            add_views(gpu, before, now, over_ns);
        }
        picture.gpus.sort_by(|a, b| key(a.index, &a.uuid).cmp(&key(b.index, &b.uuid)));
        picture.sort(Sort::default(), false);
        picture
    }

    fn add_to_gpu(&mut self, device: &DeviceUse, row: &TenantRow) {
        let at = match self.gpus.iter().position(|gpu| gpu.uuid == device.uuid) {
            Some(at) => at,
            None => {
                self.gpus.push(Gpu {
                    uuid: device.uuid.clone(),
                    index: device.index,
                    name: device.name.clone(),
                    card_bytes: device.card_bytes,
                    ..Gpu::default()
                });
                self.gpus.len() - 1
            }
        };
        let Some(gpu) = self.gpus.get_mut(at) else { return };
        gpu.held_bytes = gpu.held_bytes.saturating_add(device.held_bytes);
        if let Some(reached) = row.reached_ratio {
            gpu.used_ratio = Some(gpu.used_ratio.unwrap_or(0.0) + reached);
        }
    }

    /// Sorts the rows of each device, the last of the order first where it is reversed.
    pub(super) fn sort(&mut self, by: Sort, is_reversed: bool) {
        let measure = |row: &TenantRow| match by {
            Sort::Share => row.reached_ratio.unwrap_or(-1.0),
            Sort::Memory => row.held_bytes as f64,
            Sort::Waiting => row.throttled_ratio.unwrap_or(0.0) + row.waited_ratio.unwrap_or(0.0),
            Sort::Name => 0.0,
        };
        self.rows.sort_by(|a, b| {
            let of_device = key(a.index, &a.gpu).cmp(&key(b.index, &b.gpu));
            let by_measure = || measure(b).total_cmp(&measure(a));
            let by_name = || (&a.tenant, &a.directory).cmp(&(&b.tenant, &b.directory));
            let by = by_measure().then_with(by_name);
            of_device.then(if is_reversed { by.reverse() } else { by })
        });
    }
}

/// Devices with an index come first, in its order.
fn key(index: Option<u32>, uuid: &str) -> (u32, &str) {
    (index.unwrap_or(u32::MAX), uuid)
}

fn row(
    tenant: &LedgerTenant,
    device: &DeviceUse,
    earlier: Option<&DeviceUse>,
    over_ns: u64,
) -> TenantRow {
    let rate = |read: fn(&DeviceUse) -> u64| -> Option<f64> {
        let grown = read(device).saturating_sub(read(earlier?));
        (over_ns > 0).then(|| grown as f64 / over_ns as f64)
    };
    // Nothing is counted while no gate is needed, so no share is known then.
    let is_counted = device.gate != "free" || device.share_ppm.is_some();
    let reached = rate(|device| device.used_ns).filter(|ratio| is_counted || *ratio > 0.0);
    TenantRow {
        tenant: tenant.name.clone(),
        directory: tenant.directory.clone(),
        gpu: device.uuid.clone(),
        index: device.index,
        processes: tenant.processes.len(),
        held_bytes: device.held_bytes,
        card_bytes: device.card_bytes,
        limit_bytes: device.limit_bytes,
        share_ppm: device.share_ppm,
        weight: tenant.weight,
        priority: tenant.priority,
        class: tenant.class,
        reached_ratio: reached,
        throttled_ratio: rate(|device| device.throttled_ns),
        waited_ratio: rate(|device| device.waited_ns),
        launches_per_second: rate(|device| device.launches).map(|rate| rate * 1e9),
        queued_ns: device.queued_ns,
        gate: device.gate,
        paused: tenant.paused,
        refusals: device.refusals,
        refused_per_second: rate(|device| device.refusals).map(|rate| rate * 1e9),
        members: Member::of(tenant, &device.uuid),
        memory: PlacedMemory::of(device, earlier, over_ns),
    }
}

/// Adds what the daemon that divides the device says of it.
fn add_views(gpu: &mut Gpu, before: Option<&Moment>, now: &Moment, over_ns: u64) {
    for view in &now.views {
        // One daemon divides a device; another that sees it says by a reason that it does not.
        let Some(seen) = view.devices.iter().find(|seen| seen.uuid == gpu.uuid) else { continue };
        if gpu.mode.is_some() && seen.reason.is_some() {
            continue;
        }
        gpu.mode = Some(seen.mode.clone());
        gpu.foreign = seen.foreign;
        gpu.memory = seen.memory.clone();
        let detail = seen.detail.as_deref().unwrap_or_default();
        gpu.reason = seen.reason.as_ref().map(|reason| format!("{reason}: {detail}"));
        let earlier = before.into_iter().flat_map(|before| &before.views);
        let earlier = earlier
            .filter(|earlier| earlier.pid == view.pid)
            .find_map(|earlier| earlier.devices.iter().find(|earlier| earlier.uuid == gpu.uuid));
        gpu.turns_per_second = earlier
            .filter(|_| over_ns > 0)
            .map(|earlier| seen.turns.saturating_sub(earlier.turns) as f64 * 1e9 / over_ns as f64);
    }
}
