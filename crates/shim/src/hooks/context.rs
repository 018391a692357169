//! Contexts of the program's own: made, ended and referred to ([`crate::account::own`]). Primary and
//! green contexts are in [`super::primary`].

use core::ffi::{c_int, c_uint};

use divvy_driver_api::types::{
    CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUresult, VdpDevice,
    VdpGetProcAddress,
};

use crate::account::own::{attach, create, destroy, detach};
use crate::sys::{Out, real};

/// `cuCtxCreate` of CUDA 2 and later.
pub(crate) fn cuCtxCreate_v2(
    real: real::cuCtxCreate_v2,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// The first form.
pub(crate) fn cuCtxCreate(
    real: real::cuCtxCreate,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// With execution affinity.
pub(crate) fn cuCtxCreate_v3(
    real: real::cuCtxCreate_v3,
    pctx: Out<'_, CUcontext>,
    affinity: Out<'_, CUexecAffinityParam>,
    count: c_int,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, affinity, count, flags, dev))
}

/// With parameters.
pub(crate) fn cuCtxCreate_v4(
    real: real::cuCtxCreate_v4,
    pctx: Out<'_, CUcontext>,
    params: Out<'_, CUctxCreateParams>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, params, flags, dev))
}

/// For OpenGL.
pub(crate) fn cuGLCtxCreate_v2(
    real: real::cuGLCtxCreate_v2,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// The first form.
pub(crate) fn cuGLCtxCreate(
    real: real::cuGLCtxCreate,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// For VDPAU.
pub(crate) fn cuVDPAUCtxCreate_v2(
    real: real::cuVDPAUCtxCreate_v2,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
    vdp: VdpDevice,
    get: VdpGetProcAddress,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev, vdp, get))
}

/// The first form.
pub(crate) fn cuVDPAUCtxCreate(
    real: real::cuVDPAUCtxCreate,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
    vdp: VdpDevice,
    get: VdpGetProcAddress,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev, vdp, get))
}

/// Ends a context.
pub(crate) fn cuCtxDestroy_v2(real: real::cuCtxDestroy_v2, ctx: CUcontext) -> CUresult {
    destroy(ctx, || real.call(ctx))
}

/// The first form.
pub(crate) fn cuCtxDestroy(real: real::cuCtxDestroy, ctx: CUcontext) -> CUresult {
    destroy(ctx, || real.call(ctx))
}

/// One reference more.
pub(crate) fn cuCtxAttach(
    real: real::cuCtxAttach,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
) -> CUresult {
    attach(pctx, || real.call(pctx, flags))
}

/// One reference less; the last one ends the context. A driver takes it of the primary one as well,
/// which lives on: there it alone says what has ended.
pub(crate) fn cuCtxDetach(real: real::cuCtxDetach, ctx: CUcontext) -> CUresult {
    detach(ctx, || real.call(ctx))
}
