//! Our own calls to the driver, typed and safe.
//!
//! They go straight to the driver's functions, never through a hook, and leave `errno` as it was.
//! Each answers `Err(CUDA_ERROR_NOT_FOUND)` where the driver lacks the function. Where a call could
//! have a side effect (a context made current, a capture broken), its text says so.
//!
//! They are safe, though a driver believes its callers. Pointers are to places of ours, as long as the call says; for
//! the rest a caller keeps a contract that no type holds:
//! 1. A handle or an address of the device is the program's for the call under way, the driver's answer to it, or a
//!    record's, which ends with what it names.
//! 2. What is freed, destroyed or released was made in the call under way, which then fails, or by this library.
//!
//! Nothing here follows a handle, but a driver may: one that has ended is freed memory there.

mod call;
mod context;
mod device;
mod event;
mod graph;
mod management;
mod memory;
mod vmm;

pub(crate) use call::SUCCESS;
pub(crate) use context::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use graph::*;
pub(crate) use management::*;
pub(crate) use memory::*;
pub(crate) use vmm::*;
