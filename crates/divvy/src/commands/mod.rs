//! The binary's commands: a module for each, beside the daemon's, and the parts that `run` alone needs.
//!
//! Does not hold code of several commands: that is in `tenants`, `machine` and `output`.

pub(crate) mod audit;
mod becoming;
pub(crate) mod bench;
pub(crate) mod cdi;
pub(crate) mod child;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod freeze;
pub(crate) mod kube;
pub(crate) mod log;
pub(crate) mod ps;
mod refusals;
pub(crate) mod run;
pub(crate) mod set;
pub(crate) mod tenant;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod uninstall;
pub(crate) mod upgrade;
