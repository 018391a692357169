//! `libnvidia-ml.so.1` of the simulated machine.
//!
//! NVML's answers about devices, memory, processes and utilisation come from the daemon; the rest are
//! the card's constants. `surface` says which calls answer; every other one returns
//! NVML_ERROR_NOT_SUPPORTED and is recorded, so a test that reaches it fails. Calls the hardware itself
//! answers that way are listed there too, and are not recorded.
//!
//! Pointers follow NVML's contract (null is an invalid argument); nothing here changes the machine, and
//! no setter is simulated.
#![allow(elided_lifetimes_in_paths, reason = "that of a call's pointers is always the call's")]

mod card;
mod device;
mod failure;
mod library;
mod mig;
mod processes;
pub mod surface;
mod system;

pub use failure::Returned;
pub use library::{LIBRARY, Library, call};

#[cfg(test)]
mod tests;
