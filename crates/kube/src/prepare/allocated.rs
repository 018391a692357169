//! Input: a claim as the scheduler has allocated it, with what of it is this driver's.

use serde_json::Value;

/// A claim that is allocated to this node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocatedClaim {
    /// Its UID, which alone says which claim it is.
    pub uid: String,
    /// Its namespace, for people.
    pub namespace: String,
    /// Its name, for people.
    pub name: String,
    /// Results of the allocation.
    pub shares: Vec<AllocatedShare>,
    /// Parameters of the allocation, in its order.
    pub config: Vec<DriverConfig>,
}

/// One result: a share of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatedShare {
    /// The request that it answers; `request/subrequest` where that was one of several.
    pub request: String,
    /// The card's pool.
    pub pool: String,
    /// The card's name in the pool.
    pub device: String,
    /// The card's UUID, as the driver's tools print it.
    pub gpu_uuid: String,
    /// The share's id; absent for a card that is not shared.
    pub share_id: Option<String>,
    /// Bytes of the card's memory.
    pub memory_bytes: u64,
    /// Percent of the card's time.
    pub cores_percent: u32,
    /// Offer of its card to all claims; where that is not known, it is not checked.
    pub offer: Option<CardOffer>,
}

/// Things that a card has to give to all claims together, beside all of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardOffer {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Shares at a time.
    pub slots: u32,
}

/// Source of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParametersOf {
    /// The class, which says what is allowed.
    Class,
    /// The claim.
    Claim,
}

/// Opaque parameters for this driver.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverConfig {
    /// Their source.
    pub of: ParametersOf,
    /// The requests that they are for; all where none is named.
    pub requests: Vec<String>,
    /// The parameters.
    pub parameters: Value,
}

impl DriverConfig {
    /// Whether these are for `request`.
    pub(super) fn is_for(&self, request: &str) -> bool {
        self.requests.is_empty() || self.requests.iter().any(|name| is_of_request(name, request))
    }
}

/// Whether `name` stands for `request`. That of a whole request stands for each of its subrequests.
pub(super) fn is_of_request(name: &str, request: &str) -> bool {
    name == request || Some(name) == request.split('/').next()
}
