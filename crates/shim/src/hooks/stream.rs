//! Streams are made and destroyed; what a context keeps for them is [`crate::account::stream`]'s.

use core::ffi::{c_int, c_uint};

use divvy_driver_api::types::{CUgreenCtx, CUresult, CUstream};

use crate::account::context::here;
use crate::account::primary;
use crate::account::stream::{create, destroy};
use crate::sys::{Out, real};

/// Makes a stream.
pub(crate) fn cuStreamCreate(
    real: real::cuStreamCreate,
    stream: Out<'_, CUstream>,
    flags: c_uint,
) -> CUresult {
    create(here(), stream, || real.call(stream, flags))
}

/// Makes a stream of a priority.
pub(crate) fn cuStreamCreateWithPriority(
    real: real::cuStreamCreateWithPriority,
    stream: Out<'_, CUstream>,
    flags: c_uint,
    priority: c_int,
) -> CUresult {
    create(here(), stream, || real.call(stream, flags, priority))
}

/// Makes a stream of a green context, whatever context is current.
pub(crate) fn cuGreenCtxStreamCreate(
    real: real::cuGreenCtxStreamCreate,
    stream: Out<'_, CUstream>,
    green: CUgreenCtx,
    flags: c_uint,
    priority: c_int,
) -> CUresult {
    create(primary::place_of(green), stream, || real.call(stream, green, flags, priority))
}

/// Destroys a stream.
pub(crate) fn cuStreamDestroy_v2(real: real::cuStreamDestroy_v2, stream: CUstream) -> CUresult {
    destroy(stream, || real.call(stream))
}

/// The first form.
pub(crate) fn cuStreamDestroy(real: real::cuStreamDestroy, stream: CUstream) -> CUresult {
    destroy(stream, || real.call(stream))
}
