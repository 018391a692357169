//! Verdict on a node and its cards: whether they may be used, and if not, why.
//!
//! Promises: what was not looked at is refused. Does not judge: [`super::node`] does.

use std::collections::BTreeMap;

use crate::cards::{BookedDevice, CardBook, CardHealth, DeviceKind};

/// Verdict on the node. The kubelet's calls ask it by [`NodeVerdict::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// Reason why no card of the node may be used.
    pub refusal: Option<NodeRefusal>,
    /// Cards that another driver sells, by UUID in lower case, and that driver.
    pub sold: BTreeMap<String, String>,
    /// Sentences for people who set the node up.
    pub notes: Vec<String>,
}

/// Refusal of a node or of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRefusal {
    /// For programs.
    pub reason: NodeReason,
    /// For people: the value and the fix.
    pub words: String,
}

/// Node, as our own device plugin needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginNode {
    /// Reason why no card of the node may be sold.
    pub refusal: Option<NodeRefusal>,
    /// Whether the kubelet and the runtime surely give a container the CDI devices of a device plugin.
    pub has_cdi: bool,
}

/// Reason of the event that says of a node that no refusal of it holds any more.
pub(crate) const NODE_ACCEPTED: &str = "DivvyNodeAccepted";

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeReason {
    /// The API server has not told of the node yet.
    NotLooked,
    /// A runtime that starts pods without their limits.
    RuntimeWithoutCdi,
    /// A runtime of which that is not known.
    RuntimeUnknown,
    /// A Kubernetes without shared devices.
    KubeletTooOld,
    /// A device plugin sells the node's cards.
    SoldByPlugin,
    /// Another driver sells this card.
    SoldByDriver,
    /// An API server that drops what makes a device shared.
    GateOff,
}

impl NodeReason {
    /// Every reason, its word, and the reason of an event about it.
    pub const ALL: &[(Self, &str, &str)] = &[
        (Self::NotLooked, "node-not-looked", "DivvyNodeNotLooked"),
        (Self::RuntimeWithoutCdi, "runtime-without-cdi", "DivvyRuntimeWithoutCDI"),
        (Self::RuntimeUnknown, "runtime-unknown", "DivvyRuntimeUnknown"),
        (Self::KubeletTooOld, "kubelet-too-old", "DivvyKubeletTooOld"),
        (Self::SoldByPlugin, "sold-by-plugin", "DivvyCardsSoldByPlugin"),
        (Self::SoldByDriver, "sold-by-driver", "DivvyCardSoldByDriver"),
        (Self::GateOff, "gate-off", "DivvyConsumableCapacityOff"),
    ];

    fn row(self) -> (&'static str, &'static str) {
        let found = Self::ALL.iter().find(|(reason, ..)| *reason == self);
        found.map_or(("node-not-looked", "DivvyNodeNotLooked"), |(_, word, event)| (word, event))
    }

    /// The word.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// The reason of an event.
    pub fn event(self) -> &'static str {
        self.row().1
    }
}

fn not_looked() -> NodeRefusal {
    let words = "the node was not looked at yet: asked again".to_owned();
    NodeRefusal { reason: NodeReason::NotLooked, words }
}

impl Default for NodeVerdict {
    fn default() -> Self {
        Self { refusal: Some(not_looked()), sold: BTreeMap::new(), notes: Vec::new() }
    }
}

impl Default for PluginNode {
    fn default() -> Self {
        Self { refusal: Some(not_looked()), has_cdi: false }
    }
}

impl NodeVerdict {
    /// Whether the card may be used.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, uuid: &str) -> Result<(), NodeRefusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        match self.sold.get(&uuid.to_ascii_lowercase()) {
            None => Ok(()),
            Some(driver) => {
                let words = format!(
                    "{uuid}: the driver {driver} sells the card too, and would give it away twice: take it off this node"
                );
                Err(NodeRefusal { reason: NodeReason::SoldByDriver, words })
            }
        }
    }

    /// Whether a device may be used, and the card that it is a part of.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_device(&self, device: &BookedDevice) -> Result<(), NodeRefusal> {
        self.check(&device.uuid)?;
        match &device.kind {
            DeviceKind::Card => Ok(()),
            DeviceKind::Instance { parent, .. } => self.check(parent),
        }
    }

    /// Refusals of the node, or else of its devices, by somebody who has looked.
    pub(super) fn refusals(&self, book: &CardBook) -> Vec<NodeRefusal> {
        match &self.refusal {
            Some(refusal) if refusal.reason == NodeReason::NotLooked => Vec::new(),
            Some(refusal) => vec![refusal.clone()],
            None => book.devices.iter().filter_map(|it| self.check_device(it).err()).collect(),
        }
    }

    /// Devices that are not published and why, beyond what is so of the whole node.
    pub(super) fn left_out(&self, book: &CardBook) -> Vec<String> {
        let mut left_out = book.left_out.clone();
        let devices = book.devices.iter().filter(|_| self.refusal.is_none());
        left_out.extend(devices.filter_map(|device| match self.check_device(device) {
            Err(refusal) => Some(refusal.words),
            Ok(()) if device.health == CardHealth::Unhealthy => {
                Some(format!("{} has failed: {}", device.uuid, device.message))
            }
            Ok(()) => None,
        }));
        left_out
    }
}
