//! Asking for memory and keeping it: what is charged, what is held, and what goes back when.
//!
//! The files are laid in floors themselves, from the records up: what memory is ([`entry`], [`marks`],
//! [`allocation`], [`reserve`]); what is held without being used ([`left_out`], [`unused`]), which goes
//! back before anything is refused; asking ([`charge`]); where a call happens, which may charge a
//! context ([`heap`], [`context`]); then one file for each kind of memory; and at the top what goes with
//! a context that ends ([`gone`], [`primary`], [`own`]). Beside them, what NVML's answers hold of the tenant
//! ([`listing`]). Promises: no lock is held across a driver call;
//! what cannot be recorded stays charged. Imports `gate`, `tenant` and `sys`, and knows no entry point.

pub(crate) mod allocation;
pub(crate) mod answers;
pub(crate) mod array;
pub(crate) mod block;
pub(crate) mod charge;
pub(crate) mod context;
mod entry;
pub(crate) mod export;
pub(crate) mod global;
mod gone;
pub(crate) mod graph;
pub(crate) mod heap;
pub(crate) mod holdings;
pub(crate) mod image;
pub(crate) mod ipc;
mod left_out;
pub(crate) mod library;
pub(crate) mod listing;
mod lz4;
mod marks;
pub(crate) mod module;
pub(crate) mod multicast;
pub(crate) mod nodes;
pub(crate) mod own;
pub(crate) mod place;
pub(crate) mod pool;
pub(crate) mod primary;
mod ptx;
pub(crate) mod reserve;
pub(crate) mod stream;
pub(crate) mod unused;
pub(crate) mod vmm;
