//! Which implementation stands behind each exported symbol.
//!
//! Promises: every entry point of the table is here exactly once, simulated or not: a missing one
//! does not compile. The forms for per-thread default streams share their implementation, which
//! learns from its [`Call`] whose default stream is meant.
#![allow(unused_variables, reason = "what is not simulated ignores its arguments")]

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::NOT_SUPPORTED;
use crate::sys::driver::Answer;

pub use super::array::{
    cuArray3DCreate, cuArray3DCreate_v2, cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2,
    cuArrayCreate, cuArrayCreate_v2, cuArrayDestroy, cuArrayGetDescriptor, cuArrayGetDescriptor_v2,
    cuArrayGetMemoryRequirements, cuMemMapArrayAsync,
    cuMemMapArrayAsync as cuMemMapArrayAsync_ptsz, cuMipmappedArrayCreate, cuMipmappedArrayDestroy,
    cuMipmappedArrayGetLevel, cuMipmappedArrayGetMemoryRequirements,
};
pub use super::capture_calls::{
    cuStreamBeginCapture, cuStreamBeginCapture as cuStreamBeginCapture_ptsz,
    cuStreamBeginCapture_v2, cuStreamBeginCapture_v2 as cuStreamBeginCapture_v2_ptsz,
    cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph as cuStreamBeginCaptureToGraph_ptsz,
    cuStreamEndCapture, cuStreamEndCapture as cuStreamEndCapture_ptsz, cuStreamGetCaptureInfo,
    cuStreamGetCaptureInfo as cuStreamGetCaptureInfo_ptsz, cuStreamGetCaptureInfo_v2,
    cuStreamGetCaptureInfo_v2 as cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v3,
    cuStreamGetCaptureInfo_v3 as cuStreamGetCaptureInfo_v3_ptsz, cuStreamIsCapturing,
    cuStreamIsCapturing as cuStreamIsCapturing_ptsz, cuStreamUpdateCaptureDependencies,
    cuStreamUpdateCaptureDependencies as cuStreamUpdateCaptureDependencies_ptsz,
    cuStreamUpdateCaptureDependencies_v2,
    cuStreamUpdateCaptureDependencies_v2 as cuStreamUpdateCaptureDependencies_v2_ptsz,
    cuThreadExchangeStreamCaptureMode,
};
pub use super::conditional::cuGraphConditionalHandleCreate;
pub use super::context::{
    cuCtxAttach, cuCtxCreate, cuCtxCreate_v2, cuCtxCreate_v3, cuCtxCreate_v4, cuCtxDestroy,
    cuCtxDestroy_v2, cuCtxDetach, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxRelease,
    cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2,
    cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2,
    cuGLCtxCreate, cuGLCtxCreate_v2, cuVDPAUCtxCreate, cuVDPAUCtxCreate_v2,
};
pub use super::context_calls::{
    cuCtxDisablePeerAccess, cuCtxEnablePeerAccess, cuCtxGetApiVersion, cuCtxGetCacheConfig,
    cuCtxGetCurrent, cuCtxGetDevice, cuCtxGetDevice_v2, cuCtxGetExecAffinity, cuCtxGetFlags,
    cuCtxGetId, cuCtxGetLimit, cuCtxGetSharedMemConfig, cuCtxGetStreamPriorityRange,
    cuCtxPopCurrent, cuCtxPopCurrent_v2, cuCtxPushCurrent, cuCtxPushCurrent_v2,
    cuCtxResetPersistingL2Cache, cuCtxSetCacheConfig, cuCtxSetCurrent, cuCtxSetFlags,
    cuCtxSetLimit, cuCtxSetSharedMemConfig, cuCtxSynchronize, cuCtxSynchronize_v2,
};
pub use super::copy::{
    cuMemcpy, cuMemcpy as cuMemcpy_ptds, cuMemcpy2D, cuMemcpy2D_v2,
    cuMemcpy2D_v2 as cuMemcpy2D_v2_ptds, cuMemcpy2DAsync, cuMemcpy2DAsync_v2,
    cuMemcpy2DAsync_v2 as cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2,
    cuMemcpy2DUnaligned_v2 as cuMemcpy2DUnaligned_v2_ptds, cuMemcpy3D, cuMemcpy3D_v2,
    cuMemcpy3D_v2 as cuMemcpy3D_v2_ptds, cuMemcpy3DAsync, cuMemcpy3DAsync_v2,
    cuMemcpy3DAsync_v2 as cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DPeer,
    cuMemcpy3DPeer as cuMemcpy3DPeer_ptds, cuMemcpy3DPeerAsync,
    cuMemcpy3DPeerAsync as cuMemcpy3DPeerAsync_ptsz, cuMemcpyAsync,
    cuMemcpyAsync as cuMemcpyAsync_ptsz, cuMemcpyAtoA, cuMemcpyAtoA_v2,
    cuMemcpyAtoA_v2 as cuMemcpyAtoA_v2_ptds, cuMemcpyAtoD, cuMemcpyAtoD_v2,
    cuMemcpyAtoD_v2 as cuMemcpyAtoD_v2_ptds, cuMemcpyAtoH, cuMemcpyAtoH_v2,
    cuMemcpyAtoH_v2 as cuMemcpyAtoH_v2_ptds, cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2,
    cuMemcpyAtoHAsync_v2 as cuMemcpyAtoHAsync_v2_ptsz, cuMemcpyBatchAsync,
    cuMemcpyBatchAsync as cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync_v2,
    cuMemcpyBatchAsync_v2 as cuMemcpyBatchAsync_v2_ptsz, cuMemcpyDtoA, cuMemcpyDtoA_v2,
    cuMemcpyDtoA_v2 as cuMemcpyDtoA_v2_ptds, cuMemcpyDtoD, cuMemcpyDtoD_v2,
    cuMemcpyDtoD_v2 as cuMemcpyDtoD_v2_ptds, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,
    cuMemcpyDtoDAsync_v2 as cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoH, cuMemcpyDtoH_v2,
    cuMemcpyDtoH_v2 as cuMemcpyDtoH_v2_ptds, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,
    cuMemcpyDtoHAsync_v2 as cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyHtoA, cuMemcpyHtoA_v2,
    cuMemcpyHtoA_v2 as cuMemcpyHtoA_v2_ptds, cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2,
    cuMemcpyHtoAAsync_v2 as cuMemcpyHtoAAsync_v2_ptsz, cuMemcpyHtoD, cuMemcpyHtoD_v2,
    cuMemcpyHtoD_v2 as cuMemcpyHtoD_v2_ptds, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,
    cuMemcpyHtoDAsync_v2 as cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyPeer,
    cuMemcpyPeer as cuMemcpyPeer_ptds, cuMemcpyPeerAsync,
    cuMemcpyPeerAsync as cuMemcpyPeerAsync_ptsz,
};
pub use super::device::{
    cuDeviceCanAccessPeer, cuDeviceComputeCapability, cuDeviceGet, cuDeviceGetAttribute,
    cuDeviceGetByPCIBusId, cuDeviceGetCount, cuDeviceGetExecAffinitySupport, cuDeviceGetLuid,
    cuDeviceGetName, cuDeviceGetP2PAttribute, cuDeviceGetPCIBusId, cuDeviceGetProperties,
    cuDeviceGetTexture1DLinearMaxWidth, cuDeviceGetUuid, cuDeviceGetUuid_v2, cuDeviceTotalMem,
    cuDeviceTotalMem_v2, cuDriverGetVersion, cuFlushGPUDirectRDMAWrites, cuInit, cuProfilerStart,
    cuProfilerStop,
};
pub use super::error_text::{cuGetErrorName, cuGetErrorString};
pub use super::event::{
    cuCtxRecordEvent, cuCtxWaitEvent, cuEventCreate, cuEventDestroy, cuEventDestroy_v2,
    cuEventElapsedTime, cuEventElapsedTime_v2, cuEventQuery, cuEventRecord,
    cuEventRecord as cuEventRecord_ptsz, cuEventRecordWithFlags,
    cuEventRecordWithFlags as cuEventRecordWithFlags_ptsz, cuEventSynchronize, cuLaunchHostFunc,
    cuLaunchHostFunc as cuLaunchHostFunc_ptsz, cuStreamAddCallback,
    cuStreamAddCallback as cuStreamAddCallback_ptsz, cuStreamBatchMemOp,
    cuStreamBatchMemOp as cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp_v2,
    cuStreamBatchMemOp_v2 as cuStreamBatchMemOp_v2_ptsz, cuStreamWaitEvent,
    cuStreamWaitEvent as cuStreamWaitEvent_ptsz, cuStreamWaitValue32,
    cuStreamWaitValue32 as cuStreamWaitValue32_ptsz, cuStreamWaitValue32_v2,
    cuStreamWaitValue32_v2 as cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue64,
    cuStreamWaitValue64 as cuStreamWaitValue64_ptsz, cuStreamWaitValue64_v2,
    cuStreamWaitValue64_v2 as cuStreamWaitValue64_v2_ptsz, cuStreamWriteValue32,
    cuStreamWriteValue32 as cuStreamWriteValue32_ptsz, cuStreamWriteValue32_v2,
    cuStreamWriteValue32_v2 as cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue64,
    cuStreamWriteValue64 as cuStreamWriteValue64_ptsz, cuStreamWriteValue64_v2,
    cuStreamWriteValue64_v2 as cuStreamWriteValue64_v2_ptsz,
};
pub use super::exec::{
    cuGraphExecChildGraphNodeSetParams, cuGraphExecDestroy, cuGraphExecGetFlags,
    cuGraphExecHostNodeSetParams, cuGraphExecKernelNodeSetParams,
    cuGraphExecKernelNodeSetParams_v2, cuGraphExecMemcpyNodeSetParams,
    cuGraphExecMemsetNodeSetParams, cuGraphExecUpdate, cuGraphExecUpdate_v2, cuGraphInstantiate,
    cuGraphInstantiate_v2, cuGraphInstantiateWithFlags, cuGraphInstantiateWithParams,
    cuGraphInstantiateWithParams as cuGraphInstantiateWithParams_ptsz, cuGraphLaunch,
    cuGraphLaunch as cuGraphLaunch_ptsz, cuGraphNodeGetEnabled, cuGraphNodeSetEnabled,
    cuGraphUpload, cuGraphUpload as cuGraphUpload_ptsz,
};
pub use super::external::{
    cuDestroyExternalMemory, cuExternalMemoryGetMappedBuffer, cuImportExternalMemory,
};
pub use super::function::{
    cuFuncGetAttribute, cuFuncGetModule, cuFuncGetName, cuFuncGetParamInfo, cuFuncIsLoaded,
    cuFuncLoad, cuFuncSetAttribute, cuFuncSetCacheConfig, cuFuncSetSharedMemConfig,
};
pub use super::graph::{
    cuGraphClone, cuGraphCreate, cuGraphDestroy, cuGraphNodeFindInClone, cuGraphReleaseUserObject,
    cuGraphRetainUserObject, cuUserObjectCreate, cuUserObjectRelease, cuUserObjectRetain,
};
pub use super::graph_node::{
    cuGraphAddBatchMemOpNode, cuGraphAddChildGraphNode, cuGraphAddEmptyNode,
    cuGraphAddEventRecordNode, cuGraphAddEventWaitNode, cuGraphAddHostNode, cuGraphAddKernelNode,
    cuGraphAddKernelNode_v2, cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphAddMemcpyNode,
    cuGraphAddMemsetNode, cuGraphAddNode, cuGraphAddNode_v2, cuGraphHostNodeGetParams,
    cuGraphHostNodeSetParams, cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2,
    cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, cuGraphMemcpyNodeSetParams,
    cuGraphMemsetNodeGetParams, cuGraphMemsetNodeSetParams,
};
pub use super::graph_query::{
    cuGraphAddDependencies, cuGraphAddDependencies_v2, cuGraphChildGraphNodeGetGraph,
    cuGraphDebugDotPrint, cuGraphDestroyNode, cuGraphGetEdges, cuGraphGetEdges_v2, cuGraphGetNodes,
    cuGraphGetRootNodes, cuGraphMemAllocNodeGetParams, cuGraphMemFreeNodeGetParams,
    cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependentNodes,
    cuGraphNodeGetDependentNodes_v2, cuGraphNodeGetType, cuGraphRemoveDependencies,
    cuGraphRemoveDependencies_v2,
};
pub use super::green::{
    cuCtxFromGreenCtx, cuCtxGetDevResource, cuDevResourceGenerateDesc, cuDevSmResourceSplitByCount,
    cuDeviceGetDevResource, cuGreenCtxCreate, cuGreenCtxDestroy, cuGreenCtxGetDevResource,
    cuGreenCtxGetId, cuGreenCtxStreamCreate, cuStreamGetGreenCtx,
};
pub use super::ipc::{
    cuIpcCloseMemHandle, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
};
pub use super::launch::{
    cuFuncSetBlockShape, cuFuncSetSharedSize, cuLaunch, cuLaunchCooperativeKernel,
    cuLaunchCooperativeKernel as cuLaunchCooperativeKernel_ptsz,
    cuLaunchCooperativeKernelMultiDevice, cuLaunchGrid, cuLaunchGridAsync, cuLaunchKernel,
    cuLaunchKernel as cuLaunchKernel_ptsz, cuLaunchKernelEx,
    cuLaunchKernelEx as cuLaunchKernelEx_ptsz, cuOccupancyAvailableDynamicSMemPerBlock,
    cuOccupancyMaxActiveBlocksPerMultiprocessor,
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxPotentialBlockSize,
    cuOccupancyMaxPotentialBlockSizeWithFlags, cuParamSetSize, cuParamSetf, cuParamSeti,
    cuParamSetv,
};
pub use super::library::{
    cuKernelGetAttribute, cuKernelGetFunction, cuKernelGetLibrary, cuKernelGetName,
    cuKernelGetParamInfo, cuKernelSetAttribute, cuKernelSetCacheConfig, cuLibraryEnumerateKernels,
    cuLibraryGetGlobal, cuLibraryGetKernel, cuLibraryGetKernelCount, cuLibraryGetManaged,
    cuLibraryGetModule, cuLibraryLoadData, cuLibraryLoadFromFile, cuLibraryUnload,
};
pub use super::linker::{
    cuLinkAddData, cuLinkAddData_v2, cuLinkAddFile, cuLinkAddFile_v2, cuLinkComplete, cuLinkCreate,
    cuLinkCreate_v2, cuLinkDestroy,
};
pub use super::memory::{
    cuMemAdvise, cuMemAdvise_v2, cuMemAlloc, cuMemAlloc_v2, cuMemAllocHost, cuMemAllocHost_v2,
    cuMemAllocManaged, cuMemAllocPitch, cuMemAllocPitch_v2, cuMemFree, cuMemFree_v2, cuMemFreeHost,
    cuMemGetAddressRange, cuMemGetAddressRange_v2, cuMemGetHandleForAddressRange, cuMemGetInfo,
    cuMemGetInfo_v2, cuMemHostAlloc, cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2,
    cuMemHostGetFlags, cuMemHostRegister, cuMemHostRegister_v2, cuMemHostUnregister,
    cuMemPrefetchAsync, cuMemPrefetchAsync as cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync_v2,
    cuMemPrefetchAsync_v2 as cuMemPrefetchAsync_v2_ptsz, cuMemRangeGetAttribute,
};
pub use super::memset::{
    cuMemsetD2D8, cuMemsetD2D8_v2, cuMemsetD2D8_v2 as cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async,
    cuMemsetD2D8Async as cuMemsetD2D8Async_ptsz, cuMemsetD2D16, cuMemsetD2D16_v2,
    cuMemsetD2D16_v2 as cuMemsetD2D16_v2_ptds, cuMemsetD2D16Async,
    cuMemsetD2D16Async as cuMemsetD2D16Async_ptsz, cuMemsetD2D32, cuMemsetD2D32_v2,
    cuMemsetD2D32_v2 as cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async,
    cuMemsetD2D32Async as cuMemsetD2D32Async_ptsz, cuMemsetD8, cuMemsetD8_v2,
    cuMemsetD8_v2 as cuMemsetD8_v2_ptds, cuMemsetD8Async, cuMemsetD8Async as cuMemsetD8Async_ptsz,
    cuMemsetD16, cuMemsetD16_v2, cuMemsetD16_v2 as cuMemsetD16_v2_ptds, cuMemsetD16Async,
    cuMemsetD16Async as cuMemsetD16Async_ptsz, cuMemsetD32, cuMemsetD32_v2,
    cuMemsetD32_v2 as cuMemsetD32_v2_ptds, cuMemsetD32Async,
    cuMemsetD32Async as cuMemsetD32Async_ptsz,
};
pub use super::module::{
    cuModuleEnumerateFunctions, cuModuleGetFunction, cuModuleGetFunctionCount, cuModuleGetGlobal,
    cuModuleGetGlobal_v2, cuModuleGetLoadingMode, cuModuleLoad, cuModuleLoadData,
    cuModuleLoadDataEx, cuModuleLoadFatBinary, cuModuleUnload,
};
pub use super::multicast::{
    cuMulticastAddDevice, cuMulticastBindAddr, cuMulticastBindMem, cuMulticastCreate,
    cuMulticastGetGranularity, cuMulticastUnbind,
};
pub use super::pointer::{cuPointerGetAttribute, cuPointerGetAttributes, cuPointerSetAttribute};
pub use super::pool_calls::{
    cuDeviceGetDefaultMemPool, cuDeviceGetGraphMemAttribute, cuDeviceGetMemPool,
    cuDeviceGraphMemTrim, cuDeviceSetGraphMemAttribute, cuDeviceSetMemPool, cuMemAllocAsync,
    cuMemAllocAsync as cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync,
    cuMemAllocFromPoolAsync as cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync,
    cuMemFreeAsync as cuMemFreeAsync_ptsz, cuMemGetDefaultMemPool, cuMemGetMemPool,
    cuMemPoolCreate, cuMemPoolDestroy, cuMemPoolExportPointer, cuMemPoolExportToShareableHandle,
    cuMemPoolGetAccess, cuMemPoolGetAttribute, cuMemPoolImportFromShareableHandle,
    cuMemPoolImportPointer, cuMemPoolSetAccess, cuMemPoolSetAttribute, cuMemPoolTrimTo,
    cuMemSetMemPool,
};
pub use super::proc_address::{cuGetExportTable, cuGetProcAddress, cuGetProcAddress_v2};
pub use super::stream::{
    cuStreamAttachMemAsync, cuStreamAttachMemAsync as cuStreamAttachMemAsync_ptsz,
    cuStreamCopyAttributes, cuStreamCopyAttributes as cuStreamCopyAttributes_ptsz, cuStreamCreate,
    cuStreamCreateWithPriority, cuStreamDestroy, cuStreamDestroy_v2, cuStreamGetAttribute,
    cuStreamGetAttribute as cuStreamGetAttribute_ptsz, cuStreamGetCtx,
    cuStreamGetCtx as cuStreamGetCtx_ptsz, cuStreamGetCtx_v2,
    cuStreamGetCtx_v2 as cuStreamGetCtx_v2_ptsz, cuStreamGetDevice,
    cuStreamGetDevice as cuStreamGetDevice_ptsz, cuStreamGetFlags,
    cuStreamGetFlags as cuStreamGetFlags_ptsz, cuStreamGetId, cuStreamGetId as cuStreamGetId_ptsz,
    cuStreamGetPriority, cuStreamGetPriority as cuStreamGetPriority_ptsz, cuStreamQuery,
    cuStreamQuery as cuStreamQuery_ptsz, cuStreamSetAttribute,
    cuStreamSetAttribute as cuStreamSetAttribute_ptsz, cuStreamSynchronize,
    cuStreamSynchronize as cuStreamSynchronize_ptsz,
};
pub use super::vmm::{
    cuMemAddressFree, cuMemAddressReserve, cuMemCreate, cuMemExportToShareableHandle,
    cuMemGetAccess, cuMemGetAllocationGranularity, cuMemGetAllocationPropertiesFromHandle,
    cuMemImportFromShareableHandle, cuMemMap, cuMemRelease, cuMemRetainAllocationHandle,
    cuMemSetAccess, cuMemUnmap,
};

macro_rules! refusals {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        /// Refusals for every entry point; those simulated hide theirs.
        pub mod refused {
            use super::*;
            $(
                #[expect(clippy::too_many_arguments, reason = "the driver's signature")]
                #[allow(unfulfilled_lint_expectations, reason = "most have few arguments")]
                pub fn $name(call: Call, $($argument: $ty),*) -> Answer {
                    crate::unsimulated::record(call.name);
                    Err(NOT_SUPPORTED)
                }
            )*
        }
    };
}
divvy_driver_api::for_each_driver_entry!(refusals);

macro_rules! not_simulated {
    ($($name:ident)*) => {
        pub use refused::{$($name),*};

        /// Entry points that answer `CUDA_ERROR_NOT_SUPPORTED` and are recorded when called.
        pub const NOT_SIMULATED: &[&str] = &[$(stringify!($name)),*];
    };
}

not_simulated! {
    cuArrayGetPlane
    cuArrayGetSparseProperties
    cuCheckpointOperationComplete
    cuCheckpointProcessCheckpoint
    cuCheckpointProcessGetRestoreThreadId
    cuCheckpointProcessGetState
    cuCheckpointProcessLock
    cuCheckpointProcessRestore
    cuCheckpointProcessUnlock
    cuCoredumpDeregisterCompleteCallback
    cuCoredumpDeregisterStartCallback
    cuCoredumpGetAttribute
    cuCoredumpGetAttributeGlobal
    cuCoredumpRegisterCompleteCallback
    cuCoredumpRegisterStartCallback
    cuCoredumpSetAttribute
    cuCoredumpSetAttributeGlobal
    cuDestroyExternalSemaphore
    cuDevSmResourceSplit
    cuDeviceGetCliqueCount
    cuDeviceGetCliqueInfo
    cuDeviceGetFabricClusterUuid
    cuDeviceGetHostAtomicCapabilities
    cuDeviceGetNvSciSyncAttributes
    cuDeviceGetP2PAtomicCapabilities
    cuDeviceRegisterAsyncNotification
    cuDeviceUnregisterAsyncNotification
    cuEGLStreamConsumerAcquireFrame
    cuEGLStreamConsumerConnect
    cuEGLStreamConsumerConnectWithFlags
    cuEGLStreamConsumerDisconnect
    cuEGLStreamConsumerReleaseFrame
    cuEGLStreamProducerConnect
    cuEGLStreamProducerDisconnect
    cuEGLStreamProducerPresentFrame
    cuEGLStreamProducerReturnFrame
    cuEventCreateFromEGLSync
    cuExternalMemoryGetMappedMipmappedArray
    cuFabricCpyBatchAsync
    cuFabricCpyBatchAsync_ptsz
    cuFuncGetParamCount
    cuGLGetDevices
    cuGLGetDevices_v2
    cuGLInit
    cuGLMapBufferObject
    cuGLMapBufferObjectAsync
    cuGLMapBufferObjectAsync_v2
    cuGLMapBufferObjectAsync_v2_ptsz
    cuGLMapBufferObject_v2
    cuGLMapBufferObject_v2_ptds
    cuGLRegisterBufferObject
    cuGLSetBufferObjectMapFlags
    cuGLUnmapBufferObject
    cuGLUnmapBufferObjectAsync
    cuGLUnregisterBufferObject
    cuGraphAddExternalSemaphoresSignalNode
    cuGraphAddExternalSemaphoresWaitNode
    cuGraphAddNode_v3
    cuGraphBatchMemOpNodeGetParams
    cuGraphBatchMemOpNodeSetParams
    cuGraphEventRecordNodeGetEvent
    cuGraphEventRecordNodeSetEvent
    cuGraphEventWaitNodeGetEvent
    cuGraphEventWaitNodeSetEvent
    cuGraphExecBatchMemOpNodeSetParams
    cuGraphExecEventRecordNodeSetEvent
    cuGraphExecEventWaitNodeSetEvent
    cuGraphExecExternalSemaphoresSignalNodeSetParams
    cuGraphExecExternalSemaphoresWaitNodeSetParams
    cuGraphExecGetId
    cuGraphExecNodeSetParams
    cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams
    cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams
    cuGraphGetId
    cuGraphKernelNodeCopyAttributes
    cuGraphKernelNodeGetAttribute
    cuGraphKernelNodeSetAttribute
    cuGraphMemcpyNodeGetParams
    cuGraphNodeGetContainingGraph
    cuGraphNodeGetLocalId
    cuGraphNodeGetParams
    cuGraphNodeGetToolsId
    cuGraphNodeSetParams
    cuGraphNodeSetParams_v2
    cuGraphicsEGLRegisterImage
    cuGraphicsGLRegisterBuffer
    cuGraphicsGLRegisterImage
    cuGraphicsMapResources
    cuGraphicsMapResources_ptsz
    cuGraphicsResourceGetMappedEglFrame
    cuGraphicsResourceGetMappedMipmappedArray
    cuGraphicsResourceGetMappedPointer
    cuGraphicsResourceGetMappedPointer_v2
    cuGraphicsResourceSetMapFlags
    cuGraphicsResourceSetMapFlags_v2
    cuGraphicsSubResourceGetMappedArray
    cuGraphicsUnmapResources
    cuGraphicsUnmapResources_ptsz
    cuGraphicsUnregisterResource
    cuGraphicsVDPAURegisterOutputSurface
    cuGraphicsVDPAURegisterVideoSurface
    cuGreenCtxRecordEvent
    cuGreenCtxWaitEvent
    cuImportExternalSemaphore
    cuIpcGetEventHandle
    cuIpcOpenEventHandle
    cuKernelGetParamCount
    cuLaunchHostFunc_v2
    cuLaunchHostFunc_v2_ptsz
    cuLibraryGetUnifiedFunction
    cuLogicalEndpointAddDevice
    cuLogicalEndpointBindAddr
    cuLogicalEndpointBindMem
    cuLogicalEndpointCreate
    cuLogicalEndpointDestroy
    cuLogicalEndpointExport
    cuLogicalEndpointGetLimits
    cuLogicalEndpointIdRelease
    cuLogicalEndpointIdReserve
    cuLogicalEndpointImport
    cuLogicalEndpointQuery
    cuLogicalEndpointUnbind
    cuLogsCurrent
    cuLogsDumpToFile
    cuLogsDumpToMemory
    cuLogsRegisterCallback
    cuLogsUnregisterCallback
    cuMemBatchDecompressAsync
    cuMemBatchDecompressAsync_ptsz
    cuMemDiscardAndPrefetchBatchAsync
    cuMemDiscardAndPrefetchBatchAsync_ptsz
    cuMemDiscardBatchAsync
    cuMemDiscardBatchAsync_ptsz
    cuMemGetLocationInfo
    cuMemPrefetchBatchAsync
    cuMemPrefetchBatchAsync_ptsz
    cuMemRangeGetAttributes
    cuMemcpy3DBatchAsync
    cuMemcpy3DBatchAsync_ptsz
    cuMemcpy3DBatchAsync_v2
    cuMemcpy3DBatchAsync_v2_ptsz
    cuMemcpy3DWithAttributesAsync
    cuMemcpy3DWithAttributesAsync_ptsz
    cuMemcpyWithAttributesAsync
    cuMemcpyWithAttributesAsync_ptsz
    cuMipmappedArrayGetSparseProperties
    cuModuleGetSurfRef
    cuModuleGetTexRef
    cuMulticastBindAddr_v2
    cuMulticastBindMem_v2
    cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialClusterSize
    cuParamSetTexRef
    cuSignalExternalSemaphoresAsync
    cuSignalExternalSemaphoresAsync_ptsz
    cuStreamBeginCaptureToCig
    cuStreamBeginCaptureToCig_ptsz
    cuStreamBeginRecaptureToGraph
    cuStreamBeginRecaptureToGraph_ptsz
    cuStreamEndCaptureToCig
    cuStreamEndCaptureToCig_ptsz
    cuStreamGetDevResource
    cuStreamGetDevResource_ptsz
    cuSurfObjectCreate
    cuSurfObjectDestroy
    cuSurfObjectGetResourceDesc
    cuSurfRefGetArray
    cuSurfRefSetArray
    cuTensorMapEncodeIm2col
    cuTensorMapEncodeIm2colWide
    cuTensorMapEncodeTiled
    cuTensorMapReplaceAddress
    cuTensorMapSetAllocationClass
    cuTexObjectCreate
    cuTexObjectDestroy
    cuTexObjectGetResourceDesc
    cuTexObjectGetResourceViewDesc
    cuTexObjectGetTextureDesc
    cuTexRefCreate
    cuTexRefDestroy
    cuTexRefGetAddress
    cuTexRefGetAddressMode
    cuTexRefGetAddress_v2
    cuTexRefGetArray
    cuTexRefGetBorderColor
    cuTexRefGetFilterMode
    cuTexRefGetFlags
    cuTexRefGetFormat
    cuTexRefGetMaxAnisotropy
    cuTexRefGetMipmapFilterMode
    cuTexRefGetMipmapLevelBias
    cuTexRefGetMipmapLevelClamp
    cuTexRefGetMipmappedArray
    cuTexRefSetAddress
    cuTexRefSetAddress2D
    cuTexRefSetAddress2D_v2
    cuTexRefSetAddress2D_v3
    cuTexRefSetAddressMode
    cuTexRefSetAddress_v2
    cuTexRefSetArray
    cuTexRefSetBorderColor
    cuTexRefSetFilterMode
    cuTexRefSetFlags
    cuTexRefSetFormat
    cuTexRefSetMaxAnisotropy
    cuTexRefSetMipmapFilterMode
    cuTexRefSetMipmapLevelBias
    cuTexRefSetMipmapLevelClamp
    cuTexRefSetMipmappedArray
    cuVDPAUGetDevice
    cuWaitExternalSemaphoresAsync
    cuWaitExternalSemaphoresAsync_ptsz
}
