//! Metrics of the agent: which pod each tenant of the node's daemon is, for who joins the daemon's metrics with pods; and, for alerts,
//! whether the agent is ready, the node refused, and what came of the kubelet's calls.
//!
//! [`ClaimPage`] has the claims of the checkpoint, and the names of their pods from the kubelet, whose list of pods' resources is
//! on a socket of the node: nobody asks the API server. [`serve`] answers `GET /metrics`.
//!
//! Promises: one line for each tenant, however many pods and containers share it, so that a join by `tenant` has one to find; a page is
//! made once in five seconds at most, whoever asks; without the kubelet's list claims are told without pods, and that it is missing;
//! nothing of this holds up a claim.
//!
//! Does not measure: that is the daemon's.

mod agent;
mod claims;
mod http;
mod page;
mod pods;
#[cfg(test)]
mod tests;

pub(crate) use self::agent::AgentFacts;
pub(crate) use self::claims::ClaimPage;
pub(crate) use self::http::{address, serve};
