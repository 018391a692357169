//! What the binary is called for: a module for each command, beside the daemon's, and what `run` alone needs.
//!
//! Does not hold what several commands know of tenants, of the machine or of output.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod cdi;
pub(crate) mod child;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod set;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod upgrade;
