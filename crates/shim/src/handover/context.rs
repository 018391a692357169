//! The context of a device in which its memory moves, and a stream there.
//!
//! Promises: the context is one that the program has made. Does not know what is done in it.

use divvy_driver_api::types::{CUcontext, CUdevice, CUresult, CUstream};

use crate::sys::driver;
use crate::tenant::context::{CONTEXTS, Record};

/// A context of the device, of those that this process has made, views through green ones apart.
pub(super) fn context_of(device: CUdevice) -> Option<CUcontext> {
    let mut found = None;
    CONTEXTS.for_each(|handle, words| {
        let record = Record::unpack(words);
        if record.ordinal == device && !record.green {
            found = Some(handle);
        }
    });
    found.map(driver::context_at)
}

/// Runs `act` with a stream of its own in a context of the device.
pub(super) fn with_stream<R>(
    device: CUdevice,
    act: impl FnOnce(CUstream) -> Result<R, CUresult>,
) -> Result<R, CUresult> {
    let of = context_of(device).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    driver::within(of, || {
        let stream = driver::stream_create()?;
        let result = act(stream);
        let _ = driver::stream_destroy(stream);
        result
    })
}
