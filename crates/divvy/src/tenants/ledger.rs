//! A tenant as the commands show it: its snapshot in words and numbers.
//!
//! The field names are the JSON contract of `divvy ps`; they are only ever added to.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use divvy_abi::Uuid;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE, GateLine, Rule, gate, selector};
use divvy_abi::usage::MemoryKind;
use divvy_page::ResidenceEntry;
use divvy_policy::limit::{self, UuidText};
use divvy_policy::share;

use crate::machine::gpus;
use crate::output::reason::Reason;
use crate::tenants::cause::Cause;
use crate::tenants::dir::Dir;
use crate::tenants::limits;
use crate::tenants::snapshot::{self, DeviceSnapshot, ProcessSnapshot, Snapshot};
use crate::tenants::tenant_dir;

/// A tenant at one moment.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct LedgerTenant {
    /// Its name: the config's, else the directory's.
    pub(crate) name: String,
    /// Where its files are.
    pub(crate) directory: String,
    /// Whether its owner, a `divvy run`, is still there; `None` for a tenant without one.
    pub(crate) owner_alive: Option<bool>,
    /// Command of the owner.
    pub(crate) command: Vec<String>,
    /// Weight against other tenants; 0 where none is set.
    pub(crate) weight: u32,
    /// high, normal or low.
    pub(crate) priority: &'static str,
    /// latency or normal.
    pub(crate) class: &'static str,
    /// Whether it was stopped by `divvy set --pause`.
    pub(crate) paused: bool,
    /// Whether its memory may leave the card.
    pub(crate) oversubscribes: bool,
    /// Whether `divvy freeze` was the last word about where its memory is.
    pub(crate) frozen: bool,
    /// The version of its files' layout, by which libraries are told that cannot share a tenant; `None`
    /// before a process has joined.
    pub(crate) layout: Option<u32>,
    /// Its limits of memory, as `divvy set` would write them.
    pub(crate) memory: Vec<String>,
    /// Its caps of device time, alike.
    pub(crate) compute: Vec<String>,
    /// The limits of memory, understood.
    #[serde(skip)]
    pub(crate) rules: Vec<Rule>,
    /// The caps, understood.
    #[serde(skip)]
    pub(crate) compute_rules: Vec<Rule>,
    /// Why its time is not divided by turns as it should be.
    pub(crate) reasons: Vec<Note>,
    /// Devices its processes have used.
    pub devices: Vec<DeviceUse>,
    /// Its living processes.
    pub(crate) processes: Vec<Process>,
}

/// A reason code, and what it says here.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Note {
    /// The code.
    pub(crate) reason: String,
    /// In words.
    pub(crate) detail: String,
}

/// A tenant's use of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DeviceUse {
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
    /// Bytes held by the tenant.
    pub held_bytes: u64,
    /// Of it, memory exported by legacy IPC, which outlives its exporter.
    pub(crate) shared_bytes: u64,
    /// The most it has held.
    pub peak_bytes: u64,
    /// Requests refused.
    pub(crate) refusals: u64,
    /// Whether the numbers are of one instant.
    pub(crate) consistent: bool,
    /// Bytes held by its processes by kind; kinds without bytes are left out.
    pub(crate) by_kind: BTreeMap<&'static str, u64>,
    /// The cap on its time, in millionths; absent for none.
    pub(crate) share_ppm: Option<u32>,
    /// Device time charged. Nothing is counted while nothing needs a gate.
    pub(crate) used_ns: u64,
    /// Launches, copies and fills charged.
    pub(crate) launches: u64,
    /// Its longest kernel or graph.
    pub(crate) longest_ns: u64,
    /// Time its threads waited for its own cap.
    pub(crate) throttled_ns: u64,
    /// Time its threads waited for turns.
    pub(crate) waited_ns: u64,
    /// Waits for work to drain that were given up.
    pub(crate) drains_given_up: u64,
    /// Memory that may leave the card, and what has moved; absent where none may.
    pub residence: Option<ResidenceUse>,
    /// State of that memory, as a daemon says it: runs, restores, waits, rests, frozen, larger, pinned-out or bypassed.
    pub(crate) memory_status: Option<String>,
    /// Why memory that is away does not come back, while a call waits for it; by one word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_cause: Option<Cause>,
    /// Time in which calls waited for that memory, for room or for their turn, as a daemon counts it.
    pub(crate) memory_waited_ns: Option<u64>,
    /// Work submitted and not ended, in device time, as far as its processes know.
    pub(crate) queued_ns: u64,
    /// free, timed, turns (timed, and the tenant's processes take turns), closed or paused; "left" for one whose daemon
    /// is gone.
    pub(crate) gate: &'static str,
    /// Tenants whose work may run at once; 0 or 1 where only its own may.
    pub(crate) active: u32,
    /// How a daemon divides the device's time, as far as one answers.
    pub(crate) mode: Option<String>,
    /// Why it is not divided by turns.
    pub(crate) reasons: Vec<Note>,
}

/// Where a tenant's memory is that may leave a card. Totals are of its processes, living and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ResidenceUse {
    /// Bytes of it on the card, with the room beside its blocks.
    pub resident_bytes: u64,
    /// Of these, bytes that stay there, since something else refers to them.
    pub pinned_bytes: u64,
    /// Bytes on the host.
    pub away_bytes: u64,
    /// Whether it moves now.
    pub moving: bool,
    /// Time for which a call has been waiting for it; 0 for none.
    pub waiting_ns: u64,
    /// Bytes that have left.
    pub out_bytes: u64,
    /// Time in which they did.
    pub out_ns: u64,
    /// Bytes that have come back.
    pub in_bytes: u64,
    /// Time in which they did.
    pub in_ns: u64,
    /// Times all of it has left.
    pub left: u64,
    /// Times it was to leave and stayed, since calls or work did not end in time.
    pub stayed: u64,
    /// Processes that have some that can leave.
    pub movers: u64,
    /// Bytes of it that are managed, wherever they are.
    pub managed_bytes: u64,
    /// Why some was to leave at the last attempt and stayed: `calls`, `work`, `capture`, `host`, `context` or `driver`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<Cause>,
}

impl ResidenceUse {
    /// The sum of what processes say; `None` where no memory may leave.
    fn of(entry: &ResidenceEntry) -> Option<Self> {
        let waits_ns = match entry.waits_from_ns {
            0 => 0,
            from_ns => divvy_page::now_ns().saturating_sub(from_ns),
        };
        (*entry != ResidenceEntry::default()).then_some(Self {
            resident_bytes: entry.movable_bytes.saturating_sub(entry.away_bytes),
            pinned_bytes: entry.pinned_bytes,
            away_bytes: entry.away_bytes,
            moving: entry.moving,
            waiting_ns: waits_ns,
            out_bytes: entry.out_bytes,
            out_ns: entry.out_ns,
            in_bytes: entry.in_bytes,
            in_ns: entry.in_ns,
            left: entry.left,
            stayed: entry.stayed,
            movers: entry.movers,
            managed_bytes: entry.managed_bytes,
            stays: Cause::said(entry.stays),
        })
    }
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
    /// Bytes it holds, by device.
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
    pub(crate) by_kind: BTreeMap<&'static str, u64>,
}

/// Reads the tenant in the directory at `path`.
pub fn read(path: &Path) -> Result<LedgerTenant> {
    let dir = Dir::open(path).with_context(|| format!("{}", path.display()))?;
    let mut tenant = read_open(&dir, path)?;
    match tenant_dir::owner(&dir) {
        Ok(None) => {}
        Ok(Some((owner, alive))) => {
            tenant.owner_alive = Some(alive);
            tenant.command = owner.command;
        }
        Err(error) => tenant
            .reasons
            .push(Note { reason: Reason::TenantsOwner.to_string(), detail: format!("{error:#}") }),
    }
    Ok(tenant)
}

/// The same without a word of its owner.
pub(crate) fn read_foreign(path: &Path) -> Result<LedgerTenant> {
    read_open(&Dir::open(path).with_context(|| format!("{}", path.display()))?, path)
}

/// The same of a directory that is open and was found at `path`.
pub(crate) fn read_open(dir: &Dir, path: &Path) -> Result<LedgerTenant> {
    let snapshot = Snapshot::of(dir)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("{}", path.display()))?;
    Ok(assemble(path, &snapshot))
}

fn assemble(directory: &Path, snapshot: &Snapshot) -> LedgerTenant {
    let base = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = snapshot.config.as_ref().map(snapshot::config_name).filter(|name| !name.is_empty());
    let mut processes: Vec<Process> =
        snapshot.processes.iter().map(|process| self::process(process, snapshot)).collect();
    processes.sort_by_key(|process| (process.pid_namespace, process.pid));
    let config = snapshot.config.as_ref();
    let rules = config.map(Config::rules).unwrap_or_default();
    let compute = config.map(Config::compute_rules).unwrap_or_default();
    LedgerTenant {
        memory: rules.iter().map(limits::text).collect(),
        compute: compute.iter().map(limits::text).collect(),
        rules: rules.to_vec(),
        compute_rules: compute.to_vec(),
        name: name.or(base).unwrap_or_default(),
        directory: directory.display().to_string(),
        owner_alive: None,
        command: Vec::new(),
        weight: config.map_or(0, |config| config.weight),
        priority: share::priority_word(config.map_or(0, |config| config.priority)),
        class: share::class_word(config.map_or(0, |config| config.class)),
        paused: config.is_some_and(|config| config.paused != 0),
        oversubscribes: config.is_some_and(|config| config.flags & FLAG_OVERSUBSCRIBE != 0),
        frozen: config.is_some_and(|config| config.frozen % 2 == 1),
        layout: snapshot.layout,
        reasons: Vec::new(),
        devices: snapshot.devices.iter().map(|one| device(one, snapshot)).collect(),
        processes,
    }
}

/// Writes the limits of the tenant in `directory`.
pub fn write_config(directory: &Path, config: &Config) -> Result<()> {
    snapshot::write_config(directory, config)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("the limits cannot be written into {}", directory.display()))
}

/// A gate in a word.
fn gate_word(line: Option<&GateLine>, paused: bool) -> &'static str {
    match line.map(|line| (line.gate, line.lease_ns)) {
        _ if paused => "paused",
        None | Some((gate::FREE, _)) => "free",
        Some((gate::CLOSED, lease_ns)) if lease_ns > divvy_page::now_ns() => "closed",
        Some((gate::CLOSED, _)) => "left",
        Some((gate::TURNS | gate::SHARED_TURNS, lease_ns)) if lease_ns > divvy_page::now_ns() => {
            "turns"
        }
        Some(_) => "timed",
    }
}

/// UUID by which `rules` know a device: its own, but for an instance of a partitioned card without a rule of its own. That
/// goes by its card's, which is in the rule with the index that the library has found for it.
fn known_as(rules: &[Rule], device: &DeviceSnapshot) -> Uuid {
    let is_index = |rule: &&Rule| rule.selector == selector::INDEX && !limit::is_bare(rule);
    let by_index = rules.iter().find(|rule| is_index(rule) && Some(rule.index) == device.index);
    match by_index {
        Some(rule) if rules.iter().all(|rule| rule.uuid != device.uuid) => rule.uuid,
        _ => device.uuid,
    }
}

/// Whether a device may be an instance of a card that `rules` name by UUID, which its files do not tell: then the library's
/// own word about its limit counts.
fn may_be_part(rules: &[Rule], device: &DeviceSnapshot, of: &Snapshot) -> bool {
    let names_other = |rule: &Rule| {
        let is_used = of.devices.iter().any(|one| one.uuid == rule.uuid);
        rule.selector == selector::UUID && !is_used
    };
    let is_card = || gpus::index_of(&UuidText(&device.uuid).to_string()).is_some();
    rules.iter().any(names_other) && rules.iter().all(|rule| rule.uuid != device.uuid) && !is_card()
}

fn device(device: &DeviceSnapshot, of: &Snapshot) -> DeviceUse {
    let config = of.config.as_ref();
    let lines = || of.processes.iter().flat_map(|process| &process.uses);
    let bytes_of = |kind: MemoryKind| {
        let used = lines().filter(|(row, _)| *row == device.row);
        used.fold(0_u64, |sum, (_, line)| sum.saturating_add(line.bytes_of(kind)))
    };
    let by_kind = MemoryKind::ALL.into_iter().map(|kind| (kind.word(), bytes_of(kind)));
    let totals = device.totals;
    let time = device.time;
    let uuid = UuidText(&device.uuid).to_string();
    let line = config.and_then(|config| config.gates.get(device.row));
    // The owner's last rules; a process notes its own later. Rules that make no sense are refused
    // by the library, and its last word stands here.
    let limit = config.filter(|config| !may_be_part(config.rules(), device, of)).map(|config| {
        let known_as = known_as(config.rules(), device);
        limit::resolve(config.rules(), device.index, &known_as, device.total_bytes)
    });
    let rules = config.map(Config::compute_rules).unwrap_or_default();
    DeviceUse {
        share_ppm: share::resolve(rules, device.index, &known_as(rules, device)).ok().flatten(),
        used_ns: time.used_ns,
        launches: time.launches,
        longest_ns: time.longest_ns,
        throttled_ns: time.throttled_ns,
        waited_ns: time.waited_ns,
        drains_given_up: time.drains_given_up,
        queued_ns: time.busy_until_ns.saturating_sub(divvy_page::now_ns()),
        by_kind: by_kind.filter(|(_, bytes)| *bytes != 0).collect(),
        residence: ResidenceUse::of(&device.residence),
        gate: gate_word(line, config.is_some_and(|config| config.paused != 0)),
        active: line.map_or(0, |line| line.active),
        memory_status: None,
        memory_cause: None,
        memory_waited_ns: None,
        mode: None,
        reasons: Vec::new(),
        index: device.index.or_else(|| gpus::index_of(&uuid)),
        uuid,
        name: device.name.clone(),
        card_bytes: device.total_bytes,
        limit_bytes: limit.and_then(Result::ok).unwrap_or(device.limit_bytes),
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
        let kinds = MemoryKind::ALL.iter().map(|kind| (kind.word(), one.bytes_of(*kind)));
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

#[cfg(test)]
mod tests {
    use divvy_page::reader::GateEntry;

    use super::*;

    const CARD: Uuid = [0xa; 16];
    const INSTANCE: Uuid = [0xc; 16];

    /// Limit and cap of a device, with the library's word about the limit, under rules of memory and time.
    fn shown(uuid: Uuid, rules: &[Rule]) -> (Option<u64>, Option<u32>) {
        let mut config = Config::default();
        config.rules[..rules.len()].copy_from_slice(rules);
        config.rule_count = rules.len() as u32;
        let of_card = Rule { quantity: divvy_abi::config::quantity::PPM, value: 300_000, ..RULE };
        config.compute_rules[0] = of_card;
        config.compute_rule_count = 1;
        let device = DeviceSnapshot {
            row: 0,
            uuid,
            index: Some(0),
            name: String::new(),
            total_bytes: 18 << 30,
            limit_bytes: Some(7 << 30),
            totals: Default::default(),
            time: GateEntry::default(),
            residence: Default::default(),
        };
        let (layout, processes) = (None, Vec::new());
        let config = Some(config);
        let snapshot = Snapshot { config, layout, devices: vec![device], processes };
        let tenant = assemble(Path::new("/t"), &snapshot);
        (tenant.devices[0].limit_bytes, tenant.devices[0].share_ppm)
    }

    const RULE: Rule = Rule {
        selector: selector::INDEX,
        index: 0,
        uuid: CARD,
        quantity: divvy_abi::config::quantity::BYTES,
        reserved: 0,
        value: 8 << 30,
    };

    #[test]
    fn an_instance_is_shown_with_the_limits_of_its_card() {
        let of = |selector, uuid| Rule { selector, uuid, ..RULE };
        let half = Rule { value: 4 << 30, ..of(selector::UUID, INSTANCE) };
        for uuid in [CARD, INSTANCE] {
            assert_eq!(shown(uuid, &[RULE]), (Some(8 << 30), Some(300_000)));
        }
        assert_eq!(shown(INSTANCE, &[RULE, half]).0, Some(4 << 30));
        // Which card it is a part of is not in the files: the library has noted what holds.
        assert_eq!(shown(INSTANCE, &[of(selector::UUID, CARD)]).0, Some(7 << 30));
        assert_eq!(shown(CARD, &[of(selector::UUID, CARD)]).0, Some(8 << 30));
    }
}
