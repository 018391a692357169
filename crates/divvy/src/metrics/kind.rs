//! Form of a metric: its name, and how its samples are read.
//!
//! Promises: plain values. Does not read anything.

use super::cards::CardInfo;
use crate::tenants::ledger::{DeviceUse, LedgerTenant, ResidenceUse};
use crate::wire::{DeviceView, MemoryView, TenantMemoryView, View};

/// One metric family.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Name of the family; a counter's samples have `_total` after it, those of facts `_info`.
    pub(crate) name: &'static str,
    /// Base unit, the end of the name; empty for a plain number.
    pub(super) unit: &'static str,
    /// Its meaning.
    pub(super) help: &'static str,
    pub(super) read: Read,
}

/// Value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Count(u64),
    Nanoseconds(u64),
    Millionths(u32),
}

/// Where a family's samples come from, which also says their labels and whether they only grow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    Tenant(fn(&LedgerTenant) -> Value),
    TenantDevice(fn(&LedgerTenant, &DeviceUse) -> Option<Value>),
    TenantCounter(fn(&DeviceUse) -> Value),
    /// Bytes by kind.
    Kinds,
    /// Of memory that may leave, by direction: out and in.
    Directions(fn(&ResidenceUse) -> [Value; 2]),
    /// Time held, as the daemon counts it.
    Held,
    /// The tenant's memory on a device, as the daemon sees it.
    MemoryCounter(fn(&TenantMemoryView) -> Value),
    Device(fn(&DeviceView) -> Value),
    DeviceCounter(fn(&DeviceView) -> Value),
    DeviceMemory(fn(&MemoryView) -> Value),
    DeviceMemoryCounter(fn(&MemoryView) -> Value),
    Daemon(fn(&View) -> Value),
    DaemonCounter(fn(&View) -> Value),
    /// Refusals that the daemon has found, by reason code.
    Refusals,
    /// Tenants whose files could not be read.
    Unreadable,
    /// Facts about this binary.
    Build,
    /// Facts about a card.
    CardFacts,
    Card(fn(&CardInfo) -> Option<Value>),
}

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FamilyType {
    Counter,
    Gauge,
    /// Facts in labels; its value is 1.
    Info,
}

impl FamilyType {
    /// As it stands after TYPE.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Info => "info",
        }
    }

    /// The end of its samples' names.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Gauge => "",
            Self::Info => "_info",
        }
    }
}

impl Metric {
    /// Its type.
    pub(crate) fn family_type(&self) -> FamilyType {
        match self.read {
            Read::TenantCounter(_)
            | Read::Directions(_)
            | Read::Held
            | Read::MemoryCounter(_)
            | Read::DeviceCounter(_)
            | Read::DeviceMemoryCounter(_)
            | Read::DaemonCounter(_)
            | Read::Refusals => FamilyType::Counter,
            Read::Build | Read::CardFacts => FamilyType::Info,
            _ => FamilyType::Gauge,
        }
    }

    /// Its labels.
    pub(super) fn labels(&self) -> &'static [&'static str] {
        match self.read {
            Read::Tenant(_) | Read::Held => &["tenant", "directory"],
            Read::TenantDevice(_) | Read::TenantCounter(_) | Read::MemoryCounter(_) => {
                &["tenant", "directory", "device_uuid"]
            }
            Read::Kinds => &["tenant", "directory", "device_uuid", "kind"],
            Read::Directions(_) => &["tenant", "directory", "device_uuid", "direction"],
            Read::Device(_)
            | Read::DeviceCounter(_)
            | Read::DeviceMemory(_)
            | Read::DeviceMemoryCounter(_)
            | Read::Card(_) => &["device_uuid"],
            Read::CardFacts => &["device_uuid", "device_name", "device_index"],
            Read::Refusals => &["code"],
            Read::Build => &["version", "commit"],
            Read::Daemon(_) | Read::DaemonCounter(_) | Read::Unreadable => &[],
        }
    }

    /// The name its samples have.
    #[cfg(test)]
    pub(crate) fn sample_name(&self) -> String {
        format!("{}{}", self.name, self.family_type().suffix())
    }
}

pub(super) const fn metric(
    name: &'static str,
    unit: &'static str,
    read: Read,
    help: &'static str,
) -> Metric {
    Metric { name, unit, help, read }
}
