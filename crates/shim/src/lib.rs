//! libdivvy.so: the library that is preloaded into a program.
//!
//! It stands between a program and the NVIDIA driver for those entry points that a limit of memory or a
//! share of device time needs, and for no others. Promises: nothing happens at load; a program without a
//! limit talks to the driver itself; no call panics, allocates or ends the program; no lock is held while
//! the driver runs. `sys` holds all that is unsafe (exports, symbol lookup, pointers, system calls),
//! `hooks` what each call does, `gate` the driver as the share's gates see it, `tenant` the limits and the
//! ledger of this process.
//!
//! Does not know how the driver answers (that is the driver's) nor which files a tenant has (that is
//! `page`'s).

#![no_std]

mod gate;
mod hooks;
mod sys;
mod tenant;
