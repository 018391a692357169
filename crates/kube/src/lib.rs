//! Divvy in Kubernetes, which is the program `divvy-kube`: the converter of HAMi's manifests to claims, the [`controller`] of a cluster, and
//! the agent of a node:
//! [`kubelet`] has its sockets, [`cluster`] speaks to the API server, [`cards`] knows the node's cards, [`prepare`] makes the node
//! ready for a claim; and the words for why a pod waits, [`explain`].
//!
//! Promises: `#![forbid(unsafe_code)]`; exit codes are those of `divvy`; an error names the value and the fix.
//!
//! Does not place pods: the stock scheduler does.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![allow(rustdoc::private_intra_doc_links, reason = "read with its source: little of it is public")]

mod agent;
pub mod cards;
mod claim;
pub mod cluster;
mod command;
mod controller;
pub mod convert;
mod document;
mod driver;
mod event;
mod explain;
mod fnv;
mod keys;
mod kinds;
pub mod kubelet;
mod note;
mod offers;
mod pod;
pub mod prepare;
mod quantity;
mod request;
#[cfg(test)]
mod tests;
mod yaml;

pub use command::main;
pub use document::Outcome;
pub use driver::DRIVER;
pub use event::EventLog;
