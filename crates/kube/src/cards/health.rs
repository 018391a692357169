//! Health of the node's cards, as the kubelet is told it.

use std::time::SystemTime;

use serde::Deserialize;

use crate::prepare::CardOffer;

/// Health of a card, as the daemon says it too. A word that is not known says nothing for the card, and nothing against it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardHealth {
    /// It works.
    Healthy,
    /// It does not.
    Unhealthy,
    /// It could not be found out.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A card of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCard {
    /// Name of the device in the node's pool.
    pub device: String,
    /// The card's UUID, as the driver's tools print it.
    pub gpu_uuid: String,
    /// Its health.
    pub health: CardHealth,
    /// The same for people; may be empty.
    pub message: String,
    /// Offer of it; none where that is not known.
    pub offer: Option<CardOffer>,
}

/// Cards of the node, sent with each look at them, changed or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCards {
    /// All of them.
    pub cards: Vec<NodeCard>,
    /// Time of the look; none before the first.
    pub checked: Option<SystemTime>,
}
