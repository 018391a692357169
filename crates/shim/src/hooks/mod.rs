//! The hooked entry points: one file per family, and `around.txt` for those of one expression.
//!
//! A hook is a safe function named as its symbol; the build finds it by that name, and its
//! default-stream variants call it too. It says what its arguments are: what is asked for memory lies in
//! [`crate::account`], what is asked for device time in [`crate::gate`]; hooks do not import each other.
//! Promises: no panic, no allocation, no lock held across a driver call; no environment and no text on a
//! path that is not a refusal, and no clock on one that no gate holds.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    reason = "hooks have the names and the arguments of the driver's symbols"
)]

pub(crate) mod around;
pub(crate) mod capture;
pub(crate) mod device;
pub(crate) mod global;
pub(crate) mod graph;
pub(crate) mod heap;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod nvml;
pub(crate) mod passed;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod proc_address;
pub(crate) mod submit;
pub(crate) mod vmm;
