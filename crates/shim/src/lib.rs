//! libdivvy.so: the library that is preloaded into a program.
//!
//! It stands between a program and the NVIDIA driver for those entry points that a limit of memory or a
//! share of device time needs, and for no others. Promises: nothing happens at load; a program without a
//! limit talks to the driver itself; no call panics, allocates or ends the program; no lock is held while
//! the driver runs.
//!
//! It is laid in floors, of which each imports only what is below: `hooks`, the entry points; `account`,
//! which asks for memory and keeps it; `handover`, which moves what may leave the card; `gate`, which asks for
//! device time; `residence`, the memory that may leave; `tenant`, the limits, the ledger and the records of this process; `sys`, all that is unsafe. The symbols that a
//! program finds are unsafe too: they lie in `sys::door`, which is above all and imported by nothing.
//!
//! Does not know how the driver answers (that is the driver's) nor which files a tenant has (that is
//! `page`'s).

#![no_std]

mod account;
mod gate;
mod handover;
mod hooks;
mod residence;
mod sys;
mod tenant;
