//! The primary context and green ones: retained, released, made and ended ([`crate::account::primary`]).

use core::ffi::c_uint;

use divvy_driver_api::types::{CUcontext, CUdevResourceDesc, CUdevice, CUgreenCtx, CUresult};

use crate::account::primary::{create_green, destroy_green, may_end, retain, view};
use crate::sys::{Out, real};

/// Retains the primary context; the first one pays.
pub(crate) fn cuDevicePrimaryCtxRetain(
    real: real::cuDevicePrimaryCtxRetain,
    pctx: Out<'_, CUcontext>,
    dev: CUdevice,
) -> CUresult {
    retain(pctx, dev, || real.call(pctx, dev))
}

/// Releases the primary context.
pub(crate) fn cuDevicePrimaryCtxRelease_v2(
    real: real::cuDevicePrimaryCtxRelease_v2,
    dev: CUdevice,
) -> CUresult {
    may_end(dev, || real.call(dev))
}

/// The first form.
pub(crate) fn cuDevicePrimaryCtxRelease(
    real: real::cuDevicePrimaryCtxRelease,
    dev: CUdevice,
) -> CUresult {
    may_end(dev, || real.call(dev))
}

/// Destroys all state of the primary context.
pub(crate) fn cuDevicePrimaryCtxReset_v2(
    real: real::cuDevicePrimaryCtxReset_v2,
    dev: CUdevice,
) -> CUresult {
    may_end(dev, || real.call(dev))
}

/// The first form.
pub(crate) fn cuDevicePrimaryCtxReset(
    real: real::cuDevicePrimaryCtxReset,
    dev: CUdevice,
) -> CUresult {
    may_end(dev, || real.call(dev))
}

/// A green context: it retains the primary one, which is charged with it if it is the first.
pub(crate) fn cuGreenCtxCreate(
    real: real::cuGreenCtxCreate,
    green: Out<'_, CUgreenCtx>,
    desc: CUdevResourceDesc,
    dev: CUdevice,
    flags: c_uint,
) -> CUresult {
    create_green(green, dev, || real.call(green, desc, dev, flags))
}

/// Ends a green context, and the primary one if nothing else retained it.
pub(crate) fn cuGreenCtxDestroy(real: real::cuGreenCtxDestroy, green: CUgreenCtx) -> CUresult {
    destroy_green(green, || real.call(green))
}

/// A context handle for a green context: a view of the primary one, with no memory of its own.
pub(crate) fn cuCtxFromGreenCtx(
    real: real::cuCtxFromGreenCtx,
    pctx: Out<'_, CUcontext>,
    green: CUgreenCtx,
) -> CUresult {
    view(pctx, green, || real.call(pctx, green))
}
