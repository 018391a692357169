//! Divvy in Kubernetes, which is the program `divvy-kube`: the converter of HAMi's manifests to claims, two that sell a node's cards,
//! the [`controller`] of a cluster, and the words for why a pod waits, [`explain`].
//!
//! The agent of a node prepares claims, the [`plugin`] is for clusters without them: [`kubelet`] has the agent's sockets, [`cluster`]
//! speaks to the API server, [`cards`] knows the node's cards, [`prepare`] makes the node ready for a claim, [`metrics`] tells
//! whose each tenant is.
//!
//! Promises: `#![forbid(unsafe_code)]`; exit codes are those of `divvy`; an error names the value and the fix.
//!
//! Does not place pods: the stock scheduler does.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![allow(rustdoc::private_intra_doc_links, reason = "read with its source: little of it is public")]

mod agent;
mod asked;
pub mod cards;
mod chart;
mod claim;
pub mod cluster;
mod command;
mod compose;
mod controller;
pub mod convert;
mod document;
mod driver;
mod driver_claim;
mod ending;
mod event;
mod explain;
mod failure;
mod file_lock;
mod fnv;
mod foreign;
mod key;
mod keys;
mod kinds;
pub mod kubelet;
pub mod lenient;
mod live;
mod metric;
mod metrics;
mod names;
mod note;
mod offers;
mod part;
mod plugin;
mod pod;
mod policy;
pub mod prepare;
mod quantity;
mod request;
mod seller;
#[cfg(test)]
mod tests;
mod unread;
mod way;
mod yaml;

pub use command::main;
pub use document::Outcome;
pub use driver::DRIVER;
pub use event::EventLog;
pub use offers::offered;
