//! The daemon's answer about cards, as it is on the wire. Fields that are not known are passed over: a newer daemon may say more.

use serde::Deserialize;
use serde_json::{Value, json};

use super::health::CardHealth;
use crate::prepare::{DaemonError, DaemonSocket};

/// The machine's cards.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ToldCards {
    #[serde(default)]
    pub(super) driver: Option<String>,
    /// Reason why the driver could not be asked.
    #[serde(default)]
    pub(super) detail: Option<String>,
    pub(super) cards: Vec<ToldCard>,
}

/// One of them.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ToldCard {
    pub(super) uuid: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) memory_bytes: u64,
    #[serde(default)]
    pub(super) compute_capability: Option<String>,
    #[serde(default)]
    pub(super) architecture: Option<String>,
    #[serde(default)]
    pub(super) pcie_root: Option<String>,
    #[serde(default)]
    pub(super) numa_node: Option<u32>,
    #[serde(default)]
    pub(super) mig: bool,
    #[serde(default)]
    pub(super) instances: Vec<ToldInstance>,
    #[serde(default)]
    pub(super) health: CardHealth,
    #[serde(default)]
    pub(super) detail: Option<String>,
}

/// An instance of one that is partitioned.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ToldInstance {
    pub(super) uuid: String,
    #[serde(default)]
    pub(super) profile: Option<String>,
    #[serde(default)]
    pub(super) memory_bytes: u64,
}

/// Asks the daemon. Blocks for a few seconds at most.
///
/// # Errors
/// In words: no daemon, one that does not know the request, or an answer that is none.
pub(super) fn ask(daemon: &DaemonSocket) -> Result<ToldCards, String> {
    let told = daemon.call(&json!("cards"), "cards").map_err(|error| match error {
        DaemonError::Refused { code, words } if code == "bad-request" => {
            format!("the daemon is older than this agent and does not tell its cards: restart it ({words})")
        }
        error => error.to_string(),
    })?;
    read(told)
}

fn read(told: Value) -> Result<ToldCards, String> {
    serde_json::from_value(told)
        .map_err(|error| format!("the daemon's cards are not understood: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_understood_or_an_error() {
        let told = json!({ "driver": "580.82.07", "new": 1, "cards": [
            { "uuid": "GPU-1", "health": "tired" }, { "uuid": "GPU-2", "health": "healthy", "mig": true,
              "instances": [{ "uuid": "MIG-1", "profile": "1g.18gb" }] } ] });
        let told = read(told).unwrap();
        assert_eq!(
            (told.cards[0].health, told.cards[1].health),
            (CardHealth::Unknown, CardHealth::Healthy)
        );
        assert_eq!(told.cards[1].instances[0].profile.as_deref(), Some("1g.18gb"));
        for bad in
            [json!(null), json!([]), json!({}), json!({ "cards": [{}] }), json!({ "cards": 3 })]
        {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
