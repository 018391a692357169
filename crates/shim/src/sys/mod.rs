//! Everything in this library that is unsafe, and nothing else.
//!
//! Exports and their table, the lookup of the real functions, the program's pointers, system calls,
//! and the few shared cells that hooks need. No file asks callers outside of this room for `unsafe`, nor has a safe
//! function that relies on theirs, but for calls of the driver, whose contract stands at [`real`] and [`driver`]. The program's pointers come to a hook as [`Out`], [`In`], [`OutArray`],
//! [`OutHandle`], [`OutFunction`], [`layout::List`], [`image::Image`] and [`Opaque`], made in the export with what the
//! call says of them: how far one may be read or written is checked, not the hook's to keep to, and what is followed
//! from there cannot be written.

#![allow(unsafe_code, reason = "the shim's only room for it, see docs/architecture.md")]

mod absent;
pub(crate) mod attribute;
#[cfg(not(test))]
mod bytes;
pub(crate) mod clock;
mod door;
pub(crate) mod driver;
mod elf;
pub(crate) mod env;
mod errno;
pub(crate) mod fork;
pub(crate) mod host_piece;
mod host_room;
pub(crate) mod image;
mod kernel;
pub(crate) mod layout;
mod loaded;
pub(crate) mod log;
pub(crate) mod map;
pub(crate) mod mode;
mod offsets;
pub(crate) mod once;
pub(crate) mod owner;
#[cfg(not(test))]
mod panic;
mod pointer;
pub(crate) mod real;
pub(crate) mod reference;
mod resolve;
pub(crate) mod scratch;
pub(crate) mod service;
mod tables;
mod ticks;
pub(crate) mod wiped;

pub(crate) use kernel::{sleep_ns, thread, thread_pointer, wait, wake};
pub(crate) use log::log;
pub(crate) use pointer::{In, Opaque, Out, OutArray, OutFunction, OutHandle, Settable};
pub(crate) use tables::hash as name_hash;
