//! Verdict on a node and its cards: whether they may be used, and if not, why.
//!
//! Promises: what was not looked at is refused. Does not judge: [`super::node`] does.

use std::collections::BTreeMap;

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
}
