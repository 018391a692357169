//! `libcuda.so.1` of the simulated driver: exports, and nothing else.
//!
//! Promises: exactly the symbols driver 580 exports, each at an address of its own; arguments are
//! handed to `simgpu::driver` typed, its answer is handed back. Nothing happens when it is loaded.
#![allow(unsafe_code, reason = "C entry points")]
#![allow(non_snake_case, reason = "named as the driver's symbols")]
#![allow(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "the driver's calls are documented by their vendor"
)]

use divvy_driver_api::types::*;
use simgpu::driver::api;
use simgpu::driver::call::{Call, code, enter};
use simgpu::driver::proc_address::set_exports;
use simgpu::sys::driver::{Answer, Pass};

/// Steps of every export around its implementation.
#[inline]
fn run(call: Call, body: impl FnOnce() -> Answer) -> CUresult {
    if call.resolves {
        set_exports(find_export);
    }
    simgpu::fault::guard(call.name, CUresult, || code(enter(call).and_then(|()| body())))
}

/// One export; symbols newer than driver 580 have none.
macro_rules! export {
    (cuCheckpointOperationComplete $($rest:tt)*) => {};
    (cuCoredumpDeregisterCompleteCallback $($rest:tt)*) => {};
    (cuCoredumpDeregisterStartCallback $($rest:tt)*) => {};
    (cuCoredumpRegisterCompleteCallback $($rest:tt)*) => {};
    (cuCoredumpRegisterStartCallback $($rest:tt)*) => {};
    (cuDevSmResourceSplit $($rest:tt)*) => {};
    (cuDeviceGetCliqueCount $($rest:tt)*) => {};
    (cuDeviceGetCliqueInfo $($rest:tt)*) => {};
    (cuDeviceGetFabricClusterUuid $($rest:tt)*) => {};
    (cuEventCreateFromEGLSync $($rest:tt)*) => {};
    (cuFabricCpyBatchAsync $($rest:tt)*) => {};
    (cuFabricCpyBatchAsync_ptsz $($rest:tt)*) => {};
    (cuFuncGetParamCount $($rest:tt)*) => {};
    (cuGraphAddNode_v3 $($rest:tt)*) => {};
    (cuGraphExecGetId $($rest:tt)*) => {};
    (cuGraphGetId $($rest:tt)*) => {};
    (cuGraphNodeGetContainingGraph $($rest:tt)*) => {};
    (cuGraphNodeGetLocalId $($rest:tt)*) => {};
    (cuGraphNodeGetParams $($rest:tt)*) => {};
    (cuGraphNodeGetToolsId $($rest:tt)*) => {};
    (cuGraphNodeSetParams_v2 $($rest:tt)*) => {};
    (cuKernelGetParamCount $($rest:tt)*) => {};
    (cuLaunchHostFunc_v2 $($rest:tt)*) => {};
    (cuLaunchHostFunc_v2_ptsz $($rest:tt)*) => {};
    (cuLogicalEndpointAddDevice $($rest:tt)*) => {};
    (cuLogicalEndpointBindAddr $($rest:tt)*) => {};
    (cuLogicalEndpointBindMem $($rest:tt)*) => {};
    (cuLogicalEndpointCreate $($rest:tt)*) => {};
    (cuLogicalEndpointDestroy $($rest:tt)*) => {};
    (cuLogicalEndpointExport $($rest:tt)*) => {};
    (cuLogicalEndpointGetLimits $($rest:tt)*) => {};
    (cuLogicalEndpointIdRelease $($rest:tt)*) => {};
    (cuLogicalEndpointIdReserve $($rest:tt)*) => {};
    (cuLogicalEndpointImport $($rest:tt)*) => {};
    (cuLogicalEndpointQuery $($rest:tt)*) => {};
    (cuLogicalEndpointUnbind $($rest:tt)*) => {};
    (cuMemGetLocationInfo $($rest:tt)*) => {};
    (cuMemcpy3DWithAttributesAsync $($rest:tt)*) => {};
    (cuMemcpy3DWithAttributesAsync_ptsz $($rest:tt)*) => {};
    (cuMemcpyWithAttributesAsync $($rest:tt)*) => {};
    (cuMemcpyWithAttributesAsync_ptsz $($rest:tt)*) => {};
    (cuMulticastBindAddr_v2 $($rest:tt)*) => {};
    (cuMulticastBindMem_v2 $($rest:tt)*) => {};
    (cuStreamBeginCaptureToCig $($rest:tt)*) => {};
    (cuStreamBeginCaptureToCig_ptsz $($rest:tt)*) => {};
    (cuStreamBeginRecaptureToGraph $($rest:tt)*) => {};
    (cuStreamBeginRecaptureToGraph_ptsz $($rest:tt)*) => {};
    (cuStreamEndCaptureToCig $($rest:tt)*) => {};
    (cuStreamEndCaptureToCig_ptsz $($rest:tt)*) => {};
    (cuStreamGetDevResource $($rest:tt)*) => {};
    (cuStreamGetDevResource_ptsz $($rest:tt)*) => {};
    (cuTensorMapSetAllocationClass $($rest:tt)*) => {};
    ($name:ident ($($argument:ident: $ty:ty),*) -> $result:ty) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $ty),*) -> $result {
            const CALL: Call = Call::of(stringify!($name));
            #[allow(unused_unsafe, reason = "a few calls have no arguments")]
            // SAFETY: the caller keeps the driver's contract for these arguments.
            run(CALL, || unsafe { api::$name(CALL, $($argument.pass()),*) })
        }
    };
}

/// The address of one export, by name.
macro_rules! address {
    ($wanted:ident, cuCheckpointOperationComplete) => {};
    ($wanted:ident, cuCoredumpDeregisterCompleteCallback) => {};
    ($wanted:ident, cuCoredumpDeregisterStartCallback) => {};
    ($wanted:ident, cuCoredumpRegisterCompleteCallback) => {};
    ($wanted:ident, cuCoredumpRegisterStartCallback) => {};
    ($wanted:ident, cuDevSmResourceSplit) => {};
    ($wanted:ident, cuDeviceGetCliqueCount) => {};
    ($wanted:ident, cuDeviceGetCliqueInfo) => {};
    ($wanted:ident, cuDeviceGetFabricClusterUuid) => {};
    ($wanted:ident, cuEventCreateFromEGLSync) => {};
    ($wanted:ident, cuFabricCpyBatchAsync) => {};
    ($wanted:ident, cuFabricCpyBatchAsync_ptsz) => {};
    ($wanted:ident, cuFuncGetParamCount) => {};
    ($wanted:ident, cuGraphAddNode_v3) => {};
    ($wanted:ident, cuGraphExecGetId) => {};
    ($wanted:ident, cuGraphGetId) => {};
    ($wanted:ident, cuGraphNodeGetContainingGraph) => {};
    ($wanted:ident, cuGraphNodeGetLocalId) => {};
    ($wanted:ident, cuGraphNodeGetParams) => {};
    ($wanted:ident, cuGraphNodeGetToolsId) => {};
    ($wanted:ident, cuGraphNodeSetParams_v2) => {};
    ($wanted:ident, cuKernelGetParamCount) => {};
    ($wanted:ident, cuLaunchHostFunc_v2) => {};
    ($wanted:ident, cuLaunchHostFunc_v2_ptsz) => {};
    ($wanted:ident, cuLogicalEndpointAddDevice) => {};
    ($wanted:ident, cuLogicalEndpointBindAddr) => {};
    ($wanted:ident, cuLogicalEndpointBindMem) => {};
    ($wanted:ident, cuLogicalEndpointCreate) => {};
    ($wanted:ident, cuLogicalEndpointDestroy) => {};
    ($wanted:ident, cuLogicalEndpointExport) => {};
    ($wanted:ident, cuLogicalEndpointGetLimits) => {};
    ($wanted:ident, cuLogicalEndpointIdRelease) => {};
    ($wanted:ident, cuLogicalEndpointIdReserve) => {};
    ($wanted:ident, cuLogicalEndpointImport) => {};
    ($wanted:ident, cuLogicalEndpointQuery) => {};
    ($wanted:ident, cuLogicalEndpointUnbind) => {};
    ($wanted:ident, cuMemGetLocationInfo) => {};
    ($wanted:ident, cuMemcpy3DWithAttributesAsync) => {};
    ($wanted:ident, cuMemcpy3DWithAttributesAsync_ptsz) => {};
    ($wanted:ident, cuMemcpyWithAttributesAsync) => {};
    ($wanted:ident, cuMemcpyWithAttributesAsync_ptsz) => {};
    ($wanted:ident, cuMulticastBindAddr_v2) => {};
    ($wanted:ident, cuMulticastBindMem_v2) => {};
    ($wanted:ident, cuStreamBeginCaptureToCig) => {};
    ($wanted:ident, cuStreamBeginCaptureToCig_ptsz) => {};
    ($wanted:ident, cuStreamBeginRecaptureToGraph) => {};
    ($wanted:ident, cuStreamBeginRecaptureToGraph_ptsz) => {};
    ($wanted:ident, cuStreamEndCaptureToCig) => {};
    ($wanted:ident, cuStreamEndCaptureToCig_ptsz) => {};
    ($wanted:ident, cuStreamGetDevResource) => {};
    ($wanted:ident, cuStreamGetDevResource_ptsz) => {};
    ($wanted:ident, cuTensorMapSetAllocationClass) => {};
    ($wanted:ident, $name:ident) => {
        if $wanted == stringify!($name) {
            return Some($name as *const () as usize);
        }
    };
}

macro_rules! exports {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        $(export! { $name ($($argument: $ty),*) -> $result })*

        /// Where an export is.
        fn find_export(wanted: &str) -> Option<usize> {
            $(address! { wanted, $name })*
            find_undocumented(wanted)
        }
    };
}
divvy_driver_api::for_each_driver_entry!(exports);

macro_rules! undocumented {
    ($($name:ident)*) => {
        /// As [`find_export`].
        fn find_undocumented(wanted: &str) -> Option<usize> {
            $(address! { wanted, $name })*
            None
        }
        $(
        /// Exported without a public prototype; never simulated.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> CUresult {
            const CALL: Call = Call::of(stringify!($name));
            run(CALL, || {
                simgpu::unsimulated::record(CALL.name);
                Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
            })
        }
    )*};
}
undocumented! { cuEGLApiInit cuMemGetAttribute cuMemGetAttribute_v2 cuProfilerInitialize }
