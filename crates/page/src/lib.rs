//! Opens, locks, maps and reads tenant files: nobody else touches their mapping.
//!
//! A process: [`Tenant::attach`] gives it a slot, [`Tenant::device_row`] a row for each device it
//! sees; then [`Tenant::ask`] before the driver is called, [`Tenant::give_back`] after a free or a
//! failure, [`Tenant::hold`] for what the driver took unasked; [`Tenant::used_bytes`] and
//! [`Tenant::processes`] for answers; [`Tenant::export_shared`], [`Tenant::open_shared`],
//! [`Tenant::close_shared`] and [`mark`] for memory that processes share; [`Tenant::any_gate`],
//! [`Tenant::share`] and [`Tenant::meet_file`] for the compute share; [`passing`] for descriptors of memory. An owner: [`reader`] and [`owner`],
//! in a [`Directory`] that was opened once.
//!
//! Asking costs tens of nanoseconds and takes no lock until the limit is reached. Promises: a safe API, but for the
//! system call itself, which the library's own unsafe room builds on ([`kernel`]); no allocation, no panic, no libc call (system calls are made directly, so `errno` stays the program's and no
//! interposed function is met); a file that is not what it should be gives an exact [`AttachError`];
//! no wait is longer than three seconds, and each ends at an absolute deadline of its own.
//!
//! Does not decide (that is `policy`), call a driver, log, or read the environment.

#![no_std]
#![deny(missing_docs)]
#![allow(unsafe_code, reason = "the room of mappings and system calls, see docs/architecture.md")]

#[cfg(test)]
extern crate std;

mod admission;
mod at;
mod directory;
mod errno;
mod error;
#[cfg(debug_assertions)]
pub mod fault;
#[cfg(not(debug_assertions))]
mod fault;
mod field_text;
mod file;
mod fork_page;
mod gates;
pub mod kernel;
mod live;
mod liveness;
pub mod mark;
mod meet;
pub mod owner;
pub mod passing;
mod path;
mod patience;
mod process;
pub mod reader;
mod renew;
mod residence;
mod settle;
mod share;
mod shared;
mod shared_table;
mod slot;
mod slow_path;
mod source;
mod sys;
mod tenant;
mod trust;
mod usage;
mod vacancy;

pub use directory::Directory;
pub use errno::Errno;
pub use error::{AttachError, TenantFile};
pub use live::OwnerWord;
pub use meet::MeetFile;
pub use process::{effective_uid, pid_namespace};
pub use residence::{HostRefusal, LockedOutWords, MemoryOrder, ResidenceEntry, ResidenceWords};
pub use share::ShareWords;
pub use shared::SharedEntry;
pub use source::ConfigSource;
pub use sys::now_ns;
pub use tenant::{DeviceRow, NewDevice, ProcessUse, Tenant};
pub use vacancy::Vacancy;
