//! Answer about the machine's cards: which there are and how they are, for whoever offers them to others.
//!
//! Promises: a field that is not known is absent, never a guess. [`DeviceHealth::Unknown`] says that nobody could ask, and is no
//! word against the card.

use serde::{Deserialize, Serialize};

/// The machine's cards, as the driver and the kernel told last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardList {
    /// The driver's version, such as `580.82.07`.
    #[serde(default)]
    pub driver: Option<String>,
    /// Reason in words why the driver could not be asked; absent where it could.
    #[serde(default)]
    pub detail: Option<String>,
    /// By the driver's index.
    pub cards: Vec<CardReport>,
}

/// One card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardReport {
    /// As the driver's tools print it.
    pub uuid: String,
    /// The product's name.
    #[serde(default)]
    pub name: String,
    /// Bytes of its memory; 0 where that is not known.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Compute capability, such as `9.0`.
    #[serde(default)]
    pub compute_capability: Option<String>,
    /// Architecture, such as `Hopper`.
    #[serde(default)]
    pub architecture: Option<String>,
    /// Its address on the bus, such as `0000:17:00.0`.
    #[serde(default)]
    pub pci_bus_id: Option<String>,
    /// The root of that bus, such as `pci0000:17`.
    #[serde(default)]
    pub pcie_root: Option<String>,
    /// The NUMA node that it is nearest to.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// Whether it is partitioned (MIG): then programs use its instances, not the card.
    #[serde(default)]
    pub mig: bool,
    /// Its instances, where it is.
    #[serde(default)]
    pub instances: Vec<CardInstance>,
    /// Its health.
    #[serde(default)]
    pub health: DeviceHealth,
    /// The same in words; absent where it is healthy.
    #[serde(default)]
    pub detail: Option<String>,
}

/// An instance of a partitioned card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardInstance {
    /// As the driver's tools print it, `MIG-…`.
    pub uuid: String,
    /// Its profile, such as `1g.18gb`; absent where the driver does not say.
    #[serde(default)]
    pub profile: Option<String>,
    /// Bytes of its memory; 0 where that is not known.
    #[serde(default)]
    pub memory_bytes: u64,
}

/// Health of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceHealth {
    /// The driver answers for it, and reports no lasting fault.
    Healthy,
    /// No program should be sent there.
    Unhealthy,
    /// The driver could not be asked.
    #[default]
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_daemon_may_say_more_and_a_lesser_one_less() {
        let text = r#"{"cards":[{"uuid":"GPU-1","health":"tired","fans":3}],"newer":true}"#;
        let list: CardList = serde_json::from_str(text).unwrap();
        assert_eq!((list.driver, list.cards[0].health), (None, DeviceHealth::Unknown));
        assert_eq!(list.cards[0].uuid, "GPU-1");
        assert!(serde_json::from_str::<CardList>(r#"{"cards":[{"name":"x"}]}"#).is_err());
    }
}
