//! Our own calls to the driver, typed and safe.
//!
//! They go straight to the driver's functions, never through a hook, and leave `errno` as it was.
//! Each answers `Err(CUDA_ERROR_NOT_FOUND)` where the driver lacks the function. Where a call could
//! have a side effect (a context made current, a capture broken), its text says so.

#![allow(
    dead_code,
    unused_imports,
    reason = "one small vocabulary; which hooks use which word changes"
)]

mod context;
mod device;
mod event;
mod graph;
mod management;
mod memory;

use divvy_driver_api::types::CUresult;

pub(crate) use context::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use graph::*;
pub(crate) use management::*;
pub(crate) use memory::*;

/// Calls the driver's `$name`; the arguments must be values, or pointers to places of ours.
macro_rules! ask {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match $crate::sys::resolve::function($crate::sys::tables::index::$name) {
            None => Err(divvy_driver_api::types::CUresult::CUDA_ERROR_NOT_FOUND),
            Some(address) => {
                let _errno = $crate::sys::errno::Keep::new();
                // SAFETY: the address is that of the driver's function of this name.
                let function = unsafe {
                    core::mem::transmute::<usize, divvy_driver_api::sig::$name>(address.get())
                };
                // SAFETY: the pointers among the arguments are to locals of the caller, as long as
                // the call says; everything else is a value that the driver checks.
                $crate::sys::driver::done(unsafe { function($($argument),*) })
            }
        }
    };
}
use ask;

fn done(result: CUresult) -> Result<(), CUresult> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(result) }
}

/// Length of the text in a buffer that the driver wrote a string to.
fn text_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())
}
