//! Kubelet's side of the agent: the sockets on which the kubelet finds the driver and asks it to prepare claims.
//!
//! ```text
//! kubelet ── plugins_registry/<driver>/reg.sock ──▶ registration   who serves, and which services
//!         ── plugins/<driver>/dra.sock ───────────▶ dra (v1, v1beta1) ──▶ plugin ──▶ cluster: the claim
//!                                                   health (v1, v1alpha1)       └──▶ prepare: the node
//! ```
//!
//! Promises: every call is answered in a bounded time with one answer for each claim; nothing is kept here between calls, so
//! an agent that is killed and started again serves as before.
//!
//! Sockets are [`server`]'s for the device plugin too. Does not say which cards there are, nor publish them.

mod authority;
mod counts;
mod dra;
mod gone;
mod health;
mod hpack;
mod paths;
mod plugin;
mod registration;
mod server;
mod sizes;
mod socket;
mod state;
#[cfg(test)]
mod tests;
pub mod wire;

pub use self::counts::{CallCounts, ClaimCall};
pub use self::health::HEALTH_TIMEOUT;
pub use self::paths::KubeletSockets;
pub use self::plugin::{CALL_PATIENCE, NodePlugin};
pub use self::registration::REGISTERED;
pub use self::server::serve;
pub(crate) use self::server::{ServedSocket, serve_socket};
pub(crate) use self::socket::PinnedFile;
pub use self::state::{AgentCondition, AgentState};
