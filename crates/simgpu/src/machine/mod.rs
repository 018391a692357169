//! The simulated machine: what it is made of, what it remembers, and the daemon that plays it.
//!
//! [`description`] is the configuration. [`memory`], [`managed`], [`usage`] and [`clients`] are state without I/O:
//! a request changes it completely or not at all. [`server`] is the one thread that owns all of it,
//! so nothing here is locked, and a client killed at any point leaves nothing half written.

pub mod clients;
pub mod description;
pub mod exports;
pub mod managed;
pub mod memory;
pub mod neighbours;
pub mod notation;
pub mod peer;
pub mod requests;
pub mod server;
pub mod usage;
