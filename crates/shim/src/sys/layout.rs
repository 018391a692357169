//! Structures with unions in them, read as their tags say.

use core::ffi::c_uint;

use divvy_driver_api::nvml_types::{
    nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessUtilizationInfo_v1_t,
    nvmlProcessesUtilizationInfo_v1_t,
};
use divvy_driver_api::types::*;

use super::pointer::{Out, OutArray};

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

/// Allocation of a node to be added, if it is an allocation node.
pub(crate) fn allocation_of(params: &CUgraphNodeParams) -> Option<CUDA_MEM_ALLOC_NODE_PARAMS_v2> {
    if params.type_ != CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC {
        return None;
    }
    // SAFETY: numbers and pointers, for which every bit pattern is a value.
    Some(unsafe { params.__bindgen_anon_1.alloc })
}

/// The version word of a structure's first version.
const fn version_1<T>() -> c_uint {
    (size_of::<T>() as c_uint) | 1 << 24
}

/// A program's list of processes: what stands in it, and its places where it is of the first version. None where the
/// program passed null.
pub(crate) fn process_details<'a>(
    list: Out<'a, nvmlProcessDetailList_v1_t>,
) -> Option<(nvmlProcessDetailList_v1_t, Option<OutArray<'a, nvmlProcessDetail_v1_t>>)> {
    let head = list.get()?;
    let places = (head.version == version_1::<nvmlProcessDetailList_v1_t>()).then(|| {
        // SAFETY: a structure of this version in a place of the program's (`Out::from_raw`) has an array of that length.
        unsafe { OutArray::from_raw(head.procArray, head.numProcArrayEntries as usize) }
    });
    Some((head, places))
}

/// A program's list of samples: what stands in it, and the samples. None where the program passed null, or a list of
/// another version than the first.
pub(crate) fn utilization_samples<'a>(
    list: Out<'a, nvmlProcessesUtilizationInfo_v1_t>,
) -> Option<(nvmlProcessesUtilizationInfo_v1_t, OutArray<'a, nvmlProcessUtilizationInfo_v1_t>)> {
    let head = list.get()?;
    (head.version == version_1::<nvmlProcessesUtilizationInfo_v1_t>()).then(|| {
        // SAFETY: as in `process_details`.
        let samples =
            unsafe { OutArray::from_raw(head.procUtilArray, head.processSamplesCount as usize) };
        (head, samples)
    })
}
