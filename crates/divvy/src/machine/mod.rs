//! The machine: devices, libraries, programs, the other parts of Divvy.
//!
//! Does not know of tenants.

pub(crate) mod card_facts;
pub(crate) mod cards;
pub(crate) mod contexts;
pub(crate) mod elf;
pub(crate) mod gpus;
pub mod host_memory;
pub mod install;
pub(crate) mod loader;
