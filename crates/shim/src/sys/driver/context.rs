//! Contexts, streams, and what functions need.

use core::ffi::c_int;

use divvy_driver_api::types::*;

use super::call::{ask, ask_often};

/// The context with this handle, as a record keeps it.
pub(crate) fn context_at(handle: u64) -> CUcontext {
    CUcontext(core::ptr::with_exposed_provenance_mut(usize::try_from(handle).unwrap_or(0)))
}

/// The device of the current context.
#[inline]
pub(crate) fn ctx_device() -> Result<CUdevice, CUresult> {
    let mut device = 0;
    ask!(cuCtxGetDevice(&mut device))?;
    Ok(device)
}

/// The current context, null where there is none.
#[inline(always)]
pub(crate) fn ctx_current() -> Result<CUcontext, CUresult> {
    let mut context = CUcontext(core::ptr::null_mut());
    ask_often!(cuCtxGetCurrent(&mut context))?;
    Ok(context)
}

/// The current context's number, which no other context of the process has ever had. The context is not
/// named: the handle of one that has ended is freed memory, while asked without one the driver says so.
pub(crate) fn current_ctx_id() -> Result<u64, CUresult> {
    let mut id = 0;
    ask!(cuCtxGetId(CUcontext(core::ptr::null_mut()), &mut id))?;
    Ok(id)
}

/// The device of `context`, by making it current for a moment.
pub(crate) fn device_of_ctx(context: CUcontext) -> Result<CUdevice, CUresult> {
    ask!(cuCtxPushCurrent_v2(context))?;
    let device = ctx_device();
    let mut popped = CUcontext(core::ptr::null_mut());
    ask!(cuCtxPopCurrent_v2(&mut popped))?;
    device
}

/// The context of a stream; `per_thread` says what the null stream means.
pub(crate) fn stream_ctx(stream: CUstream, per_thread: bool) -> Result<CUcontext, CUresult> {
    let mut context = CUcontext(core::ptr::null_mut());
    if per_thread {
        ask!(cuStreamGetCtx_ptsz(stream, &mut context))?;
    } else {
        ask!(cuStreamGetCtx(stream, &mut context))?;
    }
    Ok(context)
}

/// The device of a stream; `per_thread` says what the null stream means. Drivers without
/// `cuStreamGetDevice` (before 12.8) are asked for the stream's context.
pub(crate) fn stream_ctx_device(stream: CUstream, per_thread: bool) -> Result<CUdevice, CUresult> {
    if stream.0.addr() <= 2 {
        // The legacy and the per-thread default stream are the current context's.
        return ctx_device();
    }
    let mut device = 0;
    match ask!(cuStreamGetDevice(stream, &mut device)) {
        Ok(()) => Ok(device),
        Err(CUresult::CUDA_ERROR_NOT_FOUND) => device_of_ctx(stream_ctx(stream, per_thread)?),
        Err(error) => Err(error),
    }
}

/// Whether a stream is capturing; false where the driver will not say.
pub(crate) fn stream_capturing(stream: CUstream, per_thread: bool) -> Result<bool, CUresult> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    if per_thread {
        ask!(cuStreamIsCapturing_ptsz(stream, &mut status))?;
    } else {
        ask!(cuStreamIsCapturing(stream, &mut status))?;
    }
    Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Whether all work of a stream has ended. It breaks a capture that watches the calling thread.
pub(crate) fn stream_is_done(stream: CUstream, per_thread: bool) -> bool {
    let asked =
        if per_thread { ask!(cuStreamQuery_ptsz(stream)) } else { ask!(cuStreamQuery(stream)) };
    asked != Err(CUresult::CUDA_ERROR_NOT_READY)
}

/// An attribute of a function.
pub(crate) fn func_attribute(
    function: CUfunction,
    attribute: CUfunction_attribute,
) -> Result<i32, CUresult> {
    let mut value: c_int = 0;
    ask!(cuFuncGetAttribute(&mut value, attribute, function))?;
    Ok(value)
}

/// An attribute of a kernel on a device.
pub(crate) fn kernel_attribute(
    kernel: CUkernel,
    attribute: CUfunction_attribute,
    device: CUdevice,
) -> Result<i32, CUresult> {
    let mut value: c_int = 0;
    ask!(cuKernelGetAttribute(&mut value, attribute, kernel, device))?;
    Ok(value)
}

/// The module that a function is of.
pub(crate) fn func_module(function: CUfunction) -> Result<CUmodule, CUresult> {
    let mut module = CUmodule(core::ptr::null_mut());
    ask!(cuFuncGetModule(&mut module, function))?;
    Ok(module)
}

/// How many functions a module has (drivers from 12.4 on).
pub(crate) fn module_function_count(module: CUmodule) -> Result<u32, CUresult> {
    let mut count = 0;
    ask!(cuModuleGetFunctionCount(&mut count, module))?;
    Ok(count)
}

/// How many kernels a library has (drivers from 12.4 on).
pub(crate) fn library_kernel_count(library: CUlibrary) -> Result<u32, CUresult> {
    let mut count = 0;
    ask!(cuLibraryGetKernelCount(&mut count, library))?;
    Ok(count)
}

/// Takes a module back.
pub(crate) fn module_unload(module: CUmodule) -> Result<(), CUresult> {
    ask!(cuModuleUnload(module))
}

/// Takes a library back.
pub(crate) fn library_unload(library: CUlibrary) -> Result<(), CUresult> {
    ask!(cuLibraryUnload(library))
}

/// Sets what this thread may do while a stream captures, and returns what it might before.
pub(crate) fn exchange_capture_mode(
    mode: CUstreamCaptureMode,
) -> Result<CUstreamCaptureMode, CUresult> {
    let mut mode = mode;
    ask!(cuThreadExchangeStreamCaptureMode(&mut mode))?;
    Ok(mode)
}
