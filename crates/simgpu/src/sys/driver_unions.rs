//! Reads members of the C unions that calls pass.
//!
//! Every member read here is plain data for which each bit pattern is a value; which member counts
//! is said by the type field beside the union, checked by the caller.
#![allow(unsafe_code, reason = "reads members of C unions")]

use divvy_driver_api::types::*;

/// How many multiprocessors a resource of the SM type holds.
pub fn sm_count(resource: &CUdevResource) -> u32 {
    // SAFETY: plain integers.
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}

/// The id of a location.
pub fn location_id(location: &CUmemLocation) -> i32 {
    // SAFETY: a plain integer.
    unsafe { location.__bindgen_anon_1.id }
}

/// A location of a type and id.
pub fn location(type_: CUmemLocationType, id: i32) -> CUmemLocation {
    CUmemLocation { type_, __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id } }
}

/// The members of a node's parameters.
pub fn node_kernel(params: &CUgraphNodeParams) -> CUDA_KERNEL_NODE_PARAMS_v3 {
    // SAFETY: plain data.
    unsafe { params.__bindgen_anon_1.kernel }
}

/// As [`node_kernel`].
pub fn node_memcpy(params: &CUgraphNodeParams) -> CUDA_MEMCPY_NODE_PARAMS {
    // SAFETY: plain data.
    unsafe { params.__bindgen_anon_1.memcpy }
}

/// As [`node_kernel`].
pub fn node_memset(params: &CUgraphNodeParams) -> CUDA_MEMSET_NODE_PARAMS_v2 {
    // SAFETY: plain data.
    unsafe { params.__bindgen_anon_1.memset }
}

/// As [`node_kernel`].
pub fn node_host(params: &CUgraphNodeParams) -> CUDA_HOST_NODE_PARAMS_v2 {
    // SAFETY: a nullable function and plain data.
    unsafe { params.__bindgen_anon_1.host }
}

/// As [`node_kernel`].
pub fn node_graph(params: &CUgraphNodeParams) -> CUgraph {
    // SAFETY: plain data.
    unsafe { params.__bindgen_anon_1.graph.graph }
}

/// As [`node_kernel`].
pub fn node_event(params: &CUgraphNodeParams) -> CUevent {
    // SAFETY: plain data; record and wait nodes have the same layout.
    unsafe { params.__bindgen_anon_1.eventRecord.event }
}

/// As [`node_kernel`].
pub fn node_alloc(params: &CUgraphNodeParams) -> CUDA_MEM_ALLOC_NODE_PARAMS_v2 {
    // SAFETY: plain data.
    unsafe { params.__bindgen_anon_1.alloc }
}

/// Writes the address an allocation node got.
pub fn set_node_alloc(params: &mut CUgraphNodeParams, alloc: CUDA_MEM_ALLOC_NODE_PARAMS_v2) {
    params.__bindgen_anon_1.alloc = alloc;
}

/// As [`node_kernel`].
pub fn node_free(params: &CUgraphNodeParams) -> CUdeviceptr {
    // SAFETY: plain data.
    unsafe { params.__bindgen_anon_1.free.dptr }
}

/// As [`node_kernel`].
pub fn node_conditional(params: &CUgraphNodeParams) -> CUDA_CONDITIONAL_NODE_PARAMS {
    // SAFETY: plain data.
    unsafe { params.__bindgen_anon_1.conditional }
}

/// Writes which bodies a conditional node got.
pub fn set_node_conditional(params: &mut CUgraphNodeParams, made: CUDA_CONDITIONAL_NODE_PARAMS) {
    params.__bindgen_anon_1.conditional = made;
}

/// The operation's kind, address, value (64 bits) and flags of a batched memory operation.
pub fn memory_operation(params: &CUstreamBatchMemOpParams) -> (u32, u64, u64, u32) {
    // SAFETY: plain integers; wait and write share the layout operation, address, value, flags.
    let wait = unsafe { params.waitValue };
    // SAFETY: plain integers.
    let value = unsafe { wait.__bindgen_anon_1.value64 };
    (wait.operation.0, wait.address, value, wait.flags)
}

/// The bytes of an attribute's value.
pub fn attribute_bytes(value: &CUstreamAttrValue) -> [core::ffi::c_char; 64] {
    // SAFETY: the member that spans the whole union, plain bytes.
    unsafe { value.pad }
}

/// The descriptor of an external memory's handle.
pub fn external_descriptor(handle: &CUDA_EXTERNAL_MEMORY_HANDLE_DESC) -> i32 {
    // SAFETY: a plain integer.
    unsafe { handle.handle.fd }
}

/// The array a sparse mapping names, where in it (level, layer, offsets), and the memory; none for a
/// mipmap or its tail.
pub fn sparse_place(map: &CUarrayMapInfo) -> Option<(CUarray, [u32; 5], u64)> {
    let is_level = CUarraySparseSubresourceType::CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    if map.resourceType != CUresourcetype::CU_RESOURCE_TYPE_ARRAY || map.subresourceType != is_level
    {
        return None;
    }
    // SAFETY: a handle.
    let array = unsafe { map.resource.array };
    // SAFETY: plain integers.
    let level = unsafe { map.subresource.sparseLevel };
    // SAFETY: a plain integer.
    let handle = unsafe { map.memHandle.memHandle };
    let place = [level.level, level.layer, level.offsetX, level.offsetY, level.offsetZ];
    Some((array, place, handle))
}
