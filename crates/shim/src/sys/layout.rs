//! Structures with unions in them, read as their tags say.

use divvy_driver_api::nvml_types::{
    nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessUtilizationInfo_v1_t,
    nvmlProcessesUtilizationInfo_v1_t,
};
use divvy_driver_api::types::*;

use super::Out;

/// The device that a memory location names, if it names one.
pub(crate) fn device_of(location: &CUmemLocation) -> Option<CUdevice> {
    if location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN {
        // SAFETY: every bit pattern is a value of its two numbers.
        return Some(CUdevice::from(unsafe { location.__bindgen_anon_1.localized }.deviceId));
    }
    if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
        return None;
    }
    // SAFETY: every bit pattern is an `int`, which a location of this type holds.
    Some(unsafe { location.__bindgen_anon_1.id })
}

/// The memory handle that a sparse mapping names.
pub(crate) fn sparse_handle(map: &CUarrayMapInfo) -> CUmemGenericAllocationHandle {
    // SAFETY: a union of one member, a number.
    unsafe { map.memHandle.memHandle }
}

/// What a node to be added allocates, if it is an allocation node.
pub(crate) fn allocation_of(params: &CUgraphNodeParams) -> Option<CUDA_MEM_ALLOC_NODE_PARAMS_v2> {
    if params.type_ != CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC {
        return None;
    }
    // SAFETY: numbers and pointers, for which every bit pattern is a value.
    Some(unsafe { params.__bindgen_anon_1.alloc })
}

/// The place for processes in a program's list.
pub(crate) fn process_details<'a>(
    list: &nvmlProcessDetailList_v1_t,
) -> Out<'a, nvmlProcessDetail_v1_t> {
    // SAFETY: the program promised NVML an array of the length it states.
    unsafe { Out::from_raw(list.procArray) }
}

/// The place for samples in a program's list.
pub(crate) fn utilization_samples<'a>(
    list: &nvmlProcessesUtilizationInfo_v1_t,
) -> Out<'a, nvmlProcessUtilizationInfo_v1_t> {
    // SAFETY: the program promised NVML an array of the length it states.
    unsafe { Out::from_raw(list.procUtilArray) }
}
