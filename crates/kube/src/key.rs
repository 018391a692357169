//! A key by which a manifest asks for GPUs: where it stands, and what becomes of it.
//!
//! Does not know which keys there are: [`crate::keys`] and [`crate::foreign`] list them.

use crate::note::Code;

/// Part of a manifest in which a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A container's limits and requests.
    Resource,
    /// Annotations of a pod, and its labels.
    Annotation,
    /// A container's variables.
    Variable,
}

/// Treatment of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Count,
    Memory,
    MemoryPercent,
    Cores,
    Priority,
    Instances,
    UseType,
    NoType,
    UseUuid,
    NoUuid,
    NodePolicy,
    GpuPolicy,
    Numa,
    Mode,
    Oversubscribe,
    CorePolicy,
    TaskPriority,
    DisableControl,
    VisibleDevices,
    /// Memory of each card in units of so many MiB.
    MemoryUnits(u64),
    MemoryBytes,
    /// Cores in hundredths of cards; above 100 they are whole cards.
    CardPercents,
    /// Hundredths of memory, or of both.
    CardMemoryPercents,
    CardParts,
    /// Amounts that stand at the pod, for one of its containers.
    PodMemory,
    PodFraction,
    PodCount,
    PodContainer,
    /// Another system's key that is no GPU: it stays.
    Kept,
    /// Taken out, with a note of this code.
    Gone(Code),
    /// The document is refused with this code.
    Refused(Code),
}

/// One key, or all keys that begin alike.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) place: Place,
    pub(crate) name: &'static str,
    pub(crate) fate: Fate,
    /// The result, or the reason and the way round, for people.
    pub(crate) becomes: &'static str,
}

impl Key {
    /// The reason alone, where [`Key::becomes`] begins with what is done.
    pub(crate) fn reason(&self) -> &'static str {
        let done = ["refused: ", "taken out with a warning: ", "taken out: "];
        done.iter().find_map(|done| self.becomes.strip_prefix(done)).unwrap_or(self.becomes)
    }

    /// Whether a name that stands in `place` is this key, or begins as it does.
    pub(crate) fn fits(&self, place: Place, name: &str) -> bool {
        let prefix = self.name.strip_suffix('*');
        self.place == place && prefix.map_or(self.name == name, |prefix| name.starts_with(prefix))
    }
}
