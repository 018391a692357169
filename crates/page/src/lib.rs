//! Opens, locks, maps and reads tenant files: the only room that touches a mapping.
//!
//! [`Tenant::attach`] gives a process its place in a tenant; the ledger calls on it then cost tens
//! of nanoseconds and take no lock until the limit is reached. Promises: a safe API; no allocation,
//! no panic, no libc call (system calls are made directly, so `errno` stays the program's and no
//! interposed function is met); a file that is not what it should be gives an exact [`AttachError`];
//! no wait is longer than 100 ms, and each ends at an absolute deadline of its own.
//!
//! Does not decide (that is `policy`), call a driver, log, or read the environment.

#![no_std]
#![deny(missing_docs)]
#![allow(unsafe_code, reason = "the room of mappings and system calls, see architecture.md")]

mod admission;
mod error;
#[cfg(debug_assertions)]
pub mod fault;
#[cfg(not(debug_assertions))]
mod fault;
mod file;
mod process;
pub mod reader;
mod settle;
mod shared;
mod slot;
mod sys;
mod tenant;
mod trust;
mod usage;

pub use error::{AttachError, File};
pub use process::{effective_uid, pid_namespace};
pub use sys::Errno;
pub use tenant::{ConfigSource, Device, ProcessUse, Request, Row, Tenant};
