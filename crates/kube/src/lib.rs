//! Divvy in Kubernetes: today the converter of HAMi's manifests to claims, which is the program `divvy-kube`, and the core that
//! prepares claims on a node, which no program has yet.
//!
//! Promises: `#![forbid(unsafe_code)]`; exit codes are those of `divvy`; an error names the value and the fix.
//!
//! Does not speak to a cluster, nor to a kubelet.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![allow(rustdoc::private_intra_doc_links, reason = "read with its source: little of it is public")]

mod claim;
mod command;
pub mod convert;
mod document;
mod fnv;
mod keys;
mod kinds;
mod note;
mod pod;
pub mod prepare;
mod quantity;
mod request;
#[cfg(test)]
mod tests;
mod yaml;

pub use command::main;
pub use document::Outcome;
