//! Our own calls to the driver, typed and safe.
//!
//! They go straight to the driver's functions, never through a hook, and leave `errno` as it was.
//! Each answers `Err(CUDA_ERROR_NOT_FOUND)` where the driver lacks the function. Where a call could
//! have a side effect (a context made current, a capture broken), its text says so.

mod call;
mod context;
mod device;
mod event;
mod graph;
mod management;
mod memory;

pub(crate) use call::SUCCESS;
pub(crate) use context::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use graph::*;
pub(crate) use management::*;
pub(crate) use memory::*;
