//! Graphs: their nodes, and the memory that nodes allocate.

use divvy_driver_api::types::*;

use super::ask;

/// How many nodes a graph has.
pub(crate) fn graph_node_count(graph: CUgraph) -> Result<usize, CUresult> {
    let mut count = 0;
    ask!(cuGraphGetNodes(graph, core::ptr::null_mut(), &mut count))?;
    Ok(count)
}

/// Writes a graph's first nodes, as many as fit, and returns how many were written.
pub(crate) fn graph_nodes(graph: CUgraph, into: &mut [CUgraphNode]) -> Result<usize, CUresult> {
    let mut count = into.len();
    ask!(cuGraphGetNodes(graph, into.as_mut_ptr(), &mut count))?;
    Ok(count.min(into.len()))
}

/// What kind of node it is.
pub(crate) fn node_type(node: CUgraphNode) -> Result<CUgraphNodeType, CUresult> {
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    ask!(cuGraphNodeGetType(node, &mut kind))?;
    Ok(kind)
}

/// The graph inside a child-graph node.
pub(crate) fn node_child_graph(node: CUgraphNode) -> Result<CUgraph, CUresult> {
    let mut graph = CUgraph(core::ptr::null_mut());
    ask!(cuGraphChildGraphNodeGetGraph(node, &mut graph))?;
    Ok(graph)
}

/// What an allocation node allocates.
pub(crate) fn node_allocation(node: CUgraphNode) -> Result<CUDA_MEM_ALLOC_NODE_PARAMS, CUresult> {
    let mut params = core::mem::MaybeUninit::<CUDA_MEM_ALLOC_NODE_PARAMS>::zeroed();
    ask!(cuGraphMemAllocNodeGetParams(node, params.as_mut_ptr()))?;
    // SAFETY: numbers and pointers, zeroed and then written by the driver.
    Ok(unsafe { params.assume_init() })
}

/// Takes an instantiated graph back.
pub(crate) fn graph_exec_destroy(graph: CUgraphExec) -> Result<(), CUresult> {
    ask!(cuGraphExecDestroy(graph))
}

/// Lets a device give back graph memory that no graph uses.
pub(crate) fn graph_mem_trim(device: CUdevice) -> Result<(), CUresult> {
    ask!(cuDeviceGraphMemTrim(device))
}
