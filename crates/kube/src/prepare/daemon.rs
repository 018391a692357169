//! Daemon of the node, as the prepare core asks it; tests have one of their own.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use serde::Serialize;

/// Millionths in a percent.
pub(super) const PPM_OF_PERCENT: u32 = 10_000;

/// All limits of a tenant, in the words of the daemon's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeTenantLimits {
    /// Cards of which it may have memory; it gets none of any other.
    pub devices: Vec<CardLimits>,
    /// Weight against others that want a card too.
    pub weight: u32,
    /// `high`, `normal` or `low`.
    pub priority: String,
    /// `latency` or `normal`.
    pub class: String,
    /// Whether its memory may leave the card.
    pub oversubscribe: bool,
}

/// Limits on one card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CardLimits {
    /// The card, as the driver's tools print it.
    pub uuid: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Millionths of its time.
    pub share_ppm: u32,
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonError {
    /// No daemon answers, or none that is to be trusted.
    Unreachable(String),
    /// It refuses.
    Refused {
        /// Its code, which is stable.
        code: String,
        /// The same in words.
        words: String,
    },
}

impl DaemonError {
    /// Whether a tenant is there with other limits.
    pub(super) fn is_differs(&self) -> bool {
        self.has_code("differs")
    }

    /// Whether there is no such tenant.
    pub(super) fn is_unknown_tenant(&self) -> bool {
        self.has_code("unknown-tenant")
    }

    fn has_code(&self, word: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == word)
    }
}

impl Display for DaemonError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(words) => f.write_str(words),
            Self::Refused { code, words } => write!(f, "{code}: {words}"),
        }
    }
}

/// Answer to a tenant's creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTenant {
    /// Its directory.
    pub directory: String,
    /// Whether it was made now, and was not there before.
    pub is_new: bool,
}

/// A daemon that makes tenants by id. Each request may be made again and again.
pub trait NodeDaemon {
    /// Makes a tenant, or finds that it is there with these limits, or was made with them.
    ///
    /// # Errors
    /// [`DaemonError`]; of code `differs` where it is there with others.
    fn create(&self, id: &str, limits: &NodeTenantLimits) -> Result<CreatedTenant, DaemonError>;

    /// Gives a tenant these limits; its directory.
    ///
    /// # Errors
    /// [`DaemonError`].
    fn set(&self, id: &str, limits: &NodeTenantLimits) -> Result<String, DaemonError>;

    /// Bytes that a tenant holds, by card.
    ///
    /// # Errors
    /// [`DaemonError`].
    fn held(&self, id: &str) -> Result<BTreeMap<String, u64>, DaemonError>;

    /// Cards and weight of a tenant, as the daemon has them; `None` where the daemon has no such tenant.
    ///
    /// # Errors
    /// [`DaemonError`].
    fn limits(&self, id: &str) -> Result<Option<NodeTenantLimits>, DaemonError>;

    /// Removes a tenant, also one that is not there, and never waits for its processes.
    ///
    /// # Errors
    /// [`DaemonError`].
    fn remove(&self, id: &str) -> Result<(), DaemonError>;

    /// Ids of this user's tenants.
    ///
    /// # Errors
    /// [`DaemonError`].
    fn list(&self) -> Result<Vec<String>, DaemonError>;
}
