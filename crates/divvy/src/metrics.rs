//! The metrics page: tenants and devices in OpenMetrics' text format.
//!
//! [`METRICS`] and [`memory`]'s part are the one table of names: the page is written from it, `docs/metrics.md` is compared
//! with it, and so are the expressions of the dashboard and of the alerts in `deploy/`. Names are only ever added.
//! [`mod@format`] makes the older text format of the page, and says which one a collector asks for.
//!
//! Promises: base units (bytes, seconds, parts of one); labels say what is measured, never how much; a
//! family's samples stand together and no two have the same labels; a counter falls only when what it
//! counts begins anew. What tenants write are claims: their texts are escaped, their numbers printed; one
//! whose directory is not shown as it is called counts as unreadable.
//!
//! Does not read anything: it gets tenants as `ledger` reads them and what a daemon sees.

mod cards;
pub(crate) mod format;
mod kind;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use self::cards::CardInfo;
pub(crate) use self::kind::Metric;
use self::kind::{Read, Value, metric};
use crate::output::plain;
use crate::tenants::ledger::{DeviceUse, LedgerTenant};
use crate::wire::{TenantView, View};

/// Every metric there is.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().chain(memory::MEMORY)
}

/// The metrics, those of memory that may leave a card apart.
const METRICS: &[Metric] = &[
    metric(
        "divvy_build",
        "",
        Read::Build,
        "Version of Divvy, and the commit it was built from; empty where the build did not say.",
    ),
    metric(
        "divvy_device",
        "",
        Read::CardFacts,
        "A device that tenants use: its name, and its index on the machine where that is known.",
    ),
    metric(
        "divvy_device_memory_size_bytes",
        "bytes",
        Read::Card(|card| (card.size_bytes > 0).then_some(Value::Count(card.size_bytes))),
        "Memory of the device; absent where no tenant has seen it.",
    ),
    metric(
        "divvy_tenant_memory_held_bytes",
        "bytes",
        Read::TenantDevice(|_, device| Some(Value::Count(device.held_bytes))),
        "Device memory the tenant holds.",
    ),
    metric(
        "divvy_tenant_memory_kind_bytes",
        "bytes",
        Read::Kinds,
        "The same by kind, as divvy ps names them; kinds without bytes are left out.",
    ),
    metric(
        "divvy_tenant_memory_limit_bytes",
        "bytes",
        Read::TenantDevice(|_, device| device.limit_bytes.map(Value::Count)),
        "Limit of device memory; absent without one.",
    ),
    metric(
        "divvy_tenant_memory_peak_bytes",
        "bytes",
        Read::TenantDevice(|_, device| Some(Value::Count(device.peak_bytes))),
        "The most device memory the tenant has held.",
    ),
    metric(
        "divvy_tenant_memory_refusals",
        "",
        Read::TenantCounter(|device| Value::Count(device.refusals)),
        "Requests answered with out-of-memory.",
    ),
    metric(
        "divvy_tenant_audit_drift_bytes",
        "bytes",
        Read::TenantDevice(|_, device| {
            Some(Value::Count(device.by_kind.get("other").copied().unwrap_or(0)))
        }),
        "What NVML says of the tenant beyond its ledger, charged as other.",
    ),
    metric(
        "divvy_tenant_share_limit_ratio",
        "ratio",
        Read::TenantDevice(|_, device| device.share_ppm.map(Value::Millionths)),
        "Cap of the device's time; absent without one.",
    ),
    metric(
        "divvy_tenant_used_seconds",
        "seconds",
        Read::TenantCounter(|device| Value::Nanoseconds(device.used_ns)),
        "Device time charged. Nothing is counted while no gate is needed: a tenant alone on its \
         device and without a cap stands still.",
    ),
    metric(
        "divvy_tenant_throttled_seconds",
        "seconds",
        Read::TenantCounter(|device| Value::Nanoseconds(device.throttled_ns)),
        "Time threads waited for the tenant's own cap, summed over threads.",
    ),
    metric(
        "divvy_tenant_waiting_seconds",
        "seconds",
        Read::TenantCounter(|device| Value::Nanoseconds(device.waited_ns)),
        "Time threads waited for a turn, summed over threads.",
    ),
    metric(
        "divvy_tenant_launches",
        "",
        Read::TenantCounter(|device| Value::Count(device.launches)),
        "Launches, copies and fills charged.",
    ),
    metric(
        "divvy_tenant_longest_work_seconds",
        "seconds",
        Read::TenantDevice(|_, device| Some(Value::Nanoseconds(device.longest_ns))),
        "The longest kernel or graph seen.",
    ),
    metric(
        "divvy_tenant_drains_given_up",
        "",
        Read::TenantCounter(|device| Value::Count(device.drains_given_up)),
        "Waits for work to drain that the library gave up.",
    ),
    metric(
        "divvy_tenant_gate_closed",
        "",
        Read::TenantDevice(|_, device| {
            Some(Value::Count(u64::from(matches!(device.gate, "closed" | "paused"))))
        }),
        "1 while nothing may be submitted, else 0.",
    ),
    metric(
        "divvy_tenant_held_seconds",
        "seconds",
        Read::Held,
        "Time the tenant's turns were charged with; from a daemon only.",
    ),
    metric(
        "divvy_tenant_processes",
        "",
        Read::Tenant(|tenant| Value::Count(tenant.processes.len() as u64)),
        "Living processes of the tenant.",
    ),
    metric(
        "divvy_tenant_weight",
        "",
        Read::Tenant(|tenant| Value::Count(u64::from(tenant.weight))),
        "Weight against other tenants; 0 is the default.",
    ),
    metric(
        "divvy_tenant_paused",
        "",
        Read::Tenant(|tenant| Value::Count(u64::from(tenant.paused))),
        "1 while the tenant is paused, else 0.",
    ),
    metric(
        "divvy_tenants_unreadable",
        "",
        Read::Unreadable,
        "Tenants whose files could not be read.",
    ),
    metric(
        "divvy_device_turns",
        "",
        Read::DeviceCounter(|device| Value::Count(device.turns)),
        "Turns begun on the device.",
    ),
    metric(
        "divvy_device_handovers",
        "",
        Read::DeviceCounter(|device| Value::Count(device.handovers)),
        "Turns that went to another tenant than the one before.",
    ),
    metric(
        "divvy_device_drain_timeouts",
        "",
        Read::DeviceCounter(|device| Value::Count(device.drain_timeouts)),
        "Turns that began before the work of the one before had ended.",
    ),
    metric(
        "divvy_device_preemptions",
        "",
        Read::DeviceCounter(|device| Value::Count(device.preemptions)),
        "Turns ended early for a tenant of higher priority, or for the floor of a lower one.",
    ),
    metric(
        "divvy_device_trials",
        "",
        Read::DeviceCounter(|device| Value::Count(device.trials)),
        "Trials of letting every tenant run at once.",
    ),
    metric(
        "divvy_device_together_seconds",
        "seconds",
        Read::DeviceCounter(|device| Value::Nanoseconds(device.together_ns)),
        "Time with every tenant running at once because none loses by it.",
    ),
    metric(
        "divvy_device_foreign_processes",
        "",
        Read::Device(|device| Value::Count(u64::from(device.foreign))),
        "Processes on the device that belong to no tenant.",
    ),
    metric(
        "divvy_device_undivided",
        "",
        Read::Device(|device| Value::Count(u64::from(device.reason.is_some()))),
        "1 while the device's time is not divided by turns as it should be, else 0; divvy daemon \
         --status says why.",
    ),
    metric(
        "divvy_daemon_tenants",
        "",
        Read::Daemon(|view| {
            let held = view.tenants.iter().filter(|tenant| tenant.reason.is_none()).count();
            Value::Count(held as u64)
        }),
        "Tenants whose gates the daemon holds.",
    ),
    metric(
        "divvy_refusals",
        "",
        Read::Refusals,
        "Refusals the daemon has found in tenants' files since it began, by reason code; every code \
         stands in the log.",
    ),
    metric(
        "divvy_limit_changes",
        "",
        Read::DaemonCounter(|view| Value::Count(view.limit_changes)),
        "Changes of tenants' limits and settings the daemon has seen since it began; divvy log says \
         who made them.",
    ),
    metric(
        "divvy_daemon_wakes",
        "",
        Read::DaemonCounter(|view| Value::Count(view.wakes)),
        "Times the scheduling thread has woken.",
    ),
];

/// Version of this binary.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of its sources, where who built it has said so.
const COMMIT: Option<&str> = option_env!("DIVVY_COMMIT");

/// Input of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    /// The tenants that could be read; a directory once.
    pub(crate) tenants: &'a [LedgerTenant],
    /// How many could not.
    pub(crate) unreadable: usize,
    /// View of the daemon, if one writes the page.
    pub(crate) view: Option<&'a View>,
}

/// The page's text.
pub(crate) fn text(sources: &Sources<'_>) -> String {
    let mut text = String::new();
    // Names that read as each other, as what is no UTF-8 does, would make one series twice, and a
    // collector throws such a page away.
    let mut seen = BTreeSet::new();
    let tenants: Vec<&LedgerTenant> = sources
        .tenants
        .iter()
        .filter(|tenant| tenant.directory.chars().all(plain::is_shown))
        .filter(|tenant| seen.insert(&tenant.directory))
        .collect();
    let hidden = sources.tenants.len() - tenants.len();
    let cards = cards::of(&tenants);
    for metric in all() {
        let samples = samples(metric, sources, &tenants, &cards, sources.unreadable + hidden);
        if samples.is_empty() {
            continue;
        }
        let family_type = metric.family_type();
        // Writing into a String cannot fail.
        let _ = writeln!(text, "# TYPE {} {}", metric.name, family_type.word());
        if !metric.unit.is_empty() {
            let _ = writeln!(text, "# UNIT {} {}", metric.name, metric.unit);
        }
        let _ = writeln!(text, "# HELP {} {}", metric.name, escaped(metric.help));
        let suffix = family_type.suffix();
        for (values, value) in samples {
            let pairs = metric.labels().iter().zip(&values);
            let pairs: Vec<String> =
                pairs.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = match pairs.is_empty() {
                true => String::new(),
                false => format!("{{{}}}", pairs.join(",")),
            };
            let _ = writeln!(text, "{}{suffix}{labels} {value}", metric.name);
        }
    }
    text.push_str("# EOF\n");
    text
}

/// The samples of one family: the labels' values, and the number.
fn samples<'a>(
    metric: &Metric,
    sources: &Sources<'a>,
    shown: &[&'a LedgerTenant],
    cards: &'a [CardInfo],
    unreadable: usize,
) -> Vec<(Vec<&'a str>, Value)> {
    let tenants = shown.iter().copied();
    let label = |tenant: &'a LedgerTenant| [tenant.name.as_str(), tenant.directory.as_str()];
    let of_device =
        |tenant, device: &'a DeviceUse| [&label(tenant)[..], &[device.uuid.as_str()][..]].concat();
    let each = || shown.iter().flat_map(|t| t.devices.iter().map(move |d| (*t, d)));
    let view = sources.view;
    let devices = || view.into_iter().flat_map(|view| &view.devices);
    let known = |tenant: &LedgerTenant| -> Option<&'a TenantView> {
        let mut seen = view?.tenants.iter();
        let known = seen.find(|known| known.directory == tenant.directory)?;
        known.reason.is_none().then_some(known)
    };
    match metric.read {
        Read::Tenant(read) => tenants.map(|t| (label(t).to_vec(), read(t))).collect(),
        Read::TenantDevice(read) => {
            each().filter_map(|(t, d)| Some((of_device(t, d), read(t, d)?))).collect()
        }
        Read::TenantCounter(read) => each().map(|(t, d)| (of_device(t, d), read(d))).collect(),
        Read::Kinds => each()
            .flat_map(|(t, d)| {
                let named = move |kind: &'a str| [of_device(t, d), vec![kind]].concat();
                d.by_kind.iter().map(move |(kind, bytes)| (named(kind), Value::Count(*bytes)))
            })
            .collect(),
        Read::Directions(read) => each()
            .filter_map(|(t, d)| Some((of_device(t, d), read(d.residence.as_ref()?))))
            .flat_map(|(labels, values)| {
                let named = move |way| [labels.clone(), vec![way]].concat();
                ["out", "in"].into_iter().map(named).zip(values)
            })
            .collect(),
        Read::Held => tenants
            .filter_map(|t| Some((label(t).to_vec(), Value::Nanoseconds(known(t)?.held_ns))))
            .collect(),
        Read::MemoryCounter(read) => each()
            .filter_map(|(t, d)| {
                let mut seen = known(t)?.memories.iter();
                Some((of_device(t, d), read(seen.find(|seen| seen.gpu == d.uuid)?)))
            })
            .collect(),
        Read::Device(read) | Read::DeviceCounter(read) => {
            devices().map(|d| (vec![d.uuid.as_str()], read(d))).collect()
        }
        Read::DeviceMemory(read) | Read::DeviceMemoryCounter(read) => devices()
            .filter_map(|d| Some((vec![d.uuid.as_str()], read(d.memory.as_ref()?))))
            .collect(),
        Read::Daemon(read) | Read::DaemonCounter(read) => {
            view.into_iter().map(|view| (Vec::new(), read(view))).collect()
        }
        Read::Refusals => view
            .into_iter()
            .flat_map(|view| &view.refusals)
            .map(|(code, count)| (vec![code.as_str()], Value::Count(*count)))
            .collect(),
        Read::Unreadable => vec![(Vec::new(), Value::Count(unreadable as u64))],
        Read::Build => vec![(vec![VERSION, COMMIT.unwrap_or_default()], Value::Count(1))],
        Read::CardFacts => cards
            .iter()
            .map(|card| (vec![&*card.uuid, &card.name, &card.index], Value::Count(1)))
            .collect(),
        Read::Card(read) => {
            cards.iter().filter_map(|card| Some((vec![&*card.uuid], read(card)?))).collect()
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SECOND_NS: u64 = 1_000_000_000;
        match *self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Nanoseconds(ns) => write!(f, "{}.{:09}", ns / SECOND_NS, ns % SECOND_NS),
            Self::Millionths(ppm) => write!(f, "{}.{:06}", ppm / 1_000_000, ppm % 1_000_000),
        }
    }
}

/// A text as it stands between the quotes of a label, or after HELP.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Keeps device time from falling by the little that a corrected estimate takes back: a collector
/// would take that for a counter that began anew, and count all of it again.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    highest: BTreeMap<(String, String), u64>,
}

/// Tenants and devices remembered; with more all are forgotten, which costs a corrected estimate that
/// shows.
const MOST_REMEMBERED: usize = 8192;

impl Steady {
    /// Puts the device time of `tenants` right.
    pub(crate) fn settle(&mut self, tenants: &mut [LedgerTenant]) {
        if self.highest.len() > MOST_REMEMBERED {
            self.highest.clear();
        }
        for tenant in tenants {
            for device in &mut tenant.devices {
                let key = (tenant.directory.clone(), device.uuid.clone());
                let before_ns = self.highest.entry(key).or_default();
                // Less than half is no correction: somebody made the tenant anew.
                if device.used_ns >= *before_ns / 2 {
                    device.used_ns = device.used_ns.max(*before_ns);
                }
                *before_ns = device.used_ns;
            }
        }
    }
}

#[cfg(test)]
mod deployed;
#[cfg(test)]
mod tests;
