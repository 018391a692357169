//! A context of a device in which its memory moves, and a stream there.
//!
//! Memory behind handles is no context's: any that answers can move it. One that is broken answers nothing more, nor does
//! it to the program.
//!
//! Promises: the context is one that the program has made, and does not end while it is used; only for memory that must
//! come back where none lives it is the primary one, which is let go again. Does not know what is done in it.

use divvy_driver_api::types::{CUcontext, CUdevice, CUresult, CUstream};

use crate::residence::state::{AtContext, State};
use crate::sys::{driver, sleep_ns};
use crate::tenant::context::Handles;

/// Reason why nothing can be done with a device's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// No context lives there that is not about to end.
    NoContext,
    /// None of those that live answers any more.
    Broken,
    /// The driver's.
    Driver(CUresult),
}

impl Failure {
    /// The driver's number for it.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::NoContext => CUresult::CUDA_ERROR_INVALID_CONTEXT.0,
            Self::Broken => CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED.0,
            Self::Driver(code) => code.0,
        }
    }
}

/// Attempts to learn of a context whether it is broken.
const ATTEMPTS: usize = 3;
/// Between two of them.
const LOOK_NS: u32 = 50_000;

/// Whether a context answers no call any more. One that fails for want of memory, or once, is not broken.
pub(super) fn is_broken(of: CUcontext) -> bool {
    (0..ATTEMPTS).all(|_| match driver::within(of, driver::mem_info) {
        Ok(_) | Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => false,
        Err(_) => {
            sleep_ns(LOOK_NS);
            true
        }
    })
}

/// A context of the device that answers, of those that this process has made, views through green ones apart.
fn context_of(state: &'static State, device: CUdevice) -> Result<(CUcontext, AtContext), Failure> {
    let mut failure = Failure::NoContext;
    let handles = Handles::contexts(device);
    for handle in handles.iter().flat_map(Handles::iter) {
        let Some(at) = state.come_to(handle) else { continue };
        let of = driver::context_at(handle);
        if !is_broken(of) {
            return Ok((of, at));
        }
        failure = Failure::Broken;
    }
    Err(failure)
}

/// Runs `act` in a context of the device.
pub(super) fn within<R>(
    state: &'static State,
    device: CUdevice,
    act: impl FnOnce() -> Result<R, CUresult>,
) -> Result<R, Failure> {
    let (of, _at) = context_of(state, device)?;
    driver::within(of, act).map_err(Failure::Driver)
}

/// Runs `act` with a stream of its own in a context of the device: in the primary one, where none lives and it `is_needed`.
pub(super) fn with_stream<R>(
    state: &'static State,
    (device, is_needed): (CUdevice, bool),
    act: impl FnOnce(CUstream) -> Result<R, CUresult>,
) -> Result<R, Failure> {
    let act = || {
        let stream = driver::stream_create()?;
        let result = act(stream);
        let _ = driver::stream_destroy(stream);
        result
    };
    match context_of(state, device) {
        Ok((of, _at)) => driver::within(of, act),
        Err(Failure::NoContext) if is_needed => driver::primary_retain(device).and_then(|of| {
            let result = driver::within(of, act);
            let _ = driver::primary_release(device);
            result
        }),
        Err(failure) => return Err(failure),
    }
    .map_err(Failure::Driver)
}
