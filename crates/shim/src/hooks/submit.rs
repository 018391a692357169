//! Launches of kernels: the one that is called most, and those whose arguments say in a structure what is launched. The
//! others and copies are rows of `around.txt`, graphs are in `graph`.
//!
//! Does not decide when a launch goes: that is the gate's ([`crate::gate::submit`]).

use core::ffi::c_uint;

use divvy_driver_api::types::{CUDA_LAUNCH_PARAMS, CUfunction, CUlaunchConfig, CUresult, CUstream};

use crate::account::library;
use crate::gate::submit::{kernel_key, submit, volume, work};
use crate::gate::{self, GATES};
use crate::residence::state;
use crate::sys::{In, Out, real};

/// Launches a kernel.
#[inline(always)]
pub(crate) fn cuLaunchKernel(
    real: real::cuLaunchKernel,
    function: CUfunction,
    gx: c_uint,
    gy: c_uint,
    gz: c_uint,
    bx: c_uint,
    by: c_uint,
    bz: c_uint,
    shared: c_uint,
    stream: CUstream,
    params: Out<'_, *mut core::ffi::c_void>,
    extra: Out<'_, *mut core::ffi::c_void>,
) -> CUresult {
    work(
        stream,
        real.per_thread(),
        || kernel_key(function, volume(gx, gy, gz), volume(bx, by, bz)),
        || {
            let call =
                || real.call(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
            library::launched(function, || state::unless_lost(call))
        },
    )
}

/// Launches a kernel with attributes.
#[inline(always)]
pub(crate) fn cuLaunchKernelEx(
    real: real::cuLaunchKernelEx,
    config: In<'_, CUlaunchConfig>,
    function: CUfunction,
    params: Out<'_, *mut core::ffi::c_void>,
    extra: Out<'_, *mut core::ffi::c_void>,
) -> CUresult {
    // Read for the gate alone: an ungated launch copies nothing.
    let asked = || {
        let launch = config.get()?;
        let blocks = volume(launch.gridDimX, launch.gridDimY, launch.gridDimZ);
        let threads = volume(launch.blockDimX, launch.blockDimY, launch.blockDimZ);
        let stream = gate::stream(launch.hStream, real.per_thread());
        GATES.ask(stream, kernel_key(function, blocks, threads))
    };
    let call = || real.call(config, function, params, extra);
    submit(asked, || library::launched(function, || state::unless_lost(call)))
}

/// Launches kernels on several devices at once; the gate asked is that of the current context.
pub(crate) fn cuLaunchCooperativeKernelMultiDevice(
    real: real::cuLaunchCooperativeKernelMultiDevice,
    list: Out<'_, CUDA_LAUNCH_PARAMS>,
    count: c_uint,
    flags: c_uint,
) -> CUresult {
    let call = || state::unless_lost(|| real.call(list, count, flags));
    let Some(first) = list.get() else { return call() };
    let blocks = volume(first.gridDimX, first.gridDimY, first.gridDimZ);
    let threads = volume(first.blockDimX, first.blockDimY, first.blockDimZ);
    work(first.hStream, false, || kernel_key(first.function, blocks, threads), call)
}
