//! Entry points that are not simulated: each is recorded when it is called, and refused.
#![allow(unused_variables, reason = "a refusal ignores the call's arguments")]

macro_rules! refusals {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        /// A refusal for every entry point of the table.
        #[allow(dead_code, unreachable_pub, reason = "of what is simulated none is used")]
        mod every {
            use divvy_driver_api::types::*;

            use crate::driver::call::Call;
            use crate::driver::error::NOT_SUPPORTED;
            use crate::sys::driver::Answer;

            $(
                #[allow(clippy::too_many_arguments, reason = "the driver's signature")]
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
        pub use every::{$($name),*};

        /// Entry points that answer `CUDA_ERROR_NOT_SUPPORTED` and are recorded when called, as are
        /// their forms for per-thread default streams.
        pub const NOT_SIMULATED: &[&str] = &[$(stringify!($name)),*];
    };
}

not_simulated! {
    cuArrayGetPlane
    cuArrayGetSparseProperties
    cuCheckpointProcessCheckpoint
    cuCheckpointProcessGetRestoreThreadId
    cuCheckpointProcessGetState
    cuCheckpointProcessLock
    cuCheckpointProcessRestore
    cuCheckpointProcessUnlock
    cuCoredumpGetAttribute
    cuCoredumpGetAttributeGlobal
    cuCoredumpSetAttribute
    cuCoredumpSetAttributeGlobal
    cuDestroyExternalSemaphore
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
    cuExternalMemoryGetMappedMipmappedArray
    cuGLGetDevices
    cuGLGetDevices_v2
    cuGLInit
    cuGLMapBufferObject
    cuGLMapBufferObjectAsync
    cuGLMapBufferObjectAsync_v2
    cuGLMapBufferObject_v2
    cuGLRegisterBufferObject
    cuGLSetBufferObjectMapFlags
    cuGLUnmapBufferObject
    cuGLUnmapBufferObjectAsync
    cuGLUnregisterBufferObject
    cuGraphAddExternalSemaphoresSignalNode
    cuGraphAddExternalSemaphoresWaitNode
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
    cuGraphExecNodeSetParams
    cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams
    cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams
    cuGraphKernelNodeCopyAttributes
    cuGraphKernelNodeGetAttribute
    cuGraphKernelNodeSetAttribute
    cuGraphMemcpyNodeGetParams
    cuGraphNodeSetParams
    cuGraphicsEGLRegisterImage
    cuGraphicsGLRegisterBuffer
    cuGraphicsGLRegisterImage
    cuGraphicsMapResources
    cuGraphicsResourceGetMappedEglFrame
    cuGraphicsResourceGetMappedMipmappedArray
    cuGraphicsResourceGetMappedPointer
    cuGraphicsResourceGetMappedPointer_v2
    cuGraphicsResourceSetMapFlags
    cuGraphicsResourceSetMapFlags_v2
    cuGraphicsSubResourceGetMappedArray
    cuGraphicsUnmapResources
    cuGraphicsUnregisterResource
    cuGraphicsVDPAURegisterOutputSurface
    cuGraphicsVDPAURegisterVideoSurface
    cuGreenCtxWaitEvent
    cuImportExternalSemaphore
    cuIpcGetEventHandle
    cuIpcOpenEventHandle
    cuLibraryGetUnifiedFunction
    cuLogsCurrent
    cuLogsDumpToFile
    cuLogsDumpToMemory
    cuLogsRegisterCallback
    cuLogsUnregisterCallback
    cuMemBatchDecompressAsync
    cuMemDiscardAndPrefetchBatchAsync
    cuMemDiscardBatchAsync
    cuMemcpy3DBatchAsync
    cuMemcpy3DBatchAsync_v2
    cuMipmappedArrayGetSparseProperties
    cuModuleGetSurfRef
    cuModuleGetTexRef
    cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialClusterSize
    cuParamSetTexRef
    cuSignalExternalSemaphoresAsync
    cuSurfObjectCreate
    cuSurfObjectDestroy
    cuSurfObjectGetResourceDesc
    cuSurfRefGetArray
    cuSurfRefSetArray
    cuTensorMapEncodeIm2col
    cuTensorMapEncodeIm2colWide
    cuTensorMapEncodeTiled
    cuTensorMapReplaceAddress
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
}
